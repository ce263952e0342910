//! Checks: recorded as any job, run in their lane, change nothing, and can be withdrawn at any time.

use muster_shared::model::{Action, Down, Outcome, Report};

use super::node::{Node, create, done, dummy, generation, id, job, key, plain};
use crate::{Found, Input, Retry, RunError};

fn differs() -> Found {
    Found::Differs { missing: false, reason: "mode".into() }
}

/// Resource 1's file was made by generation 1.
fn applied() -> Node {
    let mut bed = Node::online();
    bed.apply_file(&job(1, 1, Action::Create, plain("/etc/motd")), "old");
    bed
}

#[test]
fn whatever_it_finds_the_last_good_state_stays() {
    for (found, want) in [
        (Ok(Found::AsDesired), done()),
        (Ok(differs()), Outcome::Differs { missing: false, reason: "mode".into() }),
        (
            Err(RunError { reason: "no disk".into(), retry: Retry::Later }),
            Outcome::Failed { reason: "no disk".into(), permanent: false },
        ),
    ] {
        let mut bed = applied();
        let (digest, before) = (bed.agent.jobs.ledger.digest(), bed.disk[&id(1)].clone());
        bed.job(&job(1, 2, Action::Check, plain("/etc/motd")));
        assert!(bed.runs.is_empty() && bed.captures.is_empty(), "nothing is read aside, nothing is applied");
        let accepted = bed.disk[&id(1)].current.as_ref().unwrap();
        assert_eq!(accepted.job.action, Action::Check, "on disk before it begins");
        bed.checks.clear();
        bed.input(Input::Checked { key: key(1, 2, 0), found });
        assert_eq!(bed.report(), Report { key: key(1, 2, 0), outcome: want.clone() });
        let entry = bed.disk[&id(1)].clone();
        assert_eq!((&entry.applied, &entry.holding), (&before.applied, &before.holding));
        assert_eq!(bed.agent.jobs.ledger.digest(), digest);
        bed.job(&job(1, 2, Action::Check, plain("/etc/motd")));
        assert_eq!(bed.report().outcome, want, "a duplicate is answered from the ledger");
    }
}

#[test]
fn it_takes_nothing_over() {
    let mut bed = applied();
    bed.job(&job(2, 2, Action::Check, plain("/etc/motd")));
    bed.checked(2, Found::AsDesired);
    assert_eq!(bed.taker(1), None);
    assert!(!bed.disk[&id(2)].exists());
    bed.reports();
    bed.job(&job(1, 3, Action::Delete, plain("/etc/motd")));
    assert_eq!(bed.runs.len(), 1, "it is still the first one's to take away");
}

#[test]
fn it_waits_for_its_turn_and_a_newer_job_waits_for_it() {
    let mut bed = applied();
    bed.job(&create(2, 1));
    bed.job(&job(1, 2, Action::Check, plain("/etc/motd")));
    assert!(bed.checks.is_empty(), "the lane is taken");
    bed.ran(2, Ok(()));
    assert_eq!(bed.checks.len(), 1);
    bed.job(&job(1, 3, Action::Update, plain("/etc/motd")));
    assert!(bed.runs.is_empty());
    bed.checked(1, differs());
    assert_eq!(bed.runs[0].0.generation, generation(3));
}

#[test]
fn one_that_waits_gives_way_to_a_newer_job() {
    let mut bed = applied();
    bed.job(&create(2, 1));
    bed.job(&job(1, 2, Action::Check, plain("/etc/motd")));
    bed.job(&job(1, 3, Action::Update, plain("/etc/motd")));
    assert_eq!(bed.report().outcome, Outcome::Superseded { by: generation(3) });
    bed.ran(2, Ok(()));
    assert_eq!((bed.checks.len(), bed.runs[0].0.generation), (0, generation(3)));
}

#[test]
fn it_is_taken_back_also_while_it_runs() {
    for crashes in [false, true] {
        let mut bed = applied();
        bed.job(&job(1, 2, Action::Check, plain("/etc/motd")));
        if crashes {
            bed = bed.crash();
            bed.greet();
            bed.sent.clear();
        }
        assert_eq!(bed.checks.len(), 1, "after a crash it runs again");
        bed.down(Down::Withdraw { resource: id(1), generation: generation(2) });
        assert_eq!((bed.report().outcome, bed.cancelled.len()), (Outcome::Withdrawn, 1));
        bed.job(&job(1, 3, Action::Update, plain("/etc/motd")));
        assert_eq!(bed.runs.len(), 1, "its lane is free");
    }
}

#[test]
fn it_has_its_time() {
    let mut bed = applied();
    bed.job(&job(1, 2, Action::Check, dummy("1")));
    bed.after(super::node::TIMEOUT);
    assert_eq!(bed.cancelled, [key(1, 2, 0)]);
    let report = bed.reports().pop().unwrap();
    assert!(matches!(report.outcome, Outcome::Failed { .. }), "{report:?}");
}
