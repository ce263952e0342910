//! The walk of a graph: a node whose needs are ready is visited; what it decides becomes a job, or nothing.
//!
//! ```text
//!   (First ▶) Forward ── all ready ──▶ Cleanup ── all gone ──▶ COMPLETE (or, for DELETE, no stack)
//!                └──────── nothing can go on ────┴──────────▶ FAILED, or rolled back
//! ```

use std::sync::Arc;

use muster_shared::model::Action;
use serde_json::Value;

use crate::attribute::Rendered;
use crate::engine::{Engine, Todo};
use crate::operation::{Pending, Purpose};
use crate::record::PackedSpec;
use crate::record::{Change, StackAction, Status};
use crate::request::Source;
use crate::resource::{Role, Slot};
use crate::stack::{Stack, Stage};
use crate::view::OutputView;

impl Engine {
    /// A forward node is as the revision wants it: those that need it may go.
    pub(crate) fn row_ready(&mut self, slot: Slot) {
        self.leave_hook(slot);
        self.end_pause(slot);
        let stack_id = self.rows[slot].stack;
        let Some(walk) = self.stacks.get(&stack_id).and_then(|stack| stack.walk.as_ref()) else { return };
        let tree = Arc::clone(&walk.tree);
        let index = self.rows[slot].index as usize;
        let definition = tree.definition(index);
        self.set_is_ready(slot, &tree);
        self.turn_ended(slot);
        self.set_requires(slot, &tree, false);
        self.not_failed(slot);
        let rests = self.rows[slot].failed_after_drift();
        match rests {
            true => self.agenda.push_back(Todo::Correct(slot)),
            false => self.mended(slot),
        }
        let revision = self.stacks[&stack_id].revision;
        let row = &mut self.rows[slot];
        row.ready = true;
        row.forget_hooks();
        let redefined = row.definition != definition;
        if redefined {
            row.definition = definition;
            row.revision = revision;
        }
        self.row_changed(slot, redefined);
        let Some(stack) = self.stacks.get_mut(&stack_id) else { return };
        stack.settled[index] = if rests { 0 } else { definition };
        let Some(walk) = &mut stack.walk else { return };
        walk.forward_left -= 1;
        for &next in walk.needed_by.of(index) {
            let next = stack.forward[next as usize];
            let row = &mut self.rows[next];
            if row.role == Role::Forward && !row.ready {
                row.blocked = row.blocked.saturating_sub(1);
                if row.blocked == 0 {
                    self.agenda.push_back(Todo::Visit(next));
                }
            }
        }
        self.agenda.push_back(Todo::CheckEnd(stack_id));
    }

    /// This graph node has failed for good; independent branches go on.
    pub(crate) fn fail_row(&mut self, slot: Slot, reason: String) {
        if self.rows[slot].is_lost() {
            return self.not_found(slot, reason);
        }
        self.leave_hook(slot);
        self.end_pause(slot);
        self.turn_failed(slot);
        let row = &mut self.rows[slot];
        row.status = Some(Status::Failed);
        row.action.get_or_insert(Action::Create);
        row.reason = Some(reason.into());
        let stack = row.stack;
        // A ready one is none of the traversal's any more: it failed to be made again for an agent that had lost it.
        if row.role != Role::Steady
            && !row.ready
            && let Some(walk) = self.stacks.get_mut(&stack).and_then(|stack| stack.walk.as_mut())
            && !std::mem::replace(&mut row.failed, true)
        {
            walk.failed += 1;
        }
        self.row_changed(slot, false);
        self.event(stack, Some(slot));
        self.add_failure(slot);
        self.answered(slot);
        self.agenda.push_back(Todo::CheckEnd(stack));
    }

    /// It was counted as failed, and is no more.
    pub(crate) fn not_failed(&mut self, slot: Slot) {
        let row = &mut self.rows[slot];
        if std::mem::take(&mut row.failed)
            && let Some(walk) = self.stacks.get_mut(&row.stack).and_then(|stack| stack.walk.as_mut())
        {
            walk.failed -= 1;
            walk.ended = false;
        }
    }

