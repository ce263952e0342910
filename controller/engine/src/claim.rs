//! Claims: decides which row owns what on which node. A claim has one owner in the whole site. A
//! row gets a claim of another row only in the same stack, if that row is dropped or will not keep
//! the claim. The earlier owner has it again once the later one does not want it any longer.
//!
//! Absent: claims in the checks before an operation (`operation/acceptance.rs`), and how an agent takes a
//! thing over (`agent/core/src/jobs/record_before.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::model::{Claim, ClaimKind};
use muster_shared::{Generation, NodeId};
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
    /// Rows that handed a claim over. One of them has it again if its owner releases it.
    earlier: BTreeMap<(NodeKey, Claim), BTreeSet<Slot>>,
    /// Claims of each row, also those that it handed over.
    by_row: BTreeSet<(Slot, NodeKey, Claim)>,
}

impl Claims {
    /// Number of entries, for both directions.
    pub fn len(&self) -> usize {
        self.owners.len() + self.by_row.len()
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

    /// Makes a row the owner. Any other owner hands the claim over.
    fn take(&mut self, node: NodeKey, claim: Claim, slot: Slot) {
        let key = (node, claim);
        self.leave_earlier(&key, slot);
        if let Some(old) = self.owners.insert(key.clone(), slot).filter(|old| *old != slot) {
            self.earlier.entry(key.clone()).or_default().insert(old);
        }
        self.by_row.insert((slot, key.0, key.1));
    }

    /// Notes a row that handed a claim over before the store was read.
    fn hand_over(&mut self, node: NodeKey, claim: Claim, slot: Slot) {
        self.earlier.entry((node, claim.clone())).or_default().insert(slot);
        self.by_row.insert((slot, node, claim));
    }

    /// Releases a claim of a row. If the row was its owner, returns the rows that handed it over.
    fn release(&mut self, node: NodeKey, claim: &Claim, slot: Slot) -> impl Iterator<Item = Slot> {
        let key = (node, claim.clone());
        let mut heirs = None;
        if self.by_row.remove(&(slot, node, claim.clone())) {
            self.leave_earlier(&key, slot);
            if self.owners.get(&key) == Some(&slot) {
                self.owners.remove(&key);
                heirs = self.earlier.get(&key);
            }
        }
        heirs.into_iter().flatten().copied()
    }

    fn leave_earlier(&mut self, key: &(NodeKey, Claim), slot: Slot) {
        let Some(slots) = self.earlier.get_mut(key) else { return };
        slots.remove(&slot);
        if slots.is_empty() {
            self.earlier.remove(key);
        }
    }

    /// All claims of a row except these.
    fn others(&self, slot: Slot, kept: &[Claim]) -> Vec<(NodeKey, Claim)> {
        let none = Claim { kind: ClaimKind::File, key: String::new() };
        self.by_row
            .range((slot, NodeKey(0), none)..)
            .take_while(|(owner, ..)| *owner == slot)
            .filter(|(.., claim)| !kept.contains(claim))
            .map(|(_, node, claim)| (*node, claim.clone()))
            .collect()
    }
}

impl Jobs {
    /// Releases all claims of a row except these.
    pub(crate) fn keep_claims_of(&mut self, slot: Slot, kept: &[Claim]) {
        for (node, claim) in self.claims.others(slot, kept) {
            self.release_claim(node, claim, slot);
        }
    }

    /// Releases a claim of a row. A row that handed it over has it again. It still counts as handed
    /// over: another row may have changed the thing.
    pub(crate) fn release_claim(&mut self, node: NodeKey, claim: Claim, slot: Slot) {
        let heirs = self.claims.release(node, &claim, slot);
        if let Some(heir) = heirs.max_by_key(|heir| self.graph.rows[*heir].claims_since()) {
            self.claims.take(node, claim, heir);
        }
    }

    /// Takes up a claim of a row that was loaded. A row that handed over some of its claims has
    /// those that no other row has.
    pub(crate) fn load_claim(&mut self, node: NodeKey, claim: Claim, slot: Slot) {
        let rows = &self.graph.rows;
        let stays = |owner: &Slot| match (rows[*owner].handed_over, rows[slot].handed_over) {
            (false, handed_over) => handed_over,
            (true, handed_over) => handed_over && rows[*owner].claims_since() > rows[slot].claims_since(),
        };
        match self.claims.owner(node, &claim).filter(stays) {
            Some(_) => self.claims.hand_over(node, claim, slot),
            None => self.claims.take(node, claim, slot),
        }
    }

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

impl Row {
    /// Orders rows that handed a claim over: the last one has it again. A row that goes takes no claims.
    fn claims_since(&self) -> (bool, Generation) {
        (!self.is_going(), self.generation)
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
