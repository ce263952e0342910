//! Withdraws jobs that are not wanted any more. A job that was not sent ends at once. One that was sent ends when its agent
//! says that it has not started.
//!
//! Absent: which jobs a newer operation withdraws (`traversal/visit.rs` by visit, `traversal/derive.rs` for dropped
//! rows), and when a cancel does (`operation/cancel.rs`).

use muster_shared::model::Action;

use crate::jobs::Jobs;
use crate::row::outcome::TaskOutcome;
use crate::row::{Slot, TaskState};

impl Jobs {
    /// Withdraws all jobs of the traversal. A ready row with work is being rebuilt, which is no
    /// part of it.
    pub(crate) fn withdraw_all(&mut self, id: u64) {
        let Some(stack) = self.graph.stacks.get(&id) else { return };
        let works = |slot: &&Slot| {
            let row = &self.graph.rows[**slot];
            (row.task().is_some() || row.pauses()) && !row.ready
        };
        let slots: Vec<Slot> = stack.forward.iter().chain(&stack.extras).filter(works).copied().collect();
        for slot in slots {
            self.withdraw(slot);
        }
    }

    /// Withdraws a job: at once if it was not sent, else when the agent confirms that it has not started.
    pub(crate) fn withdraw(&mut self, slot: Slot) {
        if self.graph.break_pause(slot) {
            return;
        }
        let row = &self.graph.rows[slot];
        let (Some(task), Some(node)) = (row.task(), row.node) else { return };
        if row.action() == Some(Action::Check) && !row.is_external() {
            return self.end_check(slot);
        }
        match task.state {
            TaskState::NodeAway | TaskState::Queued | TaskState::Backoff => {
                self.settle(slot, TaskOutcome::Withdrawn);
            }
            TaskState::Sent | TaskState::Running | TaskState::Settling => {
                self.graph.set_task(slot, TaskState::Withdrawing);
                if self.graph.nodes[node].presence.is_ready() {
                    self.transmit(slot, node);
                }
            }
            TaskState::Withdrawing => {}
        }
    }
}
