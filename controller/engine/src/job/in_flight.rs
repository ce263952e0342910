//! Jobs in flight: their agents may have them, and are connected. A node keeps the jobs that its agent
//! may have ([`Node::sent`](crate::node::Node::sent)); a stack counts those in flight, here alone.
//!
//! Absent: how many may be in flight (`traversal/gate.rs`), a node's line before (`job/queue.rs`), and who leaves it
//! (`Jobs::pump`, `job.rs`).

use crate::jobs::Jobs;
use crate::node::NodeKey;
use crate::row::Slot;
use crate::todo::Todo;

/// The number of jobs of a stack that are in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InFlight(usize);

impl InFlight {
    pub fn count(self) -> usize {
        self.0
    }
}

impl Jobs {
    /// A job is sent to a connected agent.
    pub(crate) fn enter_flight(&mut self, slot: Slot, node: NodeKey) {
        if self.graph.nodes[node].sent.insert(slot) {
            self.count_in_flight(slot, |count| count + 1);
        }
    }

    /// The agent no longer has a job, if it had it: there is room for another one.
    pub(crate) fn leave_flight(&mut self, slot: Slot, node: NodeKey) {
        if !self.graph.nodes[node].sent.remove(&slot) {
            return;
        }
        self.graph.ctx.agenda.push_back(Todo::Pump(node));
        if self.graph.nodes[node].presence.is_ready() {
            self.count_in_flight(slot, |count| count - 1);
            self.graph.ctx.agenda.push_back(Todo::PumpStack(self.graph.rows[slot].stack));
        }
    }

    /// An agent has connected: the jobs that it may have are in flight.
    pub(crate) fn agent_came(&mut self, node: NodeKey) {
        for slot in self.graph.nodes[node].sent.clone() {
            self.count_in_flight(slot, |count| count + 1);
            self.graph.touch(self.graph.rows[slot].stack);
        }
    }

    /// An agent that was connected has gone: none of its jobs is in flight.
    pub(crate) fn agent_went(&mut self, node: NodeKey) {
        for slot in self.graph.nodes[node].sent.clone() {
            self.graph.set_due(slot, None);
            self.count_in_flight(slot, |count| count - 1);
            let stack = self.graph.rows[slot].stack;
            self.graph.touch(stack);
            self.graph.ctx.agenda.push_back(Todo::PumpStack(stack));
        }
    }

    fn count_in_flight(&mut self, slot: Slot, counted: fn(usize) -> usize) {
        let stack = self.graph.rows[slot].stack;
        if let Some(stack) = self.graph.stacks.get_mut(&stack) {
            stack.in_flight = InFlight(counted(stack.in_flight.0));
        }
    }
}
