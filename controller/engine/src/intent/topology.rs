//! The network as agents report it: passed on to the intents' machine, and reported to stacks.
//!
//! Absent: which devices, links and hosts follow from a report (`controller/intent/src/links_from_reports.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_intent::compile::claimed;
use muster_intent::links_from_reports::{Ports, Turn};
use muster_intent::manager::TopologyView;
use muster_shared::NodeId;
use muster_shared::model::topology::DevicePorts;

use crate::engine::Engine;
use crate::node::NodeKey;
use crate::record::Change;
use crate::view::View;

impl Engine {
    /// Calls the machine of ports, and carries out its changes.
    pub(crate) fn with_ports(&mut self, call: impl FnOnce(&mut Ports, &mut Turn<'_>)) {
        let nodes = &self.traversals.jobs.graph.nodes;
        let has_joined = |node: &NodeId| nodes.find(node).is_some_and(|node| nodes[node].joined.is_some());
        let manager = &mut self.intents.manager;
        call(
            &mut self.intents.ports,
            &mut Turn { now: self.traversals.jobs.graph.ctx.now, manager, has_joined: &has_joined },
        );
        while let Some(change) = self.intents.ports.poll_change() {
            self.graph_mut().ctx.change(Change::Intent(change));
        }
        self.tell_claims();
    }

    /// An agent reports its devices.
    pub(crate) fn ports_told(&mut self, node: NodeKey, devices: Vec<DevicePorts>) {
        let node = &self.graph().nodes[node];
        if node.presence.is_ready() {
            let (name, facts) = (node.name.clone(), node.facts.as_ref().map(|told| told.facts.clone()));
            self.with_ports(|ports, turn| ports.told(turn, &name, devices, facts.as_deref()));
        }
    }

    /// A node sent facts, which may show hosts.
    pub(crate) fn look_for_hosts(&mut self, node: NodeKey) {
        let node = &self.graph().nodes[node];
        let Some(facts) = node.facts.as_ref().map(|told| told.facts.clone()) else { return };
        let name = node.name.clone();
        self.with_ports(|ports, turn| ports.look_for_hosts(turn.manager, &name, &facts));
    }

    /// Notes in stacks with an intent for a host that several nodes claim it.
    fn tell_claims(&mut self) {
        let now = self.intents.manager.claims();
        let before = std::mem::replace(&mut self.intents.claimed, now);
        let new: Vec<_> =
            self.intents.claimed.iter().filter(|(host, at)| before.get(*host) != Some(*at)).collect();
        let mut told: Vec<(u64, String)> = Vec::new();
        for (host, at) in new {
            let rows = self.intents.manager.between(*host).filter_map(|no| self.intents.owners.get(&no));
            let stacks = rows.filter_map(|id| Some(self.graph().rows[self.graph().rows.of_id(*id)?].stack));
            let stacks: BTreeSet<u64> = stacks.collect();
            told.extend(
                stacks.into_iter().map(|stack| (stack, format!("host {host} is claimed {}", claimed(at)))),
            );
        }
        told.into_iter().for_each(|(stack, told)| self.graph_mut().note(stack, told));
    }
}

impl View<'_> {
    /// MAC addresses that several nodes claim, by node, as texts for operators.
    pub(crate) fn mac_conflicts(&self) -> BTreeMap<NodeId, Vec<String>> {
        let mut all: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
        for (host, at) in self.intents.manager.claims() {
            let told = format!("MAC address {host} is claimed {}", claimed(&at));
            for point in at {
                all.entry(point.device.node).or_default().push(told.clone());
            }
        }
        all
    }

    /// The network as it is known.
    pub fn topology(&self) -> TopologyView {
        self.intents.manager.view_topology()
    }
}
