//! The lowest layer: what every layer needs and none decides about. The time, ids and limits of this start; and where
//! timers, what follows, changes and effects go.

use std::collections::VecDeque;

use muster_shared::MonoTime;

use crate::engine::Config;
use crate::history::History;
use crate::ids::Ids;
use crate::job::Limits;
use crate::journal::Journal;
use crate::timer::{TimerKey, Timers};
use crate::todo::Todo;

/// What every layer needs.
pub(crate) struct Context {
    /// The epoch in force, the source of generations, and the starts before this one.
    pub history: History,
    pub limits: Limits,
    pub ids: Ids,
    pub now: MonoTime,
    /// When the engine was built: nobody is known to have been away before.
    pub began: MonoTime,
    pub timers: Timers,
    /// What follows from the input in hand.
    pub agenda: VecDeque<Todo>,
    /// What has changed and is to be done.
    pub journal: Journal,
    /// How often a row was looked at: what grows with the square of something is found by counting.
    #[cfg(test)]
    pub visits: usize,
}

impl Context {
    /// Of a start.
    pub fn new(config: Config) -> Self {
        let journal = Journal::new(config.epoch);
        Self {
            history: History::new(config.epoch, config.epoch_bits, config.starts),
            ids: Ids::new(config.seed),
            limits: config.limits,
            now: MonoTime::default(),
            began: MonoTime::default(),
            timers: Timers::default(),
            agenda: VecDeque::new(),
            journal,
            #[cfg(test)]
            visits: 0,
        }
    }

    /// Time has passed; it never goes back.
    pub fn goes_on(&mut self, now: MonoTime) {
        self.now = self.now.max(now);
    }

    /// A timer that is due.
    pub fn next_timer(&mut self) -> Option<(MonoTime, TimerKey)> {
        self.timers.pop(self.now)
    }
}
