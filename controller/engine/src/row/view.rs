//! Derives from the columns of a row its status, its action, and whether it is settled, going or lost. Everything
//! outside of `row/` reads a row by these.
//!
//! Absent: which job a row needs (`row/needed.rs`), and the phase that operators see (`view/phase.rs`).

use muster_shared::model::Action;
use muster_shared::{Attempt, Generation};

use crate::record::{Observation, PackedSpec, Status};
use crate::row::cause::Cause;
use crate::row::{Goal, Held, Row, Task, TaskState};

impl Row {
    /// The job without a known outcome.
    pub fn task(&self) -> Option<&Task> {
        self.task.as_deref()
    }

    /// Returns the action of the present job; without one, of the last job.
    pub fn action(&self) -> Option<Action> {
        self.task().map_or(self.last.action, |task| Some(task.action))
    }

    /// The cause of the present job; after a failure, of the last one.
    pub fn cause(&self) -> Cause {
        self.task().map_or(self.last.cause, |task| task.cause)
    }

    /// `None`: the row never had a job, or its agent has lost the thing.
    pub fn status(&self) -> Option<Status> {
        self.task().map_or(self.last.status, |_| Some(Status::InProgress))
    }

    /// Returns why the last attempt of the present job failed. Without a job, returns why the last job failed or how
    /// the thing differs.
    pub fn reason(&self) -> Option<&str> {
        self.task().map_or(&self.last.reason, |task| &task.reason).as_deref()
    }

    /// The desired state that the present job brings, or that of the last job that ended.
    pub fn spec(&self) -> Option<&PackedSpec> {
        self.task().and_then(|task| task.spec.as_ref()).or(self.spec.as_ref())
    }

    /// The desired state of the job before the present one.
    #[cfg(test)]
    pub fn spec_before_task(&self) -> Option<&PackedSpec> {
        self.task().and(self.spec.as_ref())
    }

    /// Returns how the thing was found. While a job changes it, that is not known.
    pub fn observed(&self) -> Observation {
        self.task().map_or(self.seen, |task| task.seen)
    }

    /// Whether a job that makes or changes the thing was sent, and nothing has removed the thing since.
    pub fn is_applied(&self) -> bool {
        let may_be_made = self.task().is_some_and(|task| task.left && task.action != Action::Check);
        may_be_made || self.held != Held::Nothing
    }

    /// The generation with which the agent's ledger is known to list the thing.
    pub fn held(&self) -> Option<Generation> {
        match self.held {
            Held::Nothing | Held::Unlisted => None,
            Held::Listed(generation) => Some(generation),
        }
    }

    /// The revision that dropped the row.
    pub fn dropped(&self) -> Option<u32> {
        match self.goal {
            Goal::Be => None,
            Goal::Gone { since, .. } => Some(since),
        }
    }

    /// The number of the row that replaces this one.
    pub fn replaced_by(&self) -> Option<u64> {
        match self.goal {
            Goal::Be => None,
            Goal::Gone { replaced_by, .. } => replaced_by,
        }
    }

    /// The type that operators see.
    pub fn type_name(&self) -> &str {
        self.details().type_name.as_deref().unwrap_or(self.kind.name())
    }

    /// Whether the row belongs to no stack: its node was removed, or the restored store did not
    /// know the thing.
    pub fn is_lost(&self) -> bool {
        self.stack == 0
    }

    /// Whether a loaded row has failed and waits for nothing.
    pub fn failed_before(&self) -> bool {
        let waits = self.details().hook.is_some() || self.details().pause.is_some();
        self.status() == Some(Status::Failed) && !self.ready && !waits && !self.failed_after_drift()
    }

    /// Whether the row failed without a job. The agent holds what the last job made, or has found
    /// the thing as desired since.
    pub fn is_intact(&self) -> bool {
        let holds = self.held() == Some(self.generation) || self.observed() == Observation::InSync;
        self.status() == Some(Status::Failed) && holds && !self.details().unhealthy
    }

    /// Whether the last state that the agent held is this row's spec, so that drift from one is drift from the
    /// other.
    pub fn is_as_held(&self) -> bool {
        let by_check = self.action() == Some(Action::Check);
        let is_seen = self.held() == Some(self.generation) || self.observed() != Observation::Unknown;
        let failed = self.status() == Some(Status::Failed) && (by_check || is_seen);
        !self.is_going() && (self.status() == Some(Status::Complete) || failed)
    }

    /// Whether the row failed after its last job had ended well and its report had arrived.
    pub fn failed_since(&self) -> bool {
        let ended_well = self.held() == Some(self.generation) && self.details().causes.is_empty();
        self.status() == Some(Status::Failed) && ended_well
    }

    /// Whether the thing is gone or half gone.
    pub fn is_past(&self) -> bool {
        // The controller removes a virtual resource at once or not at all: one that stays is whole.
        let stands = self.kind.is_virtual() && self.is_applied();
        self.is_going() && self.task().is_none() && !stands
    }

    /// Whether the last or present job removes the thing.
    pub fn is_going(&self) -> bool {
        self.action().is_some_and(Action::removes)
    }

    /// Whether a check asks about the row, which stays as it was. An external row asks too,
    /// until it is ready.
    pub fn is_asked(&self) -> bool {
        self.action() == Some(Action::Check) && self.task().is_some() && (self.ready || !self.is_external())
    }

    pub fn is_sent(&self) -> bool {
        self.task().is_some_and(|task| task.state.is_sent())
    }

    /// Whether the row has a job that was never sent.
    pub fn is_unsent(&self) -> bool {
        let waits = |task: &Task| matches!(task.state, TaskState::NodeAway | TaskState::Queued);
        self.attempt == 0 && self.task().is_some_and(waits)
    }

    /// For a row whose job is not at its agent: whether an attempt of that job has ended.
    pub fn was_tried(&self) -> bool {
        self.node.is_some() && (self.attempt > 0 || self.retry_count > 0 || !self.details().causes.is_empty())
    }

    pub fn key(&self) -> muster_shared::model::ReportKey {
        muster_shared::model::ReportKey {
            resource: self.physical,
            generation: self.generation,
            attempt: Attempt(self.attempt),
        }
    }
}
