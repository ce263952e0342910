//! The nodes that may enter: those whose sealing key is here, as it is durable. A node that was removed or revoked has
//! none. Beside its key a node has what makes its next connection cheap, for in a storm all nodes come again at once:
//! the seal, which costs one key agreement to make, and what the last session left, which saves the next one three of
//! them. Both go with the key: when it goes or another one comes.
//!
//! Absent: the revocation of a node (`controller/engine/src/node/requests.rs`), the other reasons to refuse it
//! (`link/direct/connection.rs`), who is connected (`registry.rs`), and how a session begins with what the one before
//! has left (`shared/src/seal/greeting.rs`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_shared::seal::{Again, Seal, SealPublic};
use muster_shared::{MonoTime, NodeId};

use super::reason::{Reason, Refusal};

/// The time between two looks at all nodes for secrets that are too old. The table has them all, and a look takes a millisecond
/// for 100,000.
const LOOK_EVERY: Duration = Duration::from_secs(3600);

/// The driver updates the table after each commit. The link reads it without asking the driver, so that nodes
/// are admitted even during a long turn. Clones share one table. It has as many entries as the site has nodes.
#[derive(Clone, Debug, Default)]
pub struct Admitted(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    nodes: BTreeMap<NodeId, Entry>,
    /// When all were looked at for what is too old.
    looked: MonoTime,
}

/// A node, in 100 bytes and 400 more while it has come since the start.
struct Entry {
    key: SealPublic,
    seal: Option<Arc<Seal>>,
    again: Option<Again>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.key.fmt(f)
    }
}

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
        Some(self.lock().nodes.get(node)?.key)
    }

    /// Sets the key with which the node may enter, or none any more.
    pub fn set(&self, node: NodeId, key: Option<SealPublic>) {
        let mut table = self.lock();
        match key {
            Some(key) if table.nodes.get(&node).is_some_and(|entry| entry.key == key) => {}
            Some(key) => drop(table.nodes.insert(node, Entry { key, seal: None, again: None })),
            None => drop(table.nodes.remove(&node)),
        }
    }

    /// These nodes may enter and no others: the site was loaded. Another controller may have spoken for it before.
    pub fn begin(&self, nodes: impl Iterator<Item = (NodeId, SealPublic)>) {
        let entry = |(node, key)| (node, Entry { key, seal: None, again: None });
        self.lock().nodes = nodes.map(entry).collect();
    }

    /// The seal of a node with this key, kept from its last connection or made.
    pub fn seal(&self, node: &NodeId, key: &SealPublic, make: impl FnOnce() -> Seal) -> Arc<Seal> {
        if let Some(seal) = self.lock().with_key(node, key).and_then(|entry| entry.seal.clone()) {
            return seal;
        }
        // Made without the lock, so that connections do not wait for each other.
        let seal = Arc::new(make());
        if let Some(entry) = self.lock().with_key(node, key) {
            entry.seal = Some(Arc::clone(&seal));
        }
        seal
    }

    /// Takes what the last session of a node with this key has left; it is of use once, and until it is too old.
    pub fn take_again(&self, node: &NodeId, key: &SealPublic, now: MonoTime) -> Option<Again> {
        let again = self.lock().with_key(node, key)?.again.take()?;
        (!again.is_old(now)).then_some(again)
    }

    /// Keeps what a session of a node with this key has left, if the node may still enter with it.
    pub fn keep_again(&self, node: &NodeId, key: &SealPublic, again: Again, now: MonoTime) {
        let mut table = self.lock();
        if let Some(entry) = table.with_key(node, key) {
            entry.again = Some(again);
        }
        table.look(now);
    }

    /// The table is whole at every point that can panic.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn with_key(&mut self, node: &NodeId, key: &SealPublic) -> Option<&mut Entry> {
        self.nodes.get_mut(node).filter(|entry| entry.key == *key)
    }

    /// Drops what is too old, now and then.
    fn look(&mut self, now: MonoTime) {
        if now.since(self.looked) >= LOOK_EVERY {
            self.looked = now;
            for entry in self.nodes.values_mut() {
                entry.again.take_if(|again| again.is_old(now));
            }
        }
    }
}

#[cfg(test)]
mod tests;
