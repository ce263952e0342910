//! Rows that are to be put right outside of an operation: by a correction, or by restarting a unit.

use std::collections::BTreeSet;

use crate::breaker::Breaker;
use crate::cause::Cause;
use crate::jobs::Jobs;
use crate::row::{Row, Slot};
use crate::timer::TimerKey;
use crate::todo::Todo;

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

impl Jobs {
    /// Looks again at what differs, now that something that kept it from being corrected may be over.
    pub(crate) fn correct_all(&mut self, of: impl Fn(&Row) -> bool) {
        let slots: Vec<Slot> =
            self.unsettled.all().filter(|slot| self.graph.rows.get(*slot).is_some_and(&of)).collect();
        self.graph.ctx.agenda.extend(slots.into_iter().map(Todo::Correct));
    }

    /// Its row goes, or all is forgotten: nothing of it is waited for.
    pub(crate) fn fight_is_over(&mut self, slot: Slot, breaker: Option<Breaker>) {
        self.unsettled.set_counted(slot, false);
        if let Some(due) = breaker.and_then(|breaker| breaker.due) {
            self.graph.ctx.timers.clear(due, TimerKey::Correct(slot));
        }
    }

    /// It has ended well.
    pub(crate) fn correction_ended(&mut self, slot: Slot) {
        let now = self.graph.ctx.now;
        if let Some(breaker) = self.graph.rows[slot].breaker_mut() {
            breaker.end(now);
        }
    }

    /// An operator has seen to the stack: what was fought over counts no more.
    pub(crate) fn forget_breakers(&mut self, stack: u64) {
        let of_stack = |slot: &&Slot| self.graph.rows.get(**slot).is_none_or(|row| row.stack == stack);
        for slot in self.unsettled.counted().iter().filter(of_stack).copied().collect::<Vec<_>>() {
            let breaker = self.graph.rows.get_mut(slot).and_then(Row::forget_breaker);
            self.fight_is_over(slot, breaker);
            if breaker.is_none() {
                continue;
            }
            let row = &mut self.graph.rows[slot];
            if row.cause == Cause::Correction && row.work.is_some() {
                self.was_put_right(slot); // by a job that is the operation's from now on
            }
            self.graph.rows[slot].take_over_correction();
            self.graph.row_changed(slot, false);
        }
    }
}
