//! The phase of a resource's current job. The diagram is in `begin.rs`.

use std::time::Duration;

use muster_shared::model::{Job, ReportKey};
use muster_shared::{MonoTime, ResourceId};

use super::Jobs;

/// A job that takes longer than this reports progress, and again from time to time.
pub(super) const PROGRESS_FIRST: Duration = Duration::from_secs(1);
pub(super) const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// The phase of an entry's current job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Accepting,
    Fetching,
    Queued,
    /// Fails if the state before Muster is unknown by the deadline; only the agent enforces this deadline.
    Capturing {
        deadline: MonoTime,
    },
    Recording,
    Running {
        deadline: MonoTime,
        progress: MonoTime,
    },
    /// See `confirm.rs`.
    Guarded,
    Ending(ReportKey),
}

/// A current job under way.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) phase: Phase,
    /// The job was accepted before a restart and may have been running then.
    pub(super) recovered: bool,
}

impl Run {
    pub(crate) fn new(phase: Phase) -> Self {
        Self { phase, recovered: false }
    }

    /// The job's content is being fetched.
    pub(super) fn is_fetching(&self) -> bool {
        self.phase == Phase::Fetching
    }

    /// The job's record is being written.
    pub(super) fn is_accepting(&self) -> bool {
        self.phase == Phase::Accepting
    }

    /// Whether it is too late to replace or withdraw the job.
    pub(super) fn may_have_begun(&self) -> bool {
        self.recovered || self.has_its_turn()
    }

    /// The job no longer waits.
    pub(super) fn has_its_turn(&self) -> bool {
        match self.phase {
            Phase::Accepting | Phase::Fetching | Phase::Queued => false,
            Phase::Capturing { .. }
            | Phase::Recording
            | Phase::Running { .. }
            | Phase::Guarded
            | Phase::Ending(_) => true,
        }
    }
}

impl Jobs {
    /// The job `key`, if it is its entry's current one and in a matching phase.
    pub(super) fn current(&self, key: ReportKey, phase: impl FnOnce(Phase) -> bool) -> Option<&Job> {
        let run = self.runs.get(&key.resource).filter(|run| phase(run.phase))?;
        debug_assert!(self.ledger.get(key.resource).is_some(), "{run:?} has an entry");
        let job = &self.ledger.current(key.resource)?.job;
        (job.key() == key).then_some(job)
    }

    pub(super) fn set_phase(&mut self, resource: ResourceId, phase: Phase) {
        if let Some(run) = self.runs.get_mut(&resource) {
            run.phase = phase;
        }
    }

    /// Makes the following job the current one.
    pub(super) fn promote(&mut self, resource: ResourceId) -> Option<ReportKey> {
        let next = self.ledger.edit(resource, |entry| {
            entry.current = entry.next.take();
            entry.current.as_ref().map(|accepted| accepted.job.key())
        });
        if next.is_some() {
            self.runs.insert(resource, Run::new(Phase::Accepting));
        }
        next
    }
}
