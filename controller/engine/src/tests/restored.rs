//! A store that is older than its nodes: nothing vanishes, nothing runs again, and all differences
//! are listed.

use muster_shared::model::DriftState;
use muster_shared::model::flow::Packed;
use muster_shared::{Epoch, EpochId, NodeId};

use super::bed::{Bed, Tables, files, node, parse, template};
use super::drift::says;
use super::flow_tables::{device, id, rule};
use crate::restored::RestoredRecord;
use crate::{HeldView, Limits, Request, SourceText, Verdict};

/// A site with a store from before `since`, and agents from after it.
fn restored(before: &str, since: impl FnOnce(&mut Bed)) -> Bed {
    restored_with(Limits::default(), before, since)
}

fn restored_with(limits: Limits, before: &str, since: impl FnOnce(&mut Bed)) -> Bed {
    let mut bed = Bed::with(1, limits);
    bed.create(template(before)).unwrap();
    bed.idle();
    let backup = bed.tables.clone();
    since(&mut bed);
    bed.idle();
    bed.tables = backup;
    bed.tables.restored = Some(RestoredRecord::fresh());
    bed.ran.clear();
    bed.restart();
    assert!(bed.engine.view().site_view().restored);
    bed.connect(&node(0));
    bed.idle();
    bed
}

pub fn held(bed: &Bed) -> Vec<HeldView> {
    bed.engine.view().held_views(None)
}

pub fn states(bed: &Bed) -> Vec<String> {
    let mut states: Vec<String> = held(bed)
        .into_iter()
        .map(|view| format!("{} {}", view.resource.unwrap_or_default(), view.state))
        .collect();
    states.sort();
    states
}

pub fn decide(
    bed: &mut Bed,
    verdict: Verdict,
    ids: Option<Vec<String>>,
) -> Result<crate::Answer, crate::Refusal> {
    let answer = bed.ask(Request::Restored { verdict, ids, node: None });
    bed.idle();
    answer
}

#[test]
fn a_backup_that_misses_nothing_ends_by_itself() {
    let bed = restored("a: x=1", |_| {});
    assert!(!bed.engine.view().site_view().restored);
    assert_eq!(bed.tables.restored, None, "and that is durable");
}

#[test]
fn what_the_backup_does_not_know_stays_and_is_listed() {
    let mut bed = restored("a: x=1\ngone: x=1", |bed| {
        bed.update(template("a: x=2\nnew: x=1")).unwrap();
    });
    assert_eq!(states(&bed), [" unknown", "a newer", "gone deleted"]);
    assert!(bed.ran.is_empty(), "{:?}", bed.ran);
    let site = bed.engine.view().site_view();
    assert_eq!((site.restored, site.waiting.restore), (true, 3));
    assert!(bed.tables.reasons.iter().any(|reason| reason.contains("older than node")));
    assert!(bed.warnings.iter().any(|warning| warning.contains("muster restore list")));
    // The list is durable, and a node that connects again changes nothing.
    bed.restart();
    assert_eq!(states(&bed).len(), 3);
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((states(&bed).len(), bed.ran.len()), (3, 0));
}

#[test]
fn adopted_things_stay_until_the_next_update() {
    let mut bed = restored("a: x=1\ngone: x=1", |bed| {
        bed.update(template("a: x=2\nnew: x=1")).unwrap();
    });
    let unknown = decide(&mut bed, Verdict::Adopt, Some(vec!["nothing".into()]));
    assert!(unknown.unwrap_err().to_string().contains("restore list"));
    decide(&mut bed, Verdict::Adopt, None).unwrap();
    assert!(bed.ran.is_empty() && !bed.engine.view().site_view().restored);
    bed.disconnect(&node(0));
    bed.connect(&node(0));
    bed.idle();
    assert!(bed.ran.is_empty(), "{:?}", bed.ran);
    bed.update(template("a: x=1\ngone: x=1")).unwrap();
    bed.idle();
    assert_eq!(bed.ran.len(), 2, "{:?}", bed.ran);
}

#[test]
fn removed_things_become_what_the_store_says() {
    let mut bed = restored("a: x=1\ngone: x=1", |bed| {
        bed.update(template("a: x=2")).unwrap();
    });
    decide(&mut bed, Verdict::Remove, None).unwrap();
    assert!(!bed.engine.view().site_view().restored);
    assert_eq!(bed.ran.len(), 2, "{:?}", bed.ran);
    assert_eq!(bed.resource("a").observed, "in_sync");
}

