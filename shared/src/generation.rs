//! Orders desired states: an epoch of the controller, and a number within it.
//!
//! Absent: which job is too old for an agent (`agent/core/src/jobs/accept.rs`), and which controller
//! (`agent/core/src/connection.rs`).

use std::fmt;

use serde::{Deserialize, Serialize};

/// Numbers a start of the controller. Every start takes a higher number, so that a deposed controller
/// cannot command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u32);

/// An epoch, and random bits that the controller drew at its start. The number alone decides which of two is
/// newer. The bits distinguish two epochs of one number: a restored controller continues from an older
/// number, and reaches numbers that were given before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochId {
    pub number: Epoch,
    /// `None` if an older version sent the epoch.
    pub bits: Option<u64>,
}

impl EpochId {
    /// Returns whether both have one number, but come from two histories.
    pub fn contradicts(self, other: Self) -> bool {
        let bits = self.bits.zip(other.bits);
        self.number == other.number && bits.is_some_and(|(ours, theirs)| ours != theirs)
    }
}

impl From<Epoch> for EpochId {
    fn from(number: Epoch) -> Self {
        Self { number, bits: None }
    }
}

/// Orders the desired states of a resource; unique in a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Generation {
    /// The epoch of the controller's start that made it; compared first.
    pub epoch: Epoch,
    /// Increases within the epoch.
    pub number: u64,
}

/// The number of times that a generation was sent to run; a job with a higher attempt runs again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attempt(pub u32);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch.0, self.number)
    }
}

/// The most by which agents' epochs may raise this one: a restored store is fewer starts behind, and a lying
/// agent must not use up the site's numbers.
const EPOCH_JUMP_MAX: u32 = 1 << 20;
/// No controller ever counts this far; equally many numbers remain above.
const NUMBER_MAX: u64 = 1 << 62;

/// The source of a site's generations. Each new generation is higher than all that were drawn or seen before.
#[derive(Clone, Copy, Debug)]
pub struct Generations {
    epoch: Epoch,
    epoch_max: Epoch,
    /// The number drawn or seen last in this epoch.
    number: u64,
}

impl Generations {
    /// The source of a start with this epoch.
    pub fn new(epoch: Epoch) -> Self {
        Self { epoch, epoch_max: Epoch(epoch.0.saturating_add(EPOCH_JUMP_MAX)), number: 0 }
    }

    /// The epoch in force; it rises when agents know of a later one.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Draws the next generation.
    pub fn draw(&mut self) -> Generation {
        self.number += 1;
        Generation { epoch: self.epoch, number: self.number }
    }

    /// Rises above a generation that an agent knows and this controller does not, because its store was
    /// restored. Returns false if no honest agent can know the generation.
    pub fn rise_above(&mut self, seen: Generation) -> bool {
        if seen.epoch > self.epoch_max || seen.number > NUMBER_MAX {
            return false;
        }
        if seen.epoch > self.epoch {
            self.rise_over(seen.epoch);
        } else if seen.epoch == self.epoch {
            self.number = self.number.max(seen.number);
        }
        true
    }

    /// Rises above an epoch that this controller does not know. Returns false if no honest agent can know
    /// the epoch.
    pub fn rise_over(&mut self, seen: Epoch) -> bool {
        if seen > self.epoch_max {
            return false;
        }
        self.epoch = Epoch(seen.0.saturating_add(1));
        self.number = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_rises_above_what_agents_know() {
        let of = |epoch, number| Generation { epoch: Epoch(epoch), number };
        let seen = [
            (of(7, 41), true, of(7, 42)),
            (of(6, 99), true, of(7, 43)),
            (of(7, NUMBER_MAX + 1), false, of(7, 44)),
            (of(9, 5), true, of(10, 1)),
            (of(9 + (1 << 20), 1), false, of(10, 2)),
        ];
        let mut source = Generations::new(Epoch(7));
        for (theirs, is_honest, next) in seen {
            assert_eq!((source.rise_above(theirs), source.draw()), (is_honest, next), "{theirs}");
        }
        assert!(!source.rise_over(Epoch(u32::MAX)));
        assert_eq!(source.epoch(), Epoch(10));
    }
}
