//! The sealing keys of the nodes that may come in, as they are durable.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use muster_shared::NodeId;
use muster_shared::seal::SealPublic;

/// The driver keeps the table after each commit; the link reads it without asking the driver, so that nodes come in
/// however long a turn takes. Clones share one table.
#[derive(Clone, Debug, Default)]
pub struct Keys(Arc<RwLock<BTreeMap<NodeId, SealPublic>>>);

impl Keys {
    /// None: the node is unknown or revoked.
    pub fn get(&self, node: &NodeId) -> Option<SealPublic> {
        // One statement changes the table: a panic elsewhere leaves it whole.
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(node).copied()
    }

    /// The node may come in with this key, or with none any more.
    pub fn set(&self, node: NodeId, key: Option<SealPublic>) {
        let mut keys = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match key {
            Some(key) => drop(keys.insert(node, key)),
            None => drop(keys.remove(&node)),
        }
    }
}
