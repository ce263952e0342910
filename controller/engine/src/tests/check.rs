//! Checks compare things with the current revision, and change nothing.

use std::time::Duration;

use muster_shared::model::{Content, LedgerEntry};

use super::bed::{Bed, files, node, options, stack, template, under};
use crate::{Limits, Options, Refusal, Request};

const TWO: &str = "a: x=1 node=node-0\n b: x=2 node=node-1";

fn made(source: &str, nodes: usize) -> Bed {
    let mut bed = Bed::new(nodes);
    bed.create(template(source)).unwrap();
    bed.idle();
    bed.ran.clear();
    bed
}

/// Changes the thing of a resource on its node, or removes it, behind the agent's back.
pub fn change(bed: &mut Bed, resource: &str, away: bool) {
    let id = bed.tables.rows.values().find(|row| &*row.name == resource).unwrap().physical;
    for host in bed.hosts.values_mut() {
        if let Some((spec, _)) = host.things.get_mut(&id) {
            match (away, spec) {
                (false, muster_shared::model::Spec::Dummy(dummy)) => {
                    dummy.values.insert("x".into(), "other".into());
                }
                _ => drop(host.things.remove(&id)),
            }
        }
    }
}

/// Undoes [`change`].
fn undo_by_hand(bed: &mut Bed, resource: &str) {
    let row = bed.tables.rows.values().find(|row| &*row.name == resource).unwrap();
    let (id, wanted) = (row.physical, row.spec.as_ref().unwrap().unpack().spec().cloned().unwrap());
    for host in bed.hosts.values_mut() {
        if let Some((spec, _)) = host.things.get_mut(&id) {
            *spec = wanted.clone();
        }
    }
}

/// The number of drifted resources on each node.
fn drifted(bed: &Bed) -> Vec<u64> {
    bed.engine.view().node_views().iter().map(|view| view.drifted).collect()
}

fn reason(bed: &Bed) -> String {
    bed.view().unwrap().status_reason
}

