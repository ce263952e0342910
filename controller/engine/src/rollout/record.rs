//! Rollouts in the store: tables `rollouts`, `rollout_members` and `proven_sets`. The key is the
//! row that stands for the set.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The rollouts in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutSnapshot {
    /// Rollouts by row, each with the members that have a record.
    pub rollouts: BTreeMap<u64, (RolloutRecord, BTreeMap<Arc<str>, MemberRecord>)>,
    /// By row: the revision that all members have.
    pub proven: BTreeMap<u64, Proven>,
}

/// A change to the rollouts in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutChange {
    /// The rollout of a set goes on.
    Kept {
        /// The row that stands for the set.
        row: u64,
        /// The rollout without its members.
        record: RolloutRecord,
        /// Members that have changed. `None`: the member's record is deleted.
        members: Vec<(Arc<str>, Option<MemberRecord>)>,
        /// The stored members belong to another rollout and are deleted first.
        anew: bool,
    },
    /// The rollout of a set is over.
    Over(u64),
    /// The revision that all members of a set have. `None`: there is none any longer.
    Proven(u64, Option<Proven>),
}

/// A rollout without its members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutRecord {
    /// The traversal of the rollout. Another traversal ignores the record.
    pub traversal: u64,
    /// Whether members begin.
    pub course: Course,
    /// The present batch is the canary, which has yet to prove itself.
    pub canary: bool,
    /// A member has ended well, so the revision does not fail everywhere.
    pub well: bool,
    /// In a rollback: whether the rollout leads back to a COMPLETE revision.
    pub returns: bool,
    /// The time since the present batch ended. `None`: it has not.
    pub rested: Option<Duration>,
}

/// Whether members begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Course {
    /// Members begin.
    #[default]
    Going,
    /// An operator has paused the rollout.
    Paused,
    /// The stack has timed out.
    TimedOut,
    /// No further member begins in this operation, for this reason.
    Aborted(String),
}

/// A member in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberRecord {
    /// The member has started, and has not ended.
    pub begun: bool,
    /// The member has left the set since it began.
    pub leaving: bool,
    /// The count of the member.
    pub counts: Counts,
    /// The member belongs to the present batch.
    pub in_batch: bool,
}

/// The count of a member, apart from being under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counts {
    /// The member does not count.
    #[default]
    Nothing,
    /// The member left while under way, and its result will stay unknown. It counts as failed once
    /// another member has failed.
    Lost,
    /// The member counts as failed.
    Failed,
}

/// The proof that all members of a set have a revision. The same set in another revision may get
/// other values from other resources, so both fields count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proven {
    /// The revision.
    pub revision: u32,
    /// Digest of the set's source in the template.
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
    /// The name that operators see.
    pub fn as_str(&self) -> &'static str {
        match self {
            Course::Going => "going",
            Course::Paused => "paused",
            Course::TimedOut => "timed_out",
            Course::Aborted(_) => "aborted",
        }
    }

    /// The names of all of them.
    pub const NAMES: [&str; 4] = ["going", "paused", "timed_out", "aborted"];

    /// The reason for the abort; empty if the rollout was not aborted.
    pub fn reason(&self) -> &str {
        match self {
            Course::Aborted(reason) => reason,
            Course::Going | Course::Paused | Course::TimedOut => "",
        }
    }

    /// The course with this name and reason. `None`: the name is unknown.
    pub fn read(name: &str, reason: String) -> Option<Self> {
        let all = [Self::Going, Self::Paused, Self::TimedOut, Self::Aborted(reason)];
        all.into_iter().find(|course| course.as_str() == name)
    }
}

impl Counts {
    /// The name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Counts::Nothing => "nothing",
            Counts::Lost => "lost",
            Counts::Failed => "failed",
        }
    }

    /// The value with this name in the store.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Nothing, Self::Lost, Self::Failed].into_iter().find(|counts| counts.as_str() == name)
    }
}
