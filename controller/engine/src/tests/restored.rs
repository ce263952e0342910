//! A store that is older than what agents know: nothing vanishes, nothing runs again, all of it is listed.

use muster_shared::model::flow::Packed;
use muster_shared::model::{Drift, DriftState, LedgerEntry, Up};
use muster_shared::{Generation, NodeId};

use super::bed::{Bed, Tables, files, node, parse, template};
use super::drift::says;
use super::flow_tables::{device, id, rule};
use crate::restored::RestoredRecord;
use crate::{HeldView, Request, SourceText, Verdict};

/// A site whose store is as it was before `since`, with agents that have done it.
fn restored(before: &str, since: impl FnOnce(&mut Bed)) -> Bed {
    let mut bed = Bed::new(1);
    bed.create(template(before)).unwrap();
    bed.idle();
    let backup = bed.tables.clone();
    since(&mut bed);
    bed.idle();
    bed.tables = backup;
    bed.tables.restored = Some(RestoredRecord::fresh());
    bed.ran.clear();
    bed.restart();
    assert!(bed.engine.site_view().restored);
    bed.connect(&node(0));
    bed.idle();
    bed
}

fn held(bed: &Bed) -> Vec<HeldView> {
    bed.engine.held_views(None)
}

fn states(bed: &Bed) -> Vec<String> {
    let mut states: Vec<String> = held(bed)
        .into_iter()
        .map(|view| format!("{} {}", view.resource.unwrap_or_default(), view.state))
        .collect();
    states.sort();
    states
}

fn decide(
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
    assert!(!bed.engine.site_view().restored);
    assert_eq!(bed.tables.restored, None, "and that is durable");
}

#[test]
fn what_the_backup_does_not_know_stays_and_is_listed() {
    let mut bed = restored("a: x=1\ngone: x=1", |bed| {
        bed.update(template("a: x=2\nnew: x=1")).unwrap();
    });
    assert_eq!(states(&bed), [" unknown", "a newer", "gone deleted"]);
    assert!(bed.ran.is_empty(), "{:?}", bed.ran);
    let site = bed.engine.site_view();
    assert_eq!((site.restored, site.waiting.restore), (true, 3));
    assert!(bed.tables.reasons.iter().any(|reason| reason.contains("older than node")));
    assert!(bed.warnings.iter().any(|warning| warning.contains("muster restore list")));
    // The list is durable, and a node that comes again changes nothing.
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
    assert!(bed.ran.is_empty() && !bed.engine.site_view().restored);
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
    assert!(!bed.engine.site_view().restored);
    assert_eq!(bed.ran.len(), 2, "{:?}", bed.ran);
    assert_eq!(bed.resource("a").observed, "in_sync");
}

/// A restored store beside a node that made the file `/b` since.
fn with_stray() -> Bed {
    with_strays("a: /a", "a: /a\nb: /b")
}

fn with_strays(before: &str, since: &str) -> Bed {
    let mut bed = Bed::new(1);
    bed.create(files(before)).unwrap();
    bed.idle();
    let backup = bed.tables.clone();
    bed.update(files(since)).unwrap();
    bed.idle();
    set_back(&mut bed, backup);
    bed
}

fn set_back(bed: &mut Bed, backup: Tables) {
    bed.tables = backup;
    bed.tables.restored = Some(RestoredRecord::fresh());
    bed.ran.clear();
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
}

fn id_of(bed: &Bed, thing: &str) -> Option<Vec<String>> {
    let view = held(bed).into_iter().find(|view| view.thing.as_deref() == Some(thing));
    Some(vec![view.unwrap_or_else(|| panic!("{thing} is listed")).id])
}

fn held_by_node(bed: &Bed) -> u64 {
    bed.engine.node_views().remove(0).held
}

#[test]
fn a_stray_is_listed_by_what_its_agent_says_it_is() {
    let mut bed = with_stray();
    let view = held(&bed).remove(0);
    assert_eq!((view.state.as_str(), view.kind.as_deref()), ("unknown", Some("Muster::File")));
    assert_eq!((view.thing.as_deref(), held_by_node(&bed)), (Some("/b"), 1));
    // It is known while the node is away, and after a restart.
    bed.restart();
    assert_eq!(held(&bed).remove(0).thing.as_deref(), Some("/b"));
    assert_eq!(bed.hosts[&node(0)].described, 1, "it is asked once");
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((bed.hosts[&node(0)].described, states(&bed).len()), (1, 1));
}

