//! Who owns what on which node: one owner in the whole site.

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::model::{Claim, ClaimKind};

use crate::node::NodeKey;
use crate::resource::Slot;

/// Both ways, so that a row that goes leaves nothing behind, whatever its jobs came to.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    owners: BTreeMap<(NodeKey, Claim), Slot>,
    owned: BTreeSet<(Slot, NodeKey, Claim)>,
}

impl Claims {
    /// How many there are.
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
    pub fn owners(&self) -> impl Iterator<Item = Slot> {
        self.owners.values().copied()
    }

    /// From whoever has it.
    pub fn take(&mut self, node: NodeKey, claim: Claim, slot: Slot) {
        if let Some(old) = self.owners.insert((node, claim.clone()), slot) {
            self.owned.remove(&(old, node, claim.clone()));
        }
        self.owned.insert((slot, node, claim));
    }

    /// Lets go of a claim, unless another row has taken it over.
    pub fn release(&mut self, node: NodeKey, claim: &Claim, slot: Slot) {
        if self.owned.remove(&(slot, node, claim.clone())) {
            self.owners.remove(&(node, claim.clone()));
        }
    }

    /// Lets go of all that a row owns but these.
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
