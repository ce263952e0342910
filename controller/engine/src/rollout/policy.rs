//! What a rollout is told, and what is kept of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_template::{Away, Rollout};
use serde::{Deserialize, Serialize};

/// A rollout as it is with so many members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub batch: usize,
    pub pause: Duration,
    pub max_failures: usize,
    pub canary: usize,
    pub away: Away,
}

/// Whether members begin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    #[default]
    Going,
    /// An operator wants it so.
    Paused,
    /// The stack has had its time.
    TimedOut,
    /// Nothing more of it begins in this operation, for this reason.
    Aborted(String),
}

/// How a member is that had begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Well,
    /// Nobody can say.
    Away,
    Disturbed(String),
}

/// What is kept over a restart of the controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub state: State,
    /// Whether the canary is yet to prove itself.
    pub canary: bool,
    pub batch: BTreeSet<Arc<str>>,
    pub begun: BTreeSet<Arc<str>>,
    pub failed: BTreeSet<Arc<str>>,
    /// Members no more that were under way. Those of whom nothing will be heard count as failed as soon as another one has.
    #[serde(default)]
    pub left: BTreeSet<Arc<str>>,
    /// Somebody has ended well: it does not fail everywhere.
    #[serde(default)]
    pub well: bool,
    /// In a rollback: to what was COMPLETE.
    #[serde(default)]
    pub returns: bool,
}

/// How a job of one that left has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Well,
    Failed,
    /// It was interrupted: what it has done is anyone's guess.
    Untold,
    /// It never began.
    Unbegun,
}

/// What is known of a member when its rollout is laid out again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub is_member: bool,
    pub is_ready: bool,
    /// A job of it is under way, also if it is a member no more.
    pub works: bool,
    /// Its node is there.
    pub is_there: bool,
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
