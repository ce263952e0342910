//! What the engine holds for stacks, flow rules and intents, by what it is for. Where all of them are gone, it is nothing.
//!
//! Absent: nodes that have joined, their facts, tables of their bridges, and the network as it was heard of.

use crate::engine::Engine;
use crate::node::{Node, NodeKey};

impl Engine {
    /// Rows and nodes that were looked at since this was asked last.
    #[cfg(any(test, feature = "visits"))]
    pub fn take_visits(&self) -> usize {
        self.rows.visits.take() + self.nodes.visits.take()
    }

    /// What is held, and how much of it. Whoever has deleted everything asks, to see that memory does not grow with what
    /// was once there; so what is held by mistake has a name here.
    pub fn leftovers(&self) -> Vec<(&'static str, usize)> {
        let of_nodes = |count: fn(&Node) -> usize| self.nodes.iter().map(|(_, node)| count(node)).sum();
        // A place in line outlives the job that was taken back.
        let in_line = |(key, node): (NodeKey, &Node)| {
            node.in_line().into_iter().filter(|slot| self.waits_in_line(*slot, key)).count()
        };
        // What has no row is its agent's to speak of.
        let drifts = |(_, node): (NodeKey, &Node)| {
            node.drifts.keys().filter(|thing| self.rows.of_thing(thing).is_some()).count()
        };
        let own = [
            ("rows", self.rows.len()),
            ("claims", self.claims.len()),
            ("stacks with rollouts", self.rollouts.len()),
            ("places in the address plan", self.addresses.len()),
            ("contents", self.contents.len()),
            ("fetches", self.fetches.waiting()),
            ("drifted rows", self.unsettled.drifted().len()),
            ("counts of corrections", self.unsettled.counted().len()),
            ("restarts that are owed", self.unsettled.owed().len()),
            ("timers", self.timers.len()),
            ("steps that follow", self.agenda.len()),
            ("jobs on nodes", of_nodes(|node| node.sent.len())),
            ("rows in lines of nodes", self.nodes.iter().map(in_line).sum()),
            ("looks that are put off on nodes", of_nodes(|node| node.put_off.len())),
            ("rows on nodes", of_nodes(|node| node.rows.len())),
            ("lost rows on nodes", of_nodes(|node| node.lost.len() + node.lost.open.len())),
            ("drifts on nodes", self.nodes.iter().map(drifts).sum()),
        ];
        let all = own
            .into_iter()
            .chain(self.stacks.leftovers())
            .chain(self.awaited.leftovers())
            .chain(self.flows.leftovers())
            .chain(self.intents.leftovers());
        all.filter(|(_, count)| *count > 0).collect()
    }
}
