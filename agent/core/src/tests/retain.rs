//! A resource that is forgotten while its thing stays.

use muster_shared::model::{Action, Job, Outcome};

use super::node::{Node, done, failed, generation, id, job, plain};
use crate::Before;

fn file(n: u128, number: u64, action: Action) -> Job {
    job(n, number, action, plain("/etc/motd"))
}

#[test]
fn the_host_is_not_touched_and_nothing_is_remembered() {
    let mut bed = Node::online();
    bed.apply_file(&file(1, 1, Action::Create), "old");
    let empty = Node::online().agent.jobs.ledger.digest();
    bed.job(&file(1, 2, Action::Retain));
    assert!(bed.runs.is_empty() && bed.checks.is_empty());
    let report = bed.report();
    assert_eq!((&report.outcome, bed.agent.jobs.ledger.digest()), (&done(), empty));
    bed.down(muster_shared::model::Down::Acknowledge(report.key));
    assert!(bed.disk[&id(1)].is_tombstone());
    bed.job(&file(1, 1, Action::Create));
    assert!(bed.runs.is_empty() && bed.captures.is_empty(), "a late duplicate makes nothing again");
    bed.job(&file(2, 3, Action::Create));
    assert_eq!(bed.captures[0].1, [], "what was left is what was there before, for whoever comes next");
}

#[test]
fn a_crash_at_either_write_leaves_the_thing_all_the_same() {
    for survives in 0..=2 {
        let mut bed = Node::online();
        bed.apply_file(&file(1, 1, Action::Create), "old");
        bed.disk_is_quick = false;
        bed.job(&file(1, 2, Action::Retain));
        (0..survives).for_each(|_| bed.write_one());
        let mut bed = bed.crash();
        bed.greet();
        bed.job(&file(1, 2, Action::Retain));
        assert!(bed.runs.is_empty());
        assert_eq!(bed.reports().pop().unwrap().outcome, done());
        assert!(!bed.disk[&id(1)].exists(), "after {survives} writes");
    }
}

#[test]
fn what_could_not_be_recorded_is_still_its_own() {
    for action in [Action::Retain, Action::Delete] {
        let mut bed = Node::online();
        bed.apply_file(&file(1, 1, Action::Create), "old");
        bed.disk_is_quick = false;
        bed.job(&file(1, 2, action));
        bed.write_one();
        if action == Action::Delete {
            bed.ran(1, Ok(()));
        }
        bed.fail_one();
        assert!(matches!(bed.report().outcome, Outcome::Failed { .. }), "{action:?}");
        bed.disk_is_quick = true;
        bed.runs.clear();
        bed.job(&file(1, 3, Action::Delete));
        assert_eq!(bed.runs[0].1, Some(Before::new(b"old".to_vec())), "{action:?}");
        bed.ran(1, Ok(()));
        assert!(!bed.disk[&id(1)].exists(), "{action:?}");
    }
}

/// The disk refused to record that the first one was withdrawn, so it is there again after the crash.
#[test]
fn one_that_waited_before_a_crash_gives_way_to_a_newer_job() {
    let mut bed = Node::online();
    bed.apply_file(&file(1, 1, Action::Create), "old");
    bed.job(&job(2, 1, Action::Create, plain("/etc/issue")));
    bed.job(&file(1, 2, Action::Retain));
    let mut bed = bed.crash();
    bed.greet();
    bed.job(&file(1, 3, Action::Delete));
    assert_eq!(bed.report().outcome, Outcome::Superseded { by: generation(3) });
    bed.captured(2, Ok(""));
    bed.ran(2, Ok(()));
    assert_eq!(bed.runs[0].1, Some(Before::new(b"old".to_vec())), "it is not forgotten before it is removed");
}

#[test]
fn a_retain_leaves_taken_over_claims_with_their_owner() {
    // Resource 2 took over from 1.
    let taken_over = || {
        let mut bed = Node::online();
        bed.apply_file(&file(1, 1, Action::Create), "old");
        bed.job(&file(2, 2, Action::Create));
        bed.captured(2, Ok("old"));
        bed
    };
    let mut bed = taken_over();
    bed.ran(2, Ok(()));
    bed.job(&file(1, 3, Action::Retain));
    bed.job(&file(2, 4, Action::Delete));
    assert_eq!(
        bed.runs[0].1,
        Some(Before::new(b"old".to_vec())),
        "the holder still knows what was there before"
    );

    let mut bed = taken_over();
    bed.ran(2, Ok(()));
    bed.job(&file(2, 3, Action::Retain));
    bed.job(&file(1, 4, Action::Delete));
    assert!(bed.runs.is_empty(), "the thing was left where it is");

    let mut bed = taken_over();
    bed.ran(2, Err(failed("no such owner")));
    bed.job(&file(2, 3, Action::Retain));
    assert_eq!(bed.taker(1), None, "what it never held is the first one's again");
    bed.job(&file(1, 4, Action::Delete));
    assert_eq!(bed.runs.len(), 1);
}
