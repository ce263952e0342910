//! Claims: decides which row owns what on which node. A claim has one owner in the whole site. A
//! row gets a claim of another row only in the same stack, if that row is dropped or will not keep
//! the claim.
//!
//! Absent: claims in the checks before an operation (`operation/acceptance.rs`), and how an agent takes a
//! thing over (`agent/core/src/jobs/record_before.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::NodeId;
use muster_shared::model::{Claim, ClaimKind};
use muster_template::Kind;

use crate::deployment::Deployed;
use crate::graph::Graph;
use crate::jobs::Jobs;
use crate::node::NodeKey;
use crate::request::Refusal;
use crate::row::attribute::Rendered;
use crate::row::{Role, Row, Slot};

/// Claims in both directions, so that a row that is dropped leaves none, whatever its jobs did.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    owners: BTreeMap<(NodeKey, Claim), Slot>,
    owned: BTreeSet<(Slot, NodeKey, Claim)>,
}

impl Claims {
    /// Number of entries, for both directions.
    pub fn len(&self) -> usize {
        self.owners.len() + self.owned.len()
    }

    pub fn owner(&self, node: NodeKey, claim: &Claim) -> Option<Slot> {
        self.owners.get(&(node, claim.clone())).copied()
    }

    /// Whether anything of this kind is claimed on a node.
    pub fn has_kind(&self, node: NodeKey, kind: ClaimKind) -> bool {
        let first = Claim { kind, key: String::new() };
        let next = self.owners.range((node, first)..).next();
        next.is_some_and(|((of, claim), _)| *of == node && claim.kind == kind)
    }

    #[cfg(test)]
    pub fn all(&self) -> impl Iterator<Item = (NodeKey, &Claim, Slot)> {
        self.owners.iter().map(|((node, claim), slot)| (*node, claim, *slot))
    }

    #[cfg(test)]
    pub fn owners(&self) -> impl Iterator<Item = Slot> {
        self.owners.values().copied()
    }

    /// Makes a row the owner. Any other owner loses the claim.
    pub fn take(&mut self, node: NodeKey, claim: Claim, slot: Slot) {
        if let Some(old) = self.owners.insert((node, claim.clone()), slot) {
            self.owned.remove(&(old, node, claim.clone()));
        }
        self.owned.insert((slot, node, claim));
    }

    /// Releases a claim, unless another row has taken it.
    pub fn release(&mut self, node: NodeKey, claim: &Claim, slot: Slot) {
        if self.owned.remove(&(slot, node, claim.clone())) {
            self.owners.remove(&(node, claim.clone()));
        }
    }

    /// Releases all claims of a row except these.
    pub fn keep(&mut self, slot: Slot, kept: &[Claim]) {
        let none = Claim { kind: ClaimKind::File, key: String::new() };
        let others: Vec<(NodeKey, Claim)> = self
            .owned
            .range((slot, NodeKey(0), none)..)
            .take_while(|(owner, ..)| *owner == slot)
            .filter(|(.., claim)| !kept.contains(claim))
            .map(|(_, node, claim)| (*node, claim.clone()))
            .collect();
        for (node, claim) in others {
            self.release(node, &claim, slot);
        }
    }
}

impl Jobs {
    /// Takes claims for a row. Other rows of the stack hand them over if they are dropped, or will
    /// not keep them.
    pub(crate) fn claim(&mut self, slot: Slot, node: NodeKey, claims: Vec<Claim>) -> Result<(), String> {
        let is_unit = claims.iter().any(|claim| claim.kind == ClaimKind::Unit);
        for claim in &claims {
            let Some(owner) = self.claims.owner(node, claim).filter(|owner| *owner != slot) else { continue };
            let (row, other) = (&self.graph.rows[slot], &self.graph.rows[owner]);
            // The state before a unit's files is recorded in another form than the state before a file.
            let another_form = claim.kind == ClaimKind::File && is_unit != (other.kind == Kind::Unit);
            if other.stack != row.stack
                || another_form
                || !(other.role == Role::Cleanup || self.leaves(owner, node, claim))
            {
                let node = &self.graph.nodes[node].name;
                return Err(self.graph.claimed(claim, node, other, &row.name).to_string());
            }
            if self.takes_it_away(row.is_external(), owner) {
                let node = &self.graph.nodes[node].name;
                return Err(self.external_but_ours(claim, node, owner, &row.name).to_string());
            }
        }
        for claim in claims {
            if let Some(owner) = self.claims.owner(node, &claim).filter(|owner| *owner != slot) {
                self.graph.rows[owner].set_handed_over(true);
                self.graph.row_changed(owner, true);
            }
            self.claims.take(node, claim, slot);
        }
        Ok(())
    }

    /// Whether the traversal will change the row so that it no longer has this claim.
    fn leaves(&self, slot: Slot, node: NodeKey, claim: &Claim) -> bool {
        let row = &self.graph.rows[slot];
        let stack = &self.graph.stacks[&row.stack];
        let Some(walk) = stack.walk.as_ref().filter(|_| row.role == Role::Forward && !row.ready) else {
            return false;
        };
        let (tree, index) = (&walk.tree, row.index as usize);
        let kind = tree.kind(index);
        if row.kind != kind {
            return true; // another thing takes its place
        }
        let references = Rendered { graph: &self.graph, stack };
        // Properties that are not known yet count as unchanged.
        let known = |name| tree.render_property(index, name, &references).ok().flatten();
        let place = if kind.is_deployment() { "server" } else { "node" };
        let node_name: Option<NodeId> = known(place).and_then(|name| name.as_str()?.parse().ok());
        if node_name.is_some_and(|name| self.graph.nodes.find(&name) != Some(node)) {
            return true;
        }
        if kind.is_virtual() || kind == Kind::Dummy {
            return true;
        }
        if kind == Kind::Hostname {
            return false;
        }
        if kind == Kind::File {
            return known("path").is_some_and(|path| path.as_str() != Some(&claim.key));
        }
        tree.render(index, &references).is_ok_and(|properties| {
            let config = |id: &str| self.graph.config(row.stack, id);
            let site = Deployed { stack, resource: tree.name(index), config: &config };
            muster_template::spec_within(kind, &properties, &site)
                .is_ok_and(|spec| !spec.claims().contains(claim))
        })
    }
}

impl Graph {
    /// The refusal of a claim that belongs to another row.
    pub(crate) fn claimed(&self, claim: &Claim, node: &NodeId, owner: &Row, asker: &str) -> Refusal {
        let stack = self.stacks.get(&owner.stack).map_or("?", |stack| stack.name.as_str());
        Refusal::Conflict(format!(
            "resource {asker} claims {claim} on {node}, which belongs to resource {} of stack {stack}: \
             one thing has one owner; take it out of one of the two",
            owner.name
        ))
    }
}
