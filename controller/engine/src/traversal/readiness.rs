//! The end of a forward row in a traversal: ready, or failed for good. A ready row frees the rows that need it. After
//! a failure, independent branches go on.
//!
//! Absent: how many needs a row waits for (`traversal/derive.rs`), rows that go (`traversal/remove_unwanted.rs`) and
//! whether their things are left in place (`ownership.rs`), and after how many attempts a job has failed
//! (`row/outcome.rs`).

use std::sync::Arc;

use crate::graph::Graph;
use crate::jobs::Jobs;
use crate::row::{Role, Slot};
use crate::todo::Todo;

impl Jobs {
    /// A forward row is as the revision wants it. Visits rows that waited for it only.
    pub(crate) fn row_ready(&mut self, slot: Slot) {
        self.graph.leave_hook(slot);
        self.graph.end_pause(slot);
        let stack_id = self.graph.rows[slot].stack;
        let Some(walk) = self.graph.stacks.get(&stack_id).and_then(|stack| stack.walk.as_ref()) else {
            return;
        };
        let tree = Arc::clone(&walk.tree);
        let index = self.graph.rows[slot].index as usize;
        let definition = tree.definition(index);
        self.set_is_ready(slot, &tree);
        self.member_ended(slot);
        self.graph.set_requires(slot, &tree, false);
        self.graph.not_failed(slot);
        let rests = self.graph.rows[slot].failed_after_drift();
        match rests {
            true => self.graph.ctx.agenda.push_back(Todo::Correct(slot)),
            false => self.graph.mended(slot),
        }
        let revision = self.graph.stacks[&stack_id].revision;
        let row = &mut self.graph.rows[slot];
        let redefined = row.be_ready(definition, revision);
        self.graph.row_changed(slot, redefined);
        let Some(stack) = self.graph.stacks.get_mut(&stack_id) else { return };
        stack.settled[index] = if rests { 0 } else { definition };
        let Some(walk) = &mut stack.walk else { return };
        walk.row_ready();
        for &next in walk.needed_by(index) {
            let next = stack.forward[next as usize];
            let row = &mut self.graph.rows[next];
            if row.role == Role::Forward && !row.ready && row.unblock() {
                self.graph.ctx.agenda.push_back(Todo::Visit(next));
            }
        }
        self.graph.ctx.agenda.push_back(Todo::CheckEnd(stack_id));
    }

    /// A row has failed for good. Independent branches go on.
    pub(crate) fn fail_row(&mut self, slot: Slot, reason: String) {
        if self.graph.rows[slot].is_lost() {
            return self.graph.not_found(slot, reason);
        }
        self.graph.leave_hook(slot);
        self.graph.end_pause(slot);
        self.member_failed(slot);
        let row = &mut self.graph.rows[slot];
        row.fail(&reason);
        let stack = row.stack;
        // A ready row is no longer part of the traversal: a rebuild of its thing failed.
        if row.role != Role::Steady && !row.ready {
            self.graph.count_failed(slot);
        }
        self.graph.row_changed(slot, false);
        self.graph.event(stack, Some(slot));
        self.graph.add_failure(slot);
        self.graph.answered(slot);
        self.graph.ctx.agenda.push_back(Todo::CheckEnd(stack));
    }
}

impl Graph {
    /// A background job for drift has failed for good. No operation counts that as its failure.
    pub(crate) fn failed_after_drift(&mut self, slot: Slot) {
        self.event(self.rows[slot].stack, Some(slot));
        self.add_failure(slot);
        self.answered(slot);
        self.ctx.agenda.push_back(Todo::Visit(slot));
    }
}