#[test]
fn a_removed_stray_is_deleted_by_its_agents_ledger() {
    let mut bed = with_stray();
    let id = id_of(&bed, "/b");
    decide(&mut bed, Verdict::Remove, id).unwrap();
    assert_eq!(
        (bed.ran.as_slice(), bed.disk()),
        (&["Delete /b".to_owned()][..], vec!["/a hello".to_owned()])
    );
    assert!(!bed.engine.site_view().restored && bed.lost(&node(0)).is_empty());
    assert_eq!((bed.tables.resources.len(), held_by_node(&bed)), (1, 0));
    assert!(bed.warnings.iter().any(|warning| warning.contains("/b on node node-0")));
    // Both know the same again: nobody asks.
    bed.disconnect(&node(0));
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.hosts[&node(0)].ledgers, 1);
}

/// Its server joined after the backup, or its own disk went back: no restore was seen.
#[test]
fn a_stray_is_listed_and_removed_where_the_site_is_not_restored() {
    let mut bed = Bed::new(1);
    bed.create(files("a: /a")).unwrap();
    bed.idle();
    let before = bed.tables.clone();
    bed.update(files("a: /a\nb: /b")).unwrap();
    bed.idle();
    bed.tables = before;
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert!(!bed.engine.site_view().restored);
    assert_eq!((states(&bed), held_by_node(&bed)), (vec![" unknown".to_owned()], 1));
    assert!(bed.warnings.iter().any(|warning| warning.contains("muster restore list")));
    bed.restart();
    assert_eq!(states(&bed).len(), 1, "that is durable");
    bed.connect(&node(0));
    bed.idle();
    let id = id_of(&bed, "/b");
    decide(&mut bed, Verdict::Remove, id).unwrap();
    assert_eq!((bed.disk(), states(&bed).len()), (vec!["/a hello".to_owned()], 0));
    assert_eq!(bed.tables.restored, None, "nothing is kept of it");
}

/// The restored store has it as never sent, so a delete would have nothing to take away.
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

/// It goes on where nodes have nothing newer, and stops at what they have.
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

/// Its row cannot be read: it is no stray, and the controller cannot tell it from one.
#[test]
fn nothing_is_removed_while_a_row_is_damaged() {
    let mut bed = Bed::new(1);
    bed.create(files("a: /a\nb: /b")).unwrap();
    bed.idle();
    bed.disconnect(&node(0));
    let (id, stack) =
        bed.tables.resources.values().find(|row| &*row.name == "b").map(|row| (row.id, row.stack)).unwrap();
    bed.tables.resources.remove(&id);
    bed.tables.damaged.insert(stack, "the row of b is damaged".into());
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    let listed = id_of(&bed, "/b");
    let refused = decide(&mut bed, Verdict::Remove, listed).unwrap_err().to_string();
    assert!(refused.contains("the row of b is damaged"), "{refused}");
    assert_eq!(bed.disk().len(), 2);
}

/// Heartbeats say a digest of all that differs: of strays too, or the agent would look at everything with each of them.
#[test]
fn a_stray_that_drifts_is_heard_of_once() {
    for adopted in [false, true] {
        let mut bed = with_stray();
        let id = id_of(&bed, "/b");
        if adopted {
            decide(&mut bed, Verdict::Adopt, None).unwrap();
            bed.restart();
            bed.connect(&node(0));
            bed.idle();
            assert!(!bed.engine.site_view().restored);
        }
        let is_it = |entry: &&LedgerEntry| id == Some(vec![entry.resource.to_string()]);
        let stray = *bed.hosts[&node(0)].things.values().map(|(_, entry)| entry).find(is_it).unwrap();
        let (resource, generation) = (stray.resource, stray.generation);
        let reason = "its content is another".to_owned();
        let drift = Drift { resource, generation, state: DriftState::Drifted, reason };
        bed.receive(&node(0), Up::Drift(vec![drift]));
        let digest = Drift::digest(resource, generation, DriftState::Drifted);
        let beat = |bed: &mut Bed, digest| {
            let asked = bed.hosts[&node(0)].asked_for_facts;
            bed.receive(&node(0), Up::Heartbeat { drift: Some(digest) });
            bed.hosts[&node(0)].asked_for_facts - asked
        };
        assert_eq!(beat(&mut bed, digest), 0, "adopted: {adopted}");
        // It is gone, and nobody has said so: once it is asked.
        assert_eq!((beat(&mut bed, 0), beat(&mut bed, 0)), (1, 0), "adopted: {adopted}");
        // What the ledger does not have any more is left to nobody.
        bed.hosts.get_mut(&node(0)).unwrap().things.remove(&resource);
        bed.disconnect(&node(0));
        bed.connect(&node(0));
        bed.idle();
        assert_eq!(bed.tables.restored, None, "adopted: {adopted}");
    }
}

