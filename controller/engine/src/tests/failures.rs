//! Failures that `stack failures` shows.

use muster_shared::model::{Observed, Outcome, Report, Up};

use super::bed::{Bed, node, options, stack, template, under};
use crate::view::FailureView;
use crate::{Options, Request};

fn failures(bed: &Bed) -> Vec<FailureView> {
    bed.engine.view().failure_views(&stack()).unwrap()
}

fn names(bed: &Bed) -> Vec<String> {
    failures(bed).into_iter().map(|failure| failure.resource).collect()
}

#[test]
fn every_cause_is_kept_until_the_next_operation() {
    let mut bed = Bed::new(1);
    bed.create(template("a: fail=create\n b: x=1 | a\n c: x=1")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CREATE_FAILED");
    bed.restart();
    let told = "told to fail".to_owned();
    let wanted = FailureView {
        resource: "a".into(),
        physical_id: bed.resource("a").physical_id,
        kind: "Muster::Dummy".into(),
        node: "node-0".into(),
        action: "CREATE".into(),
        reason: told.clone(),
        causes: vec![told; 4],
    };
    assert_eq!(failures(&bed), [wanted], "b never began");
    let attempts: Vec<&String> =
        bed.tables.reasons.iter().filter(|reason| reason.contains("attempt")).collect();
    assert_eq!(
        attempts,
        [
            "attempt 1 failed, tried again in 1 s: told to fail",
            "attempt 2 failed, tried again in 2 s: told to fail",
            "attempt 3 failed, tried again in 4 s: told to fail"
        ]
    );
    bed.connect(&node(0));
    bed.update(template("a: x=1\n b: x=1 | a\n c: x=1")).unwrap();
    assert!(names(&bed).is_empty());
    bed.idle();
    assert_eq!((bed.status().as_str(), names(&bed).len()), ("UPDATE_COMPLETE", 0));
}

#[test]
fn a_rollback_that_follows_by_itself_leaves_them_to_be_read() {
    for restart in [false, true] {
        let mut bed = Bed::new(1);
        bed.create(template("a: x=1\n b: x=1")).unwrap();
        bed.idle();
        let options = Options { rollback: true, ..options() };
        let source = template("a: x=2 fail=update\n b: x=2");
        bed.ask(Request::Update { name: stack(), source, options }).unwrap();
        for _ in 0..2 {
            bed.fail_next(&node(0), true);
        }
        if restart {
            bed.restart();
            bed.connect(&node(0));
        }
        bed.idle();
        assert_eq!(bed.status(), "ROLLBACK_COMPLETE");
        assert_eq!(names(&bed), ["a", "b"], "though both are as they were");
        bed.rollback(None).unwrap();
        assert!(names(&bed).is_empty(), "an operator's is an operation of its own");
    }
}

#[test]
fn what_ends_well_after_all_is_no_failure() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    let key = bed.hosts[&node(0)].queue[0].key();
    let refused = Outcome::Failed { reason: "refused".into(), permanent: true };
    bed.receive(&node(0), Up::Report(Report { key, outcome: refused }));
    assert_eq!((bed.status().as_str(), names(&bed)), ("CREATE_FAILED", vec!["a".to_owned()]));
    bed.receive(&node(0), Up::Report(Report { key, outcome: Outcome::Done(Observed::default()) }));
    assert_eq!((bed.status().as_str(), names(&bed).len()), ("CREATE_COMPLETE", 0));
}

#[test]
fn the_stacks_reason_says_how_many_failed_and_why_the_first_did() {
    let reason = |count: usize| {
        let mut bed = Bed::new(1);
        let lines: String = (0..count).map(|i| format!("r{i}: fail=create\n")).collect();
        bed.create(template(&lines)).unwrap();
        for _ in 0..count {
            bed.fail_next(&node(0), true);
        }
        bed.view().unwrap().status_reason
    };
    assert_eq!(reason(1), "r0: refused");
    assert_eq!(reason(3), "3 resources failed: r0: refused; r1: refused; r2: refused");
    assert_eq!(reason(5), "5 resources failed: r0: refused; r1: refused; r2: refused; …");
}

#[test]
fn what_failed_before_and_has_not_begun_again_is_not_told_again() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1\n b: fail=create | a")).unwrap();
    bed.idle();
    bed.update(template("a: x=2 fail=update\n b: fail=create | a")).unwrap();
    bed.fail_next(&node(0), true);
    assert_eq!(names(&bed), ["a"]);
    assert_eq!(bed.view().unwrap().status_reason, "a: refused");
}

/// An agent repeats the outcome of a job until it is acknowledged. The resource may have failed for
/// another reason by then.
#[test]
fn an_end_that_is_said_again_mends_nothing() {
    for (why, restarts) in
        [("unhealthy", false), ("unhealthy", true), ("restricted", false), ("restricted", true)]
    {
        let mut bed = Bed::new(1);
        bed.create(template("a: x=1")).unwrap();
        let sent = bed.hosts[&node(0)].queue[0].clone();
        bed.idle();
        match why {
            "unhealthy" => drop(bed.unhealthy("a").unwrap()),
            _ => {
                bed.update(under(template("a: x=2"), "a: {restricted_actions: update}")).unwrap();
                bed.idle();
            }
        }
        let failed = bed.resource("a");
        assert_eq!(failed.status, "FAILED", "{why}");
        if restarts {
            bed.restart();
            bed.connect(&node(0));
        }
        let again = Report { key: sent.key(), outcome: Outcome::Done(Observed::default()) };
        bed.receive(&node(0), Up::Report(again));
        bed.idle();
        let a = bed.resource("a");
        assert_eq!((a.status, a.status_reason), (failed.status, failed.status_reason), "{why} {restarts}");
    }
}
