//! Ends a traversal: its timers, questions and rollouts go. Sets a stack FAILED, after which a
//! rollback may follow.
//!
//! Absent: when that happens, and COMPLETE (`traversal/stage_end.rs`).

use crate::Effect;
use crate::jobs::Jobs;
use crate::record::Status;
use crate::timer::TimerKey;
use crate::todo::Todo;

impl Jobs {
    /// Ends the traversal of a stack in memory: its timers, open questions and rollouts go.
    pub(crate) fn leave_walk(&mut self, id: u64) {
        self.graph.stop_progress_check(id);
        self.leave_entering(id);
        self.end_checks(id);
        self.leave_rollouts(id);
        let Some(stack) = self.graph.stacks.get_mut(&id) else { return };
        let traversal = stack.traversal;
        let Some(walk) = stack.walk.take() else { return };
        if let Some(due) = walk.timeout {
            self.graph.ctx.timers.clear(due, TimerKey::Stack(id, traversal));
        }
        self.graph.ctx.effect(Effect::Discard(walk.tree));
        self.graph.fit_if_owed(id);
    }

    /// Sets the stack FAILED. A rollback follows where the operator asked for one.
    pub(crate) fn end_failed(&mut self, id: u64, reason: String) {
        self.graph.stop_progress_check(id);
        if self.graph.is_entering(id) {
            self.end_entering(id);
        }
        self.end_checks(id);
        let Some(stack) = self.graph.stacks.get_mut(&id) else { return };
        stack.status = Status::Failed;
        stack.reason = reason;
        self.graph.stack_changed(id);
        self.graph.event(id, None);
        self.graph.ctx.agenda.push_back(Todo::RollBack(id));
        self.correct_all(|row| row.stack == id);
    }

    /// Fails a stack whose traversal cannot be taken up, so that it is not IN_PROGRESS for ever.
    pub(crate) fn abandon(&mut self, id: u64, reason: &str) {
        self.end_checks(id);
        let Some(stack) = self.graph.stacks.get_mut(&id).filter(|stack| stack.status == Status::InProgress)
        else {
            return;
        };
        stack.status = Status::Failed;
        stack.reason = reason.into();
        stack.rollback = false;
        self.graph.stack_changed(id);
    }
}
