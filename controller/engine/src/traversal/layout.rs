//! Lays out a revision: gives its resources rows, new ones where there are none, and drops the
//! rest, which `traversal/remove_unwanted.rs` removes. Makes the new row of a resource that is replaced.
//!
//! Absent: which row stands for a resource (`traversal/plan.rs`), and whether a change needs a replacement
//! (`row/needed.rs`).

use muster_template::Tree;

use crate::row::{Replaced, Row, Slot};
use crate::traversal::plan::Plan;
use crate::traversals::Traversals;

/// Circumstances of a layout.
#[derive(Clone, Copy)]
pub(crate) struct LayoutContext {
    /// Rows that are neither dirty nor new are as desired.
    pub steady: bool,
    /// The same operation goes on with another tree.
    pub anew: bool,
    /// The traversal before has ended. Otherwise its changed rows still count as changed, because
    /// not all rows that need them may have seen the change.
    pub ended: bool,
}

impl Traversals {
    /// Gives the stack the rows of a plan: for new resources new ones. Rows that the plan visits
    /// are no longer ready, and those that it drops await clean-up.
    pub(crate) fn lay_out(&mut self, id: u64, plan: &Plan, before: LayoutContext, tree: &Tree) {
        let revision = self.jobs.graph.stacks[&id].revision;
        let (forward, settled) = self.lay_out_forward(id, plan, before, tree);
        for slot in &plan.dropped {
            let row = &mut self.jobs.graph.rows[*slot];
            let may_wait = !row.dirty.is_queued();
            row.drop_since(revision, before.anew);
            self.jobs.graph.row_changed(*slot, true);
            if may_wait {
                self.jobs.graph.write_later(*slot);
            }
        }
        let Some(stack) = self.jobs.graph.stacks.get_mut(&id) else { return };
        stack.parameters = tree.masked_parameters();
        stack.hidden_digests = tree.parameters().hidden_digests();
        (stack.forward, stack.settled, stack.names) = (forward, settled, tree.names());
        stack.extras = plan.dropped.iter().copied().collect();
    }

    /// The rows of the new revision and [`Stack::settled`](crate::stack::Stack::settled), by index.
    fn lay_out_forward(
        &mut self,
        id: u64,
        plan: &Plan,
        before: LayoutContext,
        tree: &Tree,
    ) -> (Vec<Slot>, Vec<u128>) {
        let LayoutContext { steady, anew, ended } = before;
        let converges = self.jobs.graph.stacks.get(&id).is_some_and(|stack| stack.converge);
        let stack = self.jobs.graph.stacks.get_mut(&id).filter(|_| steady);
        let known = stack.map(|stack| std::mem::take(&mut stack.settled));
        let mut forward = Vec::with_capacity(plan.chosen.len());
        let mut settled = known.unwrap_or_else(|| vec![0; plan.chosen.len()]);
        let mut new = Vec::new();
        for (index, slot) in plan.chosen.iter().enumerate() {
            if let Some(slot) = slot
                && !plan.dirty[index]
                && settled[index] != 0
            {
                forward.push(*slot);
                continue;
            }
            // A change of this turn may be acknowledged at its end.
            let may_wait = slot.is_none_or(|slot| !self.jobs.graph.rows[slot].dirty.is_queued());
            let slot = slot.unwrap_or_else(|| {
                new.push(index);
                self.new_row(id, tree, index)
            });
            forward.push(slot);
            let row = &mut self.jobs.graph.rows[slot];
            row.set_index(index);
            row.forget_changed(anew || !ended);
            let revived = row.revive();
            if !plan.dirty[index] {
                row.rest();
                // Drift is left for the next operation of an operator.
                settled[index] = if row.is_settled() { row.definition } else { 0 };
                // An operation that failed may have set another policy.
                self.jobs.set_drift_policy(slot, tree.drift_policy(index));
                continue;
            }
            settled[index] = 0;
            row.be_unready();
            if !anew {
                row.take_over();
                row.begin_anew(converges);
            }
            self.jobs.graph.row_changed(slot, revived);
            self.jobs.own(slot, tree, index);
            if may_wait {
                self.jobs.graph.write_later(slot);
            }
            if !anew && self.jobs.graph.is_before_batch(slot) {
                self.jobs.graph.end_pause(slot);
            }
        }
        for index in new {
            let requires: Box<[Slot]> = tree.requires(index).iter().map(|r| forward[*r as usize]).collect();
            if !requires.is_empty() {
                let row = &mut self.jobs.graph.rows[forward[index]];
                row.set_requires(requires);
                match row.dirty.is_left {
                    true => row.dirty_mut().edges = true,
                    false => self.jobs.graph.edges_changed(forward[index]),
                }
            }
        }
        (forward, settled)
    }

    fn new_row(&mut self, stack: u64, tree: &Tree, index: usize) -> Slot {
        let (id, physical) = self.jobs.graph.ctx.ids.row();
        let mut row = Row::new(id, physical, stack, tree.shared_name(index), tree.kind(index));
        row.set_revision(self.jobs.graph.stacks[&stack].revision);
        row.set_index(index);
        let slot = self.jobs.graph.rows.insert(row);
        self.jobs.graph.row_changed(slot, true);
        slot
    }

    /// Makes a new row for the same resource. The old one is cleaned up when all rows are ready.
    pub(crate) fn replace(&mut self, old: Slot, tree: &Tree) -> Slot {
        let index = self.jobs.graph.rows[old].index as usize;
        let stack_id = self.jobs.graph.rows[old].stack;
        let new = self.new_row(stack_id, tree, index);
        self.jobs.graph.not_failed(old);
        self.jobs.graph.leave_hook(old);
        self.jobs.graph.break_pause(old);
        let new_id = self.jobs.graph.rows[new].id;
        let replaced = Replaced::of(&self.jobs.graph.rows[old]);
        let (type_name, drift_policy) = (tree.type_name(index).cloned(), tree.drift_policy(index));
        self.jobs.graph.rows[new].replace(replaced, type_name, drift_policy);
        self.jobs.graph.set_requires(new, tree, false);
        let Some(stack) = self.jobs.graph.stacks.get_mut(&stack_id) else { return new };
        stack.forward[index] = new;
        stack.settled[index] = 0;
        stack.extras.insert(old);
        if let Some(walk) = &mut stack.walk {
            walk.row_replaced();
        }
        self.jobs.graph.rows[old].be_replaced(new_id, stack.revision);
        self.jobs.graph.row_changed(old, true);
        new
    }
}
