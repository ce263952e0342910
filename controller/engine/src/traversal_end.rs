//! How a traversal ends: replaced by another, or FAILED.

use crate::Effect;
use crate::engine::{Engine, Todo};
use crate::record::Status;
use crate::timer::TimerKey;

impl Engine {
    /// The traversal that ran until now releases nothing more.
    pub(crate) fn leave_walk(&mut self, id: u64) {
        self.watch_no_more(id);
        self.end_checks(id);
        self.leave_rollouts(id);
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        let traversal = stack.traversal;
        let Some(walk) = stack.walk.take() else { return };
        if let Some(due) = walk.timeout {
            self.timers.clear(due, TimerKey::Stack(id, traversal));
        }
        self.effect(Effect::Discard(walk.tree));
        self.fit_if_owed(id);
    }

    /// FAILED, and rolled back where that was asked for.
    pub(crate) fn end_failed(&mut self, id: u64, reason: String) {
        self.watch_no_more(id);
        self.end_checks(id);
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        stack.status = Status::Failed;
        stack.reason = reason;
        self.stack_changed(id);
        self.event(id, None);
        self.agenda.push_back(Todo::RollBack(id));
        self.correct_all(|row| row.stack == id);
    }
}