fn refused(answer: Result<crate::Answer, Refusal>) -> String {
    match answer {
        Err(Refusal::Conflict(why) | Refusal::NotFound(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_rows_are_asked_and_stay_as_they_are() {
    let mut bed = made("a: x=1\n b: x=2 | a\n c: x=@b.x | b", 1);
    let (revision, complete) = (bed.view().unwrap().revision, bed.tables.stacks[&1].complete.clone());
    let held: Vec<_> = bed.tables.rows.values().map(|row| (row.definition, row.progress.held)).collect();
    bed.check().unwrap();
    assert_eq!(
        (bed.status().as_str(), bed.hosts[&node(0)].queue.len()),
        ("CHECK_IN_PROGRESS", 3),
        "in no order"
    );
    assert_eq!(bed.view().unwrap().progress.total, 3);
    bed.idle();
    assert_eq!(bed.ran, ["Check a", "Check b", "Check c"]);
    assert_eq!((bed.status().as_str(), reason(&bed).as_str()), ("CHECK_COMPLETE", ""));
    assert_eq!(bed.resource("a").action, "CHECK");
    assert_eq!(bed.resource("a").observed, "in_sync");
    assert_eq!((bed.view().unwrap().revision, &bed.tables.stacks[&1].complete), (revision, &complete));
    let after: Vec<_> = bed.tables.rows.values().map(|row| (row.definition, row.progress.held)).collect();
    assert_eq!(after, held, "what the ledgers hold has not changed");
    assert!(bed.engine.poll_timeout().is_none());
    bed.ran.clear();
    bed.update(template("a: x=1\n b: x=2 | a\n c: x=@b.x | b")).unwrap();
    assert_eq!((bed.status().as_str(), bed.ran.len()), ("UPDATE_COMPLETE", 0), "nothing to do");
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert!(bed.ran.is_empty(), "nor after a restart");
}

#[test]
fn what_differs_is_named_and_mended_by_the_next_update() {
    for restarts in [false, true] {
        for (away, observed) in [(false, "drifted"), (true, "missing")] {
            let mut bed = made(TWO, 2);
            change(&mut bed, "b", away);
            bed.check().unwrap();
            bed.idle();
            let b = bed.resource("b");
            assert_eq!(bed.status(), "CHECK_FAILED");
            assert_eq!(reason(&bed), "b: not as desired: content");
            assert_eq!(
                (b.action.as_str(), b.status.as_str(), b.observed.as_str()),
                ("CHECK", "FAILED", observed)
            );
            assert_eq!(bed.resource("a").status, "COMPLETE", "all are asked although one fails");
            assert_eq!(drifted(&bed), [0, 1], "of the nodes");
            if restarts {
                bed.restart();
                bed.connect(&node(0));
                bed.connect(&node(1));
                bed.idle();
            }
            assert_eq!((bed.status().as_str(), bed.ran.len()), ("CHECK_FAILED", 2));
            assert_eq!((bed.resource("b").observed.as_str(), drifted(&bed)), (observed, vec![0, 1]));
            bed.ran.clear();
            bed.update(template(TWO)).unwrap();
            bed.idle();
            assert_eq!(
                (bed.status().as_str(), bed.ran.as_slice()),
                ("UPDATE_COMPLETE", &["Update b".to_owned()][..])
            );
            assert_eq!((bed.reality().len(), bed.resource("b").observed.as_str()), (2, "in_sync"));
            assert_eq!(drifted(&bed), [0, 0]);
        }
    }
}

#[test]
fn files_are_compared_too() {
    let mut bed = Bed::new(1);
    bed.create(files(&format!("a: /a\n b: /b {}", "x".repeat(70_000)))).unwrap();
    bed.idle();
    bed.check().unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CHECK_COMPLETE");
    let host = bed.hosts.get_mut(&node(0)).unwrap();
    host.files.get_mut("/b").unwrap().1 = Content::Inline(b"other".to_vec());
    bed.check().unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.resource("b").observed.as_str()), ("CHECK_FAILED", "drifted"));
    assert_eq!(bed.tables.contents.len(), 1, "the content is still needed");
    bed.delete().unwrap();
    bed.idle();
    assert!(bed.tables.contents.is_empty());
}

#[test]
fn a_node_that_is_away_is_waited_for_until_the_time_is_over() {
    let mut bed = Bed::new(2);
    let options = Options { timeout: Duration::from_secs(60), ..options() };
    bed.ask(Request::Create { name: stack(), source: template(TWO), options }).unwrap();
    bed.idle();
    bed.disconnect(&node(1));
    bed.check().unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.resource("b").phase.as_str()), ("CHECK_IN_PROGRESS", "node_away"));
    bed.pass(Duration::from_secs(60));
    assert_eq!(bed.status(), "CHECK_FAILED");
    assert_eq!(reason(&bed), "timed out after 60 s; missing nodes: node-1");
    assert_eq!((bed.resource("b").status.as_str(), bed.resource("b").phase.as_str()), ("COMPLETE", ""));
    bed.ran.clear();
    bed.connect(&node(1));
    bed.idle();
    assert!(bed.ran.is_empty(), "the question was withdrawn");
    bed.check().unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CHECK_COMPLETE");
}

#[test]
fn a_stack_whose_time_is_over_names_what_has_not_ended() {
    let mut bed = Bed::new(1);
    let options = Options { timeout: Duration::from_secs(60), ..options() };
    bed.ask(Request::Create { name: stack(), source: template("a: x=1"), options }).unwrap();
    bed.pass(Duration::from_secs(60));
    assert_eq!(reason(&bed), "timed out after 60 s; not ended: a (queued on node-0)");
}

