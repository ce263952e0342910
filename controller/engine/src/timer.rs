//! Timers: an ordered set; one that no longer fits the state it was set for does nothing.

use std::collections::BTreeSet;

use muster_shared::MonoTime;

use crate::node::NodeKey;
use crate::row::Slot;

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimerKey {
    /// The work of a row is due.
    Work(Slot),
    /// A row has waited long enough.
    Pause(Slot),
    /// A stack's operation has had its time: stack, traversal.
    Stack(u64, u64),
    /// Has anything of a stack moved?
    ProgressCheck(u64),
    /// Has a row changed since it was told of?
    DriftEvent(Slot),
    /// A drifted row is corrected.
    Correct(Slot),
    /// A node was asked for its facts.
    Facts(NodeKey),
    /// Intents are looked at.
    Intents,
    /// A stack follows the nodes.
    Fit(u64),
    /// The next batch of a rollout begins.
    Turn(u64),
}

#[derive(Debug, Default)]
pub(crate) struct Timers(BTreeSet<(MonoTime, TimerKey)>);

impl Timers {
    pub fn set(&mut self, due: MonoTime, key: TimerKey) {
        self.0.insert((due, key));
    }

    pub fn clear(&mut self, due: MonoTime, key: TimerKey) {
        self.0.remove(&(due, key));
    }

    /// How many are set.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn next(&self) -> Option<(MonoTime, &'static str)> {
        let (due, key) = self.0.first()?;
        let why = match key {
            TimerKey::Work(_) => "job",
            TimerKey::Pause(_) => "end of a wait",
            TimerKey::Stack(..) => "stack timeout",
            TimerKey::ProgressCheck(_) => "stack progress check",
            TimerKey::DriftEvent(_) => "drift event",
            TimerKey::Correct(_) => "correction",
            TimerKey::Intents => "intent check",
            TimerKey::Turn(_) => "next batch of a rollout",
            TimerKey::Fit(_) => "stack follows nodes",
            TimerKey::Facts(_) => "facts request timeout",
        };
        Some((*due, why))
    }

    /// When the next job is due.
    #[cfg(test)]
    pub fn next_job(&self) -> Option<MonoTime> {
        self.0.iter().find(|(_, key)| matches!(key, TimerKey::Work(_))).map(|(due, _)| *due)
    }

    #[cfg(test)]
    pub fn is_set(&self, due: MonoTime, key: TimerKey) -> bool {
        self.0.contains(&(due, key))
    }

    pub fn pop(&mut self, now: MonoTime) -> Option<(MonoTime, TimerKey)> {
        if self.0.first()?.0 > now {
            return None;
        }
        self.0.pop_first()
    }
}
