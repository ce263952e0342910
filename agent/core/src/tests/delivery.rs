//! The rules of delivery: older, same, higher attempt, other content, withdrawn.

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::Attempt;
use muster_shared::model::{Action, Deployment, Down, OnInterrupt, Outcome, Report, Spec, Up};

use super::node::{Node, again, create, done, dummy, failed, generation, id, job, key, plain};
use crate::TOMBSTONES_MAX;

#[test]
fn a_job_is_stored_before_its_run_its_end_before_the_report() {
    let mut bed = Node::online();
    bed.disk_is_quick = false;
    bed.job(&create(1, 1));
    assert!(bed.runs.is_empty(), "not on disk yet");
    bed.write_one();
    assert_eq!(bed.disk[&id(1)].current.as_ref().unwrap().job, create(1, 1));
    assert!(bed.runs.is_empty(), "that it may have begun is not on disk yet, though it claims nothing");
    bed.write_one();
    assert!(bed.disk[&id(1)].exists());
    assert_eq!(bed.runs.len(), 1);
    bed.ran(1, Ok(()));
    assert_eq!(bed.reports(), []);
    bed.write_one();
    assert_eq!(bed.disk[&id(1)].applied.as_ref().unwrap().generation, generation(1));
    assert_eq!(bed.report(), Report { key: key(1, 1, 0), outcome: done() });
}

/// Whatever frees its turn while the withdrawal waits to be read: the record on disk, the end of another job.
#[test]
fn a_job_waits_for_what_has_arrived() {
    let delete = job(1, 2, Action::Delete, dummy("1"));
    let withdraw = Down::Withdraw { resource: id(1), generation: generation(2) };
    for waits_behind in [false, true] {
        let mut bed = Node::online();
        bed.job(&create(1, 1));
        bed.ran(1, Ok(()));
        if waits_behind {
            bed.job(&create(2, 1));
        }
        bed.sent.clear();
        bed.more_arrives = true;
        bed.job(&delete);
        if waits_behind {
            bed.ran(2, Ok(()));
        }
        assert_eq!(bed.runs.len(), 0, "nothing begins while messages wait");
        bed.more_arrives = false;
        bed.down(withdraw.clone());
        assert_eq!(bed.runs.len(), 0);
        let withdrawn = Report { key: delete.key(), outcome: Outcome::Withdrawn };
        assert!(bed.reports().contains(&withdrawn));
        bed.job(&create(3, 1));
        assert_eq!(bed.runs.len(), 1, "the lane goes on");
    }
}

/// The effect of a second job while the first one of generation 5, attempt 1, is queued, running or ended.
#[test]
fn a_second_job() {
    let first = again(&job(1, 5, Action::Create, dummy("1")), 1);
    let higher = again(&first, 2);
    let lower = again(&first, 0);
    let other = again(&job(1, 5, Action::Create, dummy("2")), 1);
    let other_higher = again(&other, 2);
    let older = job(1, 4, Action::Create, dummy("0"));
    let newer = job(1, 6, Action::Update, dummy("3"));
    let superseded = |by: muster_shared::Generation| format!("superseded by {by}");
    #[rustfmt::skip]
    let rows = [
        // second job     queued                        running                ended
        (&first,        ["silence",                   "silence",             "done"]),
        (&higher,       ["silence, then it runs",     "silence, then it runs", "silence, then it runs"]),
        (&lower,        ["silence",                   "silence",             "done, of the first"]),
        (&other,        ["refused for ever",          "refused for ever",    "refused for ever"]),
        (&other_higher, ["refused for ever",          "refused for ever",    "refused for ever"]),
        (&older,        ["superseded by 1.5",         "superseded by 1.5",   "superseded by 1.5"]),
        (&newer,        ["superseded by 1.6, then it runs", "silence, then it runs", "silence, then it runs"]),
    ];
    for (second, wants) in rows {
        for (state, want) in ["queued", "running", "ended"].into_iter().zip(wants) {
            let mut bed = Node::online();
            if state == "queued" {
                // The lane is taken by something else.
                bed.job(&create(2, 1));
            }
            bed.job(&first);
            if state == "ended" {
                bed.ran(1, Ok(()));
                bed.reports();
            }
            bed.job(second);
            let mut got = match bed.reports().as_slice() {
                [] => "silence".to_owned(),
                [Report { outcome: Outcome::Superseded { by }, .. }] => superseded(*by),
                [Report { key, outcome: Outcome::Failed { permanent: true, reason } }] => {
                    assert!(*key == second.key() && reason.contains("bug of the controller"), "{reason}");
                    "refused for ever".to_owned()
                }
                [Report { key, outcome: Outcome::Done(_) }] if *key == second.key() => "done".to_owned(),
                [Report { key, outcome: Outcome::Done(_) }] if *key == first.key() => {
                    "done, of the first".to_owned()
                }
                other => panic!("{other:?}"),
            };
            // Let everything end that there is.
            let mut ran = Vec::new();
            while let Some((job, ..)) = bed.runs.first().cloned() {
                ran.push(job.key());
                bed.ran(job.resource.0.as_u128(), Ok(()));
            }
            if second.key() != first.key() && ran.contains(&second.key()) {
                got += ", then it runs";
            }
            assert_eq!(got, want, "{:?} {state}, then {:?}", first.key(), second.key());
            assert!(bed.warnings.is_empty() != want.starts_with("refused"));
        }
    }
}

