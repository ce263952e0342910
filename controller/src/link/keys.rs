//! The sealing keys of the nodes that may enter, as they are durable.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use muster_shared::NodeId;
use muster_shared::seal::SealPublic;

/// The driver updates the table after each commit. The link reads it without asking the driver, so that nodes
/// are admitted even during a long turn. Clones share one table.
#[derive(Clone, Debug, Default)]
pub struct Keys(Arc<RwLock<BTreeMap<NodeId, SealPublic>>>);

impl Keys {
    /// `None`: the node is unknown or revoked.
    pub fn get(&self, node: &NodeId) -> Option<SealPublic> {
        // A single statement changes the table: a panic elsewhere leaves it intact.
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(node).copied()
    }

    /// Sets the key with which the node may enter, or none any more.
    pub fn set(&self, node: NodeId, key: Option<SealPublic>) {
        let mut keys = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match key {
            Some(key) => drop(keys.insert(node, key)),
            None => drop(keys.remove(&node)),
        }
    }
}
