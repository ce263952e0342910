//! Generations that the engine draws, and its epoch, which rises above those that agents know.
//!
//! Absent: the epoch of a start (`next_epoch`, `controller/src/store/database.rs`), and what a
//! node's epoch says of the store (`node/epoch_check.rs`).

use muster_shared::{Epoch, EpochId, Generation};

use crate::context::Context;
use crate::record::{Change, Counters};

impl Context {
    /// The epoch in force. It rises when agents know a later one.
    pub(crate) fn epoch(&self) -> Epoch {
        self.history.generations.epoch()
    }

    /// The epoch in the form that agents get.
    pub(crate) fn epoch_id(&self) -> EpochId {
        self.history.id()
    }

    pub(crate) fn next_generation(&mut self) -> Generation {
        self.history.generations.draw()
    }

    /// See [`Generations::rise_above`].
    pub(crate) fn rise_above(&mut self, seen: Generation) -> bool {
        let before = self.epoch();
        let is_honest = self.history.generations.rise_above(seen);
        self.epoch_rose_from(before);
        is_honest
    }

    /// See [`Generations::rise_over`].
    pub(crate) fn rise_over(&mut self, seen: Epoch) -> bool {
        let before = self.epoch();
        let is_honest = self.history.generations.rise_over(seen);
        self.epoch_rose_from(before);
        is_honest
    }

    /// Persists the epoch if it has risen.
    pub(crate) fn epoch_rose_from(&mut self, before: Epoch) {
        if self.epoch() != before {
            self.change(Change::Counters(Counters { epoch: self.epoch() }));
        }
    }
}
