//! Resources for each node: made, changed as nodes come and go, and removed.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_shared::model::Action;
use serde_json::json;

use super::bed::{Bed, node, options, stack};
use super::check::change;
use super::facts::facts;
use super::trees::source;
use crate::{Answer, Options, Refusal, Request, Source};

/// Sets a label with `key=value`, or removes it with `key`.
fn label(bed: &mut Bed, index: usize, label: &str) {
    let (key, value) =
        label.split_once('=').map_or((label, None), |(key, value)| (key, Some(value.to_owned())));
    let labels = BTreeMap::from([(key.to_owned(), value)]);
    bed.ask(Request::LabelNode { node: node(index), labels }).unwrap();
}

/// A site with this many nodes. The first `web` nodes have the label.
fn fleet(nodes: usize, web: usize) -> Bed {
    let mut bed = Bed::new(nodes);
    (0..web).for_each(|index| label(&mut bed, index, "role=web"));
    bed
}

fn dummy(name: &str, value: &str, more: &str) -> String {
    format!(
        "  {name}: {{type: Muster::Dummy, for_each: {{nodes: role=web}}{more}, properties: {{values: {{me: {{get_node: name}}, v: {value}}}}}}}\n"
    )
}

fn of(parts: &[&str]) -> Source {
    source(&["resources:\n", &parts.concat()].concat(), &[])
}

fn pair(value: &str) -> Source {
    of(&[&dummy("a", value, ""), &dummy("b", value, ", depends_on: a")])
}

fn names(bed: &Bed) -> Vec<String> {
    bed.engine.view().resource_views(&stack(), false).unwrap().into_iter().map(|row| row.name).collect()
}

fn ran(bed: &mut Bed) -> Vec<String> {
    bed.idle();
    std::mem::take(&mut bed.ran)
}

/// Lets a second pass.
fn later(bed: &mut Bed) {
    bed.pass(Duration::from_secs(1));
}

#[test]
fn a_fleet_gets_one_each_and_is_followed() {
    let mut bed = fleet(4, 2);
    let all = of(&[
        &dummy("a", "1", ""),
        &dummy("b", "1", ", depends_on: a"),
        "  end: {type: Muster::Dummy, depends_on: b, properties: {node: node-3, values: {all: {list_join: [',', {yaql: {expression: $.data.keys().orderBy($), data: {get_attr: [a, me]}}}]}}}}\noutputs: {map: {value: {get_attr: [a, me]}}}\n",
    ]);
    bed.create(all).unwrap();
    assert_eq!(
        ran(&mut bed),
        ["Create a[node-0]", "Create b[node-0]", "Create a[node-1]", "Create b[node-1]", "Create end"]
    );
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    assert_eq!(names(&bed), ["a[node-0]", "a[node-1]", "b[node-0]", "b[node-1]", "end"]);
    assert_eq!(bed.view().unwrap().outputs[0].value, json!({"node-0": "node-0", "node-1": "node-1"}));
    assert_eq!(bed.resource("b[node-1]").requires, ["a[node-1]"]);
    // A node that matches from now on gets its members, and a resource that refers to the whole set
    // is updated.
    later(&mut bed);
    label(&mut bed, 2, "role=web");
    assert_eq!(ran(&mut bed), ["Create a[node-2]", "Create b[node-2]", "Update end"]);
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    assert_eq!(bed.view().unwrap().revision, 1, "nobody gave another one");
    assert_eq!(bed.resource("b[node-2]").node, "node-2");
    // A node that no longer matches loses its members, and no other node is touched.
    later(&mut bed);
    label(&mut bed, 0, "role");
    assert_eq!(ran(&mut bed), ["Update end", "Delete b[node-0]", "Delete a[node-0]"]);
    assert_eq!(names(&bed), ["a[node-1]", "a[node-2]", "b[node-1]", "b[node-2]", "end"]);
    // A label that no selector asks for changes nothing.
    later(&mut bed);
    label(&mut bed, 1, "zone=b");
    assert_eq!((ran(&mut bed), bed.status().as_str()), (vec![], "UPDATE_COMPLETE"));
    // A removed node loses its members. Things left on it are listed as lost, and not made again.
    later(&mut bed);
    assert_eq!(bed.remove(&node(1)).len(), 2);
    assert_eq!(ran(&mut bed), ["Update end"]);
    assert_eq!(
        (names(&bed), bed.status().as_str()),
        (vec!["a[node-2]".into(), "b[node-2]".into(), "end".into()], "UPDATE_COMPLETE")
    );
    bed.delete().unwrap();
    assert_eq!(ran(&mut bed), ["Delete end", "Delete b[node-2]", "Delete a[node-2]"]);
    assert_eq!(bed.status(), "gone");
    assert!(bed.tables.rows.values().all(|row| row.lost_from.is_some()));
}

