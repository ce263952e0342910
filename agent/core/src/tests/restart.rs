//! Crashes: what is on disk decides.

use muster_shared::model::{Action, Down, Outcome};

use super::node::{Node, again, create, done, dummy, failed, generation, id, job, key, plain};
use crate::Before;

#[test]
fn an_accepted_job_runs_again_and_once() {
    let mut bed = Node::online();
    bed.job(&create(1, 1));
    let mut bed = bed.crash();
    assert_eq!(bed.runs.len(), 1, "without a controller");
    bed.greet();
    bed.job(&create(1, 1));
    bed.ran(1, Ok(()));
    assert_eq!(bed.report().outcome, done());
    assert!(bed.runs.is_empty());
    let bed = bed.crash();
    assert!(bed.runs.is_empty(), "what is done is done");
}

#[test]
fn jobs_keep_their_order() {
    let mut bed = Node::online();
    for n in [5, 3, 9, 1] {
        bed.job(&create(n, 1));
    }
    let mut bed = bed.crash();
    for n in [5, 3, 9, 1] {
        assert_eq!(bed.runs[0].0.resource, id(n));
        bed.ran(n, Ok(()));
    }
}

#[test]
fn the_earlier_state_is_stored_before_a_change_and_read_once() {
    let mut bed = Node::online();
    bed.disk_is_quick = false;
    let first = job(1, 1, Action::Create, plain("/etc/motd"));
    bed.job(&first);
    bed.write_one();
    bed.captured(1, Ok("old"));
    assert!(bed.runs.is_empty());
    bed.write_one();
    assert_eq!(bed.disk[&id(1)].before(), Some(&Before::new(b"old".to_vec())));
    assert_eq!(bed.runs[0].1, Some(Before::new(b"old".to_vec())));
    let mut bed = bed.crash();
    assert!(bed.captures.is_empty(), "by now it may be our own");
    assert_eq!(bed.runs[0].1, Some(Before::new(b"old".to_vec())));
    bed.ran(1, Ok(()));
    bed.greet();
    bed.job(&job(1, 2, Action::Update, plain("/etc/motd")));
    assert_eq!(bed.runs[0].1, Some(Before::new(b"old".to_vec())));
}

#[test]
fn a_crash_before_the_record_captures_again() {
    let mut bed = Node::online();
    bed.disk_is_quick = false;
    bed.job(&job(1, 1, Action::Create, plain("/etc/motd")));
    bed.write_one();
    bed.captured(1, Ok("old"));
    let bed = bed.crash();
    assert_eq!((bed.captures.len(), bed.runs.len()), (1, 0));
}

#[test]
fn a_job_that_follows_survives() {
    let mut bed = Node::online();
    bed.job(&create(1, 1));
    bed.job(&job(1, 2, Action::Update, dummy("2")));
    let mut bed = bed.crash();
    assert_eq!(bed.runs[0].0.generation, generation(1));
    bed.ran(1, Ok(()));
    assert_eq!(bed.runs[0].0.generation, generation(2));
    let mut bed = bed.crash();
    assert_eq!(bed.runs[0].0.generation, generation(2));
    bed.ran(1, Ok(()));
    bed.greet();
    let reports = bed.reports();
    assert_eq!(reports.iter().map(|report| report.key).collect::<Vec<_>>(), [key(1, 1, 0), key(1, 2, 0)]);
}

#[test]
fn a_job_waits_until_the_end_of_the_one_before_is_on_disk() {
    let following = || {
        let mut bed = Node::online();
        bed.job(&create(1, 1));
        bed.job(&create(1, 2));
        bed.disk_is_quick = false;
        bed.ran(1, Ok(()));
        bed.fail_one();
        assert_eq!(bed.runs.len(), 0, "after a crash the first would run again, after the second");
        bed
    };
    let mut bed = following();
    bed.write_one();
    assert_eq!(bed.runs[0].0.key(), key(1, 2, 0));
    let mut bed = following();
    bed.fail_one();
    let outcomes: Vec<_> = bed.reports().into_iter().map(|report| report.key).collect();
    assert_eq!((outcomes, bed.runs.len()), (vec![key(1, 1, 0), key(1, 2, 0)], 0));
}

#[test]
fn what_may_have_begun_before_a_crash_is_not_withdrawn() {
    let mut bed = Node::online();
    let first = job(2, 1, Action::Create, plain("/etc/motd"));
    bed.job(&first);
    bed.captured(2, Ok("old"));
    bed.job(&create(1, 1));
    let mut bed = bed.crash();
    bed.greet();
    bed.down(Down::Withdraw { resource: id(2), generation: generation(1) });
    bed.down(Down::Withdraw { resource: id(1), generation: generation(1) });
    assert_eq!(bed.report().key.resource, id(1));
    bed.ran(2, Ok(()));
    assert_eq!(bed.report().outcome, done());
}

#[test]
fn a_failed_attempt_is_remembered_and_a_higher_one_runs() {
    let mut bed = Node::online();
    bed.job(&create(1, 1));
    bed.ran(1, Err(failed("no")));
    let mut bed = bed.crash();
    bed.greet();
    bed.sent.clear();
    bed.job(&create(1, 1));
    assert_eq!(bed.report().outcome, Outcome::Failed { reason: "no".into(), permanent: false });
    assert!(bed.runs.is_empty());
    bed.job(&again(&create(1, 1), 1));
    assert_eq!(bed.runs.len(), 1);
}
