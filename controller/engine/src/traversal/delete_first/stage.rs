//! Begins and ends the stage `First` of the diagram in `traversal/delete_first.rs`: finds its rows, visits them, and
//! goes on to `Forward`. Rows that failed meanwhile count from then on.

use std::collections::{BTreeMap, BTreeSet};

use crate::jobs::Jobs;
use crate::record::Status;
use crate::row::{Role, Row, Slot};
use crate::stack::Stack;
use crate::todo::Todo;
use crate::traversal::delete_first::DeleteFirst;
use crate::traversal::walk::{Stage, Walk};

impl Jobs {
    /// With `delete_first`, starts the clean-up of rows that no kept row needs.
    pub(crate) fn begin_first(&mut self, id: u64) {
        let Some(stack) = self.graph.stacks.get(&id).filter(|stack| stack.delete_first) else { return };
        let first = self.needed_by_none(stack);
        let mut needed_by: BTreeMap<Slot, Vec<Slot>> = BTreeMap::new();
        for slot in stack.forward.iter().chain(&stack.extras) {
            for required in &self.graph.rows[*slot].requires {
                needed_by.entry(*required).or_default().push(*slot);
            }
        }
        let unready: Vec<Slot> =
            stack.forward.iter().copied().filter(|slot| !self.graph.rows[*slot].ready).collect();
        let begins = !first.is_empty();
        let last: Vec<Slot> = stack.extras.iter().copied().filter(|slot| !first.contains(slot)).collect();
        last.into_iter().for_each(|slot| self.graph.leave_hook(slot));
        let Some(walk) = self.graph.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()) else { return };
        walk.delete_first = Some(Box::new(DeleteFirst::new(first.clone(), needed_by)));
        if !begins {
            return;
        }
        walk.stage = Stage::First;
        for slot in unready {
            // Unready rows come after the first stage. A job of an earlier traversal would make
            // something new.
            self.graph.not_failed(slot);
            self.graph.leave_hook(slot);
            self.withdraw(slot);
        }
        self.visit_first(id);
    }

    /// Counts for each row of the first stage how many others need it, and visits all of them.
    pub(crate) fn visit_first(&mut self, id: u64) {
        let Some(stack) = self.graph.stacks.get_mut(&id) else { return };
        let Some(known) = stack.walk.as_ref().and_then(|walk| walk.delete_first.as_ref()) else { return };
        let mut first: Vec<Slot> = known.first().iter().copied().collect();
        for slot in &first {
            self.graph.rows[*slot].set_blocked(0);
        }
        for slot in &first {
            for required in self.graph.rows[*slot].requires.clone() {
                if first.binary_search(&required).is_ok() {
                    self.graph.rows[required].block();
                }
            }
        }
        first.sort_by(|a, b| {
            let (a, b) = (&self.graph.rows[*a], &self.graph.rows[*b]);
            (&a.name, a.id).cmp(&(&b.name, b.id))
        });
        self.graph.ctx.agenda.extend(first.into_iter().map(Todo::Visit));
        self.graph.ctx.agenda.push_back(Todo::CheckEnd(id));
    }

    /// Rows in clean-up that no existing thing of a kept row needs, directly or through others.
    fn needed_by_none(&self, stack: &Stack) -> BTreeSet<Slot> {
        let mut first: BTreeSet<Slot> = stack.extras.iter().copied().collect();
        let exists = |slot: &&Slot| self.graph.rows[**slot].is_applied();
        let mut queue: Vec<Slot> = stack.forward.iter().filter(exists).copied().collect();
        // Rows whose clean-up failed, and those that they need, are left for the last stage.
        queue.extend(stack.unclean.iter().filter(|slot| first.remove(*slot)));
        while let Some(slot) = queue.pop() {
            for required in &self.graph.rows[slot].requires {
                if first.remove(required) {
                    queue.push(*required);
                }
            }
        }
        first
    }

    /// Goes on to new and changed resources once all rows of the first stage are gone.
    pub(crate) fn end_first(&mut self, id: u64) {
        let Some(stack) = self.graph.stacks.get_mut(&id) else { return };
        let Some(walk) = &mut stack.walk else { return };
        if walk.delete_first.as_ref().is_some_and(|known| !known.first().is_empty()) {
            return;
        }
        walk.stage = Stage::Forward;
        let failed = walk.delete_first.as_mut().map(|known| known.take_failed());
        self.stay_failed(id, &failed.unwrap_or_default());
        self.visit_free(id);
        self.graph.ctx.agenda.push_back(Todo::CheckEnd(id));
    }

    /// Remembers failed rows until the first stage has ended. Returns false outside of that stage.
    fn fail_after_first(&mut self, id: u64, failed: &BTreeSet<Slot>) -> bool {
        let walk = self.graph.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut());
        let walk = walk.filter(|walk| walk.stage == Stage::First);
        let Some(known) = walk.and_then(|walk| walk.delete_first.as_mut()) else { return false };
        known.put_off_failed(failed);
        true
    }

    /// Marks rows as failed in this operation, so that it does not try them again.
    pub(crate) fn stay_failed(&mut self, id: u64, failed: &BTreeSet<Slot>) {
        let stays = |row: &Row| row.role == Role::Forward && row.status() == Some(Status::Failed);
        let failed: BTreeSet<Slot> =
            failed.iter().copied().filter(|slot| self.graph.rows.get(*slot).is_some_and(stays)).collect();
        if failed.is_empty() || self.fail_after_first(id, &failed) {
            return;
        }
        failed.iter().for_each(|slot| self.graph.count_failed(*slot));
    }

    /// Visits the rows that wait for no other, but for those that have failed in this operation.
    pub(crate) fn visit_free(&mut self, id: u64) {
        let Some(stack) = self.graph.stacks.get(&id) else { return };
        let visits = stack.walk.as_ref().map(Walk::visits).unwrap_or_default();
        let rows = &self.graph.rows;
        let is_free = |slot: &Slot| rows[*slot].blocked == 0 && !rows[*slot].failed;
        let free = visits.iter().map(|index| stack.forward[*index as usize]).filter(is_free);
        let free = free.collect();
        self.graph.visit_all(id, free);
    }
}
