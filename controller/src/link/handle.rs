//! The driver's end of a link: sends messages to nodes, closes the connection of one when the engine says so, and all
//! connections when the lease is lost.
//!
//! Absent: the decision to revoke (`controller/engine/src/node/requests.rs`), and the driver's end for operators
//! (`driver/handle.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use muster_shared::NodeId;
use muster_shared::join::ADDRESSES_MAX;
use muster_shared::model::Down;
use muster_shared::wire::{self, READS_CONTROLLERS};
use tokio::sync::watch;
use tokio::time::sleep;

use super::contents::{Grant, ReadContent};
use super::nodes::Nodes;
use super::reason::{Reason, Refusal};
use super::registry::{Connections, Peer};
use crate::lease::TENURE_LOOK;

/// Sends to nodes and closes their connections.
#[derive(Clone)]
pub struct LinkHandle {
    nodes: Arc<Nodes>,
    stop: Arc<watch::Sender<bool>>,
    stopped: watch::Receiver<bool>,
}

impl LinkHandle {
    /// The handle of a link that ends when `stop` says so, and says in `stopped` that it has.
    pub(super) fn new(nodes: Arc<Nodes>, stop: watch::Sender<bool>, stopped: watch::Receiver<bool>) -> Self {
        Self { nodes, stop: Arc::new(stop), stopped }
    }

    /// Packs and queues messages for a node; its connection seals them. Never waits. If that is no longer the node's connection,
    /// the messages are dropped: the resync of the next connection repairs this. If too much output waits
    /// already, the connection is closed.
    pub fn send(&self, node: &NodeId, connection: u64, messages: &[Down]) {
        let Some(peer) = self.nodes.registry.get(node) else { return };
        if peer.connection != connection || messages.is_empty() {
            return;
        }
        match wire::pack(messages) {
            Ok(bodies) => {
                peer.outbound.push(bodies);
                if messages.iter().any(|message| matches!(message, Down::Welcome(_))) {
                    peer.welcomed.store(true, Ordering::Release);
                    self.tell_of_controllers(&peer);
                }
            }
            // Sends each message separately, so that only those fail that cannot be sent.
            Err(_) if messages.len() > 1 => {
                messages
                    .iter()
                    .for_each(|message| self.send(node, connection, std::slice::from_ref(message)));
            }
            Err(error) => tracing::error!(%node, %error, "a message cannot be sent"),
        }
    }

    /// An agent learns of the site's other controllers with its welcome, and of later ones when they come.
    fn tell_of_controllers(&self, peer: &Peer) {
        let addresses = self.nodes.common.tenure.addresses(&[]);
        if addresses.len() < 2 || peer.reads.load(Ordering::Acquire) < READS_CONTROLLERS {
            return;
        }
        let addresses =
            addresses.iter().filter_map(|address| address.parse().ok()).take(ADDRESSES_MAX).collect();
        match wire::pack(&[Down::Controllers(addresses)]) {
            Ok(bodies) => peer.outbound.push(bodies),
            Err(error) => {
                tracing::error!(node = %peer.node, %error, "the addresses of controllers cannot be sent")
            }
        }
    }

    /// The node is sent this part of a content, once [`LinkHandle::serve_contents`] was called. Never waits.
    pub fn send_chunk(&self, grant: Grant) {
        self.nodes.contents.grant(grant);
    }

    /// Serves contents from now on.
    pub fn serve_contents(&self, read: &ReadContent) {
        self.nodes.serve_contents(read);
    }

    /// Closes a revoked node's connection, if there is one.
    pub fn close(&self, node: &NodeId) {
        if let Some(peer) = self.nodes.registry.get(node) {
            peer.outbound.end(Refusal::new(Reason::AdministrativeAction, "the controller closed it"));
        }
    }

    /// Counts the connections of nodes.
    pub fn connections(&self) -> Connections {
        self.nodes.registry.count()
    }

    /// Follows the site's lease. All connections end whenever this controller no longer holds it: agents look for the one
    /// that does. Agents are told of controllers that come. Never ends.
    pub async fn follow_tenure(&self) {
        if self.nodes.common.tenure.is_for_good() {
            std::future::pending::<()>().await;
        }
        let (mut held, mut told) = (false, Vec::new());
        loop {
            match self.nodes.may_speak() {
                Ok(()) => {
                    held = true;
                    let addresses = self.nodes.common.tenure.addresses(&[]);
                    if addresses.iter().any(|address| !told.contains(address)) {
                        self.nodes.registry.welcomed().iter().for_each(|peer| self.tell_of_controllers(peer));
                    }
                    told = addresses;
                }
                Err(refusal) if std::mem::take(&mut held) => self.nodes.registry.end(&refusal),
                Err(_) => {}
            }
            sleep(TENURE_LOOK).await;
        }
    }

    /// Admits nobody any more, closes all connections and waits until they are closed, a few seconds at
    /// most. This is fastest while the driver still takes events, or has dropped their receiver.
    pub async fn shutdown(&self) {
        self.stop.send_replace(true);
        self.ended().await;
    }

    /// Waits until no client is admitted any more; before [`LinkHandle::shutdown`] only a bug causes that.
    pub async fn ended(&self) {
        // An error means that the task is gone, which is the awaited event.
        let _ = self.stopped.clone().wait_for(|stopped| *stopped).await;
    }
}

impl std::fmt::Debug for LinkHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LinkHandle")
    }
}
