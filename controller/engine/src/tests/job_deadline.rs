//! Silent agents: a job that waits on its server is not lost.

use std::time::Duration;

use muster_shared::model::{Job, JobState, Progress, Stage, Up};

use super::bed::{Bed, node, template};
use crate::tests::bed::options;

const MINUTE: Duration = Duration::from_secs(60);

/// A bed with two jobs at its node. Neither has started.
fn two_jobs() -> (Bed, Job, Job) {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1\n b: x=1")).unwrap();
    let mut jobs = bed.hosts[&node(0)].queue.iter().cloned();
    let (a, b) = (jobs.next().unwrap(), jobs.next().unwrap());
    drop(jobs);
    (bed, a, b)
}

fn tells(bed: &mut Bed, states: &[(&Job, Stage)]) {
    let states = states.iter().map(|(job, stage)| JobState { key: job.key(), stage: *stage });
    let states = Up::Jobs(states.collect());
    bed.receive(&node(0), states);
}

fn phases(bed: &Bed) -> [String; 2] {
    ["a", "b"].map(|name| bed.resource(name).phase)
}

#[test]
fn what_waits_behind_a_long_job_is_not_lost() {
    assert!(options().timeout >= MINUTE * 20);
    let (mut bed, a, b) = two_jobs();
    let behind = Stage::Waiting { behind: Some(a.resource) };
    for _ in 0..20 {
        tells(&mut bed, &[(&a, Stage::Running), (&b, behind)]);
        bed.pass(MINUTE);
    }
    assert_eq!(phases(&bed), ["running", "queued"]);
    assert_eq!(bed.resource("b").waits_for, ["a"]);
    assert_eq!(bed.resource("b").retry_count, 0);
    tells(&mut bed, &[(&b, Stage::Running)]);
    assert_eq!((bed.resource("b").phase, bed.resource("b").waits_for), ("running".into(), vec![]));
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
}

#[test]
fn a_job_of_which_its_agent_does_not_speak_is_lost() {
    let (mut bed, a, b) = two_jobs();
    for _ in 0..3 {
        tells(&mut bed, &[(&a, Stage::Running)]);
        bed.pass(MINUTE);
    }
    assert_eq!(phases(&bed), ["running", "queued"]);
    bed.pass(Duration::from_secs(30));
    assert_eq!(phases(&bed), ["running", "backoff"]);
    assert_eq!(bed.resource("b").status_reason, "no answer from the agent in time");
    // The agent reports an attempt that was given up. The job is with the agent, in whichever attempt.
    bed.pass(MINUTE);
    tells(&mut bed, &[(&a, Stage::Running), (&b, Stage::Running)]);
    assert_eq!(phases(&bed), ["running", "running"]);
}

#[test]
fn an_older_agent_is_given_time_with_each_word_of_a_job() {
    let (mut bed, a, _) = two_jobs();
    for _ in 0..20 {
        bed.receive(&node(0), Up::Progress(Progress { key: a.key(), settling: false }));
        bed.pass(MINUTE);
    }
    assert_eq!(bed.resource("a").phase, "running");
    bed.pass(Duration::from_secs(400));
    assert_eq!(bed.resource("a").phase, "backoff");
}

#[test]
fn a_job_that_runs_again_after_a_restart_of_its_agent_is_queued() {
    let (mut bed, a, b) = two_jobs();
    tells(&mut bed, &[(&a, Stage::Running), (&b, Stage::Running)]);
    tells(&mut bed, &[(&a, Stage::Fetching), (&b, Stage::Running)]);
    assert_eq!(phases(&bed), ["queued", "running"]);
}

/// The controller stood still for ten minutes, and the answer waits to be read.
#[test]
fn what_has_arrived_counts_before_what_is_due() {
    let (mut bed, a, b) = two_jobs();
    bed.now = bed.now + MINUTE * 10;
    bed.run_at(&node(0), 0);
    assert_eq!(bed.resource("a").status, "COMPLETE");
    assert_eq!(bed.resource("b").phase, "queued", "its deadline is looked at when all was read");
    tells(&mut bed, &[(&b, Stage::Running)]);
    bed.pass(Duration::ZERO);
    assert_eq!((bed.resource("b").phase.as_str(), bed.resource("b").retry_count), ("running", 0));
    assert_ne!(a.resource, b.resource);
}

/// A late answer arrives before the next attempt is sent, so the job does not run again.
#[test]
fn done_counts_while_the_next_attempt_waits() {
    let (mut bed, ..) = two_jobs();
    bed.pass(MINUTE * 10);
    assert_eq!(bed.resource("a").phase, "backoff");
    bed.run_at(&node(0), 0);
    let a = bed.resource("a");
    assert_eq!((a.status.as_str(), a.phase.as_str()), ("COMPLETE", ""));
}
