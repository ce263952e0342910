//! Withdraws the open questions of a check: all of them when the check ends or another operation
//! begins, or one.
//!
//! Absent: when a question is asked and what its answer means (`drift/check.rs`), and questions about
//! flow tables (`controller/flow/src/question.rs`).

use muster_shared::model::{Action, Down};

use crate::graph::Graph;
use crate::job::end_counts::JobEnd;
use crate::jobs::Jobs;
use crate::record::{StackAction, Status};
use crate::row::Slot;
use crate::todo::Todo;

impl Jobs {
    /// Withdraws a question. A later answer of the agent does not count.
    pub(crate) fn end_check(&mut self, slot: Slot) {
        let row = &self.graph.rows[slot];
        let withdraw = Down::Withdraw { resource: row.physical, generation: row.generation };
        if let Some(node) =
            row.node.filter(|node| row.is_sent() && self.graph.nodes[*node].presence.is_ready())
        {
            self.graph.send(node, withdraw);
        }
        self.graph.tell_withdrawn(slot, Some(Action::Check), "unanswered");
        self.leave_queues(slot, JobEnd::Withdrawn);
        let generation = self.graph.ctx.next_generation();
        let (told, before) = self.graph.rows[slot].end_check(generation);
        if let Some(observed) = told {
            self.observe(slot, observed);
            self.graph.ctx.agenda.push_back(Todo::Correct(slot));
        }
        self.release_spec(before);
        self.graph.row_changed(slot, false);
    }

    /// Withdraws all open questions of a stack. Their rows are as before.
    pub(crate) fn end_checks(&mut self, id: u64) {
        let Some(stack) = self.graph.stacks.get_mut(&id) else { return };
        if stack.action != StackAction::Check || stack.status != Status::InProgress {
            return;
        }
        if let Some(walk) = &mut stack.walk {
            walk.asked.clear();
        }
        let asked = |slot: &&Slot| self.graph.rows[**slot].is_asked();
        let slots: Vec<Slot> = stack.forward.iter().filter(asked).copied().collect();
        for slot in slots {
            self.end_check(slot);
        }
    }

    /// Forgets the differences that a check found, so that the next check asks again.
    pub(crate) fn forget_verdicts(&mut self, id: u64) {
        let Some(stack) = self.graph.stacks.get(&id) else { return };
        let failed = |slot: &Slot| {
            let row = &self.graph.rows[*slot];
            row.action() == Some(Action::Check)
                && row.status() == Some(Status::Failed)
                && row.task().is_none()
                && row.ready
                && !row.details().unhealthy
        };
        let slots: Vec<Slot> = stack.forward.iter().copied().filter(failed).collect();
        for slot in slots {
            self.graph.rows[slot].forget_verdict();
            self.graph.row_changed(slot, false);
        }
    }
}

impl Graph {
    /// The state of the row is known: a check no longer waits for it.
    pub(crate) fn answered(&mut self, slot: Slot) {
        let stack = self.rows[slot].stack;
        if let Some(walk) = self.stacks.get_mut(&stack).and_then(|stack| stack.walk.as_mut())
            && walk.asked.remove(&slot)
        {
            self.ctx.agenda.push_back(Todo::CheckEnd(stack));
        }
    }
}
