//! Nodes and tokens as operators see them.

use std::collections::BTreeMap;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use muster_api::node::{DriftView, LostView, NodeResourceView, NodeView};
use muster_shared::model::Facts;
use muster_shared::seal::SealPublic;
use muster_shared::{NodeId, Rate, StackName};
use muster_template::{Selector, fact, facts_by_name};
use serde_json::{Map, Value};

use crate::node::{Node, NodeKey};
use crate::row::{Row, Slot};
use crate::view::View;
use crate::view::phase::{NeededBy, Phase};
use crate::view::site::NodeState;

/// Lost resources shown of one node. More would only fill screens and answers. Their number is shown.
const LOST_SHOWN: usize = 1000;

/// Drifted resources in one answer. 'node list' has their number.
const DRIFTS_SHOWN: usize = 10_000;

/// Resources of one node in one answer. 'node list' has their number.
const ON_NODE_SHOWN: usize = 1000;

/// A node and its facts.
#[derive(Clone, Debug)]
pub struct KnownNode {
    pub view: NodeView,
    facts: Option<Arc<Facts>>,
}

impl KnownNode {
    /// The facts that the agent sent last, by name. `None`: it has sent none since the controller
    /// started. Their size is as in [`View::known_nodes`].
    pub fn facts(&self) -> Option<Map<String, Value>> {
        self.facts.as_ref().map(|facts| facts_by_name(facts))
    }

    /// Whether a selector matches the node.
    pub fn is_meant(&self, selector: &Selector) -> bool {
        let facts = self.facts.as_ref().map(|facts| |name: &str| fact(facts, name));
        selector.matches(&self.view.labels, facts.as_ref().map(|facts| facts as _))
    }
}

/// A join token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenView {
    /// The id. The secret is not stored.
    pub id: String,
    /// Seconds since 1970.
    pub expires: u64,
    /// The number of nodes that may still join.
    pub uses_left: u32,
    /// The name or pattern that a node must have.
    pub name: Option<String>,
    /// The labels that a node gets.
    pub labels: BTreeMap<String, String>,
    /// Bound on how fast nodes may join.
    pub rate: Option<Rate>,
}

