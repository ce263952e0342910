//! Which desired state is newer: an epoch of the controller and a number within it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One start of the controller. Every start takes a higher one, so that a deposed controller cannot command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u32);

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
