//! Masks the values of hidden parameters in reports of agents: the present values, and those from
//! when an unfinished job was sent.
//!
//! A value is known from the operation that first has it until the stack is COMPLETE with other
//! values. A restart forgets the values of a COMPLETE stack, because its revision is not read
//! again. Reports about such a stack are not shown until its next operation.
//!
//! Absent: how a value is found and masked in a text (`controller/template/src/masking.rs`).

use std::collections::BTreeSet;

use muster_template::{MASK, Secrets, Tree};
use serde_json::Value;

use crate::graph::Graph;
use crate::row::{Row, Slot};
use crate::stack::Stack;
use crate::traversals::Traversals;

/// Stands for a report if its hidden parts are not known.
const UNKNOWN: &str =
    "what differs is not shown, for a parameter of the stack is hidden: 'muster stack check' tells";

#[derive(Default)]
pub(crate) struct Hidden {
    secrets: Secrets,
    /// Hidden values of other stacks, which ports of this stack show. They stay as long as the ports.
    others: Secrets,
    forgotten: bool,
}

impl Hidden {
    /// An operation starts or is taken up. Values of the revision before may still be on nodes.
    pub fn begin(&mut self, secrets: &Secrets) {
        self.secrets = self.secrets.and(secrets);
        self.forgotten = false;
    }

    /// The stack is COMPLETE with these values alone.
    pub fn complete(&mut self, secrets: &Secrets) {
        (self.secrets, self.forgotten) = (secrets.clone(), false);
    }

    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Whether the stack's own hidden values are not known.
    pub fn is_forgotten(&self) -> bool {
        self.forgotten
    }

    /// Adds hidden values of other stacks. Returns false if all are known.
    pub fn hide_of_others(&mut self, others: &Secrets) -> bool {
        let all = self.others.and(others);
        let is_news = all != self.others;
        self.others = all;
        is_news
    }

    /// Whether hidden values of other stacks are known.
    pub fn hides_of_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// A value for operators, with hidden values of other stacks masked.
    pub fn of_others(&self, value: Value) -> Value {
        self.others.mask_value(value)
    }

    fn mask(&self, text: &str) -> String {
        self.others.mask(&self.secrets.mask(text))
    }
}

impl Stack {
    /// A value of this tree for operators.
    pub fn masked(&self, tree: &Tree, value: Value) -> Value {
        self.hidden.of_others(tree.masked(value))
    }

    /// A text about this tree for operators.
    pub fn without_hidden(&self, tree: &Tree, text: &str) -> String {
        self.hidden.others.mask(&tree.without_hidden(text))
    }

    /// Notes after a restart that hidden values are not known, if the stack has any.
    pub fn forget_hidden(&mut self) {
        self.hidden.forgotten = self.parameters.values().any(|value| value == MASK);
    }
}

impl Traversals {
    /// A reason of the address plan for operators. It may name networks of other stacks, so their
    /// hidden values are masked too.
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

    /// The node whose facts a row waits for, for operators. Its name may be a hidden value.
    pub(crate) fn asked(&self, row: &Row) -> String {
        let stack = self.jobs.graph.stacks.get(&row.stack).filter(|stack| !stack.hidden.forgotten);
        match (self.asks(row), stack) {
            (Some(node), Some(stack)) => format!("node {}", stack.hidden.mask(node.as_str())),
            _ => "a node".to_owned(),
        }
    }
}

impl Graph {
    /// A report about a resource, for operators.
    pub(crate) fn shown(&self, slot: Slot, reason: &str) -> String {
        match self.stacks.get(&self.rows[slot].stack) {
            Some(stack) if stack.hidden.forgotten => UNKNOWN.to_owned(),
            Some(stack) => stack.hidden.mask(reason),
            None => reason.to_owned(),
        }
    }
}