/// A script that has run does not run again because nobody heard of it; what failed is tried again as it was.
#[test]
fn a_further_attempt_of_a_script() {
    let script = Spec::Deployment(Deployment {
        name: "setup".into(),
        steps: Vec::new(),
        inputs: BTreeMap::new(),
        replace_on: BTreeSet::new(),
        outputs: Vec::new(),
        timeout: 60,
        on_interrupt: OnInterrupt::Rerun,
    });
    let other = Spec::Deployment(Deployment { timeout: 61, ..deployment_of(&script) });
    let first = job(1, 5, Action::Create, script.clone());
    let newer = job(1, 6, Action::Update, script);
    let changed = job(1, 5, Action::Create, other);
    for (ended, second, runs, reported) in [
        (Ok(()), again(&first, 1), 0, Some(done())),
        (Err(failed("no supervisor")), again(&first, 1), 1, None),
        (Ok(()), newer, 1, None),
        (Ok(()), again(&changed, 1), 0, None),
    ] {
        let mut bed = Node::online();
        bed.job(&first);
        bed.captured(1, Ok(""));
        bed.ran(1, ended);
        bed.reports();
        bed.job(&second);
        let told = bed.reports();
        if let Some(outcome) = reported {
            assert_eq!(told, [Report { key: second.key(), outcome }]);
        }
        assert_eq!(bed.runs.len(), runs, "{second:?}: {told:?}");
    }
}

