//! The timer of a job: a backoff is over, or an agent has not answered in time.
//!
//! Absent: the deadline of a sent job (`job/deadline.rs`), and what a missing answer leads to (`row/outcome.rs`).

use muster_shared::MonoTime;
use muster_shared::model::Action;

use crate::jobs::Jobs;
use crate::record::Status;
use crate::row::outcome::TaskOutcome;
use crate::row::{Role, Row, Slot, TaskState};

impl Jobs {
    /// Whether a resource that the row needs is not ready. Without an operation in progress
    /// `blocked` is not kept, so the needs are read. Their node may have been removed in the meantime.
    fn is_blocked(&self, row: &Row) -> bool {
        let is_unready = |needed: &Row| !needed.ready && needed.role != Role::Cleanup;
        let needs_one = || row.requires.iter().filter_map(|slot| self.graph.rows.get(*slot)).any(is_unready);
        let acts = matches!(row.action(), Some(Action::Create | Action::Update | Action::Adopt));
        let is_counted = self.graph.stacks.get(&row.stack).is_some_and(|it| it.status == Status::InProgress);
        !row.is_going() && (row.blocked > 0 || !is_counted && acts && needs_one())
    }

    /// The timer of a job: a backoff is over, or an agent has not answered in time.
    pub(crate) fn task_due(&mut self, slot: Slot, due: MonoTime) {
        let is_blocked = self.graph.rows.get(slot).is_some_and(|row| self.is_blocked(row));
        let Some(row) = self.graph.rows.get_mut(slot) else { return };
        let Some(state) = row.task_is_due(due) else { return };
        match state {
            // A need became unready while the job was out, or while the controller was down.
            TaskState::Backoff if is_blocked => self.settle(slot, TaskOutcome::NeedsUnready),
            TaskState::Backoff => {
                row.next_attempt();
                let Some(node) = row.node else { return };
                let state = if self.graph.nodes[node].presence.is_ready() {
                    TaskState::Queued
                } else {
                    TaskState::NodeAway
                };
                self.graph.set_task(slot, state);
                self.graph.row_changed(slot, false);
                self.line_up(slot, node);
            }
            TaskState::Withdrawing => {
                if let Some(node) = row.node {
                    self.transmit(slot, node);
                }
            }
            TaskState::Sent | TaskState::Running | TaskState::Settling => {
                self.settle(slot, TaskOutcome::Unanswered);
            }
            TaskState::NodeAway | TaskState::Queued => {}
        }
    }
}
