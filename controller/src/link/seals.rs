//! Seals of nodes, kept for the next connection: making one takes an agreement of keys, and in a storm all nodes
//! come again at once.
//!
//! Absent: whether the node may enter, which is asked first (`admitted.rs`), and the keys of a connection
//! (`shared/src/seal/session.rs`), which end with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_shared::NodeId;
use muster_shared::seal::{Seal, SealPublic};

use crate::pki::Pki;

/// A bounded table.
pub(super) struct Seals {
    max: usize,
    kept: Mutex<BTreeMap<NodeId, (SealPublic, Arc<Seal>)>>,
}

impl Seals {
    /// Keeps so many, of 300 bytes each.
    pub fn new(max: usize) -> Self {
        Self { max, kept: Mutex::default() }
    }

    /// The seal between the controller and a node with this key.
    pub fn of(&self, pki: &Pki, node: &NodeId, key: &SealPublic) -> Arc<Seal> {
        if let Some((of, seal)) = self.lock().get(node)
            && of == key
        {
            return Arc::clone(seal);
        }
        // Made without the lock, so that connections do not wait for each other.
        let seal = Arc::new(pki.seal(node, key));
        let mut kept = self.lock();
        if kept.len() >= self.max && !kept.contains_key(node) {
            kept.pop_first();
        }
        kept.insert(node.clone(), (*key, Arc::clone(&seal)));
        seal
    }

    /// A single statement changes the table: a panic elsewhere leaves it whole.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, (SealPublic, Arc<Seal>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::seal::SealSecret;

    use super::*;

    #[test]
    fn a_seal_is_kept_until_the_key_changes_or_others_need_room() {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::open(dir.path()).unwrap();
        let seals = Seals::new(2);
        let [web, db, app] = ["web-1", "db-1", "app-1"].map(|name| name.parse::<NodeId>().unwrap());
        let [old, new] = [[1; 32], [2; 32]].map(|bytes| SealSecret::from_bytes(bytes).public());
        let first = seals.of(&pki, &web, &old);
        assert!(Arc::ptr_eq(&first, &seals.of(&pki, &web, &old)));
        let second = seals.of(&pki, &web, &new);
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&second, &seals.of(&pki, &web, &new)));
        for other in [&db, &app] {
            seals.of(&pki, other, &old);
        }
        assert_eq!(seals.lock().len(), 2);
    }
}
