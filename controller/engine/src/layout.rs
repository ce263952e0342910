//! How a traversal is laid out: the role of every graph node, and rows for what is new.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_template::Tree;

use crate::delete_first::UNCOUNTED;
use crate::plan::{Plan, is_settled};
use crate::resource::{Role, Row, Slot};
use crate::stack::{FleetChange, Stage, Walk};
use crate::timer::TimerKey;
use crate::todo::Todo;
use crate::traversals::Traversals;

/// What there is when an operation is laid out.
#[derive(Clone, Copy)]
pub(crate) struct LayoutContext {
    /// Rows that are neither dirty nor new are as they should be.
    pub steady: bool,
    /// The operation itself, which goes on with another tree.
    pub anew: bool,
    /// It does because of nodes that came or went: what is under way stays so.
    pub fits: bool,
    /// What the stack was asked for before is done. Else what changed then counts as changed still: not all that uses
    /// it may have heard.
    pub ended: bool,
}

impl Traversals {
    /// Gives every graph node its role and lets those go that need nothing more. `anew`: the operation goes on.
    pub(crate) fn lay_out(&mut self, id: u64, plan: Plan, before: LayoutContext, tree: Arc<Tree>) {
        let LayoutContext { anew, fits, .. } = before;
        self.jobs.graph.note_sets(id, &tree);
        let of_rollouts = Arc::clone(&tree);
        let revision = self.jobs.graph.stacks[&id].revision;
        let (forward, settled) = self.lay_out_forward(id, &plan, before, &tree);
        let Plan { dirty, dropped, needed_by, .. } = plan;
        for slot in &dropped {
            let row = &mut self.jobs.graph.rows[*slot];
            row.role = Role::Cleanup;
            (row.ready, row.failed) = (false, false);
            row.blocked = UNCOUNTED;
            if !anew {
                row.retry_count = 0;
                row.set_hooks_again();
            }
            row.dropped.get_or_insert(revision);
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
        // Work of an earlier traversal is taken back where it can be; what fits the new one is found by visit().
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

    /// The rows of the new revision, by index, and what is known of them without a look.
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
            row.index = u32::try_from(index).expect("bounded by RESOURCES_MAX");
            row.changed &= anew || !ended;
            let revived = row.dropped.take().is_some() | row.replaced_by.take().is_some();
            if !plan.dirty[index] {
                row.role = Role::Steady;
                // What drifted is for the next operation that an operator asks for.
                settled[index] = if is_settled(row) { row.definition } else { 0 };
                // An operation that came to nothing may have said otherwise.
                self.jobs.set_drift_policy(slot, tree.drift_policy(index));
                continue;
            }
            settled[index] = 0;
            row.role = Role::Forward;
            (row.ready, row.failed) = (false, false);
            if !anew {
                row.take_over();
                row.retry_count = 0;
                row.converges = converges;
                row.set_hooks_again();
            }
            let requires = tree.requires(index);
            row.blocked = u32::try_from(requires.iter().filter(|r| plan.dirty[**r as usize]).count())
                .expect("bounded by RESOURCES_MAX");
            self.jobs.graph.row_changed(slot, revived);
            self.jobs.own(slot, tree, index);
            if !anew && self.jobs.graph.is_before_batch(slot) {
                self.jobs.graph.end_pause(slot);
            }
        }
        for index in new {
            let requires: Box<[Slot]> = tree.requires(index).iter().map(|r| forward[*r as usize]).collect();
            if !requires.is_empty() {
                self.jobs.graph.rows[forward[index]].requires = requires;
                self.jobs.graph.edges_changed(forward[index]);
            }
        }
        (forward, settled)
    }

    fn new_row(&mut self, stack: u64, tree: &Tree, index: usize) -> Slot {
        let (id, physical) = self.jobs.graph.ctx.ids.row();
        let slot = self.jobs.graph.rows.insert(Row::new(
            id,
            physical,
            stack,
            tree.shared_name(index),
            tree.kind(index),
        ));
        self.jobs.graph.rows[slot].revision = self.jobs.graph.stacks[&stack].revision;
        self.jobs.graph.rows[slot].index = u32::try_from(index).expect("bounded by RESOURCES_MAX");
        self.jobs.graph.row_changed(slot, true);
        slot
    }

    /// A new row for the same resource; the old one is cleaned up when all is ready.
    pub(crate) fn replace(&mut self, old: Slot, tree: &Tree) -> Slot {
        let index = self.jobs.graph.rows[old].index as usize;
        let stack_id = self.jobs.graph.rows[old].stack;
        let new = self.new_row(stack_id, tree, index);
        self.jobs.graph.not_failed(old);
        self.jobs.graph.leave_hook(old);
        self.jobs.graph.break_pause(old);
        let (old_id, new_id) = (self.jobs.graph.rows[old].id, self.jobs.graph.rows[new].id);
        let (retain, external_id) =
            (self.jobs.graph.rows[old].retain, self.jobs.graph.rows[old].details().external_id.clone());
        let type_name = tree.type_name(index).cloned();
        let row = &mut self.jobs.graph.rows[new];
        row.role = Role::Forward;
        row.replaces = Some(old_id);
        row.retain = retain;
        if external_id.is_some() {
            row.details_mut().external_id = external_id;
        }
        if type_name.is_some() {
            row.details_mut().type_name = type_name;
        }
        if let Some(policy) = tree.drift_policy(index) {
            row.details_mut().drift_policy = Some(policy);
        }
        self.jobs.graph.set_requires(new, tree, false);
        let Some(stack) = self.jobs.graph.stacks.get_mut(&stack_id) else { return new };
        stack.forward[index] = new;
        stack.settled[index] = 0;
        stack.extras.insert(old);
        if let Some(walk) = &mut stack.walk {
            walk.total += 1;
        }
        let row = &mut self.jobs.graph.rows[old];
        row.replaced_by = Some(new_id);
        row.role = Role::Cleanup;
        row.blocked = UNCOUNTED;
        row.dropped = Some(stack.revision);
        self.jobs.graph.row_changed(old, true);
        new
    }
}
