//! A job runs: the host is told to begin, the agent reports progress, and the job ends with the host's answer or
//! at its deadline.
//!
//! Absent: a change that can cut the node off, which `confirm.rs` guards.

use std::time::Duration;

use muster_shared::model::{Action, Job, Observed, Outcome, Progress, ReportKey, Up};
use muster_shared::{MonoTime, ResourceId};

use super::phase::Phase;
use super::{Jobs, Turn};
use crate::face::{Effect, RunError};
use crate::ledger::{Accepted, Before, Entry};

/// A job that takes longer than this reports progress, and again from time to time.
pub(super) const PROGRESS_FIRST: Duration = Duration::from_secs(1);
pub(super) const PROGRESS_EVERY: Duration = Duration::from_secs(10);

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
        self.host_begins(job, turn);
    }

    pub(super) fn host_begins(&mut self, job: Job, turn: &mut Turn) {
        let (before, theirs) = self.known_to(&job);
        turn.effects.push(Effect::Run { job: Box::new(job), before, theirs });
    }

    /// The state before Muster: the job's own record, and the records of resources that restored
    /// what the job's resource took over.
    pub(super) fn known_to(&self, job: &Job) -> (Option<Before>, Vec<Before>) {
        let before = self.ledger.get(job.resource).and_then(|entry| entry.before().cloned());
        let theirs =
            if job.action == Action::Delete { self.ledger.owners_after(job.resource) } else { Vec::new() };
        (before, theirs.into_iter().filter_map(|entry| entry.before().cloned()).collect())
    }

    pub(super) fn set_running(&mut self, job: &Job, turn: &Turn) {
        let (deadline, progress) = (turn.now + job.timeout, turn.now + PROGRESS_FIRST);
        self.set_phase(job.resource, Phase::Running { deadline, progress });
    }

    /// The host reports a new record of the time before Muster, where that changed.
    pub(super) fn keep_before(&mut self, resource: ResourceId, before: Option<Before>) {
        if let Some(before) = before {
            let keep = |entry: &mut Entry| entry.holding.as_mut().map(|holding| holding.before = before);
            self.ledger.edit(resource, keep);
        }
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
            self.keep_before(key.resource, before);
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
