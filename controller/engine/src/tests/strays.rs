//! Things without a row in the store: their descriptions, and their removal by an operator.

use muster_shared::Generation;
use muster_shared::model::{Drift, DriftState, LedgerEntry, Up};

use super::bed::{Bed, files, node, template};
use super::restored::{decide, held, set_back, states};
use crate::restored::RestoredRecord;
use crate::{Request, Verdict};

/// A restored store, and a node that has made the file `/b` since.
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

fn id_of(bed: &Bed, thing: &str) -> Option<Vec<String>> {
    let view = held(bed).into_iter().find(|view| view.thing.as_deref() == Some(thing));
    Some(vec![view.unwrap_or_else(|| panic!("{thing} is listed")).id])
}

fn held_by_node(bed: &Bed) -> u64 {
    bed.engine.view().node_views().remove(0).held
}

#[test]
fn a_stray_is_listed_by_what_its_agent_says_it_is() {
    let mut bed = with_stray();
    let view = held(&bed).remove(0);
    assert_eq!((view.state.as_str(), view.kind.as_deref()), ("unknown", Some("Muster::File")));
    assert_eq!((view.thing.as_deref(), held_by_node(&bed)), (Some("/b"), 1));
    // The description is known while the node is away, and after a restart.
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
    assert!(!bed.engine.view().site_view().restored && bed.lost(&node(0)).is_empty());
    assert_eq!((bed.tables.rows.len(), held_by_node(&bed)), (1, 0));
    assert!(bed.warnings.iter().any(|warning| warning.contains("/b on node node-0")));
    // Store and node agree again, so the controller does not ask.
    bed.disconnect(&node(0));
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.hosts[&node(0)].ledgers, 1);
}

/// A server joined after the backup, or its disk was set back: the controller sees no restore.
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
    assert!(!bed.engine.view().site_view().restored);
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

/// The controller cannot tell a resource with an unreadable row from a stray.
#[test]
fn nothing_is_removed_while_a_row_is_damaged() {
    let mut bed = Bed::new(1);
    bed.create(files("a: /a\nb: /b")).unwrap();
    bed.idle();
    bed.disconnect(&node(0));
    let (id, stack) =
        bed.tables.rows.values().find(|row| &*row.name == "b").map(|row| (row.id, row.stack)).unwrap();
    bed.tables.rows.remove(&id);
    bed.tables.damaged.insert(stack, "the row of b is damaged".into());
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    let listed = id_of(&bed, "/b");
    let refused = decide(&mut bed, Verdict::Remove, listed).unwrap_err().to_string();
    assert!(refused.contains("the row of b is damaged"), "{refused}");
    assert_eq!(bed.disk().len(), 2);
}

/// Heartbeats have a digest of all drift, including that of strays. Otherwise the controller would
/// ask for all drift after each heartbeat.
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
            assert!(!bed.engine.view().site_view().restored);
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
        // The thing is gone, and the agent has not reported that: the controller asks once.
        assert_eq!((beat(&mut bed, 0), beat(&mut bed, 0)), (1, 0), "adopted: {adopted}");
        // A thing that the ledger no longer has is no longer left.
        bed.hosts.get_mut(&node(0)).unwrap().things.remove(&resource);
        bed.disconnect(&node(0));
        bed.connect(&node(0));
        bed.idle();
        assert_eq!(bed.tables.restored, None, "adopted: {adopted}");
    }
}

/// The operator's decision is durable: the controller ends, or the node is away, at any point of
/// the removal.
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
            assert!(bed.lost(&node(0)).is_empty() && bed.tables.rows.len() == 1, "{what}");
        }
    }
}

#[test]
fn a_failed_stray_removal_is_listed_and_retried_on_reconnect() {
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

/// An older agent does not describe its strays, and gets no message that it does not read.
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
    // A newer agent describes the stray.
    bed.hosts.get_mut(&node(0)).unwrap().is_old = false;
    bed.disconnect(&node(0));
    bed.connect(&node(0));
    bed.idle();
    let id = id_of(&bed, "/b");
    // An older agent connects before the removal was sent.
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
    // The description belongs to that generation alone.
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
    assert!(states(&bed).is_empty() && !bed.engine.view().site_view().restored, "{:?}", states(&bed));
}

/// A job from before the restore ends after its node sent its ledger.
#[test]
fn a_thing_that_is_made_after_the_ledger_was_told_is_listed() {
    let mut bed = Bed::new(2);
    bed.create(files("a: /a")).unwrap();
    bed.idle();
    let backup = bed.tables.clone();
    bed.update(files("a: /a\nb: /b")).unwrap();
    bed.begin(&node(0));
    set_back(&mut bed, backup);
    assert!(states(&bed).is_empty() && bed.engine.view().site_view().restored, "node-1 has yet to come");
    let host = bed.hosts.get_mut(&node(0)).unwrap();
    let job = host.running.remove(0);
    let report = host.run(job);
    bed.receive(&node(0), Up::Report(report.clone()));
    assert_eq!(held(&bed).remove(0).thing.as_deref(), Some("/b"));
    decide(&mut bed, Verdict::Adopt, None).unwrap();
    bed.receive(&node(0), Up::Report(report));
    assert!(states(&bed).is_empty(), "what is adopted is not listed again");
}

/// The thing was made on another node since, by a row whose job was never sent in the backup.
#[test]
fn a_row_that_was_never_sent_does_not_share_its_id_with_a_stray() {
    let mut bed = Bed::new(2);
    bed.disconnect(&node(1));
    bed.create(template("x: node=node-1 v=1")).unwrap();
    let backup = bed.tables.clone();
    bed.update(template("x: node=node-0 v=2")).unwrap();
    bed.idle();
    assert_eq!(bed.reality().len(), 1);
    set_back(&mut bed, backup);
    assert_eq!(states(&bed), [" unknown"]);
    decide(&mut bed, Verdict::Remove, None).unwrap();
    assert!(bed.reality().is_empty(), "{:?}", bed.reality());
    bed.connect(&node(1));
    bed.idle();
    assert_eq!((bed.reality().len(), bed.status().as_str()), (1, "CREATE_COMPLETE"));
}

/// An update gave the row another type before its node reported the thing.
#[test]
fn a_row_of_another_type_does_not_match_a_stray_of_its_id() {
    let mut bed = Bed::new(1);
    bed.disconnect(&node(0));
    bed.create(template("a: x=1 node=node-0")).unwrap();
    let backup = bed.tables.clone();
    bed.connect(&node(0));
    bed.idle();
    bed.disconnect(&node(0));
    bed.tables = backup;
    bed.tables.restored = Some(RestoredRecord::fresh());
    bed.restart();
    bed.update(files("a: /a")).unwrap();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((states(&bed), bed.disk()), (vec![" unknown".to_owned()], vec!["/a hello".to_owned()]));
    decide(&mut bed, Verdict::Remove, None).unwrap();
    bed.delete().unwrap();
    bed.idle();
    assert!(bed.reality().is_empty() && bed.disk().is_empty(), "{:?}", bed.reality());
}

#[test]
fn a_stray_with_another_nodes_resource_id_touches_nothing() {
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
    assert_eq!((bed.ran.len(), bed.tables.rows.len()), (0, 2));
    // An update of that resource says nothing about the thing on the other node.
    bed.update(template("x: node=node-0 v=2\ny: node=node-1 v=1")).unwrap();
    bed.idle();
    assert_eq!(states(&bed), [" unknown"]);
}