pub fn set_back(bed: &mut Bed, backup: Tables) {
    bed.tables = backup;
    bed.tables.restored = Some(RestoredRecord::fresh());
    bed.ran.clear();
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
}

/// In the restored store the job was never sent, so a delete would have nothing to remove.
#[test]
fn what_was_adopted_goes_by_a_job_also_where_its_own_never_left() {
    let mut bed = Bed::new(1);
    bed.disconnect(&node(0));
    bed.create(files("a: /a")).unwrap();
    let backup = bed.tables.clone();
    bed.connect(&node(0));
    bed.idle();
    set_back(&mut bed, backup);
    assert_eq!(states(&bed), ["a newer"]);
    decide(&mut bed, Verdict::Adopt, None).unwrap();
    assert_eq!(bed.disk(), ["/a hello"]);
    bed.delete().unwrap();
    bed.idle();
    assert_eq!((bed.ran.as_slice(), bed.disk().len()), (&["Delete a".to_owned()][..], 0));
}

/// The generation of a job that was never sent says nothing about the node, even if the job failed
/// because of that.
#[test]
fn what_a_node_has_of_a_row_that_never_left_is_listed_each_time() {
    let mut bed = Bed::new(1);
    bed.disconnect(&node(0));
    bed.create(files("a: /a")).unwrap();
    let backup = bed.tables.clone();
    bed.connect(&node(0));
    bed.idle();
    set_back(&mut bed, backup);
    assert_eq!(states(&bed), ["a newer"]);
    bed.disconnect(&node(0));
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(states(&bed), ["a newer"]);
    // So the thing is removed with its resource.
    bed.update(files("b: /b")).unwrap();
    bed.idle();
    assert_eq!(bed.disk(), ["/b hello"]);
}

/// The update started before its node connected. The node has the thing, as its ledger shows while
/// the row waits for clean-up.
#[test]
fn an_update_removes_a_resource_that_a_node_reports_later() {
    let mut bed = Bed::new(2);
    bed.disconnect(&node(0));
    bed.create(template("a: x=1 node=node-0")).unwrap();
    let backup = bed.tables.clone();
    bed.connect(&node(0));
    bed.idle();
    bed.disconnect(&node(0));
    bed.disconnect(&node(1));
    bed.tables = backup;
    bed.tables.restored = Some(RestoredRecord::fresh());
    bed.restart();
    bed.update(template("c: x=1 node=node-1")).unwrap();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(states(&bed), ["a newer"]);
    bed.connect(&node(1));
    bed.idle();
    assert_eq!((bed.reality().len(), bed.status().as_str()), (1, "UPDATE_COMPLETE"), "{:?}", bed.reality());
    assert!(states(&bed).is_empty(), "{:?}", states(&bed));
}

/// The row's first job was withdrawn before the backup, and its desired state with it.
#[test]
fn a_row_without_desired_state_is_deleted_by_the_nodes_ledger() {
    let mut bed = Bed::new(1);
    bed.disconnect(&node(0));
    bed.create(template("a: x=1")).unwrap();
    bed.cancel().unwrap();
    let backup = bed.tables.clone();
    bed.connect(&node(0));
    bed.update(template("a: x=1")).unwrap();
    bed.idle();
    assert_eq!(bed.reality().len(), 1);
    set_back(&mut bed, backup);
    assert_eq!(states(&bed), ["a newer"]);
    bed.delete().unwrap();
    bed.idle();
    assert!(bed.reality().is_empty() && bed.view().is_none(), "{:?}", bed.reality());
}