    /// The row's thing is not there (any more): nothing is left to remember.
    pub(crate) fn drop_row(&mut self, slot: Slot) {
        self.let_go(slot);
        self.leave_hook(slot);
        self.end_pause(slot);
        let Some(row) = self.rows.remove(slot) else { return };
        self.awaited.forget(slot);
        self.unsettled.forget(slot);
        self.fight_is_over(slot, row.rare().fight);
        if let Some(node) = row.node {
            self.is_off(slot, Some(node));
            self.unhear(node, row.physical);
        }
        self.change(Change::ResourceRemoved(row.id));
        if row.is_lost() {
            return self.found(slot, &row);
        }
        let Some(stack) = self.stacks.get_mut(&row.stack) else { return };
        stack.extras.swap_remove(&slot);
        self.room_made(row.stack, slot);
        let mut released: Vec<Slot> = Vec::new();
        for required in &row.requires {
            let Some(other) = self.rows.get_mut(*required) else { continue };
            if other.role == Role::Cleanup {
                other.blocked = other.blocked.saturating_sub(1);
                if other.blocked == 0 {
                    released.push(*required);
                }
            }
        }
        released.sort_by(|a, b| self.rows[*a].name.cmp(&self.rows[*b].name));
        self.agenda.extend(released.into_iter().map(Todo::Visit));
        self.agenda.push_back(Todo::CheckEnd(row.stack));
        self.touch(row.stack);
    }

    /// Claims and contents of a row's last spec.
    pub(crate) fn let_go(&mut self, slot: Slot) {
        self.claims.keep(slot, &[]);
        if let Some(spec) = self.rows[slot].spec.as_ref().map(PackedSpec::unpack) {
            self.release_content(&spec);
        }
    }

    pub(crate) fn check_end(&mut self, id: u64) {
        let Some(stack) = self.stacks.get_mut(&id).filter(|stack| !stack.cancelled) else { return };
        let Some(walk) = &mut stack.walk else { return };
        let rests = stack.working.is_empty() && stack.waiting.is_empty() && walk.at_hooks.is_empty();
        match walk.stage {
            Stage::Check => self.end_of_check(id),
            Stage::First if walk.failed == 0 => self.end_first(id),
            Stage::Forward if walk.forward_left == 0 && !stack.extras.is_empty() => {
                walk.stage = Stage::Cleanup;
                walk.since = self.now;
                walk.failed = 0;
                walk.ended = false;
                self.begin_cleanup(id);
            }
            Stage::Forward | Stage::Cleanup if walk.forward_left == 0 && stack.extras.is_empty() => {
                self.complete(id);
            }
            Stage::First | Stage::Forward | Stage::Cleanup => {
                if rests && walk.failed > 0 && !walk.ended {
                    walk.ended = true;
                    self.stuck(id);
                }
            }
        }
    }

    pub(crate) fn begin_cleanup(&mut self, id: u64) {
        let mut extras: Vec<Slot> = self.stacks[&id].extras.iter().copied().collect();
        for slot in &extras {
            let row = &mut self.rows[*slot];
            (row.blocked, row.failed) = (0, false);
        }
        for slot in &extras {
            for required in self.rows[*slot].requires.clone() {
                if let Some(row) = self.rows.get_mut(required).filter(|row| row.role == Role::Cleanup) {
                    row.blocked += 1;
                }
            }
        }
        extras.sort_by(|a, b| {
            let (a, b) = (&self.rows[*a], &self.rows[*b]);
            (&a.name, a.id).cmp(&(&b.name, b.id))
        });
        self.agenda.extend(extras.into_iter().map(Todo::Visit));
        self.stay_unclean(id);
        self.agenda.push_back(Todo::CheckEnd(id));
    }