/// The word of the operator is durable: the controller ends, or the node is away, at any point of the removal.
#[test]
fn a_removal_survives_the_controller_and_waits_for_its_node() {
    for is_away in [false, true] {
        for dies in [false, true] {
            let mut bed = with_stray();
            let id = id_of(&bed, "/b");
            if is_away {
                bed.disconnect(&node(0));
            }
            bed.ask(Request::Restored { verdict: Verdict::Remove, ids: id, node: None }).unwrap();
            assert_eq!((bed.ran.len(), bed.lost(&node(0))), (0, vec!["/b ".to_owned()]), "it is listed");
            if dies {
                bed.restart();
            }
            bed.connect(&node(0));
            bed.idle();
            let what = format!("away: {is_away}, dies: {dies}");
            assert_eq!(bed.ran, ["Delete /b"], "{what}");
            assert!(bed.lost(&node(0)).is_empty() && bed.tables.resources.len() == 1, "{what}");
        }
    }
}

#[test]
fn a_removal_that_fails_is_listed_and_tried_again_when_the_node_comes() {
    let mut bed = with_stray();
    let id = id_of(&bed, "/b");
    bed.ask(Request::Restored { verdict: Verdict::Remove, ids: id, node: None }).unwrap();
    bed.fail_next(&node(0), true);
    bed.idle();
    assert_eq!(bed.lost(&node(0)), ["/b refused"]);
    assert!(bed.warnings.iter().any(|warning| warning.contains("could not be cleaned up: refused")));
    // The rest of the node goes on.
    bed.update(files("a: /a hello2")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    bed.disconnect(&node(0));
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((bed.lost(&node(0)).len(), bed.disk()), (0, vec!["/a hello2".to_owned()]));
}

#[test]
fn what_was_made_last_is_removed_first() {
    let mut bed = with_strays("a: /a", "a: /a\nd: /d\nb: /b | d\nc: /c | b");
    decide(&mut bed, Verdict::Remove, None).unwrap();
    assert_eq!(bed.ran, ["Delete /c", "Delete /b", "Delete /d"]);
}

/// An agent of before says nothing of its strays, and is asked nothing that it does not read.
#[test]
fn a_stray_of_an_older_agent_is_known_by_its_id_alone() {
    let mut bed = Bed::new(1);
    bed.create(files("a: /a")).unwrap();
    bed.idle();
    let backup = bed.tables.clone();
    bed.update(files("a: /a\nb: /b")).unwrap();
    bed.idle();
    bed.hosts.get_mut(&node(0)).unwrap().is_old = true;
    set_back(&mut bed, backup);
    let view = held(&bed).remove(0);
    assert_eq!((view.kind, view.thing), (None, None));
    assert!(view.reason.contains("too old"), "{}", view.reason);
    let refused = decide(&mut bed, Verdict::Remove, None).unwrap_err().to_string();
    assert!(refused.contains("too old") && refused.contains("upgrade"), "{refused}");
    assert_eq!((states(&bed).len(), bed.ran.len()), (1, 0), "all or nothing");
    // Its successor says it.
    bed.hosts.get_mut(&node(0)).unwrap().is_old = false;
    bed.disconnect(&node(0));
    bed.connect(&node(0));
    bed.idle();
    let id = id_of(&bed, "/b");
    // An older one comes before the removal has left.
    bed.disconnect(&node(0));
    bed.ask(Request::Restored { verdict: Verdict::Remove, ids: id, node: None }).unwrap();
    bed.hosts.get_mut(&node(0)).unwrap().is_old = true;
    bed.connect(&node(0));
    bed.idle();
    assert!(bed.lost(&node(0))[0].contains("upgrade the agent"), "{:?}", bed.lost(&node(0)));
    bed.hosts.get_mut(&node(0)).unwrap().is_old = false;
    bed.disconnect(&node(0));
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((bed.lost(&node(0)).len(), bed.disk()), (0, vec!["/a hello".to_owned()]));
}

#[test]
fn a_stray_that_is_gone_before_its_agent_is_asked_is_not_listed() {
    let mut bed = with_stray();
    bed.disconnect(&node(0));
    // What is known of it is known of that generation alone.
    let host = bed.hosts.get_mut(&node(0)).unwrap();
    let (id, (spec, entry)) = host.things.iter().next_back().map(|(id, it)| (*id, it.clone())).unwrap();
    let newer = LedgerEntry {
        generation: Generation { number: entry.generation.number + 9, ..entry.generation },
        ..entry
    };
    host.things.insert(id, (spec, newer));
    host.forgets = Some(id);
    bed.connect(&node(0));
    bed.idle();
    assert!(bed.hosts[&node(0)].described > 1, "it is asked again");
    assert!(states(&bed).is_empty() && !bed.engine.site_view().restored, "{:?}", states(&bed));
}

/// A job of before the restore ends after its node's ledger was told.
#[test]
fn a_thing_that_is_made_after_the_ledger_was_told_is_listed() {
    let mut bed = Bed::new(2);
    bed.create(files("a: /a")).unwrap();
    bed.idle();
    let backup = bed.tables.clone();
    bed.update(files("a: /a\nb: /b")).unwrap();
    bed.begin(&node(0));
    set_back(&mut bed, backup);
    assert!(states(&bed).is_empty() && bed.engine.site_view().restored, "node-1 has yet to come");
    let host = bed.hosts.get_mut(&node(0)).unwrap();
    let job = host.running.remove(0);
    let report = host.run(job);
    bed.receive(&node(0), Up::Report(report.clone()));
    assert_eq!(held(&bed).remove(0).thing.as_deref(), Some("/b"));
    decide(&mut bed, Verdict::Adopt, None).unwrap();
    bed.receive(&node(0), Up::Report(report));
    assert!(states(&bed).is_empty(), "what is adopted is not listed again");
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
    assert!(bed.reality().is_empty() && !bed.engine.site_view().restored);
}

/// An agent that lies says that it holds what is another node's.
#[test]
fn a_stray_with_the_id_of_another_nodes_resource_touches_nothing() {
    let mut bed = Bed::new(2);
    bed.create(template("x: node=node-0 v=1\ny: node=node-1 v=1")).unwrap();
    bed.idle();
    let backup = bed.tables.clone();
    let theirs = bed.hosts[&node(0)].things.clone();
    bed.hosts.get_mut(&node(1)).unwrap().things.extend(theirs);
    set_back(&mut bed, backup);
    bed.connect(&node(1));
    bed.idle();
    assert_eq!(states(&bed).len(), 1);
    let refused = decide(&mut bed, Verdict::Remove, None).unwrap_err().to_string();
    assert!(refused.contains("elsewhere"), "{refused}");
    assert_eq!((bed.ran.len(), bed.tables.resources.len()), (0, 2));
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
    assert!(!bed.engine.site_view().restored);
}

/// A unit of the store is restarted for what it names, and so brought to the state of the store: that decides about it.
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
    // Once it is decided, the unit is as the store says, restarted.
    decide(&mut bed, Verdict::Remove, None).unwrap();
    bed.idle();
    assert!(bed.ran.len() >= 2 && bed.ran[1..].iter().all(|ran| ran == "Update web"), "{:?}", bed.ran);
    assert_eq!(bed.resource("web").observed, "in_sync");
}

/// A table with a rule that was changed, and one that was added, since the backup.
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
fn rules(bed: &Bed) -> Vec<(u16, u8)> {
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
    assert!(!bed.engine.site_view().restored);
    for _ in 0..2 {
        bed.restart();
        bed.connect(&node(0));
        bed.idle();
        assert_eq!(rules(&bed), [(1, 5), (2, 0)], "also after the state");
    }
}

#[test]
fn removed_rules_are_as_the_store_says() {
    let mut bed = with_newer_rules();
    let device = held(&bed)[0].id.clone();
    decide(&mut bed, Verdict::Remove, Some(vec![device])).unwrap();
    assert_eq!(rules(&bed), [(1, 0)]);
    assert!(!bed.engine.site_view().restored && held(&bed).is_empty());
}