impl View<'_> {
    /// Numbers of joined nodes: connected, away, revoked.
    pub fn node_counts(&self) -> [u64; 3] {
        let mut counts = [0; 3];
        for (_, node) in self.graph.nodes.iter() {
            match &node.joined {
                Some(record) if record.revoked => counts[2] += 1,
                Some(_) if node.presence.is_ready() => counts[0] += 1,
                Some(_) => counts[1] += 1,
                None => {}
            }
        }
        counts
    }

    /// Joined nodes, and removed nodes with something left on them, by name.
    pub fn node_views(&self) -> Vec<NodeView> {
        self.known_nodes().into_iter().map(|node| node.view).collect()
    }

    /// As [`View::node_views`], with facts. Selecting by facts reads up to 64 KiB of each node,
    /// so callers do that outside of the engine.
    pub fn known_nodes(&self) -> Vec<KnownNode> {
        self.node_page(None, usize::MAX)
    }

    /// The next nodes by name, as [`View::known_nodes`] has them.
    pub fn node_page(&self, after: Option<&NodeId>, most: usize) -> Vec<KnownNode> {
        let (drifted, conflicts) = (self.drifted_on_nodes(), self.mac_conflicts());
        let known = |it| self.known_node(it, &drifted, &conflicts);
        self.graph.nodes.iter_after(after).filter_map(known).take(most).collect()
    }

    pub fn node_named(&self, name: &NodeId) -> Option<KnownNode> {
        let key = self.graph.nodes.find(name)?;
        self.known_node((key, &self.graph.nodes[key]), &self.drifted_on_nodes(), &self.mac_conflicts())
    }

    pub(crate) fn known_node(
        &self,
        (key, node): (NodeKey, &Node),
        drifted: &BTreeMap<NodeKey, u64>,
        mac_conflicts: &BTreeMap<NodeId, Vec<String>>,
    ) -> Option<KnownNode> {
        let state = node.state(self.graph.ctx.now)?;
        let conflict = node.instances.in_conflict(self.graph.ctx.now);
        let joined = node.joined.as_ref();
        let lost_total = node.lost.len() as u64;
        let view = NodeView {
            name: node.name.to_string(),
            state: state.as_str().into(),
            state_reason: node
                .disk_full
                .as_deref()
                .filter(|_| state == NodeState::DiskFull)
                .map(str::to_owned),
            labels: joined.map(|joined| joined.labels.clone()).unwrap_or_default(),
            agent_version: joined.map(|joined| joined.agent_version.clone()).unwrap_or_default(),
            address: node.instances.address(),
            last_seen: None,
            conflict,
            clock_off_s: node.clock_off.filter(|_| node.presence.is_ready()),
            silent: node.presence.connection().map(|_| self.graph.ctx.now.0.saturating_sub(node.heard.0)),
            resources: (node.rows.len() as u64).saturating_sub(lost_total),
            drifted: drifted.get(&key).copied().unwrap_or_default(),
            held: self.graph.restored.count_on(&node.name) as u64,
            mac_conflicts: mac_conflicts.get(&node.name).cloned().unwrap_or_default(),
            lost: self.lost_views(node.lost.slots()),
            lost_total,
            facts: None,
        };
        Some(KnownNode { view, facts: node.facts.as_ref().map(|told| Arc::clone(&told.facts)) })
    }

    /// Drifted resources of one node or all, by node, stack and name; the first of very many.
    pub fn drift_views(&self, node: Option<&NodeId>) -> Vec<DriftView> {
        let wanted = |row: &&Row| {
            let at = row.node.map(|key| &self.graph.nodes[key].name);
            !row.is_lost() && at.is_some() && (node.is_none() || at == node)
        };
        let (rows, stacks) = (&self.graph.rows, &self.graph.stacks);
        let drifted = self.jobs.unsettled.drifted().iter().map(|slot| &rows[*slot]);
        let mut views: Vec<DriftView> = drifted
            .filter(wanted)
            .map(|row| DriftView {
                node: row.node.map(|key| self.graph.nodes[key].name.to_string()).unwrap_or_default(),
                stack: stacks.get(&row.stack).map(|stack| stack.name.to_string()).unwrap_or_default(),
                resource: row.name.to_string(),
                kind: row.type_name().into(),
                physical_id: row.physical.to_string(),
                observed: row.observed().as_str().into(),
                reason: row.reason().unwrap_or_default().into(),
                policy: row.drift_policy().as_str().into(),
                phase: Phase::shown(self.traversals.phase_of_drift(row)),
                corrections: row.corrections(),
                breaker: row.breaker().into(),
            })
            .collect();
        views.sort_by(|a, b| (&a.node, &a.stack, &a.resource).cmp(&(&b.node, &b.stack, &b.resource)));
        views.truncate(DRIFTS_SHOWN);
        views
    }

    /// Returns the resources of stacks on a node, by stack and name; the first of very many. An unknown node has none.
    pub fn resources_on(&self, node: &NodeId) -> Vec<NodeResourceView> {
        let Some(key) = self.graph.nodes.find(node) else { return Vec::new() };
        let mut rows: Vec<(&StackName, &str, Slot)> = Vec::new();
        for slot in self.graph.nodes[key].rows.iter() {
            let row = &self.graph.rows[*slot];
            if let Some(stack) = self.graph.stacks.get(&row.stack).filter(|_| !row.is_lost()) {
                rows.push((&stack.name, &row.name, *slot));
            }
        }
        rows.sort_unstable();
        rows.truncate(ON_NODE_SHOWN);
        let view = |(name, _, slot): (&StackName, &str, Slot)| {
            let stack = self.graph.stacks.named(name)?;
            let resource = self.resource_view(stack, slot, &NeededBy::new());
            Some(NodeResourceView { stack: name.to_string(), resource })
        };
        rows.into_iter().filter_map(view).collect()
    }

    /// Number of drifted rows on each node, without lost rows.
    pub(crate) fn drifted_on_nodes(&self) -> BTreeMap<NodeKey, u64> {
        let mut counts = BTreeMap::new();
        let drifted = self.jobs.unsettled.drifted().iter().map(|slot| &self.graph.rows[*slot]);
        let rows = drifted.filter(|row| !row.is_lost());
        for key in rows.filter_map(|row| row.node) {
            *counts.entry(key).or_default() += 1;
        }
        counts
    }

    /// Number of drifted resources on all nodes.
    pub fn drifted_count(&self) -> u64 {
        self.drifted_on_nodes().values().sum()
    }

    /// Lost rows, by stack and name.
    pub(crate) fn lost_views(&self, slots: impl Iterator<Item = Slot>) -> Vec<LostView> {
        let mut rows: Vec<&Row> = slots.map(|slot| &self.graph.rows[slot]).collect();
        rows.sort_by(|a, b| {
            (&a.details().lost_from, &a.name, a.id).cmp(&(&b.details().lost_from, &b.name, b.id))
        });
        rows.truncate(LOST_SHOWN);
        let view = |row: &Row| LostView {
            stack: row.details().lost_from.as_ref().map(ToString::to_string).unwrap_or_default(),
            resource: row.name.to_string(),
            physical_id: row.physical.to_string(),
            kind: row.type_name().into(),
            node: row.node.map(|key| self.graph.nodes[key].name.to_string()).unwrap_or_default(),
            reason: row.reason().unwrap_or_default().into(),
        };
        rows.into_iter().map(view).collect()
    }

    /// Open join tokens.
    pub fn token_views(&self) -> Vec<TokenView> {
        self.graph
            .nodes
            .tokens
            .iter()
            .map(|record| TokenView {
                id: HEXLOWER.encode(&record.token.id),
                expires: record.token.expires,
                uses_left: record.uses_left,
                name: record.token.name.clone(),
                labels: record.token.labels.clone(),
                rate: record.token.rate,
            })
            .collect()
    }

    /// The sealing keys of all nodes that have joined and are not revoked.
    pub fn node_seals(&self) -> Vec<(NodeId, SealPublic)> {
        let seal = |node: &Node| {
            let joined = node.joined.as_ref().filter(|joined| !joined.revoked)?;
            Some((node.name.clone(), joined.seal_public))
        };
        self.graph.nodes.iter().filter_map(|(_, node)| seal(node)).collect()
    }

    /// The sealing key of a node. `None`: the node has not joined or is revoked.
    pub fn node_seal(&self, name: &NodeId) -> Option<SealPublic> {
        let node = &self.graph.nodes[self.graph.nodes.find(name)?];
        node.joined.as_ref().filter(|joined| !joined.revoked).map(|joined| joined.seal_public)
    }
}
