//! The end of a graph node in a traversal: ready, failed for good, or gone.

use std::sync::Arc;

use crate::graph::Graph;
use crate::jobs::Jobs;
use crate::record::{Change, PackedSpec};
use crate::row::{Role, Slot};
use crate::todo::Todo;
use crate::traversals::Traversals;

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
        self.turn_ended(slot);
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
        self.turn_failed(slot);
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

impl Traversals {
    /// Removes a row whose thing does not exist.
    pub(crate) fn drop_row(&mut self, slot: Slot) {
        self.let_go(slot);
        self.jobs.graph.leave_hook(slot);
        self.jobs.graph.end_pause(slot);
        let Some(row) = self.jobs.graph.rows.remove(slot) else { return };
        self.awaited.forget(slot);
        self.jobs.unsettled.forget(slot);
        self.jobs.fight_is_over(slot, row.details().breaker);
        if let Some(node) = row.node {
            self.jobs.graph.is_off(slot, Some(node));
            self.jobs.graph.unhear(node, row.physical);
        }
        self.jobs.graph.ctx.change(Change::ResourceRemoved(row.id));
        self.jobs.forget_rollout(row.id);
        if row.is_lost() {
            return self.jobs.graph.found(slot, &row);
        }
        let Some(stack) = self.jobs.graph.stacks.get_mut(&row.stack) else { return };
        stack.extras.swap_remove(&slot);
        self.jobs.graph.room_made(row.stack, slot);
        let mut released: Vec<Slot> = Vec::new();
        for required in &row.requires {
            let Some(other) = self.jobs.graph.rows.get_mut(*required) else { continue };
            if other.role == Role::Cleanup && other.unblock() {
                released.push(*required);
            }
        }
        released.sort_by(|a, b| self.jobs.graph.rows[*a].name.cmp(&self.jobs.graph.rows[*b].name));
        self.jobs.graph.ctx.agenda.extend(released.into_iter().map(Todo::Visit));
        self.jobs.graph.ctx.agenda.push_back(Todo::CheckEnd(row.stack));
        self.jobs.graph.touch(row.stack);
    }

    /// Releases the claims and contents of a row's last spec.
    pub(crate) fn let_go(&mut self, slot: Slot) {
        self.jobs.claims.keep(slot, &[]);
        if let Some(spec) = self.jobs.graph.rows[slot].spec.as_ref().map(PackedSpec::unpack) {
            self.jobs.release_content(&spec);
        }
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