#[test]
fn those_who_come_while_it_runs_restart_nobody() {
    let mut bed = fleet(4, 2);
    bed.create(pair("1")).unwrap();
    bed.begin(&node(0));
    bed.begin(&node(1));
    let generation = |bed: &Bed, name: &str| bed.resource(name).generation;
    let before = generation(&bed, "a[node-0]");
    label(&mut bed, 2, "role=web");
    assert_eq!(bed.resource("a[node-0]").phase, "queued", "it was not asked back");
    // The next changes of the same second are followed together.
    label(&mut bed, 3, "role=web");
    assert_eq!(names(&bed).len(), 6);
    later(&mut bed);
    assert_eq!(names(&bed).len(), 8);
    bed.end(&node(0));
    assert_eq!(generation(&bed, "a[node-0]"), before);
    // A member that leaves while its job runs is cleaned up after the job.
    label(&mut bed, 1, "role=db");
    bed.end(&node(1));
    later(&mut bed);
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    assert_eq!(names(&bed), ["a[node-0]", "a[node-2]", "a[node-3]", "b[node-0]", "b[node-2]", "b[node-3]"]);
    let ran = std::mem::take(&mut bed.ran);
    let times = |name: &str| ran.iter().filter(|ran| ran.ends_with(name)).count();
    assert_eq!((times("a[node-0]"), times("b[node-0]"), times("a[node-2]")), (1, 1, 1), "{ran:?}");
    assert!(ran.contains(&"Delete a[node-1]".into()) && !ran.contains(&"Create b[node-1]".into()), "{ran:?}");
}

#[test]
fn a_barrier_lets_nobody_through_before_all() {
    let mut bed = fleet(3, 3);
    bed.slow = true;
    let all = of(&[&dummy("a", "1", ""), &dummy("b", "1", ", depends_on: {resource: a, scope: all}")]);
    bed.create(all).unwrap();
    for at in 0..2 {
        bed.begin(&node(at));
        bed.end(&node(at));
    }
    assert_eq!(bed.resource("b[node-0]").phase, "waiting");
    assert_eq!(bed.resource("b[node-0]").waits_for, ["a"]);
    bed.begin(&node(2));
    bed.end(&node(2));
    assert_eq!(bed.resource("b[node-0]").phase, "queued");
    assert_eq!(bed.resource("b[node-0]").requires, ["a"]);
    bed.slow = false;
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
}

#[test]
fn a_revision_changes_members_in_place() {
    let mut bed = fleet(3, 3);
    bed.create(pair("1")).unwrap();
    bed.idle();
    let ids: Vec<String> = bed.resources().into_iter().map(|row| row.physical_id).collect();
    bed.ran.clear();
    let other = of(&[&dummy("a", "2", ""), &dummy("b", "1", ", depends_on: a")]);
    let view = bed.engine.view().preview(&stack(), &other, None, &options()).unwrap();
    let changed = view.resources.iter().filter(|row| row.change != "unchanged");
    let changed: Vec<String> =
        changed.map(|row| format!("{} {} {}", row.name, row.node, row.change)).collect();
    assert_eq!(changed, ["a[node-0] node-0 update", "a[node-1] node-1 update", "a[node-2] node-2 update"]);
    bed.update(other).unwrap();
    assert_eq!(ran(&mut bed), ["Update a[node-0]", "Update a[node-1]", "Update a[node-2]"]);
    assert_eq!(bed.resources().into_iter().map(|row| row.physical_id).collect::<Vec<_>>(), ids);
    bed.check().unwrap();
    // A node that joins during a check gets its members afterwards.
    bed.join(&node(3));
    bed.connect(&node(3));
    later(&mut bed);
    label(&mut bed, 3, "role=web");
    bed.idle();
    later(&mut bed);
    bed.idle();
    assert_eq!(names(&bed).len(), 8);
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    bed.rollback(Some(1)).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), names(&bed).len()), ("ROLLBACK_COMPLETE", 8));
}

