//! Delete-first: what is no longer wanted goes before anything new is made, where an operator needs the room.
//!
//! ```text
//!   First ── all that nobody needs is gone ──▶ Forward ── …
//!     └───────── nothing can go on ─────────▶ FAILED, and nothing new was made
//! ```
//!
//! In Forward, a replacement is made after the old thing is gone. What another thing still needs stays until that has
//! let go of it: then the old one goes last, as without this. After a restart the first stage is looked for again.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::Graph;
use crate::row::{Role, Row, Slot};
use crate::stack::{Stack, Stage};
use crate::todo::Todo;

/// What a traversal that deletes first knows besides.
#[derive(Default)]
pub(crate) struct DeleteFirst {
    /// Rows that are cleaned up before anything else; empty after the first stage.
    first: BTreeSet<Slot>,
    /// Who needed each row when the traversal began: a row is needed by none but these.
    needed_by: BTreeMap<Slot, Vec<Slot>>,
    /// New rows that wait until the old one is gone.
    awaited: BTreeMap<Slot, Slot>,
    /// The same, by the new row.
    awaits: BTreeMap<Slot, Slot>,
    /// What failed before the first stage began: it counts when that is over.
    failed: BTreeSet<Slot>,
}

impl DeleteFirst {
    /// `needed_by`: rows that need a row, by that row, when the traversal began.
    pub fn new(first: BTreeSet<Slot>, needed_by: BTreeMap<Slot, Vec<Slot>>) -> Self {
        Self { first, needed_by, ..Self::default() }
    }

    /// Rows of the first stage that are still there.
    pub fn first(&self) -> &BTreeSet<Slot> {
        &self.first
    }

    /// Rows of the next stage have failed before: that counts when the first stage is over.
    pub fn put_off_failed(&mut self, failed: &BTreeSet<Slot>) {
        self.failed.extend(failed);
    }

    /// The first stage is over: what had failed before counts.
    pub fn take_failed(&mut self) -> BTreeSet<Slot> {
        std::mem::take(&mut self.failed)
    }
}

impl Graph {
    /// Whether nothing but the first stage's clean-up may go on.
    pub(crate) fn is_first(&self, stack: u64) -> bool {
        let walk = self.stacks.get(&stack).and_then(|stack| stack.walk.as_ref());
        walk.is_some_and(|walk| walk.stage == Stage::First)
    }

    /// A row to be cleaned up is gone, or is this stack's no more.
    pub(crate) fn room_made(&mut self, stack: u64, slot: Slot) {
        let walk = self.stacks.get_mut(&stack).and_then(|stack| stack.walk.as_mut());
        let Some(known) = walk.and_then(|walk| walk.delete_first.as_mut()) else { return };
        known.first.remove(&slot);
        let needed_by = known.needed_by.remove(&slot).unwrap_or_default();
        let new = known.awaited.remove(&slot);
        known.awaits.remove(&new.unwrap_or(slot));
        // Those whose own thing is yet to be made.
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

    /// Has a replacement wait until the old thing is gone, which begins now. False if it is not to wait.
    pub(crate) fn waits_for_room(&mut self, old: Slot, new: Slot) -> bool {
        let row = &self.rows[old];
        let Some(stack) = self.stacks.get(&row.stack) else { return false };
        let Some(known) = stack.walk.as_ref().and_then(|walk| walk.delete_first.as_ref()) else {
            return false;
        };
        if !row.applied {
            return false;
        }
        let needs = |slot: &&Slot| {
            let other = self.rows.get(**slot);
            **slot != new && other.is_some_and(|other| other.applied && other.requires.contains(&old))
        };
        let needed_by = known.needed_by.get(&old).into_iter().flatten().find(needs);
        if let Some(needed_by) = needed_by {
            let needed_by = &self.rows[*needed_by].name;
            let note =
                format!("{} is made anew before the old one is deleted: {needed_by} needs that", row.name);
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

    /// Whether a row is to be made or changed after the first stage, which is not over.
    pub(crate) fn waits_for_first(&self, row: &Row) -> bool {
        row.role == Role::Forward && !row.ready && self.is_first(row.stack)
    }

    /// What a row waits for besides those it needs, by name: all of the first stage, or its own old row.
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
