//! Which desired state is newer: an epoch of the controller and a number within it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One start of the controller. Every start takes a higher one, so that a deposed controller cannot command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u32);

/// An epoch, and random bits that the controller drew at its start. The number alone decides which of two is newer. The
/// bits tell whether two of one number are the same: a restored controller counts on from an older number, and comes to
/// numbers that were given before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochId {
    /// Which start.
    pub number: Epoch,
    /// None: said by an older version.
    pub bits: Option<u64>,
}

impl EpochId {
    /// Of one number, but of two histories.
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
    /// The controller's start that made it; decides first.
    pub epoch: Epoch,
    /// Counts up within the epoch.
    pub number: u64,
}

/// How often a generation was sent to be run; a higher one runs again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attempt(pub u32);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch.0, self.number)
    }
}