fn deployment_of(spec: &Spec) -> Deployment {
    match spec {
        Spec::Deployment(deployment) => deployment.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_resource_never_has_two_jobs_running() {
    let mut bed = Node::online();
    bed.job(&create(1, 1));
    bed.job(&job(1, 2, Action::Update, dummy("2")));
    bed.job(&job(1, 3, Action::Update, dummy("3")));
    assert_eq!(bed.runs.len(), 1);
    let superseded = Outcome::Superseded { by: generation(3) };
    assert_eq!(bed.report(), Report { key: key(1, 2, 0), outcome: superseded });
    bed.ran(1, Ok(()));
    assert_eq!(bed.report(), Report { key: key(1, 1, 0), outcome: done() });
    assert_eq!(bed.runs[0].0.generation, generation(3));
}

/// A withdrawal of generation 5 in every state.
#[test]
fn withdrawing() {
    let interrupted = Outcome::Failed {
        reason: "interrupted: a cancel or a newer operation withdrew its job".into(),
        permanent: false,
    };
    let withdraw = |number| Down::Withdraw { resource: id(1), generation: generation(number) };
    for (state, want) in [
        ("unknown", Some(Outcome::Withdrawn)),
        ("older known", Some(Outcome::Withdrawn)),
        ("newer known", Some(Outcome::Superseded { by: generation(6) })),
        ("queued", Some(Outcome::Withdrawn)),
        ("follows", Some(Outcome::Withdrawn)),
        ("running", Some(interrupted)),
        ("a file is written", None),
        ("a file is read", None),
        ("ended", Some(done())),
    ] {
        let first = match state {
            "a file is written" | "a file is read" => job(1, 5, Action::Create, plain("/etc/motd")),
            _ => create(1, 5),
        };
        let mut bed = Node::online();
        match state {
            "unknown" => {}
            "older known" => {
                bed.job(&create(1, 4));
                bed.ran(1, Ok(()));
            }
            "newer known" => bed.job(&create(1, 6)),
            "queued" => {
                bed.job(&create(2, 1));
                bed.job(&first);
            }
            "follows" => {
                bed.job(&create(1, 4));
                bed.job(&first);
            }
            "running" | "a file is read" => bed.job(&first),
            "a file is written" => {
                bed.job(&first);
                bed.captured(1, Ok("old"));
            }
            _ => {
                bed.job(&first);
                bed.ran(1, Ok(()));
            }
        }
        bed.sent.clear();
        bed.down(withdraw(5));
        assert_eq!(bed.reports().pop().map(|report| report.outcome), want, "{state}");
        while let Some((job, ..)) = bed.runs.first().cloned() {
            assert!(job.generation != generation(5) || state.starts_with("a file"), "{state}");
            bed.ran(job.resource.0.as_u128(), Ok(()));
        }
        bed.sent.clear();
        bed.job(&again(&first, 3));
        let ends = bed.reports();
        if want == Some(Outcome::Withdrawn) {
            assert_eq!(ends[0].outcome, Outcome::Withdrawn, "{state}: a late duplicate");
            assert_eq!(ends[0].key.attempt, Attempt(3));
            assert!(bed.runs.is_empty());
        }
    }
}

#[test]
fn a_late_duplicate_of_a_deleted_resource_makes_nothing() {
    let mut bed = Node::online();
    bed.job(&create(1, 1));
    bed.ran(1, Ok(()));
    bed.job(&job(1, 2, Action::Delete, dummy("1")));
    bed.ran(1, Ok(()));
    bed.down(Down::Acknowledge(key(1, 1, 0)));
    bed.down(Down::Acknowledge(key(1, 2, 0)));
    assert!(bed.disk[&id(1)].is_tombstone());
    let mut bed = bed.crash();
    bed.greet();
    bed.job(&create(1, 1));
    assert_eq!(bed.report().outcome, Outcome::Superseded { by: generation(2) });
    assert!(bed.runs.is_empty());
}

#[test]
fn tombstones_are_bounded_and_the_oldest_go() {
    let mut bed = Node::online();
    let count = TOMBSTONES_MAX as u128 + 10;
    for n in 0..count {
        bed.down(Down::Withdraw { resource: id(n), generation: generation(1) });
        bed.down(Down::Acknowledge(key(n, 1, 0)));
    }
    assert_eq!(bed.disk.len(), TOMBSTONES_MAX);
    assert!(!bed.disk.contains_key(&id(9)) && bed.disk.contains_key(&id(10)));
    assert_eq!(bed.agent.entries().count(), TOMBSTONES_MAX);
}

#[test]
fn what_is_forgotten_is_not_written_again() {
    let mut bed = Node::online();
    bed.down(Down::Withdraw { resource: id(0), generation: generation(1) });
    bed.disk_is_quick = false;
    bed.down(Down::Acknowledge(key(0, 1, 0)));
    bed.fail_one();
    assert!(!bed.agent.is_on_disk(), "it is tried again");
    bed.disk_is_quick = true;
    for n in 1..=TOMBSTONES_MAX as u128 {
        bed.down(Down::Withdraw { resource: id(n), generation: generation(1) });
        bed.down(Down::Acknowledge(key(n, 1, 0)));
    }
    assert!(bed.agent.entries().all(|entry| entry.resource != id(0)) && bed.agent.is_on_disk());
}

#[test]
fn deleting_what_was_never_applied_touches_nothing() {
    let mut bed = Node::online();
    bed.job(&job(1, 1, Action::Delete, dummy("1")));
    assert!(bed.runs.is_empty());
    assert_eq!(bed.report().outcome, done());
}

#[test]
fn lanes_do_not_wait_for_each_other() {
    let network = |n| {
        let document = muster_shared::model::NetworkConfig {
            document: "[]".into(),
            mapping: Default::default(),
            confirm_timeout: 0,
            on_delete: Default::default(),
        };
        job(n, 1, Action::Create, Spec::Network(document))
    };
    let mut bed = Node::online();
    for job in [create(1, 1), create(2, 1), network(3), network(4)] {
        bed.job(&job);
    }
    let running = |bed: &Node| bed.runs.iter().map(|(job, ..)| job.resource).collect::<Vec<_>>();
    bed.captured(3, Ok("before"));
    assert_eq!(running(&bed), [id(1), id(3)]);
    bed.ran(3, Err(failed("no such link")));
    bed.captured(4, Ok("before"));
    assert_eq!(running(&bed), [id(1), id(4)]);
    bed.ran(1, Ok(()));
    assert_eq!(running(&bed), [id(4), id(2)]);
}

#[test]
fn a_job_that_takes_too_long_is_cancelled_and_says_so_meanwhile() {
    let mut bed = Node::online();
    bed.job(&create(1, 1));
    let second = std::time::Duration::from_secs(1);
    bed.after(second / 2);
    assert_eq!(bed.sent, []);
    bed.after(second / 2);
    assert!(matches!(bed.sent.as_slice(), [Up::Progress(progress)] if progress.key == key(1, 1, 0)));
    bed.sent.clear();
    bed.after(second * 58);
    assert!(bed.cancelled.is_empty());
    bed.after(second);
    assert_eq!(bed.cancelled, [key(1, 1, 0)]);
    let outcome = Outcome::Failed { reason: "timed out after 60 s".into(), permanent: false };
    assert_eq!(bed.report(), Report { key: key(1, 1, 0), outcome });
    bed.input(crate::Input::Ran {
        key: key(1, 1, 0),
        outcome: Ok(Default::default()),
        before: None,
        touched: false,
    });
    assert_eq!(bed.reports(), [], "too late");
    bed.job(&again(&create(1, 1), 1));
    assert_eq!(bed.runs.len(), 1, "a higher attempt runs again");
}

#[test]
fn a_full_disk_fails_the_job_and_nothing_is_applied() {
    let mut bed = Node::online();
    bed.disk_is_quick = false;
    bed.job(&create(1, 1));
    bed.fail_one();
    let report = bed.report();
    assert!(
        matches!(&report.outcome, Outcome::Failed { reason, permanent: false } if reason.contains("disk full")),
        "{report:?}"
    );
    assert!(bed.runs.is_empty());
    bed.disk_is_quick = true;
    bed.job(&create(1, 1));
    bed.ran(1, Ok(()));
    assert_eq!(bed.report().outcome, done(), "the agent goes on");
}

#[test]
fn an_outcome_that_cannot_be_recorded_is_a_failure() {
    let mut bed = Node::online();
    bed.job(&create(1, 1));
    bed.disk_is_quick = false;
    bed.ran(1, Ok(()));
    bed.fail_one();
    assert!(matches!(bed.report().outcome, Outcome::Failed { .. }));
    bed.disk_is_quick = true;
    bed.job(&create(2, 1));
    assert_eq!(bed.runs.len(), 1, "the lane is free again");
}

#[test]
fn a_queue_without_end_is_refused() {
    let mut bed = Node::online();
    let large = |n| job(n, 1, Action::Create, super::node::file(&format!("/{n}"), content()));
    fn content() -> muster_shared::model::Content {
        muster_shared::model::Content::Inline(vec![0; 64 * 1024])
    }
    let mut refused = 0;
    for n in 0..1100 {
        bed.job(&large(n));
        refused += bed.reports().len();
    }
    assert!((70..200).contains(&refused), "{refused} of 1100 jobs of 64 KiB do not fit 64 MiB");
}

#[test]
fn a_report_is_sent_until_it_is_acknowledged() {
    let mut bed = Node::online();
    bed.job(&create(1, 1));
    bed.ran(1, Ok(()));
    let report = bed.report();
    bed.input(crate::Input::Disconnected { reason: "reset".into() });
    let mut bed = bed.crash();
    bed.greet();
    assert_eq!(bed.report(), report);
    bed.after(super::node::HEARTBEAT);
    assert_eq!(bed.report(), report, "with every heartbeat");
    bed.down(Down::Acknowledge(report.key));
    bed.after(super::node::HEARTBEAT);
    assert_eq!(bed.reports(), []);
    let mut bed = bed.crash();
    bed.greet();
    assert_eq!(bed.reports(), []);
}