/// Without a desired state the agent cannot be told to leave the thing. The stack is deleted, and
/// the thing stays.
#[test]
fn a_retained_row_without_desired_state_does_not_block_a_delete() {
    let retained = || {
        let text = "heat_template_version: 2018-08-31\nresources:\n  a: {type: Muster::Dummy, deletion_policy: retain, \
                    properties: {node: node-0, values: {x: '1'}}}\n";
        parse(SourceText { name: "t".into(), template: text.into(), ..SourceText::default() })
    };
    let mut bed = Bed::new(1);
    bed.disconnect(&node(0));
    bed.create(retained()).unwrap();
    bed.cancel().unwrap();
    let backup = bed.tables.clone();
    bed.connect(&node(0));
    bed.update(retained()).unwrap();
    bed.idle();
    set_back(&mut bed, backup);
    assert_eq!(states(&bed), ["a newer"]);
    bed.delete().unwrap();
    bed.idle();
    assert_eq!((bed.reality().len(), bed.view().is_none()), (1, true));
    assert!(states(&bed).is_empty(), "{:?}", states(&bed));
    // The thing is not listed either when its node connects again or the controller restarts.
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert!(states(&bed).is_empty() && bed.reality().len() == 1, "{:?}", states(&bed));
}

/// The operation goes on where nodes have nothing newer, and stops where they do.
#[test]
fn an_operation_of_before_the_backup_leaves_what_is_newer() {
    for wished in [false, true] {
        let mut bed = Bed::new(2);
        let source = |x: u32| template(&format!("c: x={x} node=node-1\na: x={x} node=node-0 | c"));
        bed.create(source(1)).unwrap();
        bed.idle();
        bed.update(source(2)).unwrap();
        let backup = bed.tables.clone();
        bed.idle();
        bed.update(template("c: x=2 node=node-1\na: x=3 node=node-0 | c")).unwrap();
        bed.idle();
        set_back(&mut bed, backup);
        assert_eq!(states(&bed), ["a newer"]);
        if wished {
            bed.update(source(2)).unwrap();
        }
        bed.connect(&node(1));
        bed.idle();
        assert_eq!(bed.ran.contains(&"Update a".to_owned()), wished, "{:?}", bed.ran);
        let status = if wished { "UPDATE_COMPLETE" } else { "UPDATE_FAILED" };
        assert_eq!((bed.status().as_str(), states(&bed).len()), (status, usize::from(!wished)));
    }
}

#[test]
fn one_node_is_decided_without_the_others() {
    let mut bed = Bed::new(2);
    let backup = bed.tables.clone();
    bed.create(template("x: node=node-0 v=1\ny: node=node-1 v=1")).unwrap();
    bed.idle();
    set_back(&mut bed, backup);
    bed.connect(&node(1));
    bed.idle();
    assert_eq!(states(&bed).len(), 2);
    let of = |index| Request::Restored { verdict: Verdict::Remove, ids: None, node: Some(node(index)) };
    bed.ask(of(1)).unwrap();
    bed.idle();
    let left: Vec<NodeId> = held(&bed).into_iter().map(|view| view.node).collect();
    assert_eq!((left, bed.ran.len()), (vec![node(0)], 1));
    let refused = bed.ask(of(1)).unwrap_err().to_string();
    assert!(refused.contains("node-1") && refused.contains("restore list"), "{refused}");
    bed.ask(of(0)).unwrap();
    bed.idle();
    assert!(bed.reality().is_empty() && !bed.engine.view().site_view().restored);
}

/// In the restored store the node is revoked.
#[test]
fn a_node_that_joins_again_keeps_what_it_made_since_the_backup() {
    let mut bed = Bed::new(2);
    bed.create(files("a: /a")).unwrap();
    bed.idle();
    bed.ask(Request::RevokeNode { node: node(0) }).unwrap();
    let backup = bed.tables.clone();
    let joins_again = |bed: &mut Bed| {
        bed.rejoin(&node(0));
        bed.connect(&node(0));
        bed.idle();
    };
    joins_again(&mut bed);
    bed.update(files("a: /a other")).unwrap();
    bed.idle();
    set_back(&mut bed, backup);
    joins_again(&mut bed);
    assert_eq!((states(&bed), bed.ran.len()), (vec!["a newer".to_owned()], 0));
    assert_eq!(bed.disk(), ["/a other"]);
}

#[test]
fn a_refused_update_decides_nothing() {
    let mut bed = restored("a: x=1", |bed| {
        bed.update(template("a: x=2")).unwrap();
    });
    let name: muster_shared::StackName = "t".parse().unwrap();
    bed.ask(Request::Create { name, source: files("f: /f"), options: super::bed::options() }).unwrap();
    bed.idle();
    bed.ran.clear();
    let refused = bed.update(files("f: /f other"));
    assert!(refused.is_err(), "the file is another stack's: {refused:?}");
    bed.idle();
    assert_eq!((states(&bed), bed.ran.len()), (vec!["a newer".to_owned()], 0));
    assert_eq!(bed.status(), "CREATE_COMPLETE");
}

