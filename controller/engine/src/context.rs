//! The lowest layer: time, ids and limits of this start, and the queues for timers, todos, changes
//! and effects.

use std::collections::VecDeque;
use std::sync::Arc;

use muster_shared::MonoTime;

use crate::engine::Config;
use crate::ids::Ids;
use crate::journal::Journal;
use crate::limits::Limits;
use crate::node::epoch_check::History;
use crate::timer::{TimerKey, Timers};
use crate::todo::Todo;
use crate::traversal::begin_in_slices::Slices;

/// State that every layer needs and none decides about.
pub(crate) struct Context {
    /// The epoch in force, the source of generations, and the starts before this one.
    pub history: History,
    pub limits: Limits,
    pub ids: Ids,
    pub now: MonoTime,
    /// When the engine was built. How long a node was away is known only from here on.
    pub began: MonoTime,
    pub timers: Timers,
    /// Todos that follow from the present input.
    pub agenda: VecDeque<Todo>,
    /// Stacks that enter their rows.
    pub slices: Slices,
    /// Changes to persist and effects to carry out.
    pub journal: Journal,
    /// The actor of the request that is handled now.
    pub actor: Option<Arc<str>>,
    /// Counts visits, so that tests find costs that grow with a square.
    #[cfg(test)]
    pub visits: usize,
}

impl Context {
    /// The context of a start.
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
            slices: Slices::default(),
            journal,
            actor: None,
            #[cfg(test)]
            visits: 0,
        }
    }

    /// Advances the time. It never goes back.
    pub fn goes_on(&mut self, now: MonoTime) {
        self.now = self.now.max(now);
    }

    /// Takes a timer that is due.
    pub fn next_timer(&mut self) -> Option<(MonoTime, TimerKey)> {
        self.timers.pop(self.now)
    }
}
