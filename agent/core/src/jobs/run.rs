//! A job runs: the host is told to begin, the agent reports progress, and the job ends with the host's answer or
//! at its deadline.
//!
//! Absent: a change that can cut the node off, which `confirm.rs` guards, and the time that a job has
//! (`JOB_TIMEOUT`, `shared/src/model/message.rs`). Commands run elsewhere (`agent/host/src/run.rs`).

use muster_shared::model::{Job, Observed, Outcome, Progress, ReportKey, Up};
use muster_shared::{MonoTime, ResourceId};

use super::phase::{PROGRESS_EVERY, PROGRESS_FIRST, Phase};
use super::{Jobs, Turn};
use crate::face::{Effect, RunError};
use crate::ledger::{Accepted, Before};

impl Jobs {
    /// Everything it needs is on disk.
    pub(super) fn run(&mut self, key: ReportKey, turn: &mut Turn) {
        let Some(job) = self.current(key, |phase| !matches!(phase, Phase::Ending(_))).cloned() else {
            return;
        };
        if job.spec.confirm_within().is_some() {
            return self.guard(&job, None, turn);
        }
        self.set_running(&job, turn);
        let (before, theirs) = self.ledger.known_to(&job);
        turn.effects.push(Effect::Run { job: Box::new(job), before, theirs });
    }

    pub(super) fn set_running(&mut self, job: &Job, turn: &Turn) {
        let (deadline, progress) = (turn.now + job.timeout, turn.now + PROGRESS_FIRST);
        self.set_phase(job.resource, Phase::Running { deadline, progress });
    }

    /// The answer to [`Effect::Run`].
    pub(crate) fn ran(
        &mut self,
        key: ReportKey,
        outcome: Result<Observed, RunError>,
        before: Option<Before>,
        touched: bool,
        turn: &mut Turn,
    ) {
        if self.current(key, |phase| phase == Phase::Guarded).is_some() {
            return self.guarded_ran(key, outcome, before, touched, turn);
        }
        if self.current(key, |phase| matches!(phase, Phase::Running { .. })).is_some() {
            self.ledger.keep_before(key.resource, before);
            self.end(
                key,
                match outcome {
                    Ok(observed) => Outcome::Done(observed),
                    Err(error) => error.into(),
                },
                turn,
            );
        }
    }

    pub(crate) fn run_timeout(&self, is_open: bool) -> Option<(MonoTime, &'static str)> {
        self.running()
            .flat_map(|(_, deadline, progress)| {
                let progress = progress.filter(|_| is_open).map(|at| (at, "progress"));
                [Some((deadline, "deadline of a job")), progress]
            })
            .flatten()
            .min_by_key(|(at, _)| *at)
    }

    /// The running jobs, each with its deadline and the time of its next progress report.
    fn running(&self) -> impl Iterator<Item = (ResourceId, MonoTime, Option<MonoTime>)> {
        self.lanes.running().filter_map(|resource| match self.runs.get(&resource)?.phase {
            Phase::Running { deadline, progress } => Some((resource, deadline, Some(progress))),
            Phase::Capturing { deadline } => Some((resource, deadline, None)),
            Phase::Accepting
            | Phase::Fetching
            | Phase::Queued
            | Phase::Recording
            | Phase::Guarded
            | Phase::Ending(_) => None,
        })
    }

    pub(crate) fn run_timeouts(&mut self, turn: &mut Turn) {
        let running: Vec<_> = self.running().collect();
        for (resource, deadline, progress) in running {
            let Some(Accepted { job, .. }) = self.ledger.current(resource) else { continue };
            let (key, timeout) = (job.key(), job.timeout);
            if turn.now >= deadline {
                turn.effects.push(Effect::Cancel(key));
                let reason = format!("timed out after {} s", timeout.as_secs_f64());
                self.end(key, Outcome::Failed { reason, permanent: false }, turn);
            } else if progress.is_some_and(|progress| turn.now >= progress) {
                let next = turn.now + PROGRESS_EVERY;
                self.set_phase(resource, Phase::Running { deadline, progress: next });
                if turn.connection.is_open() {
                    turn.effects.send(Up::Progress(Progress { key, settling: false }));
                }
            }
        }
    }
}
