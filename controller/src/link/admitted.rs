//! The nodes that may enter: those whose sealing key is here, as it is durable. A node that was removed or revoked has
//! none.
//!
//! Absent: the revocation of a node (`controller/engine/src/node_request.rs`), the other reasons to refuse it
//! (`link/direct/connection.rs`), and who is connected (`registry.rs`).

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use muster_shared::NodeId;
use muster_shared::seal::SealPublic;

use super::reason::{Reason, Refusal};

/// The driver updates the table after each commit. The link reads it without asking the driver, so that nodes
/// are admitted even during a long turn. Clones share one table.
#[derive(Clone, Debug, Default)]
pub struct Admitted(Arc<RwLock<BTreeMap<NodeId, SealPublic>>>);

impl Admitted {
    /// The key of a node that may enter.
    ///
    /// # Errors
    /// The node is unknown or revoked.
    pub fn admit(&self, node: &NodeId) -> Result<SealPublic, Refusal> {
        self.key(node).ok_or_else(|| Refusal::new(Reason::NotAuthorized, "the node is unknown or revoked"))
    }

    /// `None`: the node is unknown or revoked.
    pub fn key(&self, node: &NodeId) -> Option<SealPublic> {
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
