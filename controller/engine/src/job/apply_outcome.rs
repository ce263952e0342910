//! Carries out the consequences of a job's outcome, which the row derives ([`Row::after`]).
//!
//! Absent: the consequences themselves (`row/outcome.rs`), reports (`job/report.rs`), and what a row that has failed for
//! good leads to (`traversal/readiness.rs`).

use muster_shared::model::{Action, Claim, LedgerEntry, Observed};

use crate::job::end_counts::JobEnd;
use crate::jobs::Jobs;
use crate::rollout::Ended;
use crate::row::cause::Cause;
use crate::row::outcome::{After, FailureOf, TaskOutcome, Then};
use crate::row::{Held, Role, Slot};
use crate::todo::Todo;

/// The reason of an attempt that the agent did not answer.
const UNANSWERED: &str = "no answer from the agent in time";

impl TaskOutcome {
    /// Returns the end of a job if this is its last outcome.
    fn end(&self) -> JobEnd {
        match self {
            Self::Done(_) | Self::InSync => JobEnd::Completed,
            Self::Differs { .. } | Self::Failed { .. } | Self::NoRoom { .. } => JobEnd::Failed,
            Self::Unanswered => JobEnd::TimedOut,
            Self::Interrupted { .. } => JobEnd::Interrupted,
            Self::Withdrawn | Self::NeedsUnready => JobEnd::Withdrawn,
            Self::Lost => JobEnd::Lost,
        }
    }

    /// The reason that operators read.
    fn reason(&self) -> String {
        match self {
            Self::Differs { reason, .. } => format!("not as desired: {reason}"),
            Self::Failed { reason, .. } | Self::NoRoom { reason } | Self::Interrupted { reason } => {
                reason.clone()
            }
            Self::Unanswered => UNANSWERED.to_owned(),
            Self::Done(_) | Self::InSync | Self::Withdrawn | Self::NeedsUnready | Self::Lost => String::new(),
        }
    }
}

impl Jobs {
    /// Does what follows from the outcome of a row's job.
    pub(crate) fn settle(&mut self, slot: Slot, outcome: TaskOutcome) {
        let after = self.graph.rows[slot].after(&outcome, self.graph.ctx.limits.retries);
        match after.then {
            Then::Complete => self.task_complete(slot, after, outcome),
            Then::TryAgain { counts } => self.try_again(slot, after, counts, &outcome.reason()),
            Then::Failed(of) => self.job_failed(slot, after, of, &outcome),
            Then::Undone => self.undo_task(slot),
            Then::Unasked => self.end_check(slot),
        }
    }

    fn task_complete(&mut self, slot: Slot, after: After, outcome: TaskOutcome) {
        if let TaskOutcome::Done(observed) = outcome {
            return self.done(slot, after.held, observed);
        }
        self.found_in_sync(slot, after);
    }

    fn done(&mut self, slot: Slot, held: Held, observed: Observed) {
        self.leave_queues(slot, JobEnd::Completed);
        self.left_ended(slot, Ended::Well);
        let row = &mut self.graph.rows[slot];
        let (resource, node, is_going) = (row.physical, row.node, row.is_going());
        let was_held = row.held();
        let before = row.complete(held);
        let is_held = row.held();
        if let Some(node) = node {
            for generation in [was_held, is_held].into_iter().flatten() {
                self.graph.nodes[node].ledger ^= LedgerEntry { resource, generation }.digest();
            }
        }
        if !is_going {
            self.keep_result(slot, observed);
            self.release_spec(before);
        }
        let (stack, role) = (self.graph.rows[slot].stack, self.graph.rows[slot].role);
        self.graph.row_changed(slot, true);
        self.graph.event(stack, Some(slot));
        self.graph.not_failed(slot); // the outcome may come late
        if self.graph.rows[slot].cause() == Cause::Correction {
            self.correction_ended(slot);
            self.was_corrected(slot);
        }
        self.graph.rows[slot].forget_cause();
        self.graph.mended(slot);
        self.graph.job_ended(slot);
        self.graph.answered(slot);
        match role {
            // Either the row has what this traversal wants, or visit() finds the next step. That
            // step must wait for its turn: a row whose thing is gone may still be needed by one
            // that was made on it.
            Role::Cleanup | Role::Forward => self.graph.ctx.agenda.push_back(Todo::Visit(slot)),
            Role::Steady => {}
        }
    }

    /// Keeps the attributes that the agent reported and do not follow from the spec, and the claims that the row still has.
    fn keep_result(&mut self, slot: Slot, observed: Observed) {
        let spec = self.graph.rows[slot].spec().map(|spec| spec.unpack());
        let claims = spec.as_ref().map(|spec| spec.claims()).unwrap_or_default();
        self.keep_claims(slot, &claims);
        let differs = |name: &String, value: &String| {
            spec.as_ref().and_then(|spec| spec.attribute(name)).is_none_or(|v| v.as_str() != Some(value))
        };
        let told = observed.attributes.into_iter().filter(|(name, value)| differs(name, value));
        self.graph.rows[slot].set_attributes(told.collect());
    }

