//! Cancels an operation: no further job starts, jobs that have not started are withdrawn, and jobs
//! that have started end and are recorded.
//!
//! Rows that are neither ready nor failed wait for the next operation, also over a restart.
//!
//! Absent: how one job is withdrawn (`job/withdraw.rs`), and an operation whose time is over
//! (`Traversals::stack_due`, `traversal/timeout.rs`).

use muster_shared::StackName;

use crate::jobs::Jobs;
use crate::record::Status;
use crate::request::{Answer, Refusal};
use crate::timer::TimerKey;

/// The reason of a stack whose operation was cancelled.
const CANCELLED: &str = "cancelled";

impl Jobs {
    pub(crate) fn cancel(&mut self, name: &StackName) -> Result<Answer, Refusal> {
        let id = self.graph.find(name)?;
        let stack = &self.graph.stacks[&id];
        let begins = self.graph.stacks.is_pending(id);
        if stack.status != Status::InProgress && !begins {
            return Err(Refusal::Conflict(format!(
                "stack '{name}' has no operation in progress ({}_{})",
                stack.action.as_str(),
                stack.status.as_str()
            )));
        }
        self.cancel_pending(id);
        if self.graph.stacks[&id].status == Status::InProgress {
            self.stop(id);
        }
        self.correct_all(|row| row.stack == id);
        Ok(self.graph.begun(id, Vec::new()))
    }

    /// Drops operations that wait for a revision.
    fn cancel_pending(&mut self, id: u64) {
        let cancelled = self.graph.stacks.take_pending_of(id);
        self.owe_no_rollback(id);
        for request in cancelled.into_iter().filter_map(|pending| pending.request) {
            self.graph.answer(
                request,
                Err(Refusal::Conflict("the operation was cancelled before it began".into())),
            );
        }
    }

    fn stop(&mut self, id: u64) {
        let Some(stack) = self.graph.stacks.get_mut(&id) else { return };
        (stack.cancelled, stack.timed_out) = (true, false);
        self.leave_entering(id);
        self.end_checks(id);
        let Some(stack) = self.graph.stacks.get_mut(&id) else { return };
        stack.status = Status::Failed;
        stack.reason = CANCELLED.into();
        stack.rollback = false;
        let traversal = stack.traversal;
        if let Some(due) = stack.walk.as_mut().and_then(|walk| walk.timeout.take()) {
            self.graph.ctx.timers.clear(due, TimerKey::Stack(id, traversal));
        }
        self.graph.stop_progress_check(id);
        self.withdraw_all(id);
        self.graph.stack_changed(id);
        self.graph.event(id, None);
    }
}
