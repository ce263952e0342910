//! What the machine wants done, in order.

use std::collections::VecDeque;

use muster_shared::model::Up;

use crate::face::Effect;

/// Effects that nobody has taken yet.
#[derive(Debug, Default)]
pub struct Effects(VecDeque<Effect>);

impl Effects {
    /// Comes after what is there.
    pub fn push(&mut self, effect: Effect) {
        self.0.push_back(effect);
    }

    /// Over the open connection.
    pub fn send(&mut self, up: Up) {
        self.push(Effect::Send(up));
    }

    /// For the operator who looks at this node.
    pub fn warn(&mut self, warning: String) {
        self.push(Effect::Warn(warning));
    }

    /// The oldest.
    pub fn pop(&mut self) -> Option<Effect> {
        self.0.pop_front()
    }
}

impl Extend<Effect> for Effects {
    fn extend<I: IntoIterator<Item = Effect>>(&mut self, effects: I) {
        self.0.extend(effects);
    }
}
