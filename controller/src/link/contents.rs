//! Contents on their way to nodes. The driver grants each chunk (node, connection, digest, offset); here the
//! chunk is read from the store. So the driver's turn holds no bytes, and memory does not grow
//! with the nodes that fetch: a chunk has its place in memory from before it is read until it is written to
//! its connection.
//!
//! A chunk that cannot be sent is dropped: an agent asks again for missing chunks.
//!
//! Absent: how many nodes fetch at a time, and which one goes first (`controller/engine/src/job/fetches.rs`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_shared::NodeId;
use muster_shared::model::{ContentDigest, Down};
use muster_shared::wire;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::nodes::Nodes;
use super::registry::Peer;

/// Chunks in memory at a time: 16 MiB of packets.
const CHUNKS_MAX: usize = 128;
/// Chunks under way on one connection. An agent asks for the next chunk when it has one, which may
/// be before we know that it has.
pub(super) const CHUNKS_OF_ONE: usize = 2;
/// Chunks read at a time: the store has one connection for it.
const READERS: usize = 2;

/// Reads at most [`CHUNK_MAX`](muster_shared::wire::CHUNK_MAX) bytes of a content from an offset; empty for a
/// content that is no longer kept. Blocking.
pub type ReadContent = Arc<dyn Fn(ContentDigest, u64) -> Result<Vec<u8>, String> + Send + Sync>;

/// A chunk that the driver granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub node: NodeId,
    /// Over this of its connections.
    pub connection: u64,
    pub digest: ContentDigest,
    pub offset: u64,
}

/// Held by a chunk until it is written.
pub type Room = (OwnedSemaphorePermit, OwnedSemaphorePermit);

pub struct Contents {
    granted: Mutex<Granted>,
    more: Notify,
    room: Arc<Semaphore>,
}

/// A grant for each node, the newest; nodes in turn.
#[derive(Default)]
struct Granted {
    order: VecDeque<NodeId>,
    of_node: BTreeMap<NodeId, Grant>,
}

impl Default for Contents {
    fn default() -> Self {
        let room = Arc::new(Semaphore::new(CHUNKS_MAX));
        Self { granted: Mutex::default(), more: Notify::new(), room }
    }
}

impl Contents {
    pub fn grant(&self, grant: Grant) {
        let mut granted = self.lock();
        let node = grant.node.clone();
        if granted.of_node.insert(node.clone(), grant).is_none() {
            granted.order.push_back(node);
        }
        drop(granted);
        self.more.notify_one();
    }

    async fn next(&self) -> Grant {
        loop {
            if let Some(grant) = self.lock().next() {
                // One wake-up may stand for several grants, so wake the next reader.
                self.more.notify_one();
                return grant;
            }
            self.more.notified().await;
        }
    }

    /// The table is whole at every point that can panic.
    fn lock(&self) -> MutexGuard<'_, Granted> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Granted {
    fn next(&mut self) -> Option<Grant> {
        let node = self.order.pop_front()?;
        self.of_node.remove(&node)
    }
}

impl Nodes {
    /// Serves contents from now on.
    pub fn serve_contents(self: &Arc<Self>, read: &ReadContent) {
        for _ in 0..READERS {
            let (nodes, read) = (Arc::clone(self), Arc::clone(read));
            tokio::spawn(async move {
                loop {
                    let grant = nodes.contents.next().await;
                    nodes.serve_chunk(grant, Arc::clone(&read)).await;
                }
            });
        }
    }

    async fn serve_chunk(&self, grant: Grant, read: ReadContent) {
        let room = Arc::clone(&self.contents.room).acquire_owned().await.expect("it is never closed");
        // Looked up only now: the node may have reconnected while there was no room.
        let Some(peer) = self.registry.get(&grant.node) else { return };
        if peer.connection != grant.connection {
            return;
        }
        let Ok(of_one) = Arc::clone(&peer.outbound.chunks).try_acquire_owned() else { return };
        let serve = move || match read(grant.digest, grant.offset) {
            Ok(bytes) => send_chunk(&peer, &grant, bytes, (room, of_one)),
            Err(error) => tracing::warn!(node = %grant.node, %error, "a content cannot be read"),
        };
        if let Err(error) = tokio::task::spawn_blocking(serve).await {
            tracing::error!(%error, "a content cannot be served");
        }
    }
}

fn send_chunk(peer: &Peer, grant: &Grant, bytes: Vec<u8>, room: Room) {
    let chunk = Down::Chunk { digest: grant.digest, offset: grant.offset, bytes };
    match wire::pack(&[chunk]) {
        Ok(bodies) => peer.outbound.push_chunk(bodies, room),
        Err(error) => tracing::error!(node = %peer.node, %error, "a chunk cannot be sent"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(node: &str, offset: u64) -> Grant {
        let digest = ContentDigest([1; 32]);
        Grant { node: node.parse().unwrap(), connection: 1, digest, offset }
    }

    #[tokio::test]
    async fn nodes_are_served_in_turn_each_what_it_asked_for_last() {
        let contents = Contents::default();
        for (node, offset) in [("greedy", 1), ("greedy", 2), ("greedy", 3), ("modest", 4), ("greedy", 5)] {
            contents.grant(grant(node, offset));
        }
        assert_eq!(contents.next().await, grant("greedy", 5));
        contents.grant(grant("greedy", 6));
        assert_eq!(contents.next().await, grant("modest", 4));
        assert_eq!(contents.next().await, grant("greedy", 6));
        assert!(contents.lock().next().is_none());
    }
}