    pub(crate) fn complete(&mut self, id: u64) {
        let outputs = self.outputs(&self.stacks[&id]);
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        if let Some(walk) = &stack.walk {
            stack.hidden.settle(walk.tree.secrets());
        }
        for index in stack.walk.as_ref().map(|walk| walk.visits.as_slice()).unwrap_or_default() {
            let row = &mut self.rows[stack.forward[*index as usize]];
            (row.role, row.changed) = (Role::Steady, false);
        }
        self.prove_sets(id);
        self.leave_walk(id);
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        stack.status = Status::Complete;
        stack.reason = String::new();
        stack.outputs = outputs;
        stack.queue.shrink_to_fit(); // What is made again for an agent that lost it may still wait.
        // One that is walked again is the same.
        if stack.complete.first() != Some(&stack.revision) {
            stack.complete.insert(0, stack.revision);
        }
        stack.complete.truncate(self.limits.complete_kept);
        if stack.action == StackAction::Delete {
            let (name, traversal) = (stack.name.clone(), stack.traversal);
            self.event(id, None);
            self.stacks.remove(&id);
            self.stack_removed(id, name, traversal);
            return;
        }
        self.stack_changed(id);
        self.event(id, None);
        self.correct_all(|row| row.stack == id);
    }

    pub(crate) fn stuck(&mut self, id: u64) {
        let mut reason = self.why_stuck(id);
        if let Some(stack) = self.stacks.get(&id).filter(|stack| stack.timed_out) {
            reason = format!("{}; {reason}", had_its_time(stack));
        }
        self.end_failed(id, reason);
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
        self.roll_back_if_owed(id);
        self.correct_all(|row| row.stack == id);
    }

    /// The rollback that was asked for in case of failure. It is owed until it has begun, also over a restart.
    pub(crate) fn roll_back_if_owed(&mut self, id: u64) {
        let Some(stack) = self.stacks.get(&id) else { return };
        let begins = |pending: &Pending| pending.traversal == stack.traversal;
        if !stack.rollback || stack.status != Status::Failed || self.stacks.pending_of(id).any(begins) {
            return;
        }
        let (name, traversal) = (stack.name.clone(), stack.traversal);
        let revision = stack.complete.first().copied();
        let pending = Pending {
            stack: id,
            traversal,
            revision: revision.unwrap_or(0),
            request: None,
            purpose: Purpose::RollBack,
        };
        match revision {
            Some(revision) => self.load_revision(name, revision, pending),
            None => {
                self.stacks.wait(0, pending);
                self.revision_loaded(0, Ok(Source::nothing()));
            }
        }
    }

    /// A stack has had its time. What is under way goes on: a node that returns finishes its branch.
    pub(crate) fn stack_due(&mut self, id: u64, traversal: u64) {
        let Some(stack) = self.stacks.get_mut(&id).filter(|stack| stack.traversal == traversal) else {
            return;
        };
        if stack.status != Status::InProgress {
            return;
        }
        stack.timed_out = true;
        if let Some(walk) = &mut stack.walk {
            walk.timeout = None;
        }
        let waiting: Vec<Slot> = stack.waiting.iter().copied().collect();
        for slot in waiting {
            if self.is_before_batch(slot) {
                self.end_pause(slot);
            }
        }
        let Some(stack) = self.stacks.get(&id) else { return };
        let missing = self.missing_nodes(stack);
        let timed_out = had_its_time(stack);
        let hooks = self.hooks_waited_at(id);
        let rollouts = self.rollouts_time_out(id);
        let reason = match missing.len() {
            0 if hooks.is_empty() => match self.what_is_waited_for(id) {
                Some(waiting) => format!("{timed_out}; not ended: {waiting}"),
                None => timed_out,
            },
            0 => timed_out,
            1..=10 => format!("{timed_out}; missing nodes: {}", missing.join(", ")),
            n => format!("{timed_out}; {n} nodes missing: {}, …", missing[..10].join(", ")),
        };
        self.end_failed(id, reason + &hooks + &rollouts);
    }

    pub(crate) fn outputs(&self, stack: &Stack) -> Vec<OutputView> {
        let Some(walk) = &stack.walk else { return Vec::new() };
        let references = Rendered { engine: self, stack };
        let render = |(index, output): (usize, &muster_template::Output)| OutputView {
            key: output.key.to_string(),
            description: output.description.as_deref().unwrap_or_default().to_owned(),
            value: walk
                .tree
                .render_output(index, &references)
                .map_or(Value::Null, |value| stack.masked(&walk.tree, value)),
        };
        walk.tree.outputs().iter().enumerate().map(render).collect()
    }
}

/// Why a stack has failed whose operation had its time.
fn had_its_time(stack: &Stack) -> String {
    format!("timed out after {} s", stack.timeout_s)
}
