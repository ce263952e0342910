//! Who owns what on which node: one owner in the whole site.

use std::collections::BTreeMap;

use muster_shared::model::Claim;

use crate::node::NodeKey;
use crate::resource::Slot;

#[derive(Debug, Default)]
pub(crate) struct Claims(BTreeMap<(NodeKey, Claim), Slot>);

impl Claims {
    pub fn owner(&self, node: NodeKey, claim: &Claim) -> Option<Slot> {
        self.0.get(&(node, claim.clone())).copied()
    }

    pub fn take(&mut self, node: NodeKey, claim: Claim, slot: Slot) {
        self.0.insert((node, claim), slot);
    }

    /// Lets go of a claim, unless another row has taken it over.
    pub fn release(&mut self, node: NodeKey, claim: &Claim, slot: Slot) {
        let key = (node, claim.clone());
        if self.0.get(&key) == Some(&slot) {
            self.0.remove(&key);
        }
    }
}