#[test]
fn what_never_was_as_wanted_fails_unasked() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1\n b: x=1 fail=create\n c: x=1 | b")).unwrap();
    bed.idle();
    bed.ran.clear();
    bed.check().unwrap();
    bed.idle();
    assert_eq!(bed.ran, ["Check a"]);
    assert_eq!(bed.status(), "CHECK_FAILED");
    assert_eq!(reason(&bed), "b: told to fail; c: is not as the current revision wants it yet");
    assert_eq!(bed.resource("b").action, "CREATE", "it is as it was");
    bed.update(template("a: x=1\n b: x=1\n c: x=1 | b")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("UPDATE_COMPLETE", 3));
}

#[test]
fn what_differed_is_asked_again() {
    for withdrawn in [false, true] {
        let mut bed = made(TWO, 2);
        change(&mut bed, "b", false);
        bed.check().unwrap();
        bed.idle();
        assert_eq!(bed.status(), "CHECK_FAILED");
        bed.ran.clear();
        bed.check().unwrap();
        if withdrawn {
            bed.cancel().unwrap();
            bed.idle();
            let b = bed.resource("b");
            assert_eq!(
                (b.status.as_str(), b.observed.as_str()),
                ("FAILED", "drifted"),
                "nobody has seen it otherwise"
            );
            bed.ran.clear();
            bed.update(template(TWO)).unwrap();
            bed.idle();
            assert_eq!(bed.ran, ["Update b"]);
            continue;
        }
        bed.idle();
        assert_eq!((bed.status().as_str(), bed.ran.len()), ("CHECK_FAILED", 2), "it differs still");
        bed.update(template(TWO)).unwrap();
        bed.idle();
        change(&mut bed, "b", false);
        bed.check().unwrap();
        bed.idle();
        undo_by_hand(&mut bed, "b");
        bed.check().unwrap();
        bed.idle();
        assert_eq!(
            (bed.status().as_str(), bed.resource("b").observed.as_str()),
            ("CHECK_COMPLETE", "in_sync")
        );
        bed.ran.clear();
        bed.update(template(TWO)).unwrap();
        assert_eq!((bed.status().as_str(), bed.ran.len()), ("UPDATE_COMPLETE", 0));
    }
}

#[test]
fn a_check_does_not_make_a_failed_update_good() {
    for cancelled in [false, true] {
        let mut bed = made("a: x=1\n b: x=1 | a\n z: x=1", 1);
        let fails = if cancelled { "" } else { "fail=update" };
        bed.update(template(&format!("a: x=2 {fails}\n b: x=2 | a"))).unwrap();
        match cancelled {
            true => drop(bed.cancel().unwrap()),
            false => bed.idle(),
        }
        assert_eq!(bed.status(), "UPDATE_FAILED");
        for _ in 0..2 {
            bed.check().unwrap();
            bed.idle();
            assert_eq!(bed.status(), "CHECK_FAILED", "{:?}", bed.resources());
            assert!(reason(&bed).contains("z: is still to be taken away"), "{}", reason(&bed));
            bed.restart();
            bed.connect(&node(0));
            bed.idle();
            assert_eq!(bed.status(), "CHECK_FAILED", "and nothing is taken up again");
        }
        bed.rollback(None).unwrap();
        bed.idle();
        assert_eq!((bed.status().as_str(), bed.reality().len()), ("ROLLBACK_COMPLETE", 3));
        assert!(bed.reality().iter().all(|(_, values)| values["x"] == "1"));
    }
}

#[test]
fn it_is_refused_where_it_makes_no_sense() {
    let mut bed = Bed::new(1);
    assert!(matches!(bed.check(), Err(Refusal::NotFound(_))));
    bed.create(template("a: x=1")).unwrap();
    assert!(refused(bed.check()).contains("CREATE_IN_PROGRESS"));
    bed.idle();
    bed.check().unwrap();
    assert!(refused(bed.check()).contains("CHECK_IN_PROGRESS"));
    bed.idle();
    bed.delete().unwrap();
    assert!(refused(bed.check()).contains("DELETE_IN_PROGRESS"));
    bed.cancel().unwrap();
    assert!(refused(bed.check()).contains("delete it again"));
}