    /// The thing is as desired. The row was asked in a check, or is external.
    fn found_in_sync(&mut self, slot: Slot, after: After) {
        self.leave_queues(slot, JobEnd::Completed);
        let row = &mut self.graph.rows[slot];
        let before = row.complete(after.held);
        let (stack, role) = (row.stack, row.role);
        let claims = row.spec().map(|spec| spec.unpack().claims()).unwrap_or_default();
        if let Some(seen) = after.seen {
            self.observe(slot, seen);
        }
        self.keep_claims(slot, &claims);
        self.release_spec(before);
        self.graph.row_changed(slot, true);
        self.graph.event(stack, Some(slot));
        self.graph.not_failed(slot);
        self.graph.mended(slot);
        self.graph.answered(slot);
        if role != Role::Steady {
            self.graph.ctx.agenda.push_back(Todo::Visit(slot));
        }
    }

    /// Restores the row as it was before a job that never started.
    fn undo_task(&mut self, slot: Slot) {
        self.graph.tell_withdrawn(slot, self.graph.rows[slot].action(), "before it began");
        self.left_ended(slot, Ended::Unbegun);
        if !self.leave_queues(slot, JobEnd::Withdrawn) {
            return;
        }
        let row = &mut self.graph.rows[slot];
        let undone = row.undo();
        let (observed, is_undone) = (row.observed(), undone.is_some());
        let new = undone.and_then(|task| task.spec);
        if let (Some(new), Some(node)) = (new.map(|new| new.unpack()), row.node) {
            let kept = row.spec().map(|spec| spec.unpack().claims()).unwrap_or_default();
            for claim in new.claims().into_iter().filter(|claim| !kept.contains(claim)) {
                self.release_claim(node, claim, slot);
            }
            self.release_content(&new);
        }
        if is_undone {
            self.observe(slot, observed);
        }
        self.note_owed(slot);
        self.graph.row_changed(slot, true);
    }

    /// The job has failed for good, or is no longer wanted.
    fn job_failed(&mut self, slot: Slot, after: After, of: FailureOf, outcome: &TaskOutcome) {
        let reason = outcome.reason();
        let is_answer = matches!(outcome, TaskOutcome::Differs { .. }) && self.graph.rows[slot].is_asked();
        match of {
            FailureOf::Operation | FailureOf::Background if is_answer => {}
            FailureOf::Operation | FailureOf::Background => {
                self.graph.add_cause(slot, &reason);
                self.graph.rows[slot].set_reason(&reason);
            }
            FailureOf::Nobody => self.tell_of_end(slot, outcome),
        }
        if let Some(seen) = after.seen {
            self.observe(slot, seen);
        }
        self.abandon_task(slot, after.held, outcome.end());
        match of {
            FailureOf::Operation => self.fail_row(slot, reason),
            FailureOf::Background => self.graph.failed_after_drift(slot),
            FailureOf::Nobody => {}
        }
        if let TaskOutcome::Interrupted { reason } = outcome {
            self.graph.rows[slot].set_reason(reason);
            self.graph.event(self.graph.rows[slot].stack, Some(slot));
            self.graph.ctx.agenda.push_back(Todo::Visit(slot));
        }
    }

    /// Tells of a job that is no longer wanted. An interrupted one is reported once its row has failed.
    fn tell_of_end(&mut self, slot: Slot, outcome: &TaskOutcome) {
        const BETWEEN: &str = "before it was tried again";
        let action: Option<Action> = self.graph.rows[slot].action();
        match outcome {
            TaskOutcome::Withdrawn => self.graph.tell_withdrawn(slot, action, BETWEEN),
            TaskOutcome::NeedsUnready => {
                self.graph.tell_ended(slot, action, BETWEEN, "what it needs is not ready");
            }
            TaskOutcome::Interrupted { .. } => self.left_ended(slot, Ended::Untold),
            TaskOutcome::Done(_)
            | TaskOutcome::InSync
            | TaskOutcome::Differs { .. }
            | TaskOutcome::Failed { .. }
            | TaskOutcome::NoRoom { .. }
            | TaskOutcome::Unanswered
            | TaskOutcome::Lost => {}
        }
    }

    /// Keeps the claims of a row that no other row has taken since its job was sent.
    pub(crate) fn keep_claims(&mut self, slot: Slot, claims: &[Claim]) {
        let node = self.graph.rows[slot].node;
        let owned = |claim| node.is_some_and(|node| self.claims.owner(node, claim) == Some(slot));
        self.graph.rows[slot].set_handed_over(!claims.iter().all(owned));
        self.keep_claims_of(slot, claims);
    }

    /// Ends a job without success. The state of the thing is unknown, so earlier claims stay.
    fn abandon_task(&mut self, slot: Slot, held: Held, end: JobEnd) {
        self.leave_queues(slot, end);
        let before = self.graph.rows[slot].abandon(held);
        self.left_ended(slot, Ended::Failed);
        self.release_spec(before);
        self.graph.row_changed(slot, false);
    }
}
