//! State that must outlive a restart of the controller, or an agent that lost or changed its ledger.

use muster_shared::model::{Hello, LedgerEntry, Observed, Outcome, Report, Up};
use muster_shared::{Epoch, Generation};

use super::bed::{Bed, node, template};
use crate::Limits;

fn narrow() -> Limits {
    Limits { in_flight_per_node: 1, ..Limits::default() }
}

#[test]
fn what_was_to_be_made_again_is_not_forgotten_by_a_restart() {
    let mut bed = Bed::with(1, narrow());
    bed.create(template("a: x=1\n b: x=1\n c: x=1")).unwrap();
    bed.idle();
    bed.disconnect(&node(0));
    let host = bed.hosts.get_mut(&node(0)).unwrap();
    host.things.clear();
    host.outcomes.clear();
    bed.connect(&node(0)); // one is sent, two wait for room
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.reality().len(), 3);
    assert!(bed.resources().iter().all(|row| row.status == "COMPLETE" && row.phase.is_empty()));
}

#[test]
fn what_is_made_again_is_tried_again() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1\n b: x=1")).unwrap();
    bed.idle();
    bed.disconnect(&node(0));
    let host = bed.hosts.get_mut(&node(0)).unwrap();
    host.things.clear();
    host.outcomes.clear();
    bed.connect(&node(0));
    bed.fail_next(&node(0), false);
    bed.idle();
    assert_eq!(bed.reality().len(), 2);
    assert_eq!(bed.status(), "CREATE_COMPLETE");
}

#[test]
fn a_node_put_back_to_an_older_state_is_brought_forward() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    bed.idle();
    let old = bed.hosts[&node(0)].things.clone();
    bed.update(template("a: x=2")).unwrap();
    bed.idle();
    bed.disconnect(&node(0));
    let host = bed.hosts.get_mut(&node(0)).unwrap();
    host.things = old;
    host.outcomes.clear();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.reality()[0].1["x"], "2");
}

#[test]
fn a_resource_lost_during_a_traversal_is_recreated_in_order() {
    let mut bed = Bed::new(2);
    bed.create(template("a: x=1 node=node-0\n b: x=1 node=node-1 | a")).unwrap();
    bed.idle();
    bed.ran.clear();
    bed.update(template("a: x=2 node=node-0\n b: x=1 node=node-1 | a")).unwrap();
    bed.disconnect(&node(1));
    let host = bed.hosts.get_mut(&node(1)).unwrap();
    host.things.clear();
    host.outcomes.clear();
    bed.connect(&node(1));
    assert!(bed.hosts[&node(1)].queue.is_empty(), "it waits for a");
    bed.idle();
    assert_eq!(bed.ran, ["Update a", "Update b"]);
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("UPDATE_COMPLETE", 2));
}

#[test]
fn rows_that_are_gone_hold_nobody_up_who_waits_for_room() {
    let mut bed = Bed::with(1, Limits { in_flight_per_stack: 1, ..Limits::default() });
    bed.create(template("a: x=1\n b: x=1\n c: x=1")).unwrap();
    bed.run_at(&node(0), 0);
    bed.delete().unwrap(); // b is withdrawn, c goes at once, a waits for room behind it
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("gone", 0));
}

#[test]
fn a_resource_to_recreate_waits_for_room_beyond_its_operation() {
    let mut bed = Bed::with(2, Limits { in_flight_per_stack: 1, ..Limits::default() });
    bed.create(template("a: x=1 node=node-1\n b: x=1 node=node-1\n c: x=1 node=node-0")).unwrap();
    bed.idle();
    bed.update(template("a: x=1 node=node-1\n b: x=1 node=node-1\n c: x=2 node=node-0")).unwrap();
    bed.disconnect(&node(1));
    bed.hosts.get_mut(&node(1)).unwrap().things.clear();
    bed.connect(&node(1));
    assert!(bed.hosts[&node(1)].queue.is_empty(), "c has the only place");
    bed.run_at(&node(0), 0);
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    bed.idle();
    assert_eq!(bed.reality().len(), 3);
}

