//! The policy of a rollout in numbers: batch, canary and failures for so many members, for a proven
//! revision, and for a return to a COMPLETE one.
//!
//! Absent: properties and their defaults (`controller/template/src/rollout.rs`), and what the
//! numbers stop (`rollout/machine.rs`).

use std::time::Duration;

use muster_template::{Away, Rollout};

/// The policy of a rollout for a given number of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub batch: usize,
    pub pause: Duration,
    pub max_failures: usize,
    pub canary: usize,
    pub away: Away,
}

impl Policy {
    pub fn new(rollout: &Rollout, members: usize) -> Self {
        Self {
            batch: rollout.batch.at_least_one_of(members),
            pause: rollout.pause,
            max_failures: rollout.max_failures.of(members),
            canary: rollout.canary.rounded_up_of(members),
            away: rollout.away,
        }
    }

    /// The policy for a proven revision: no canary and no pause.
    pub fn proven(self) -> Self {
        Self { pause: Duration::ZERO, canary: 0, ..self }
    }

    /// The policy for a return to a COMPLETE revision: members that fail or are away do not stop it.
    pub fn back(self, members: usize) -> Self {
        Self { max_failures: members, away: Away::Skip, ..self.proven() }
    }
}
