//! Rows that are to be put right outside of an operation: by a correction, or by restarting a unit.

use std::collections::BTreeSet;

use crate::resource::Slot;

/// Indexes of such rows; what each is to get is in the row.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    /// Rows that were seen drifted or missing.
    drifted: BTreeSet<Slot>,
    /// Rows of which it counts how often they were corrected.
    counted: BTreeSet<Slot>,
    /// Units that are to be restarted for what was put right, and have no job for that yet.
    owed: BTreeSet<Slot>,
}

impl Unsettled {
    /// A row was seen drifted or missing, or is so no more.
    pub fn set_drifted(&mut self, slot: Slot, is_drifted: bool) {
        set(&mut self.drifted, slot, is_drifted);
    }

    /// Corrections of a row are counted, or count no more.
    pub fn set_counted(&mut self, slot: Slot, is_counted: bool) {
        set(&mut self.counted, slot, is_counted);
    }

    /// A unit is to be restarted, or not any more.
    pub fn set_owed(&mut self, slot: Slot, is_owed: bool) {
        set(&mut self.owed, slot, is_owed);
    }

    /// Rows that were seen drifted or missing.
    pub fn drifted(&self) -> &BTreeSet<Slot> {
        &self.drifted
    }

    /// Rows whose corrections are counted.
    pub fn counted(&self) -> &BTreeSet<Slot> {
        &self.counted
    }

    /// Units that are to be restarted.
    pub fn owed(&self) -> &BTreeSet<Slot> {
        &self.owed
    }

    /// All of them; one may come twice.
    pub fn all(&self) -> impl Iterator<Item = Slot> {
        self.drifted.iter().chain(&self.counted).chain(&self.owed).copied()
    }

    /// A row is gone.
    pub fn forget(&mut self, slot: Slot) {
        self.drifted.remove(&slot);
        self.owed.remove(&slot);
    }
}

fn set(rows: &mut BTreeSet<Slot>, slot: Slot, is_in: bool) {
    match is_in {
        true => rows.insert(slot),
        false => rows.remove(&slot),
    };
}
