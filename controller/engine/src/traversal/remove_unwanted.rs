//! Clean-up: things that are no longer wanted are removed, each after all that need it.
//!
//! ```text
//!   all wanted rows ready ──▶ begin_cleanup ──▶ visit_cleanup ──▶ removal job ──▶ drop_row ──▶ those it needed
//! ```
//!
//! When that begins, `stage_end.rs` decides. With `delete_first` a part of it comes before new and changed resources:
//! see `traversal/delete_first.rs`.
//!
//! Absent: whether a thing is removed or left in place (`ownership.rs`), and clean-up of a node that joined again
//! (`node/returned.rs`).

use crate::job::NewJob;
use crate::jobs::Jobs;
use crate::record::{Change, PackedSpec, Status};
use crate::restored::compare::HELD;
use crate::row::cause::Cause;
use crate::row::{Role, Slot};
use crate::todo::Todo;
use crate::traversals::Traversals;

impl Jobs {
    /// Counts for each row in clean-up how many others need it, and visits all of them.
    pub(crate) fn begin_cleanup(&mut self, id: u64) {
        let mut extras: Vec<Slot> = self.graph.stacks[&id].extras.iter().copied().collect();
        for slot in &extras {
            let row = &mut self.graph.rows[*slot];
            row.set_blocked(0);
            row.set_failed(false);
        }
        for slot in &extras {
            for required in self.graph.rows[*slot].requires.clone() {
                if let Some(row) = self.graph.rows.get_mut(required).filter(|row| row.role == Role::Cleanup) {
                    row.block();
                }
            }
        }
        extras.sort_by(|a, b| {
            let (a, b) = (&self.graph.rows[*a], &self.graph.rows[*b]);
            (&a.name, a.id).cmp(&(&b.name, b.id))
        });
        self.stay_unclean(id);
        extras.retain(|slot| !self.graph.rows[*slot].failed);
        self.graph.visit_all(id, extras.into());
        self.graph.ctx.agenda.push_back(Todo::CheckEnd(id));
    }

    /// Marks rows whose clean-up failed in this operation, so that it does not try them again.
    fn stay_unclean(&mut self, id: u64) {
        let Some(stack) = self.graph.stacks.get_mut(&id) else { return };
        if stack.walk.is_none() {
            return;
        }
        let mut unclean = std::mem::take(&mut stack.unclean);
        unclean.retain(|slot| {
            self.graph.rows.get(*slot).is_some_and(|row| {
                row.stack == id
                    && row.role == Role::Cleanup
                    && row.status() == Some(Status::Failed)
                    && row.task().is_none()
            })
        });
        unclean.iter().for_each(|slot| self.graph.count_failed(*slot));
    }
}

impl Traversals {
    /// Takes the next step for a row in clean-up.
    pub(crate) fn visit_cleanup(&mut self, slot: Slot) {
        if self.jobs.graph.rows[slot].task().is_some() {
            return; // visited again once the outcome of its job is known
        }
        if self.jobs.is_held_for_verdict(slot) {
            return self.jobs.fail_row(slot, HELD.to_owned());
        }
        // The removal was decided before the node reported the thing to the restored site.
        if self.jobs.awaits_verdict(slot) {
            self.jobs.decided(slot);
        }
        let row = &self.jobs.graph.rows[slot];
        match row.node.filter(|_| row.is_applied()) {
            Some(node) => {
                let farewell = row.farewell();
                if !self.jobs.graph.waits_before(slot, farewell) {
                    self.jobs.queue_job(slot, NewJob::removal(Cause::Traversal, node, farewell));
                }
            }
            None if row.is_applied() && row.kind.is_virtual() => {
                let farewell = row.farewell();
                if !self.jobs.graph.waits_before(slot, farewell) {
                    self.jobs.graph.ctx.agenda.push_front(Todo::Unmake(slot));
                }
            }
            None if self.jobs.graph.waits_after_delete(slot) => {}
            None => self.drop_row(slot),
        }
    }

    /// Removes a row whose thing does not exist.
    pub(crate) fn drop_row(&mut self, slot: Slot) {
        self.let_go(slot);
        self.jobs.graph.leave_hook(slot);
        self.jobs.graph.end_pause(slot);
        let Some(row) = self.jobs.graph.rows.remove(slot) else { return };
        self.awaited.forget(slot);
        self.jobs.unsettled.forget(slot);
        self.jobs.drop_breaker(slot, row.details().breaker);
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
        self.jobs.keep_claims_of(slot, &[]);
        if let Some(spec) = self.jobs.graph.rows[slot].spec().map(PackedSpec::unpack) {
            self.jobs.release_content(&spec);
        }
    }
}
