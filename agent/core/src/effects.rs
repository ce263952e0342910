//! What the machine wants done, in order.

use std::collections::VecDeque;

use muster_shared::model::Up;

use crate::face::Effect;

/// Effects that nobody has taken yet.
#[derive(Debug, Default)]
pub struct Effects {
    queue: VecDeque<Effect>,
    numbered: u64,
}

impl Effects {
    /// Comes after what is there.
    pub fn push(&mut self, effect: Effect) {
        self.queue.push_back(effect);
    }

    /// Over the open connection.
    pub fn send(&mut self, up: Up) {
        self.push(Effect::Send(up));
    }

    /// For the operator who looks at this node.
    pub fn warn(&mut self, warning: String) {
        self.push(Effect::Warn(warning));
    }

    /// A number for what the host is asked to begin, which its answer names. No number comes twice.
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
