//! Delete-first: rows that are no longer wanted go before anything new is made, for operators who
//! need the room.
//!
//! ```text
//!   First ── all rows that no kept row needs are gone ──▶ Forward ── …
//!     └───────── no row can go on ─────────▶ FAILED, and nothing new was made
//! ```
//!
//! In Forward, a replacement is made after the old thing is gone. An old thing that another one
//! still needs stays until that one has changed, and goes last, as without delete-first. After a
//! restart, the first stage is determined again.
//!
//! This file keeps which rows wait for which. `stage.rs` begins and ends the stage.

mod stage;

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::Graph;
use crate::row::{Role, Row, Slot};
use crate::stack::Stack;
use crate::todo::Todo;
use crate::traversal::walk::Stage;

/// State of a traversal that deletes first, in addition to its [`Walk`](crate::traversal::walk::Walk).
#[derive(Default)]
pub(crate) struct DeleteFirst {
    /// Rows to clean up before all others. Empty after the first stage.
    first: BTreeSet<Slot>,
    /// Rows that needed each row when the traversal started. No others can need it.
    needed_by: BTreeMap<Slot, Vec<Slot>>,
    /// New rows that wait until their old row is gone, by the old row.
    awaited: BTreeMap<Slot, Slot>,
    /// The same pairs, by the new row.
    awaits: BTreeMap<Slot, Slot>,
    /// Rows that failed before the first stage. They count as failed after it.
    failed: BTreeSet<Slot>,
}

impl DeleteFirst {
    /// `needed_by`: for each row, the rows that need it when the traversal starts.
    pub fn new(first: BTreeSet<Slot>, needed_by: BTreeMap<Slot, Vec<Slot>>) -> Self {
        Self { first, needed_by, ..Self::default() }
    }

    /// Rows of the first stage that are not gone.
    pub fn first(&self) -> &BTreeSet<Slot> {
        &self.first
    }

    /// Remembers rows of the next stage that have failed, until the first stage is over.
    pub fn put_off_failed(&mut self, failed: &BTreeSet<Slot>) {
        self.failed.extend(failed);
    }

    /// The remembered failed rows.
    pub fn failed(&self) -> &BTreeSet<Slot> {
        &self.failed
    }

    /// The remembered failed rows, once the first stage is over.
    pub fn take_failed(&mut self) -> BTreeSet<Slot> {
        std::mem::take(&mut self.failed)
    }
}

impl Graph {
    /// Whether the stack is in the first stage, in which only that clean-up may go on.
    pub(crate) fn is_first(&self, stack: u64) -> bool {
        let walk = self.stacks.get(&stack).and_then(|stack| stack.walk.as_ref());
        walk.is_some_and(|walk| walk.stage == Stage::First)
    }

    /// A row in clean-up is gone or has left the stack. Visits the row that waited for it.
    pub(crate) fn room_made(&mut self, stack: u64, slot: Slot) {
        let walk = self.stacks.get_mut(&stack).and_then(|stack| stack.walk.as_mut());
        let Some(known) = walk.and_then(|walk| walk.delete_first.as_mut()) else { return };
        known.first.remove(&slot);
        let needed_by = known.needed_by.remove(&slot).unwrap_or_default();
        let new = known.awaited.remove(&slot);
        known.awaits.remove(&new.unwrap_or(slot));
        // Rows whose own thing is not made yet.
        for other in needed_by {
            let Some(row) = self.rows.get_mut(other).filter(|row| row.requires.contains(&slot)) else {
                continue;
            };
            let others = row.requires.iter().copied().filter(|required| *required != slot).collect();
            row.set_requires(others);
            self.edges_changed(other);
        }
        let Some(new) = new else { return };
        if let Some(row) = self.rows.get_mut(new) {
            row.unblock();
            self.ctx.agenda.push_back(Todo::Visit(new));
        }
    }

    /// Lets a replacement wait until the old thing is gone, and starts its removal. Returns false
    /// if the replacement need not wait.
    pub(crate) fn waits_for_room(&mut self, old: Slot, new: Slot) -> bool {
        let row = &self.rows[old];
        let Some(stack) = self.stacks.get(&row.stack) else { return false };
        let Some(known) = stack.walk.as_ref().and_then(|walk| walk.delete_first.as_ref()) else {
            return false;
        };
        if !row.is_applied() {
            return false;
        }
        let needs = |slot: &&Slot| {
            let other = self.rows.get(**slot);
            **slot != new && other.is_some_and(|other| other.is_applied() && other.requires.contains(&old))
        };
        let needed_by = known.needed_by.get(&old).into_iter().flatten().find(needs);
        if let Some(needed_by) = needed_by {
            let needed_by = &self.rows[*needed_by].name;
            let note =
                format!("{} is recreated before the old one is deleted: {needed_by} needs it", row.name);
            let id = row.stack;
            self.note(id, note);
            return false;
        }
        let id = row.stack;
        if let Some(known) =
            self.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()?.delete_first.as_mut())
        {
            known.awaited.insert(old, new);
            known.awaits.insert(new, old);
        }
        self.rows[new].block();
        self.rows[old].set_blocked(0);
        self.ctx.agenda.push_back(Todo::Visit(old));
        true
    }

    /// Whether a row is made or changed after the first stage, which is not over.
    pub(crate) fn waits_for_first(&self, row: &Row) -> bool {
        row.role == Role::Forward && !row.ready && self.is_first(row.stack)
    }

    /// Names of rows that a row waits for besides its needs: the first stage, or its own old row.
    pub(crate) fn waits_for_room_of<'a>(
        &'a self,
        stack: &'a Stack,
        slot: Slot,
    ) -> impl Iterator<Item = String> + 'a {
        let walk = stack.walk.as_ref();
        let known = walk.and_then(|walk| walk.delete_first.as_ref());
        let first = known.into_iter().flat_map(|known| &known.first).map(|slot| &self.rows[*slot]);
        let own = known.and_then(|known| known.awaits.get(&slot)).map(|slot| &self.rows[*slot]);
        first.chain(own).map(|row| row.name.to_string())
    }
}