#[test]
fn an_update_decides_what_it_names() {
    let mut bed = restored("a: x=1", |bed| {
        bed.update(template("a: x=2")).unwrap();
    });
    assert_eq!(states(&bed), ["a newer"]);
    bed.update(template("a: x=1")).unwrap();
    bed.idle();
    assert_eq!((bed.ran.len(), bed.status().as_str()), (1, "UPDATE_COMPLETE"));
    assert!(!bed.engine.view().site_view().restored);
}

/// A restart of the unit for a resource that it names would apply the store's state, and so decide
/// about the unit.
#[test]
fn a_held_unit_is_not_restarted_for_what_it_names() {
    let unit = |enabled| {
        let text = format!(
            "heat_template_version: 2018-08-31\nresources:\n  \
             conf: {{type: Muster::File, properties: {{node: node-0, path: /a, content: a}}}}\n  \
             web: {{type: Muster::Unit, properties: {{node: node-0, name: w.service, enabled: {enabled}, restart_on: [conf]}}}}\n"
        );
        parse(SourceText { name: "t".into(), template: text, ..SourceText::default() })
    };
    let mut bed = Bed::new(1);
    bed.create(unit(false)).unwrap();
    bed.idle();
    let backup = bed.tables.clone();
    bed.update(unit(true)).unwrap();
    bed.idle();
    set_back(&mut bed, backup);
    assert_eq!(states(&bed), ["web newer"]);
    says(&mut bed, "conf", DriftState::Drifted, "its content is another");
    bed.idle();
    assert_eq!((bed.ran.as_slice(), states(&bed).len()), (&["Update conf".to_owned()][..], 1));
    // After the decision the unit is as in the store, and is restarted.
    decide(&mut bed, Verdict::Remove, None).unwrap();
    bed.idle();
    assert!(bed.ran.len() >= 2 && bed.ran[1..].iter().all(|ran| ran == "Update web"), "{:?}", bed.ran);
    assert_eq!(bed.resource("web").observed, "in_sync");
}

/// A site with a table in which one rule was changed since the backup, and one was added.
fn with_newer_rules() -> Bed {
    let mut bed = Bed::new(1);
    bed.apply_rules(&device(0), &[rule(1, 0)]);
    bed.idle();
    let backup = bed.tables.clone();
    bed.apply_rules(&device(0), &[rule(1, 5), rule(2, 0)]);
    bed.idle();
    assert_eq!(rules(&bed), [(1, 5), (2, 0)]);
    bed.tables = backup;
    bed.tables.restored = Some(RestoredRecord::fresh());
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    bed
}

/// The rules of a device, each with the table that it goes to.
pub fn rules(bed: &Bed) -> Vec<(u16, u8)> {
    let on_it = &bed.hosts[&node(0)].flows.devices[&device(0).bridge].entries;
    let all = (1..3).flat_map(|n| [0, 5].map(|table| (n, table)));
    all.filter(|(n, table)| {
        let packed = Packed::new(&rule(*n, *table)).unwrap();
        on_it.get(&id(&device(0), *n)).is_some_and(|(there, _)| there.digest() == packed.digest())
    })
    .collect()
}

#[test]
fn rules_that_the_backup_does_not_know_stay_on_their_device() {
    let mut bed = with_newer_rules();
    assert_eq!(rules(&bed), [(1, 5), (2, 0)]);
    let list = held(&bed);
    assert_eq!((list.len(), list[0].id.as_str(), list[0].rules), (1, "node-0/br0", Some(2)), "{list:?}");
    decide(&mut bed, Verdict::Adopt, None).unwrap();
    assert!(!bed.engine.view().site_view().restored);
    for _ in 0..2 {
        bed.restart();
        bed.connect(&node(0));
        bed.idle();
        assert_eq!(rules(&bed), [(1, 5), (2, 0)], "also after the state");
    }
}

