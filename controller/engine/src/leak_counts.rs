//! State that the engine holds for stacks, flow rules and intents, by purpose. Without any of those
//! there is none.
//!
//! Absent: joined nodes, their facts, tables of their bridges, and the network as agents report it.

use crate::node::{Node, NodeKey};
use crate::view::View;

impl View<'_> {
    /// Reads and writes of rows and nodes since the last call.
    #[cfg(any(test, feature = "visits"))]
    pub fn take_visits(&self) -> usize {
        self.graph.rows.visits.take() + self.graph.nodes.visits.take()
    }

    /// Counts of the things that the engine holds. A test that has deleted everything checks them,
    /// to see that memory does not grow with deleted things. State held by mistake has a name here.
    pub fn leftovers(&self) -> Vec<(&'static str, usize)> {
        let of_nodes = |count: fn(&Node) -> usize| self.graph.nodes.iter().map(|(_, node)| count(node)).sum();
        // A place stays in line after its job was withdrawn.
        let in_line = |(key, node): (NodeKey, &Node)| {
            node.in_line().into_iter().filter(|slot| self.jobs.waits_in_line(*slot, key)).count()
        };
        // Drift of a thing without a row is the agent's to report.
        let drifts = |(_, node): (NodeKey, &Node)| {
            node.drifts.keys().filter(|thing| self.graph.rows.of_thing(thing).is_some()).count()
        };
        let own = [
            ("rows", self.graph.rows.len()),
            ("claims", self.jobs.claims.len()),
            ("stacks with rollouts", self.jobs.rollouts.len()),
            ("places in the address plan", self.traversals.addresses.len()),
            ("contents", self.jobs.contents.len()),
            ("fetches", self.jobs.fetches.waiting()),
            ("drifted rows", self.jobs.unsettled.drifted().len()),
            ("counts of corrections", self.jobs.unsettled.counted().len()),
            ("restarts that are owed", self.jobs.unsettled.owed().len()),
            ("timers", self.graph.ctx.timers.len()),
            ("steps that follow", self.graph.ctx.agenda.len()),
            ("stacks that enter their rows", self.graph.ctx.slices.len()),
            ("jobs on nodes", of_nodes(|node| node.sent.len())),
            ("rows in lines of nodes", self.graph.nodes.iter().map(in_line).sum()),
            ("looks that are put off on nodes", of_nodes(|node| node.put_off.len())),
            ("rows on nodes", of_nodes(|node| node.rows.len())),
            ("lost rows on nodes", of_nodes(|node| node.lost.len() + node.lost.open.len())),
            ("drifts on nodes", self.graph.nodes.iter().map(drifts).sum()),
        ];
        let all = own
            .into_iter()
            .chain(self.graph.stacks.leftovers())
            .chain(self.traversals.awaited.leftovers())
            .chain(self.flows.leftovers())
            .chain(self.intents.leftovers());
        all.filter(|(_, count)| *count > 0).collect()
    }
}