#[test]
fn the_fleet_is_followed_over_a_restart() {
    for steps in 0..6 {
        let mut bed = fleet(4, 2);
        bed.create(pair("1")).unwrap();
        bed.idle();
        let dies = |bed: &mut Bed, at: usize| {
            if at == steps {
                bed.restart();
                (0..4).for_each(|index| bed.connect(&node(index)));
            }
        };
        dies(&mut bed, 0);
        later(&mut bed);
        label(&mut bed, 2, "role=web");
        dies(&mut bed, 1);
        // The stack does not follow yet: this is still the same second.
        label(&mut bed, 3, "role=web");
        label(&mut bed, 0, "role");
        dies(&mut bed, 2);
        later(&mut bed);
        dies(&mut bed, 3);
        bed.run_at(&node(3), 0);
        dies(&mut bed, 4);
        later(&mut bed);
        bed.idle();
        dies(&mut bed, 5);
        bed.idle();
        assert_eq!(bed.status(), "UPDATE_COMPLETE", "{steps}");
        assert_eq!(
            names(&bed),
            ["a[node-1]", "a[node-2]", "a[node-3]", "b[node-1]", "b[node-2]", "b[node-3]"],
            "{steps}"
        );
        bed.ran.clear();
        bed.update(pair("1")).unwrap();
        assert_eq!((ran(&mut bed), bed.status().as_str()), (vec![], "UPDATE_COMPLETE"), "{steps}");
    }
}

#[test]
fn who_is_away_or_cut_off_waits_and_hinders_nobody() {
    let mut bed = fleet(3, 2);
    bed.disconnect(&node(0));
    bed.create(pair("1")).unwrap();
    assert_eq!(ran(&mut bed), ["Create a[node-1]", "Create b[node-1]"]);
    assert_eq!(bed.resource("a[node-0]").phase, "node_away");
    bed.connect(&node(0));
    assert_eq!(ran(&mut bed), ["Create a[node-0]", "Create b[node-0]"]);
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    // A revoked node keeps its members, and gets no new ones.
    bed.ask(Request::RevokeNode { node: node(0) }).unwrap();
    bed.ask(Request::RevokeNode { node: node(2) }).unwrap();
    later(&mut bed);
    label(&mut bed, 2, "role=web");
    assert_eq!((ran(&mut bed).len(), names(&bed).len()), (0, 4));
    later(&mut bed);
    bed.rejoin(&node(2));
    label(&mut bed, 2, "role=web");
    bed.connect(&node(2));
    later(&mut bed);
    bed.idle();
    assert_eq!(names(&bed).len(), 6);
}