/// A rule that was listed and then written is not left as it is when the rest is adopted.
#[test]
fn a_rule_that_was_written_since_is_not_left_when_it_is_lost() {
    let mut bed = with_newer_rules();
    bed.apply_rules(&device(0), &[rule(1, 0)]);
    bed.apply_rules(&device(0), &[rule(2, 5)]);
    bed.idle();
    assert_eq!(rules(&bed), [(1, 5), (2, 5)], "what the store has already is no write");
    decide(&mut bed, Verdict::Adopt, None).unwrap();
    let lost = |bed: &mut Bed| {
        let flows = &mut bed.hosts.get_mut(&node(0)).unwrap().flows;
        let entries = &mut flows.devices.get_mut(&device(0).bridge).unwrap().entries;
        entries.clear();
        bed.disconnect(&node(0));
        bed.connect(&node(0));
        bed.idle();
    };
    lost(&mut bed);
    assert_eq!(rules(&bed), [(2, 5)], "the other one is left as it is: lost");
    bed.apply_rules(&device(0), &[rule(1, 5)]);
    bed.idle();
    lost(&mut bed);
    assert_eq!(rules(&bed), [(1, 5), (2, 5)], "written after it was left");
}

/// The disk of a restored site goes back again, after its table was decided.
#[test]
fn a_decided_table_is_held_when_the_store_goes_back_again() {
    let mut bed = Bed::new(2);
    bed.apply_rules(&device(0), &[rule(1, 0)]);
    bed.idle();
    let backup = bed.tables.clone();
    bed.apply_rules(&device(0), &[rule(2, 0)]);
    bed.idle();
    bed.tables = backup;
    bed.tables.restored = Some(RestoredRecord::fresh());
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    decide(&mut bed, Verdict::Remove, None).unwrap();
    assert_eq!(rules(&bed), [(1, 0)]);
    assert!(bed.engine.view().site_view().restored, "the other node has yet to come");
    let snapshot = bed.tables.clone();
    bed.apply_rules(&device(0), &[rule(2, 0)]);
    bed.idle();
    let ahead = EpochId { number: Epoch(bed.engine.traversals.jobs.graph.ctx.epoch().0 + 2), bits: Some(99) };
    bed.tables = snapshot;
    bed.restart();
    bed.connect_as(&node(0), ahead, Some(7));
    bed.idle();
    assert_eq!(rules(&bed), [(1, 0), (2, 0)], "nobody has decided about it since");
    assert_eq!(held(&bed)[0].id, "node-0/br0");
}

/// No decision waits for a removed node: a server that joins under its name gets the table of that name.
#[test]
fn a_table_that_waited_is_corrected_when_its_node_was_removed() {
    let mut bed = with_newer_rules();
    assert_eq!(held(&bed).len(), 1);
    bed.disconnect(&node(0));
    bed.remove(&node(0));
    assert!(!bed.engine.view().site_view().restored);
    bed.rejoin(&node(0));
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(rules(&bed), [(1, 0)]);
}

#[test]
fn removed_rules_are_as_the_store_says() {
    let mut bed = with_newer_rules();
    let device = held(&bed)[0].id.clone();
    decide(&mut bed, Verdict::Remove, Some(vec![device])).unwrap();
    assert_eq!(rules(&bed), [(1, 0)]);
    assert!(!bed.engine.view().site_view().restored && held(&bed).is_empty());
}

#[test]
fn held_resources_beyond_the_limit_are_listed_after_a_decision() {
    let many = |x: u8| (0..4).map(|at| format!("r{at}: x={x}\n")).collect::<String>();
    let limits = Limits { held_per_node: 3, ..Limits::default() };
    for is_wished in [false, true] {
        let mut bed = restored_with(limits, &many(1), |bed| {
            bed.update(template(&many(2))).unwrap();
        });
        assert_eq!(states(&bed).len(), 3, "and no more of one node");
        match is_wished {
            true => drop(bed.update(template(&many(1))).unwrap()),
            false => drop(decide(&mut bed, Verdict::Adopt, None).unwrap()),
        }
        assert!(bed.engine.view().site_view().restored);
        assert!(bed.hosts[&node(0)].connection.is_none(), "it is to say the rest");
        bed.connect(&node(0));
        bed.idle();
        assert_eq!(states(&bed).len(), 1);
        decide(&mut bed, Verdict::Adopt, None).unwrap();
        assert!(!bed.engine.view().site_view().restored);
    }
}
