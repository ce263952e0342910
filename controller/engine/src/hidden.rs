//! What agents say of a stack's resources, without what its hidden parameters hold, or held when a job went out that has
//! not ended yet.
//!
//! Values are known from the operation that first had them on, until the stack is COMPLETE with others. A restart forgets
//! those of a stack that is COMPLETE, for its revision is not read again: what agents say of it is not shown until its next
//! operation.

use std::collections::BTreeSet;

use muster_template::{MASK, Secrets, Tree};
use serde_json::Value;

use crate::graph::Graph;
use crate::row::{Row, Slot};
use crate::stack::Stack;
use crate::traversals::Traversals;

/// In the place of what an agent says, where it cannot be known what of it is hidden.
const UNKNOWN: &str =
    "what differs is not shown, for a parameter of the stack is hidden: 'muster stack check' tells";

#[derive(Default)]
pub(crate) struct Hidden {
    secrets: Secrets,
    /// Of other stacks, which its ports tell of: known as long as those are there.
    others: Secrets,
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
        (self.secrets, self.forgotten) = (secrets.clone(), false);
    }

    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Its own values are not known.
    pub fn is_forgotten(&self) -> bool {
        self.forgotten
    }

    /// Something more of other stacks; false if it was known.
    pub fn hide_of_others(&mut self, others: &Secrets) -> bool {
        let all = self.others.and(others);
        let is_news = all != self.others;
        self.others = all;
        is_news
    }

    /// There is something of other stacks to hide.
    pub fn hides_of_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// A value for operators, without what other stacks hide.
    pub fn of_others(&self, value: Value) -> Value {
        self.others.mask_value(value)
    }

    fn mask(&self, text: &str) -> String {
        self.others.mask(&self.secrets.mask(text))
    }
}

impl Stack {
    /// A value for operators, of what this tree makes.
    pub fn masked(&self, tree: &Tree, value: Value) -> Value {
        self.hidden.of_others(tree.masked(value))
    }

    /// A text for operators, of what this tree makes.
    pub fn without_hidden(&self, tree: &Tree, text: &str) -> String {
        self.hidden.others.mask(&tree.without_hidden(text))
    }

    /// After a restart.
    pub fn forget_hidden(&mut self) {
        self.hidden.forgotten = self.parameters.values().any(|value| value == MASK);
    }
}

impl Traversals {
    /// What the address plan says to a resource: it names what other stacks made, whose secrets they are too.
    pub(crate) fn shown_of_plan(&self, slot: Slot, reason: &str) -> String {
        let made = self.addresses.made().filter_map(|id| self.jobs.graph.rows.of_thing(&id));
        let makers: BTreeSet<u64> = made.map(|slot| self.jobs.graph.rows[slot].stack).collect();
        let makers = makers.iter().filter_map(|id| self.jobs.graph.stacks.get(id));
        let others = makers.filter(|stack| stack.id != self.jobs.graph.rows[slot].stack);
        let mut shown = self.jobs.graph.shown(slot, reason);
        for stack in others {
            if stack.hidden.forgotten {
                return format!(
                    "the address plan has refused it; why is not shown, for a parameter of stack '{0}' is hidden, \
                     which made a part of that: 'muster stack check {0}' makes it known again",
                    stack.name
                );
            }
            shown = stack.hidden.secrets.mask(&shown);
        }
        shown
    }

    /// The node that a row waits for to tell what it is, for operators: its name may be a hidden value.
    pub(crate) fn asked(&self, row: &Row) -> String {
        let stack = self.jobs.graph.stacks.get(&row.stack).filter(|stack| !stack.hidden.forgotten);
        match (self.asks(row), stack) {
            (Some(node), Some(stack)) => format!("node {}", stack.hidden.mask(node.as_str())),
            _ => "a node".to_owned(),
        }
    }
}

impl Graph {
    /// What an agent says of a resource, for operators.
    pub(crate) fn shown(&self, slot: Slot, reason: &str) -> String {
        match self.stacks.get(&self.rows[slot].stack) {
            Some(stack) if stack.hidden.forgotten => UNKNOWN.to_owned(),
            Some(stack) => stack.hidden.mask(reason),
            None => reason.to_owned(),
        }
    }
}
