//! Rows that background jobs may change, by a correction or by a unit restart; and whether their node takes such
//! jobs now: it is connected, and not in maintenance.
//!
//! Absent: whether such a row is corrected (`drift/correct.rs`) or its unit restarted (`drift/unit_restart.rs`).

use std::collections::BTreeSet;

use crate::drift::breaker::Breaker;
use crate::jobs::Jobs;
use crate::node::NodeKey;
use crate::row::cause::Cause;
use crate::row::{Row, Slot};
use crate::timer::TimerKey;
use crate::todo::Todo;

/// Indexes of such rows. The row itself says what it needs.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    /// Rows that were observed drifted or missing.
    drifted: BTreeSet<Slot>,
    /// Rows with a breaker.
    counted: BTreeSet<Slot>,
    /// Units that need a restart and have no job for it.
    owed: BTreeSet<Slot>,
}

impl Unsettled {
    /// Notes whether a row was observed drifted or missing.
    pub fn set_drifted(&mut self, slot: Slot, is_drifted: bool) {
        set(&mut self.drifted, slot, is_drifted);
    }

    /// Notes whether a row has a breaker.
    pub fn set_counted(&mut self, slot: Slot, is_counted: bool) {
        set(&mut self.counted, slot, is_counted);
    }

    /// Notes whether a unit needs a restart.
    pub fn set_owed(&mut self, slot: Slot, is_owed: bool) {
        set(&mut self.owed, slot, is_owed);
    }

    pub fn drifted(&self) -> &BTreeSet<Slot> {
        &self.drifted
    }

    pub fn counted(&self) -> &BTreeSet<Slot> {
        &self.counted
    }

    pub fn owed(&self) -> &BTreeSet<Slot> {
        &self.owed
    }

    /// The rows of all three sets. A row may occur twice.
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
    /// Whether the node is connected, and not in maintenance. If it is away, a restart or a retry is
    /// looked at again when it returns. Its agent reports other drift again.
    pub(crate) fn takes_corrections(&mut self, slot: Slot, node: NodeKey) -> bool {
        let is_ready = self.graph.nodes[node].presence.is_ready();
        if !is_ready
            && (self.unsettled.owed().contains(&slot) || self.graph.rows[slot].could_not_be_corrected())
        {
            self.graph.nodes[node].put_off.insert(slot);
        }
        is_ready && !self.graph.is_in_maintenance(node)
    }

    /// Considers corrections again, because what held them back may be over.
    pub(crate) fn correct_all(&mut self, of: impl Fn(&Row) -> bool) {
        let slots: Vec<Slot> =
            self.unsettled.all().filter(|slot| self.graph.rows.get(*slot).is_some_and(&of)).collect();
        self.graph.ctx.agenda.extend(slots.into_iter().map(Todo::Correct));
    }

    /// Drops the count and the timer of a row's breaker.
    pub(crate) fn drop_breaker(&mut self, slot: Slot, breaker: Option<Breaker>) {
        self.unsettled.set_counted(slot, false);
        if let Some(due) = breaker.and_then(|breaker| breaker.due) {
            self.graph.ctx.timers.clear(due, TimerKey::Correct(slot));
        }
    }

    /// Notes in the breaker that a correction has succeeded.
    pub(crate) fn correction_ended(&mut self, slot: Slot) {
        let now = self.graph.ctx.now;
        if let Some(breaker) = self.graph.rows[slot].breaker_mut() {
            breaker.end(now);
        }
    }

    /// Forgets the breakers of a stack, because an operator asked for an operation.
    pub(crate) fn forget_breakers(&mut self, stack: u64) {
        let of_stack = |slot: &&Slot| self.graph.rows.get(**slot).is_none_or(|row| row.stack == stack);
        for slot in self.unsettled.counted().iter().filter(of_stack).copied().collect::<Vec<_>>() {
            let breaker = self.graph.rows.get_mut(slot).and_then(Row::forget_breaker);
            self.drop_breaker(slot, breaker);
            if breaker.is_none() {
                continue;
            }
            let row = &mut self.graph.rows[slot];
            if row.cause() == Cause::Correction && row.task().is_some() {
                self.was_corrected(slot); // the operation takes this job over
            }
            self.graph.rows[slot].take_over_correction();
            self.graph.row_changed(slot, false);
        }
    }
}
