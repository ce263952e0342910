//! Lays out a traversal: gives each node of the graph its role, and makes rows for new resources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_template::Tree;

use crate::plan::{Plan, is_settled};
use crate::row::{Replaced, Row, Slot};
use crate::stack::{FleetChange, Stage, Walk};
use crate::timer::TimerKey;
use crate::todo::Todo;
use crate::traversals::Traversals;

/// Circumstances of a layout.
#[derive(Clone, Copy)]
pub(crate) struct LayoutContext {
    /// Rows that are neither dirty nor new are as desired.
    pub steady: bool,
    /// The same operation goes on with another tree.
    pub anew: bool,
    /// The operation goes on because members were added or dropped. Jobs under way stay.
    pub fits: bool,
    /// The traversal before has ended. Otherwise its changed rows still count as changed, because
    /// not all rows that need them may have seen the change.
    pub ended: bool,
}

impl Traversals {
    /// Gives each node of the graph its role, and visits those that wait for nothing.
    pub(crate) fn lay_out(&mut self, id: u64, plan: Plan, before: LayoutContext, tree: Arc<Tree>) {
        let LayoutContext { anew, fits, .. } = before;
        self.jobs.graph.note_sets(id, &tree);
        let of_rollouts = Arc::clone(&tree);
        let revision = self.jobs.graph.stacks[&id].revision;
        let (forward, settled) = self.lay_out_forward(id, &plan, before, &tree);
        let Plan { dirty, dropped, needed_by, .. } = plan;
        for slot in &dropped {
            let row = &mut self.jobs.graph.rows[*slot];
            row.drop_since(revision, anew);
            self.jobs.graph.row_changed(*slot, true);
        }
        let visits: Vec<u32> =
            (0u32..).zip(&dirty).filter(|(_, dirty)| **dirty).map(|(index, _)| index).collect();
        let total = visits.len();
        let shown = tree.masked_parameters();
        let hidden_digests = tree.parameters().hidden_digests();
        let Some(stack) = self.jobs.graph.stacks.get_mut(&id) else { return };
        let timeout = self.jobs.graph.ctx.now + Duration::from_secs(stack.timeout_s);
        self.jobs.graph.ctx.timers.set(timeout, TimerKey::Stack(id, stack.traversal));
        stack.parameters = shown;
        stack.hidden_digests = hidden_digests;
        stack.hidden.begin(tree.secrets());
        let slots: Vec<Slot> = visits.iter().map(|index| forward[*index as usize]).collect();
        stack.forward = forward;
        stack.settled = settled;
        stack.names = tree.names();
        stack.walk = Some(Walk {
            visits,
            tree,
            needed_by,
            stage: Stage::Forward,
            since: self.jobs.graph.ctx.now,
            total: total + dropped.len(),
            forward_left: total,
            ended_before: 0,
            fleet: FleetChange::default(),
            asked: BTreeSet::new(),
            failed: 0,
            delete_first: None,
            at_hooks: BTreeSet::new(),
            ended: false,
            batches: BTreeMap::new(),
            anew: 0,
            timeout: Some(timeout),
        });
        stack.extras = dropped.iter().copied().collect();
        // Jobs of an earlier traversal are withdrawn where possible. A visit finds those that fit.
        let keeps =
            |row: &Row| fits && !row.is_going() && row.work.as_ref().is_none_or(|work| work.state.is_sent());
        let blocked = slots
            .iter()
            .filter(|slot| self.jobs.graph.rows[**slot].blocked > 0 && !keeps(&self.jobs.graph.rows[**slot]));
        let gone = dropped.iter().filter(|slot| !fits || !self.jobs.graph.rows[**slot].is_going());
        let obsolete: Vec<Slot> = gone.chain(blocked).copied().collect();
        for slot in obsolete {
            self.jobs.take_back(slot);
        }
        self.hide_plan_of(id);
        self.jobs.begin_rollouts(id, &of_rollouts);
        for slot in slots {
            if self.jobs.graph.rows[slot].blocked == 0 {
                self.jobs.graph.ctx.agenda.push_back(Todo::Visit(slot));
            }
        }
        self.jobs.begin_first(id);
    }

    /// The rows of the new revision and [`Stack::settled`](crate::stack::Stack::settled), by index.
    fn lay_out_forward(
        &mut self,
        id: u64,
        plan: &Plan,
        before: LayoutContext,
        tree: &Tree,
    ) -> (Vec<Slot>, Vec<u128>) {
        let LayoutContext { steady, anew, ended, .. } = before;
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
                settled[index] = if is_settled(row) { row.definition } else { 0 };
                // An operation that failed may have set another policy.
                self.jobs.set_drift_policy(slot, tree.drift_policy(index));
                continue;
            }
            settled[index] = 0;
            row.go_forward(tree.requires(index).iter().filter(|r| plan.dirty[**r as usize]).count());
            if !anew {
                row.take_over();
                row.begin_anew(converges);
            }
            self.jobs.graph.row_changed(slot, revived);
            self.jobs.own(slot, tree, index);
            if !anew && self.jobs.graph.is_before_batch(slot) {
                self.jobs.graph.end_pause(slot);
            }
        }
        for index in new {
            let requires: Box<[Slot]> = tree.requires(index).iter().map(|r| forward[*r as usize]).collect();
            if !requires.is_empty() {
                self.jobs.graph.rows[forward[index]].set_requires(requires);
                self.jobs.graph.edges_changed(forward[index]);
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
            walk.total += 1;
        }
        self.jobs.graph.rows[old].be_replaced(new_id, stack.revision);
        self.jobs.graph.row_changed(old, true);
        new
    }
}
