//! All rows of the site, by slot, by number in the store, and by thing.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use muster_shared::ResourceId;

use crate::row::{Row, Slot};

/// The rows of the site, by slot.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    slots: Vec<Option<Box<Row>>>,
    free: Vec<Slot>,
    by_id: BTreeMap<u64, Slot>,
    /// Used for look-ups only: its order means nothing.
    by_thing: IndexMap<ResourceId, Slot>,
    /// Counts reads and writes of single rows.
    #[cfg(any(test, feature = "visits"))]
    pub visits: std::cell::Cell<usize>,
}

impl Rows {
    pub fn insert(&mut self, row: Row) -> Slot {
        let (id, thing) = (row.id, row.physical);
        let row = Some(Box::new(row));
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot.0 as usize] = row;
                slot
            }
            None => {
                self.slots.push(row);
                Slot(u32::try_from(self.slots.len() - 1).expect("fewer than four billion rows"))
            }
        };
        self.by_id.insert(id, slot);
        self.by_thing.insert(thing, slot);
        slot
    }

    pub fn remove(&mut self, slot: Slot) -> Option<Box<Row>> {
        let row = self.slots.get_mut(slot.0 as usize)?.take();
        if let Some(row) = &row {
            self.free.push(slot);
            self.by_id.remove(&row.id);
            self.by_thing.swap_remove(&row.physical);
        }
        row
    }

    /// Puts another row into the slot. Returns the row before, which the caller inserts elsewhere.
    pub fn replace(&mut self, slot: Slot, row: Row) -> Row {
        self.by_id.insert(row.id, slot);
        self.by_thing.insert(row.physical, slot);
        let old = std::mem::replace(&mut self[slot], row);
        self.by_id.remove(&old.id);
        self.by_thing.swap_remove(&old.physical);
        old
    }

    /// Gives the row a thing with another id.
    pub fn rename(&mut self, slot: Slot, thing: ResourceId) {
        let before = self[slot].set_physical(thing);
        self.by_thing.swap_remove(&before);
        self.by_thing.insert(thing, slot);
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The rows of the site, by number in the store.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.by_id.values().copied()
    }

    /// The row that stands for a thing.
    pub fn of_thing(&self, thing: &ResourceId) -> Option<Slot> {
        self.by_thing.get(thing).copied()
    }

    /// The row with this number in the store.
    pub fn of_id(&self, id: u64) -> Option<Slot> {
        self.by_id.get(&id).copied()
    }

    pub fn get(&self, slot: Slot) -> Option<&Row> {
        #[cfg(any(test, feature = "visits"))]
        self.visits.update(|visits| visits + 1);
        self.slots.get(slot.0 as usize)?.as_deref()
    }

    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut Row> {
        #[cfg(any(test, feature = "visits"))]
        self.visits.update(|visits| visits + 1);
        self.slots.get_mut(slot.0 as usize)?.as_deref_mut()
    }
}

impl std::ops::Index<Slot> for Rows {
    type Output = Row;

    fn index(&self, slot: Slot) -> &Row {
        self.get(slot).expect("a slot is dropped with its row")
    }
}

impl std::ops::IndexMut<Slot> for Rows {
    fn index_mut(&mut self, slot: Slot) -> &mut Row {
        self.get_mut(slot).expect("a slot is dropped with its row")
    }
}
