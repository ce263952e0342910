//! What a rollout is told to do.

use std::time::Duration;

use muster_template::{Away, Rollout};

/// A rollout as it is with so many members.
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

    /// Of what has proven itself: nobody need go first, and nobody is waited for.
    pub fn proven(self) -> Self {
        Self { pause: Duration::ZERO, canary: 0, ..self }
    }

    /// Back to what was right: whoever fails or is away holds nobody up.
    pub fn back(self, members: usize) -> Self {
        Self { max_failures: members, away: Away::Skip, ..self.proven() }
    }
}
