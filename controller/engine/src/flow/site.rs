//! Answers what flow tables ask about the rest of the site: claims, owners, nodes, bridges, and
//! what a restored site holds. The questions are the trait `Site` in `controller/flow/src/site.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_flow::{Applications, Owner, Site};
use muster_shared::model::flow::{DeviceName, FlowId};
use muster_shared::model::{Claim, ClaimKind};
use muster_shared::{MonoTime, NodeId};

use crate::claim::Claims;
use crate::intent::Intents;
use crate::node::Nodes;
use crate::restored::Restored;
use crate::row::rows::Rows;
use crate::stack::stacks::Stacks;

/// Parts of the engine that flow tables ask about.
pub(crate) struct FlowSite<'e> {
    pub now: MonoTime,
    pub nodes: &'e Nodes,
    pub rows: &'e Rows,
    pub stacks: &'e Stacks,
    pub claims: &'e Claims,
    pub intents: &'e Intents,
    pub restored: &'e Restored,
    /// Names of applications.
    pub applications: Arc<Applications>,
}

impl Site for FlowSite<'_> {
    fn has_claims(&self, node: &NodeId) -> bool {
        self.nodes.find(node).is_some_and(|node| self.claims.has_kind(node, ClaimKind::Flow))
    }

    fn claimant(&self, device: &DeviceName, id: FlowId) -> Option<Owner> {
        let claim = Claim { kind: ClaimKind::Flow, key: format!("{} {id}", device.bridge) };
        let slot = self.claims.owner(self.nodes.find(&device.node)?, &claim)?;
        Some(Owner(self.rows[slot].id))
    }

    fn describe(&self, owner: Owner) -> String {
        if owner.is_unnamed_operator() {
            return "the operator".into();
        }
        if let Some(number) = owner.as_application() {
            return match self.applications.get(&number) {
                Some(name) => format!("application {name}"),
                None => "an application that is gone".into(),
            };
        }
        if let Some(no) = owner.as_intent() {
            return match self.intents.manager.key(no) {
                Some(key) => format!("intent {key}"),
                None => "an intent that is gone".into(),
            };
        }
        match self.rows.of_id(owner.0).map(|slot| &self.rows[slot]) {
            Some(row) => match self.stacks.get(&row.stack) {
                Some(stack) => format!("resource {} of stack {}", row.name, stack.name),
                None => format!("resource {} of a removed node", row.name),
            },
            None => "a resource that is gone".into(),
        }
    }

    fn is_lost(&self, owner: Owner) -> bool {
        match owner.as_intent() {
            Some(no) => self.intents.manager.key(no).is_none(),
            None => {
                !owner.is_any_operator()
                    && self.rows.of_id(owner.0).is_none_or(|slot| self.rows[slot].is_lost())
            }
        }
    }

    fn hides(&self, owner: Owner) -> bool {
        let row = self.rows.of_id(owner.0).map(|slot| &self.rows[slot]);
        row.is_some_and(|row| row.hides_flows())
    }

    fn has_joined(&self, node: &NodeId) -> bool {
        self.nodes.find(node).is_some_and(|node| self.nodes[node].joined.is_some())
    }

    fn unknown(&self, node: &NodeId) -> Option<String> {
        match self.nodes.find(node) {
            Some(_) => None,
            None => Some(match self.nodes.nearest(node.as_str()) {
                Some(near) => format!("no node '{node}' is known; did you mean {near}?"),
                None => format!("no node '{node}' is known: see 'muster node list'"),
            }),
        }
    }

    fn why_waited_for(&self, node: &NodeId) -> String {
        match self.has_joined(node) {
            true => format!("node {node} is away and is waited for"),
            false => self.nodes.never_joined(node),
        }
    }

    fn lacks_bridge(&self, device: &DeviceName) -> Option<String> {
        self.intents.ports.lacks_bridge(self.now, device)
    }

    fn is_restored(&self) -> bool {
        self.restored.is_on()
    }

    fn holds_table(&self, device: &DeviceName) -> bool {
        self.restored.holds_table(&device.node, &device.bridge)
    }

    fn left_rules(&self, device: &DeviceName) -> Option<&BTreeSet<FlowId>> {
        self.restored.left_rules(&device.node, &device.bridge)
    }

    fn heeds_applied(&self, device: &DeviceName) -> bool {
        self.restored.lists_or_leaves(&device.node, &device.bridge)
    }
}
