//! The nodes that are connected now: at most one connection for each, and the newer one wins.
//!
//! Absent: two agents with one identity (`controller/engine/src/node/clones.rs`), and the state of a node that
//! operators see (`controller/engine/src/view/site.rs`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_shared::NodeId;
use muster_shared::seal::Body;

use super::outbound::Outbound;
use super::reason::{Reason, Refusal};
use crate::lease::Tenure;

/// A connection of one node.
pub struct Peer {
    pub node: NodeId,
    /// Higher is newer.
    pub connection: u64,
    /// Sealed by the connection as they leave.
    pub outbound: Arc<Outbound<Body>>,
    /// The controller has welcomed it.
    pub welcomed: AtomicBool,
    /// [`Hello::reads`](muster_shared::model::Hello::reads) of its greeting.
    pub reads: AtomicU32,
}

/// Connections of nodes by how far they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Nodes that were let in, and not welcomed yet.
    pub new: usize,
    pub welcomed: usize,
}

/// The connections of nodes: at most one per node, a bounded number in all.
pub struct Registry {
    max: usize,
    /// Is told how many nodes are connected.
    tenure: Tenure,
    peers: Mutex<Peers>,
}

#[derive(Default)]
struct Peers {
    by_node: BTreeMap<NodeId, Arc<Peer>>,
    last: u64,
    closed: bool,
}

impl Registry {
    pub fn new(max: usize, tenure: Tenure) -> Self {
        Self { max, tenure, peers: Mutex::default() }
    }

    /// Connections at a time.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Admits a node; `tell` runs before any newer connection of the node enters. An older connection of the
    /// node is told to end.
    pub fn enter(
        &self,
        node: NodeId,
        outbound: Arc<Outbound<Body>>,
        tell: impl FnOnce(&Peer),
    ) -> Result<Arc<Peer>, Refusal> {
        let mut peers = self.lock();
        if peers.closed {
            return Err(shutting_down());
        }
        if peers.by_node.len() >= self.max && !peers.by_node.contains_key(&node) {
            return Err(Refusal::new(Reason::ServerBusy, "as many connections as this server takes"));
        }
        peers.last += 1;
        let peer = Arc::new(Peer {
            node: node.clone(),
            connection: peers.last,
            outbound,
            welcomed: AtomicBool::new(false),
            reads: AtomicU32::new(0),
        });
        let older = peers.by_node.insert(node, Arc::clone(&peer));
        self.tenure.set_agents(peers.by_node.len());
        tell(&peer);
        drop(peers);
        if let Some(older) = older {
            older.outbound.end(Refusal::new(Reason::SessionTakenOver, "the node has connected again"));
        }
        Ok(peer)
    }

    /// A connection is over.
    pub fn leave(&self, peer: &Peer) {
        let mut peers = self.lock();
        if peers.by_node.get(&peer.node).is_some_and(|current| current.connection == peer.connection) {
            peers.by_node.remove(&peer.node);
            self.tenure.set_agents(peers.by_node.len());
        }
    }

    /// The connection of a node.
    pub fn get(&self, node: &NodeId) -> Option<Arc<Peer>> {
        self.lock().by_node.get(node).cloned()
    }

    /// The connections of nodes that were welcomed.
    pub fn welcomed(&self) -> Vec<Arc<Peer>> {
        let peers = self.lock();
        peers.by_node.values().filter(|peer| peer.welcomed.load(Ordering::Acquire)).cloned().collect()
    }

    /// Counts the connections.
    pub fn count(&self) -> Connections {
        let peers = self.lock();
        let welcomed = peers.by_node.values().filter(|peer| peer.welcomed.load(Ordering::Acquire)).count();
        Connections { new: peers.by_node.len() - welcomed, welcomed }
    }

    /// Ends all connections there are.
    pub fn end(&self, refusal: &Refusal) {
        let all = self.lock().by_node.clone();
        all.values().for_each(|peer| peer.outbound.end(refusal.clone()));
    }

    /// Ends all connections and admits no more.
    pub fn close(&self) {
        let all = {
            let mut peers = self.lock();
            peers.closed = true;
            self.tenure.set_agents(0);
            std::mem::take(&mut peers.by_node)
        };
        all.values().for_each(|peer| peer.outbound.end(shutting_down()));
    }

    /// The table is whole at every point that can panic.
    fn lock(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shutting_down() -> Refusal {
    Refusal::new(Reason::ServerShuttingDown, "the controller stops")
}