#[test]
fn a_late_success_of_an_older_failure_hides_no_newer_one() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1\n b: x=1\n c: x=1")).unwrap();
    bed.idle();
    bed.update(template("a: x=2\n b: x=1\n c: x=1")).unwrap();
    let job = bed.hosts.get_mut(&node(0)).unwrap().queue.pop_front().unwrap();
    bed.receive(&node(0), Up::Report(Report { key: job.key(), outcome: refused() }));
    assert_eq!(bed.status(), "UPDATE_FAILED");
    // Now a waits for b, which fails while c is still under way.
    bed.update(template("a: x=3 | b\n b: x=2\n c: x=2")).unwrap();
    bed.fail_next(&node(0), true);
    let done = Outcome::Done(Observed::default());
    bed.receive(&node(0), Up::Report(Report { key: job.key(), outcome: done }));
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_FAILED");
}

fn refused() -> Outcome {
    Outcome::Failed { reason: "refused".into(), permanent: true }
}

#[test]
fn an_undelivered_withdrawn_retry_ends_with_the_former_outcome() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    bed.fail_next(&node(0), false);
    bed.pass(std::time::Duration::from_secs(2));
    assert!(bed.hosts.get_mut(&node(0)).unwrap().queue.pop_back().is_some(), "lost on its way");
    bed.update(template("a: x=2")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality()[0].1["x"].as_str()), ("UPDATE_COMPLETE", "2"));
    assert!(bed.now < muster_shared::MonoTime(std::time::Duration::from_secs(100)), "{:?}", bed.now);
}

#[test]
fn an_agent_cannot_use_the_numbers_up() {
    let mut bed = Bed::new(1);
    let top = Generation { epoch: Epoch(u32::MAX), number: u64::MAX };
    let hello = Hello {
        boot_id: 1,
        instance: None,
        address: None,
        agent_version: "t".into(),
        reads: 0,
        epoch: top.epoch.into(),
        ledger: 1,
    };
    bed.greet(&node(0), hello);
    assert!(
        bed.engine.traversals.jobs.graph.ctx.epoch() < Epoch(u32::MAX / 2),
        "{:?}",
        bed.engine.traversals.jobs.graph.ctx.epoch()
    );
    bed.create(template("a: x=1")).unwrap();
    let job = bed.hosts.get_mut(&node(0)).unwrap().queue.pop_front().unwrap();
    bed.receive(&node(0), Up::Report(Report { key: job.key(), outcome: Outcome::Superseded { by: top } }));
    let near = Generation { number: u64::MAX, ..job.generation };
    bed.receive(&node(0), Up::Report(Report { key: job.key(), outcome: Outcome::Superseded { by: near } }));
    let entry = LedgerEntry { resource: job.resource, generation: top };
    bed.receive(&node(0), Up::Ledger { entries: vec![entry], last: true });
    assert!(
        bed.engine.traversals.jobs.graph.ctx.epoch() < Epoch(u32::MAX / 2),
        "{:?}",
        bed.engine.traversals.jobs.graph.ctx.epoch()
    );
    bed.update(template("a: x=2\n b: x=2")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("UPDATE_COMPLETE", 2));
}

#[test]
fn a_withdrawn_job_of_an_older_store_leaves_state_to_clean_up() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    let job = bed.hosts.get_mut(&node(0)).unwrap().queue.pop_front().unwrap();
    let by = Generation { number: job.generation.number + 5, ..job.generation };
    bed.receive(&node(0), Up::Report(Report { key: job.key(), outcome: Outcome::Superseded { by } }));
    bed.update(template("b: x=1")).unwrap();
    bed.idle();
    assert_eq!(bed.ran, ["Create b", "Delete a"]);
    assert_eq!((bed.status().as_str(), bed.resources().len()), ("UPDATE_COMPLETE", 1));
}

#[test]
fn a_stack_with_an_unreadable_revision_fails_and_is_deletable() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1\n b: x=1 | a")).unwrap();
    bed.run_at(&node(0), 0);
    bed.tables.revisions.clear();
    bed.restart();
    assert_eq!(bed.status(), "CREATE_FAILED");
    bed.connect(&node(0));
    bed.delete().unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality().len()), ("gone", 0));
}

#[test]
fn the_last_good_revision_is_kept_however_many_fail_after_it() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    bed.idle();
    for _ in 0..105 {
        bed.update(template("a: x=2 fail=update")).unwrap();
    }
    assert_eq!(bed.tables.revisions.len(), 101, "the hundred newest and the good one");
    bed.rollback(None).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.reality()[0].1["x"].as_str()), ("ROLLBACK_COMPLETE", "1"));
}
