//! The agent's report of its jobs, and the time that it counts itself.

use std::time::Duration;

use muster_shared::model::{Action, Content, ContentDigest, Down, Job, JobState, Outcome, Stage, Up};

use super::node::{Node, TIMEOUT, again, create, dummy, failed, file, id, job};
use crate::{ContentStep, Input};

/// The reports of all jobs since the last call.
fn told(bed: &mut Node) -> Vec<Vec<JobState>> {
    let sent = std::mem::take(&mut bed.sent);
    let told = sent.into_iter().filter_map(|up| match up {
        Up::Jobs(states) => Some(states),
        _ => None,
    });
    told.collect()
}

fn state(job: &Job, stage: Stage) -> JobState {
    JobState { key: job.key(), stage }
}

fn long(n: u128) -> Job {
    Job { timeout: Duration::from_secs(3600), ..create(n, 1) }
}

fn stored(n: u128) -> Job {
    let content = Content::Stored { digest: ContentDigest([1; 32]), size: 300 };
    job(n, 1, Action::Create, file(&format!("/{n}"), content))
}

#[test]
fn all_jobs_are_told_each_minute_while_there_are_any() {
    let mut bed = Node::online();
    bed.after(Duration::from_secs(600));
    assert_eq!(told(&mut bed), Vec::<Vec<_>>::new());
    let (runs, waits, fetches) = (long(1), create(2, 1), stored(3));
    for job in [&runs, &waits, &fetches] {
        bed.job(job);
    }
    let update = job(1, 2, Action::Update, dummy("2"));
    bed.job(&update);
    assert_eq!(told(&mut bed), Vec::<Vec<_>>::new(), "the controller knows what it has sent");
    let behind = Some(id(1));
    let want = [vec![
        state(&runs, Stage::Running),
        state(&update, Stage::Waiting { behind }),
        state(&waits, Stage::Waiting { behind }),
        state(&fetches, Stage::Fetching),
    ]];
    bed.after(Duration::from_secs(60));
    assert_eq!(told(&mut bed), want);
    bed.after(Duration::from_secs(59));
    assert_eq!(told(&mut bed), Vec::<Vec<_>>::new());
    bed.after(Duration::from_secs(1));
    assert_eq!(told(&mut bed), want);
    bed.input(Input::Disconnected { reason: "reset".into() });
    bed.after(Duration::from_secs(1));
    bed.greet();
    assert_eq!(told(&mut bed), want);
}

#[test]
fn a_greeting_is_answered_with_an_account_also_of_nothing() {
    let mut bed = Node::offline(Vec::new(), muster_shared::Epoch(1).into());
    bed.greet();
    assert_eq!(told(&mut bed), [vec![]]);
}

#[test]
fn a_further_attempt_keeps_its_place() {
    let mut bed = Node::online();
    for n in 1..=3 {
        bed.job(&long(n));
    }
    bed.job(&again(&long(2), 1));
    bed.ran(1, Ok(()));
    assert_eq!(bed.runs[0].0.key(), again(&long(2), 1).key(), "not behind the third");
    // The attempt before has used the turn up: the further one waits behind those that came before it, also
    // if that still runs.
    for runs_still in [true, false] {
        let mut bed = Node::online();
        for n in 1..=2 {
            bed.job(&long(n));
        }
        if runs_still {
            bed.job(&again(&long(1), 1));
        }
        bed.ran(1, Err(failed("timed out after 60 s")));
        if !runs_still {
            bed.job(&again(&long(1), 1));
        }
        bed.job(&long(3));
        let mut order = Vec::new();
        while let Some((job, ..)) = bed.runs.first().cloned() {
            order.push(job.resource);
            bed.ran(job.resource.0.as_u128(), Ok(()));
        }
        assert_eq!(order, [id(2), id(1), id(3)], "{runs_still}");
    }
    // A newer state of it comes later, and waits its turn.
    let mut bed = Node::online();
    for n in 1..=3 {
        bed.job(&long(n));
    }
    bed.job(&job(2, 2, Action::Create, dummy("2")));
    bed.ran(1, Ok(()));
    assert_eq!(bed.runs[0].0.resource, id(3));
}

#[test]
fn a_further_attempt_keeps_what_was_fetched() {
    let mut bed = Node::online();
    bed.job(&stored(1));
    bed.job(&again(&stored(1), 1));
    let steps = std::mem::take(&mut bed.contents);
    assert!(steps.iter().all(|(_, step)| *step != ContentStep::Drop), "{steps:?}");
}

/// The time of a job begins with its turn, whatever it waited for.
#[test]
fn a_job_that_waited_has_all_of_its_time() {
    let mut bed = Node::online();
    bed.job(&long(1));
    bed.job(&create(2, 1));
    bed.after(TIMEOUT * 2);
    bed.ran(1, Ok(()));
    assert_eq!(bed.runs.len(), 1);
    let done = bed.report();
    bed.down(Down::Acknowledge(done.key));
    bed.after(TIMEOUT - Duration::from_secs(1));
    assert_eq!(bed.reports(), []);
    bed.after(Duration::from_secs(1));
    let Outcome::Failed { reason, .. } = bed.report().outcome else { panic!("it takes too long") };
    assert_eq!(reason, "timed out after 60 s");
}

#[test]
fn reading_what_is_there_has_a_deadline_too() {
    let mut bed = Node::online();
    bed.job(&job(1, 1, Action::Create, file("/1", Content::Inline(Vec::new()))));
    assert_eq!(bed.captures.len(), 1);
    bed.after(TIMEOUT);
    assert!(matches!(bed.report().outcome, Outcome::Failed { permanent: false, .. }));
    bed.job(&create(2, 1));
    assert_eq!(bed.runs.len(), 1, "others go on");
}
