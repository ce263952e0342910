//! What agents say of a stack's resources, without what its hidden parameters hold, or held when a job went out that has
//! not ended yet.
//!
//! Values are known from the operation that first had them on, until the stack is COMPLETE with others. A restart forgets
//! those of a stack that is COMPLETE, for its revision is not read again: what agents say of it is not shown until its next
//! operation.

use muster_template::{MASK, Secrets};

use crate::engine::Engine;
use crate::resource::Slot;
use crate::stack::Stack;

/// In the place of what an agent says, where it cannot be known what of it is hidden.
const UNKNOWN: &str =
    "what differs is not shown, for a parameter of the stack is hidden: 'muster stack check' tells";

/// Of one stack.
#[derive(Default)]
pub(crate) struct Hidden {
    secrets: Secrets,
    forgotten: bool,
}

impl Hidden {
    /// An operation begins, or is taken up: what was there before may still be on nodes.
    pub fn begin(&mut self, secrets: &Secrets) {
        self.secrets = self.secrets.and(secrets);
        self.forgotten = false;
    }

    /// Everything is as these say.
    pub fn settle(&mut self, secrets: &Secrets) {
        *self = Self { secrets: secrets.clone(), forgotten: false };
    }
}

impl Stack {
    /// After a restart.
    pub fn forget_hidden(&mut self) {
        self.hidden.forgotten = self.parameters.values().any(|value| value == MASK);
    }
}

impl Engine {
    /// What an agent says of a resource, for operators.
    pub(crate) fn shown(&self, slot: Slot, reason: &str) -> String {
        match self.stacks.get(&self.rows[slot].stack) {
            Some(stack) if stack.hidden.forgotten => UNKNOWN.to_owned(),
            Some(stack) => stack.hidden.secrets.mask(reason),
            None => reason.to_owned(),
        }
    }
}
