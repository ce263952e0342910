//! Withdraws jobs that are not wanted any more: what has not begun never does, and what an agent may have begun is
//! withdrawn when the agent says that it has not.
//!
//! Absent: which jobs a newer operation withdraws (`visit.rs` by visit, `derive.rs` for dropped rows), and when a cancel
//! does (`cancel.rs`).

use muster_shared::model::Action;

use crate::job_end::JobEnd;
use crate::jobs::Jobs;
use crate::rollout::Ended;
use crate::row::{Slot, WorkState};

impl Jobs {
    /// Withdraws all jobs of the traversal. A ready row with work is being rebuilt, which is no
    /// part of it.
    pub(crate) fn withdraw_all(&mut self, id: u64) {
        let Some(stack) = self.graph.stacks.get(&id) else { return };
        let works = |slot: &&Slot| {
            let row = &self.graph.rows[**slot];
            (row.work.is_some() || row.pauses()) && !row.ready
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
        let (Some(work), Some(node)) = (&row.work, row.node) else { return };
        if row.action == Some(Action::Check) && !row.is_external() {
            return self.end_check(slot);
        }
        match work.state {
            WorkState::NodeAway | WorkState::Queued => self.undo_work(slot),
            WorkState::Backoff => self.give_up_trying(slot),
            WorkState::Sent | WorkState::Running | WorkState::Settling => {
                self.graph.set_work(slot, WorkState::Withdrawing);
                if self.graph.nodes[node].ready {
                    self.transmit(slot, node);
                }
            }
            WorkState::Withdrawing => {}
        }
    }

    /// Restores the row as it was before a job that never started. A retry is given up instead,
    /// because an earlier attempt may have changed something.
    pub(crate) fn undo_work(&mut self, slot: Slot) {
        if self.graph.rows[slot].attempt > 0 {
            return self.give_up_trying(slot);
        }
        self.graph.tell_withdrawn(slot, self.graph.rows[slot].action, "before it began");
        self.left_ended(slot, Ended::Unbegun);
        let Some(work) = self.end_work(slot, JobEnd::Withdrawn) else { return };
        let row = &mut self.graph.rows[slot];
        let new = row.spec.clone().filter(|_| !row.is_going() && work.previous.is_some());
        let observed = work.previous.as_ref().map(|previous| previous.observed);
        row.withdraw(work.previous);
        if let (Some(new), Some(node)) = (new.map(|new| new.unpack()), row.node) {
            let kept = row.spec.as_ref().map(|spec| spec.unpack().claims()).unwrap_or_default();
            for claim in new.claims().iter().filter(|claim| !kept.contains(claim)) {
                self.claims.release(node, claim, slot);
            }
            self.release_content(&new);
        }
        if let Some(observed) = observed {
            self.observe(slot, observed);
        }
        self.note_owed(slot);
        self.graph.row_changed(slot, true);
    }

    /// Ends a job that waits for its next attempt.
    fn give_up_trying(&mut self, slot: Slot) {
        self.graph.tell_withdrawn(slot, self.graph.rows[slot].action, "before it was tried again");
        self.abandon_work(slot, JobEnd::Withdrawn);
    }
}