#[test]
fn what_nobody_wants_by_mistake() {
    let mut bed = fleet(3, 2);
    let ask = |bed: &mut Bed, source: Source, max_nodes: Option<u32>| {
        let options = Options { max_nodes, ..options() };
        bed.ask(Request::Create { name: stack(), source, options })
    };
    let everybody =
        || of(&["  a: {type: Muster::Dummy, for_each: {nodes: ''}, properties: {values: {v: 1}}}\n"]);
    match ask(&mut bed, everybody(), Some(2)) {
        Err(Refusal::Conflict(why)) => {
            assert!(
                why.starts_with("t:3:3: resources.a: '' selects 3 nodes, over the 2 of --max-nodes"),
                "{why}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(bed.tables.stacks.is_empty() && bed.tables.rows.is_empty());
    let nobody =
        || of(&["  a: {type: Muster::Dummy, for_each: {nodes: role=lost}, properties: {values: {v: 1}}}\n"]);
    let Ok(Answer::Stack { warnings, .. }) = ask(&mut bed, nobody(), Some(2)) else { panic!("refused") };
    assert_eq!(warnings, ["no node matches 'role=lost' of a: nothing is made until one does"]);
    bed.idle();
    assert_eq!((bed.status().as_str(), names(&bed).len()), ("CREATE_COMPLETE", 0));
    later(&mut bed);
    label(&mut bed, 1, "role=lost");
    assert_eq!(ran(&mut bed), ["Create a[node-1]"]);
    // Two sets claim one file of a node: the first one has it.
    let file = |name: &str| {
        of(&[&format!(
            "  {name}: {{type: Muster::File, for_each: {{nodes: role=web}}, properties: {{path: /etc/motd, content: hi}}}}\n"
        )])
    };
    let other = Request::Create { name: "other".parse().unwrap(), source: file("f"), options: options() };
    bed.ask(other).unwrap();
    bed.idle();
    let third = Request::Create { name: "third".parse().unwrap(), source: file("g"), options: options() };
    let Err(Refusal::Conflict(why)) = bed.ask(third) else { panic!("taken") };
    assert!(
        why.contains("g[node-0] claims file /etc/motd on node-0, which belongs to resource f[node-0]"),
        "{why}"
    );
}

/// A stack of which all is done. `fails`: one resource of node-0 has failed for good.
fn all_but_one(fails: bool) -> Bed {
    let mut bed = fleet(4, 2);
    bed.create(pair("1")).unwrap();
    if fails {
        bed.fail_next(&node(0), true);
    }
    bed.idle();
    bed.ran.clear();
    later(&mut bed);
    bed
}

#[test]
fn a_check_ends_no_failure_and_corrects_no_drift() {
    let label_after_check = |bed: &mut Bed, restarts: bool| {
        bed.check().unwrap();
        bed.idle();
        assert_eq!(bed.status(), "CHECK_FAILED");
        bed.ran.clear();
        if restarts {
            bed.restart();
            (0..4).for_each(|index| bed.connect(&node(index)));
        }
        later(bed);
        label(bed, 2, "role=web");
        let ran = ran(bed);
        (ran, bed.status())
    };
    for restarts in [false, true] {
        // A node that joins does not start a failed or cancelled operation again.
        let mut bed = all_but_one(true);
        assert_eq!(label_after_check(&mut bed, restarts), (vec![], "CHECK_FAILED".into()));
        bed.update(pair("1")).unwrap();
        assert_eq!(ran(&mut bed).len(), 4, "the next operation sees to all");
        assert_eq!((bed.status().as_str(), names(&bed).len()), ("UPDATE_COMPLETE", 6));
        let mut bed = fleet(4, 2);
        bed.create(pair("1")).unwrap();
        bed.cancel().unwrap();
        bed.idle();
        assert_eq!(label_after_check(&mut bed, restarts), (vec![], "CHECK_FAILED".into()));
        // Drift is left for an operation of an operator; the new node gets its members.
        let mut bed = all_but_one(false);
        change(&mut bed, "a[node-0]", false);
        let came = vec!["Create a[node-2]".into(), "Create b[node-2]".into()];
        assert_eq!(label_after_check(&mut bed, restarts), (came, "UPDATE_COMPLETE".into()));
        assert_eq!(bed.resource("a[node-0]").observed, "drifted");
        bed.update(pair("1")).unwrap();
        assert_eq!(ran(&mut bed)[0], "Update a[node-0]");
    }
}

#[test]
fn what_has_failed_is_not_tried_again_because_of_nodes() {
    // The stack follows a new node once it is COMPLETE after all.
    let mut bed = all_but_one(true);
    label(&mut bed, 2, "role=web");
    later(&mut bed);
    assert_eq!((ran(&mut bed).len(), bed.status().as_str()), (0, "CREATE_FAILED"));
    // A removed node takes its members with it.
    bed.remove(&node(1));
    later(&mut bed);
    assert_eq!((ran(&mut bed).len(), bed.status().as_str()), (0, "CREATE_FAILED"));
    assert_eq!(names(&bed), ["a[node-0]", "b[node-0]"]);
    bed.restart();
    (0..4).filter(|index| *index != 1).for_each(|index| bed.connect(&node(index)));
    later(&mut bed);
    assert_eq!((ran(&mut bed).len(), bed.status().as_str()), (0, "CREATE_FAILED"));
    bed.update(pair("1")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), names(&bed).len()), ("UPDATE_COMPLETE", 4));
    // The same holds after a restart in the middle, with a node that joined just before it.
    let mut bed = fleet(4, 2);
    bed.disconnect(&node(1));
    bed.create(pair("1")).unwrap();
    bed.fail_next(&node(0), true);
    label(&mut bed, 2, "role=web");
    label(&mut bed, 3, "role=web");
    bed.restart();
    (0..4).for_each(|index| bed.connect(&node(index)));
    let mut ran = ran(&mut bed);
    ran.sort();
    let others = [1, 2, 3];
    let made = |name: &str| others.map(|index| format!("Create {name}[node-{index}]"));
    assert_eq!(ran, [made("a"), made("b")].concat());
    assert_eq!(bed.status(), "CREATE_FAILED");
}

#[test]
fn a_barrier_holds_for_those_who_come_late() {
    let mut bed = fleet(3, 2);
    let all = of(&[&dummy("a", "1", ""), &dummy("b", "1", ", depends_on: {resource: a, scope: all}")]);
    bed.create(all).unwrap();
    bed.run_at(&node(1), 0);
    bed.disconnect(&node(1));
    bed.run_at(&node(0), 0);
    // b[node-0] is with its agent; b[node-1] waits for its node, and from now on also for a[node-2].
    bed.disconnect(&node(2));
    label(&mut bed, 2, "role=web");
    bed.connect(&node(1));
    bed.ran.clear();
    assert_eq!(ran(&mut bed), ["Create b[node-0]"]);
    assert_eq!(bed.resource("b[node-1]").waits_for, ["a"]);
    bed.connect(&node(2));
    assert_eq!(ran(&mut bed), ["Create a[node-2]", "Create b[node-1]", "Create b[node-2]"]);
    assert_eq!(bed.status(), "CREATE_COMPLETE");
}

#[test]
fn what_failed_before_others_go_does_not_hold_them_up() {
    let mut bed = fleet(3, 3);
    bed.create(of(&["  x: {type: Muster::Dummy, properties: {node: node-0, values: {v: 1}}}\n"])).unwrap();
    bed.idle();
    later(&mut bed);
    bed.delete_first(pair("1"), false).unwrap();
    bed.run_at(&node(0), 0);
    bed.fail_next(&node(0), true);
    bed.run_at(&node(1), 0);
    bed.ran.clear();
    label(&mut bed, 1, "role");
    assert_eq!(ran(&mut bed), ["Delete a[node-1]", "Create a[node-2]", "Create b[node-2]"]);
    assert_eq!(bed.status(), "UPDATE_FAILED");
    assert_eq!(names(&bed).len(), 4);
}

#[test]
fn nobody_waits_for_what_other_nodes_tell() {
    let mut bed = fleet(4, 2);
    let all = of(&[
        &dummy("a", "1", ""),
        "  b: {type: Muster::Dummy, for_each: {nodes: role=web}, depends_on: a, properties: {values: {os: {get_node: [{get_node: name}, os, id]}}}}\n",
    ]);
    bed.create(all).unwrap();
    for index in 0..2 {
        bed.receive(&node(index), facts("debian", 1));
    }
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    bed.restart();
    (1..4).for_each(|index| bed.connect(&node(index)));
    later(&mut bed);
    // node-0 is away and forgotten. No job for it is left.
    label(&mut bed, 1, "role");
    bed.idle();
    assert_eq!((bed.status().as_str(), names(&bed).len()), ("UPDATE_COMPLETE", 2));
}

#[test]
fn a_selector_that_is_hidden_is_not_shown() {
    let mut bed = fleet(3, 2);
    let secret = |value: &str| {
        source(
            &format!(
                "parameters:\n  who: {{type: string, hidden: true, default: {value}}}\n\
                 resources:\n  a: {{type: Muster::Dummy, for_each: {{nodes: {{get_param: who}}}}, properties: {{values: {{v: 1}}}}}}\n"
            ),
            &[],
        )
    };
    let options = Options { max_nodes: Some(1), ..options() };
    let said = |bed: &mut Bed, source: Source| {
        let request = Request::Create { name: stack(), source, options: options.clone() };
        format!("{:?}", bed.ask(request))
    };
    let refused = said(&mut bed, secret("role=web"));
    assert!(refused.contains("selects 2 nodes") && !refused.contains("role=web"), "{refused}");
    let warned = said(&mut bed, secret("role=vault"));
    assert!(warned.contains("no node matches") && !warned.contains("vault"), "{warned}");
}

#[test]
fn a_label_that_flaps_is_followed_ever_more_seldom() {
    let mut bed = fleet(3, 2);
    bed.create(pair("1")).unwrap();
    bed.idle();
    let begun = |bed: &Bed| bed.tables.stacks[&1].traversal;
    let before = begun(&bed);
    // For ten minutes the node has the label every other second.
    let mut times = Vec::new();
    for second in 0..600 {
        label(&mut bed, 1, if second % 2 == 0 { "role" } else { "role=web" });
        later(&mut bed);
        bed.idle();
        if times.last().is_none_or(|(_, last)| *last != begun(&bed)) {
            times.push((second, begun(&bed)));
        }
    }
    assert!((5..40).contains(&(begun(&bed) - before)), "{times:?}");
    // A node that joins in the meantime waits for a minute at most. Once labels are stable, no node waits.
    label(&mut bed, 2, "role=web");
    bed.pass(Duration::from_secs(60));
    bed.idle();
    assert!(names(&bed).contains(&"b[node-2]".into()));
    bed.pass(Duration::from_secs(121));
    label(&mut bed, 2, "role");
    bed.idle();
    assert!(!names(&bed).contains(&"b[node-2]".into()));
    // Nodes that join are no flapping.
    let mut bed = fleet(30, 1);
    bed.create(pair("1")).unwrap();
    bed.idle();
    for at in 1..30 {
        later(&mut bed);
        label(&mut bed, at, "role=web");
        bed.idle();
        assert_eq!(names(&bed).len(), 2 * at + 2);
    }
}

#[test]
fn a_clean_up_that_failed_is_not_tried_again_because_of_nodes() {
    for delete_first in [false, true] {
        let mut bed = fleet(4, 4);
        bed.create(pair("1")).unwrap();
        bed.idle();
        later(&mut bed);
        let options = Options { delete_first, ..options() };
        bed.ask(Request::Update { name: stack(), source: pair("2"), options }).unwrap();
        label(&mut bed, 1, "role");
        later(&mut bed);
        // The member's removal fails.
        for _ in 0..20 {
            if bed.hosts[&node(1)].queue.front().is_some_and(|job| job.action == Action::Delete) {
                break;
            }
            let at = (0..4).find(|at| !bed.hosts[&node(*at)].queue.is_empty()).expect("a job waits");
            bed.run_at(&node(at), 0);
        }
        bed.fail_next(&node(1), true);
        bed.idle();
        assert_eq!(bed.status(), "UPDATE_FAILED", "{delete_first}");
        bed.ran.clear();
        for at in 2..4 {
            later(&mut bed);
            label(&mut bed, at, "role");
            bed.idle();
        }
        let (again, others): (Vec<String>, Vec<String>) =
            ran(&mut bed).into_iter().partition(|ran| ran.contains("node-1"));
        assert_eq!((again, others.len()), (vec![], 4), "{delete_first}");
        assert_eq!(bed.status(), "UPDATE_FAILED", "{delete_first}");
        // An update tries again.
        bed.update(pair("2")).unwrap();
        bed.idle();
        assert_eq!(bed.status(), "UPDATE_COMPLETE", "{delete_first}");
        assert!(!names(&bed).iter().any(|name| name.contains("node-1")));
    }
}

#[test]
fn a_content_for_an_unsent_job_survives_two_restarts() {
    let large = "x".repeat(100_000);
    let file = format!(
        "  f: {{type: Muster::File, depends_on: a, properties: {{node: node-1, path: /f, content: {large}}}}}\n"
    );
    let mut bed = fleet(4, 1);
    bed.disconnect(&node(1));
    bed.create(of(&[&dummy("a", "1", ""), &file])).unwrap();
    label(&mut bed, 3, "role=web");
    bed.idle();
    assert_eq!(bed.resource("f").phase, "node_away");
    // The next second would follow this one. The start does: the file waits then, without its job.
    label(&mut bed, 2, "role=web");
    assert_eq!(bed.resource("f").phase, "node_away");
    for _ in 0..2 {
        bed.restart();
        assert_eq!(bed.resource("f").phase, "waiting");
    }
    bed.connect(&node(2));
    bed.idle();
    assert_eq!((bed.resource("f").phase.as_str(), bed.tables.contents.len()), ("node_away", 1));
}
