//! What the store keeps of rollouts: tables `rollouts`, `rollout_members` and `proven_sets`, by the row that stands for
//! the set.

use std::collections::BTreeMap;
use std::sync::Arc;

/// What there is of rollouts in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutSnapshot {
    /// By row, each with those of its members of which something is to be kept.
    pub rollouts: BTreeMap<u64, (RolloutRecord, BTreeMap<Arc<str>, MemberRecord>)>,
    /// By row, what was rolled out to all members.
    pub proven: BTreeMap<u64, Proven>,
}

/// One change of what the store keeps of rollouts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutChange {
    /// The rollout of a set goes on.
    Kept {
        /// The row that stands for the set.
        row: u64,
        /// The rollout itself.
        record: RolloutRecord,
        /// Members that have changed; none: nothing is to be kept of it any more.
        members: Vec<(Arc<str>, Option<MemberRecord>)>,
        /// What was kept of other members before is of another rollout, and goes.
        anew: bool,
    },
    /// The rollout of a set is over.
    Over(u64),
    /// What was rolled out to all members of a set; none: nothing any more.
    Proven(u64, Option<Proven>),
}

/// A rollout, but for its members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutRecord {
    /// The rollout is of this traversal, and means nothing to another one.
    pub traversal: u64,
    /// Whether members begin.
    pub course: Course,
    /// The present batch is the canary's, which is yet to prove itself.
    pub canary: bool,
    /// Some member has ended well: the revision does not fail everywhere.
    pub well: bool,
    /// In a rollback: whether it leads to what was COMPLETE.
    pub returns: bool,
}

/// Whether members begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Course {
    /// They do.
    #[default]
    Going,
    /// An operator has paused the rollout.
    Paused,
    /// The stack has had its time.
    TimedOut,
    /// Nothing more begins in this operation, for this reason.
    Aborted(String),
}

/// One member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberRecord {
    /// The member has begun, and has not ended.
    pub begun: bool,
    /// The member has left the set since it began.
    pub leaving: bool,
    /// What the member counts as.
    pub counts: Counts,
    /// The member is of the present batch.
    pub in_batch: bool,
}

/// What a member counts as, beside those that are under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counts {
    /// As nothing.
    #[default]
    Nothing,
    /// The member left while under way, and nothing will tell how that ended. It counts as failed once another has.
    Lost,
    /// As failed.
    Failed,
}

/// What comes from other resources may be another in another revision, though the set says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proven {
    /// The revision.
    pub revision: u32,
    /// Digest of what the set says.
    pub source: u128,
}

impl RolloutSnapshot {
    /// Takes a change, as a store does.
    pub fn apply(&mut self, change: RolloutChange) {
        match change {
            RolloutChange::Kept { row, record, members, anew } => {
                let kept = self.rollouts.entry(row).or_default();
                kept.0 = record;
                if anew {
                    kept.1.clear();
                }
                for (name, member) in members {
                    match member {
                        Some(member) => kept.1.insert(name, member),
                        None => kept.1.remove(&name),
                    };
                }
            }
            RolloutChange::Over(row) => drop(self.rollouts.remove(&row)),
            RolloutChange::Proven(row, Some(proven)) => drop(self.proven.insert(row, proven)),
            RolloutChange::Proven(row, None) => drop(self.proven.remove(&row)),
        }
    }
}

impl Course {
    /// As operators see it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Course::Going => "going",
            Course::Paused => "paused",
            Course::TimedOut => "timed_out",
            Course::Aborted(_) => "aborted",
        }
    }

    /// Why the rollout was aborted; empty if it was not.
    pub fn reason(&self) -> &str {
        match self {
            Course::Aborted(reason) => reason,
            Course::Going | Course::Paused | Course::TimedOut => "",
        }
    }

    /// From [`Course::as_str`] and [`Course::reason`].
    pub fn read(name: &str, reason: String) -> Option<Self> {
        let all = [Self::Going, Self::Paused, Self::TimedOut, Self::Aborted(reason)];
        all.into_iter().find(|course| course.as_str() == name)
    }
}

impl Counts {
    /// As it is kept.
    pub fn as_str(self) -> &'static str {
        match self {
            Counts::Nothing => "nothing",
            Counts::Lost => "lost",
            Counts::Failed => "failed",
        }
    }

    /// From [`Counts::as_str`].
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Nothing, Self::Lost, Self::Failed].into_iter().find(|counts| counts.as_str() == name)
    }
}
