//! The effects that the machine asks for, in order.
//!
//! Absent: what effects there are (`face.rs`), and how each is executed (`agent/src/driver.rs`).

use std::collections::VecDeque;

use muster_shared::model::Up;

use crate::face::Effect;

/// Effects that the driver has not taken yet.
#[derive(Debug, Default)]
pub struct Effects {
    queue: VecDeque<Effect>,
    numbered: u64,
}

impl Effects {
    /// Appends an effect.
    pub fn push(&mut self, effect: Effect) {
        self.queue.push_back(effect);
    }

    /// Sends a message over the open connection.
    pub fn send(&mut self, up: Up) {
        self.push(Effect::Send(up));
    }

    /// Warns the operator of this node.
    pub fn warn(&mut self, warning: String) {
        self.push(Effect::Warn(warning));
    }

    /// A number for a request to the host; the host's answer names the number. Numbers never repeat.
    pub fn number(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }

    pub fn pop(&mut self) -> Option<Effect> {
        self.queue.pop_front()
    }
}

impl Extend<Effect> for Effects {
    fn extend<I: IntoIterator<Item = Effect>>(&mut self, effects: I) {
        self.queue.extend(effects);
    }
}
