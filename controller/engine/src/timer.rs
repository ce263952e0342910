//! Timers: an ordered set. A timer that no longer fits the state it was set for does nothing.
//! `Engine::run_own_timers` (`router.rs`) hands each one that is due to the file of its subject.

use std::collections::BTreeSet;

use muster_shared::MonoTime;

use crate::node::NodeKey;
use crate::row::Slot;

/// The purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimerKey {
    /// The deadline of a row's job (`job/deadline.rs`).
    Task(Slot),
    /// The end of a row's wait.
    Pause(Slot),
    /// The timeout of a stack's operation: stack, traversal.
    Stack(u64, u64),
    /// The progress check of a stack.
    ProgressCheck(u64),
    /// The next drift event of a row.
    DriftEvent(Slot),
    /// The next correction of a drifted row.
    Correct(Slot),
    /// The end of the wait for a node's facts.
    Facts(NodeKey),
    /// The end of the wait for a node's move.
    Move(NodeKey),
    Survey(NodeKey),
    /// The next check of intents.
    Intents,
    /// The time to follow changes of nodes.
    Fit(u64),
    /// The next batch of a rollout.
    Rollouts(u64),
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

    /// Number of timers.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn next(&self) -> Option<(MonoTime, &'static str)> {
        let (due, key) = self.0.first()?;
        let why = match key {
            TimerKey::Task(_) => "job",
            TimerKey::Pause(_) => "end of a wait",
            TimerKey::Stack(..) => "stack timeout",
            TimerKey::ProgressCheck(_) => "stack progress check",
            TimerKey::DriftEvent(_) => "drift event",
            TimerKey::Correct(_) => "correction",
            TimerKey::Intents => "intent check",
            TimerKey::Rollouts(_) => "next batch of a rollout",
            TimerKey::Fit(_) => "stack follows nodes",
            TimerKey::Facts(_) => "facts request timeout",
            TimerKey::Move(_) => "move request timeout",
            TimerKey::Survey(_) => "survey request timeout",
        };
        Some((*due, why))
    }

    /// When the next job is due.
    #[cfg(test)]
    pub fn next_job(&self) -> Option<MonoTime> {
        self.0.iter().find(|(_, key)| matches!(key, TimerKey::Task(_))).map(|(due, _)| *due)
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
