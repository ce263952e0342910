//! Decides from the epochs that a node has obeyed whether the node is welcomed, and whether this store is older than
//! the node, as after a restore. An epoch is of this engine, of a later start of the same site, or of another
//! controller.
//!
//! ```text
//!   epoch of the node                 first Hello  welcomed before
//!   of one of this store's starts     Ours         Ours
//!   lower, and of no start known      Ahead        Ours
//!   higher, or ours with other bits   Ahead        Elsewhere
//!
//!   Ours       the node is welcomed
//!   Ahead      this store is older than the node: the epoch rises if the node's is not lower, and the
//!              node is welcomed
//!   Elsewhere  the node obeys another controller: it is refused
//! ```
//!
//! An epoch from before starts were recorded, and one of an agent that sends no bits, is Ours if its number
//! is not higher. A higher one without bits is always Ahead. A node that was welcomed may not have
//! recorded this epoch yet, so a lower one is no reason to refuse it.
//!
//! The number alone does not tell. A store that was set back and started more often than was lost
//! has higher numbers.
//!
//! A controller with a restored store finds nodes that know later epochs, and goes above those. A
//! controller that runs beside a restored copy of itself finds that nodes which it welcomed come
//! back with epochs that it never gave. Those nodes then obey the copy, and this controller reports that.
//!
//! Absent: what a restored site holds back (`restored.rs`), and two agents of one node (`node/clones.rs`).

use std::collections::VecDeque;

use muster_shared::{Epoch, EpochId, Generations};
use serde::{Deserialize, Serialize};

/// The origin of a node's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EpochOrigin {
    /// The node has obeyed only epochs that this engine knows.
    Ours,
    /// The node has obeyed an epoch that this store does not know.
    Ahead,
    /// The node obeyed another controller after this one had welcomed it.
    Elsewhere,
}

/// Starts whose bits are kept: more than ten years of a start each day. Older epochs count as this store's.
const STARTS_MAX: usize = 4096;

/// The random bits of a store's starts, which tell its epochs from those of an unknown history.
/// While the controller runs, also the bits of lost starts that nodes reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Starts {
    /// The oldest is first. An epoch that has risen has the bits of its start.
    known: VecDeque<(Epoch, u64)>,
}

impl Starts {
    pub fn add(&mut self, epoch: Epoch, bits: u64) {
        if self.known.len() >= STARTS_MAX {
            self.known.pop_front();
        }
        self.known.push_back((epoch, bits));
    }

    /// Whether an older epoch may be of this store: its bits are known, or it is from before they
    /// were recorded.
    fn may_have(&self, epoch: EpochId) -> bool {
        let Some(bits) = epoch.bits else { return true };
        let is_recorded = self.known.front().is_some_and(|(first, _)| epoch.number >= *first);
        !is_recorded || self.known.iter().any(|(_, known)| *known == bits)
    }
}

/// This start's epoch, the source of its generations, and the starts before it.
#[derive(Debug)]
pub(crate) struct History {
    pub generations: Generations,
    /// Random bits of this start.
    bits: u64,
    starts: Starts,
}

impl History {
    pub fn new(epoch: Epoch, bits: u64, starts: Starts) -> Self {
        Self { generations: Generations::new(epoch), bits, starts }
    }

    /// The epoch in force, as agents know it.
    pub fn id(&self) -> EpochId {
        EpochId { number: self.generations.epoch(), bits: Some(self.bits) }
    }

    /// Adds a start that this store lost and a node reported.
    pub fn add_start(&mut self, epoch: Epoch, bits: u64) {
        self.starts.add(epoch, bits);
    }

    /// The origin of a node's epoch, as the table above has it.
    pub fn origin(&self, theirs: EpochId, was_welcomed: bool) -> EpochOrigin {
        let ours = self.id();
        // A welcomed node may not have recorded this epoch yet.
        let is_lower_ours = theirs.number < ours.number && (was_welcomed || self.starts.may_have(theirs));
        let is_ours = is_lower_ours || theirs == ours;
        // Older agents send no bits.
        let may_be_ours = theirs.number == ours.number && !theirs.contradicts(ours);
        match (is_ours || may_be_ours, was_welcomed && theirs.bits.is_some()) {
            (true, _) => EpochOrigin::Ours,
            (false, false) => EpochOrigin::Ahead,
            (false, true) => EpochOrigin::Elsewhere,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32, bits: Option<u64>) -> EpochId {
        EpochId { number: Epoch(number), bits }
    }

    #[test]
    fn what_a_nodes_epoch_says_of_the_store() {
        use EpochOrigin::{Ahead, Elsewhere, Ours};
        let mut starts = Starts::default();
        for (number, bits) in [(3, 7), (4, 8), (5, 1)] {
            starts.add(Epoch(number), bits);
        }
        let rows = [
            // The node's epoch, its origin at the first Hello, and its origin once the node was welcomed.
            (id(0, None), Ours, Ours),
            (id(2, Some(9)), Ours, Ours),
            (id(3, Some(7)), Ours, Ours),
            (id(4, Some(8)), Ours, Ours),
            (id(4, Some(7)), Ours, Ours),
            (id(4, Some(9)), Ahead, Ours),
            (id(4, None), Ours, Ours),
            (id(5, None), Ours, Ours),
            (id(5, Some(1)), Ours, Ours),
            (id(5, Some(9)), Ahead, Elsewhere),
            (id(6, Some(9)), Ahead, Elsewhere),
            (id(6, None), Ahead, Ahead),
        ];
        let history = History::new(Epoch(5), 1, starts);
        for (theirs, first, again) in rows {
            assert_eq!(history.origin(theirs, false), first, "{theirs:?}");
            assert_eq!(history.origin(theirs, true), again, "{theirs:?}, welcomed before");
        }
        // A store from a version that recorded no starts.
        let history = History::new(Epoch(5), 1, Starts::default());
        assert_eq!(history.origin(id(4, Some(9)), false), Ours);
    }

    #[test]
    fn so_many_starts_are_known() {
        let mut starts = Starts::default();
        (0..=STARTS_MAX as u32).for_each(|number| starts.add(Epoch(number), u64::from(number)));
        assert_eq!(starts.known.len(), STARTS_MAX);
        assert!(starts.may_have(id(0, Some(77_777))) && !starts.may_have(id(1, Some(77_777))));
    }
}