#[test]
fn a_newer_operation_finds_the_rows_as_they_were() {
    for (sent, restarts) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut bed = made(TWO, 2);
        let before = bed.resources();
        if !sent {
            bed.disconnect(&node(1));
        }
        bed.check().unwrap();
        if restarts {
            bed.restart();
            bed.connect(&node(0));
        }
        bed.cancel().unwrap();
        assert_eq!((bed.status().as_str(), reason(&bed).as_str()), ("CHECK_FAILED", "cancelled"));
        assert!(bed.hosts[&node(0)].queue.is_empty(), "the agent is told");
        let statuses = |rows: &[crate::view::ResourceView]| -> Vec<String> {
            rows.iter().map(|row| format!("{} {}", row.name, row.status)).collect()
        };
        assert_eq!(statuses(&bed.resources()), statuses(&before));
        bed.check().unwrap();
        bed.update(template(&format!("{TWO}\n c: x=1 node=node-0"))).unwrap();
        bed.run_at(&node(0), 0);
        assert_eq!(
            (bed.ran.as_slice(), bed.status().as_str()),
            (&["Create c".to_owned()][..], "UPDATE_COMPLETE")
        );
        bed.check().unwrap();
        bed.delete().unwrap();
        bed.connect(&node(1));
        bed.idle();
        assert_eq!((bed.status().as_str(), bed.reality().len()), ("gone", 0));
    }
}

#[test]
fn a_restart_in_the_middle_asks_again() {
    for died in [false, true] {
        let mut bed = Bed::with(2, Limits { in_flight_per_node: 1, ..Limits::default() });
        bed.create(template("a: x=1 node=node-0\n b: x=1 node=node-0\n c: x=1 node=node-1")).unwrap();
        bed.idle();
        bed.disconnect(&node(1));
        bed.check().unwrap();
        bed.dying = died;
        bed.run_at(&node(0), 0);
        bed.restart();
        assert_eq!(bed.status(), "CHECK_IN_PROGRESS");
        bed.connect(&node(0));
        bed.connect(&node(1));
        bed.idle();
        assert_eq!(bed.status(), "CHECK_COMPLETE", "{:?}", bed.resources());
        assert!(bed.resources().iter().all(|row| row.status == "COMPLETE" && row.phase.is_empty()));
    }
}

#[test]
fn what_an_agent_lost_meanwhile_is_made_again() {
    let mut bed = made("a: x=1", 1);
    bed.check().unwrap();
    bed.disconnect(&node(0));
    let host = bed.hosts.get_mut(&node(0)).unwrap();
    (host.things, host.queue) = Default::default();
    host.outcomes.clear();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("CHECK_COMPLETE", 1));
    assert_eq!(bed.ran, ["Update a"], "an answer to the check would not have told");
}

#[test]
fn an_answer_that_comes_late_changes_nothing() {
    let mut bed = made("a: x=1", 1);
    let held = bed.tables.rows.values().next().unwrap().progress.held;
    bed.check().unwrap();
    let job = bed.hosts.get_mut(&node(0)).unwrap().queue.pop_front().unwrap();
    bed.cancel().unwrap();
    for outcome in [
        muster_shared::model::Outcome::Done(Default::default()),
        muster_shared::model::Outcome::Differs { missing: true, reason: "gone".into() },
    ] {
        let report = muster_shared::model::Report { key: job.key(), outcome };
        bed.receive(&node(0), muster_shared::model::Up::Report(report));
    }
    let row = &bed.tables.rows.values().next().unwrap().progress;
    assert_eq!((row.held, bed.resource("a").status.as_str()), (held, "COMPLETE"));
    let entry = LedgerEntry { resource: job.resource, generation: held.unwrap() };
    assert_eq!(bed.engine.traversals.jobs.graph.nodes[crate::node::NodeKey(0)].ledger, entry.digest());
}

#[test]
fn one_that_gets_no_answer_fails() {
    let mut bed = made("a: x=1", 1);
    bed.check().unwrap();
    for _ in 0..=3 {
        bed.fail_next(&node(0), false);
        bed.pass(Duration::from_secs(60));
    }
    assert_eq!((bed.status().as_str(), reason(&bed).as_str()), ("CHECK_FAILED", "a: refused"));
    bed.update(template("a: x=1")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("UPDATE_COMPLETE", 1));
}

#[test]
fn what_is_hidden_does_not_show() {
    let text = "heat_template_version: 2018-08-31\nparameters: {secret: {type: string, hidden: true}}\n\
                resources: {a: {type: Muster::Dummy, properties: {values: {x: {get_param: secret}}}}}\n";
    let mut bed = Bed::new(1);
    let parameters = [("secret".to_owned(), serde_json::json!("hunter2"))].into();
    let text =
        crate::SourceText { name: "t".into(), template: text.into(), parameters, ..Default::default() };
    bed.create(super::bed::parse(text)).unwrap();
    bed.idle();
    bed.restart();
    bed.connect(&node(0));
    bed.check().unwrap();
    let job = bed.hosts.get_mut(&node(0)).unwrap().queue.pop_front().unwrap();
    let outcome = muster_shared::model::Outcome::Differs { missing: false, reason: "wanted hunter2".into() };
    let report = muster_shared::model::Report { key: job.key(), outcome };
    bed.receive(&node(0), muster_shared::model::Up::Report(report));
    assert_eq!(bed.status(), "CHECK_FAILED");
    assert!(!format!("{:?} {:?}", bed.view(), bed.resources()).contains("hunter2"));
}

#[test]
fn a_check_reports_losses_of_a_removed_node_and_an_update_heals() {
    for (before, restart) in [(0, false), (1, false), (1, true), (2, false)] {
        let mut bed = made("a: x=1 node=node-0\n b: x=@a.x node=node-1\n c: x=1 node=node-1", 2);
        bed.check().unwrap();
        for index in 0..before {
            bed.run_at(&node(index), 0);
        }
        assert_eq!(bed.remove(&node(0)), ["a"]);
        if restart {
            bed.restart();
            bed.connect(&node(1));
        }
        bed.idle();
        assert_eq!(bed.status(), "CHECK_FAILED");
        let wanted =
            "a: is not as the current revision wants it yet; b: is not as the current revision wants it yet";
        assert_eq!(reason(&bed), wanted);
        bed.update(template("a: x=1 node=node-1\n b: x=@a.x node=node-1\n c: x=1 node=node-1")).unwrap();
        bed.idle();
        assert_eq!(bed.status(), "UPDATE_COMPLETE");
    }
}

#[test]
fn a_row_that_timed_out_at_a_hook_does_not_wait_during_a_check() {
    let mut bed = Bed::new(1);
    bed.create(under(template("a: x=1"), "a: {hooks: pre-create}")).unwrap();
    bed.pass(Duration::from_secs(100_001));
    bed.check().unwrap();
    assert_eq!((bed.status().as_str(), bed.resource("a").phase.as_str()), ("CHECK_FAILED", ""));
    assert!(bed.clear("a", crate::Hook::PreCreate).is_err());
    bed.restart();
    assert_eq!(bed.resource("a").phase, "");
}

#[test]
fn what_was_taken_back_before_a_check_stays_so_over_a_restart() {
    let mut bed = made("a: x=1 node=node-0", 2);
    bed.update(template(TWO)).unwrap();
    bed.disconnect(&node(1)); // with its job
    bed.hosts.get_mut(&node(1)).unwrap().queue.clear();
    bed.cancel().unwrap();
    bed.check().unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CHECK_FAILED");
    bed.restart();
    bed.connect(&node(0));
    bed.connect(&node(1));
    bed.idle();
    assert!(!bed.ran.contains(&"Create b".to_owned()), "{:?}", bed.ran);
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("CHECK_FAILED", 1));
}
