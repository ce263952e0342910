//! The nodes' connections as the driver loop sees them: events in, messages out.
//!
//! MQTT carries messages and is never trusted to keep them: the resync after a node's `Hello` repeats
//! messages that were lost with a connection. So nothing here is durable, and a packet may be dropped at
//! any time.
//!
//! Absent: the meaning of messages (`controller/engine/src/node/session.rs`), the validity of tokens
//! (`controller/engine/src/node/join_token.rs`), and the revocation of nodes (`controller/engine/src/node/requests.rs`). The
//! driver keeps the table of nodes that may enter (`admitted.rs`). It also grants contents to nodes; the link reads and
//! sends them.

mod admitted;
mod away_after_silence;
pub mod broker;
mod contents;
pub mod direct;
#[cfg(feature = "embedded")]
pub mod embedded;
mod handle;
mod heartbeats;
mod inbox;
pub mod intake;
mod joining;
mod limit_warnings;
mod nodes;
mod outbound;
mod reason;
mod refused;
mod registry;

pub use admitted::Admitted;
pub use broker::{BrokerConfig, BrokerLink, Health};
pub use contents::{Grant, ReadContent};
pub use direct::{DirectConfig, DirectLink, Limits};
#[cfg(feature = "embedded")]
pub use embedded::{EmbeddedBroker, EmbeddedConfig};
pub use handle::LinkHandle;
pub use refused::RefusedPackets;
pub use registry::Connections;

use std::time::Duration;

use crate::lease::Tenure;
use muster_shared::NodeId;
use muster_shared::join::{TokenId, TokenSecret};
use muster_shared::model::Up;
use muster_shared::seal::SealPublic;
use tokio::sync::{oneshot, watch};

/// The things that a link has in common with the rest of the controller.
#[derive(Clone, Debug)]
pub struct Common {
    /// The nodes that may connect; the driver keeps the table.
    pub admitted: Admitted,
    /// Counts packets that are not taken.
    pub refused: RefusedPackets,
    /// Nothing is sent to a node while this controller does not hold the site's lease.
    pub tenure: Tenure,
    /// The driver runs, and the keys are those of the site: nodes may come in.
    is_open: watch::Sender<bool>,
}

impl Common {
    /// For a controller with this tenure.
    pub fn new(tenure: Tenure) -> Self {
        let (admitted, refused) = (Admitted::default(), RefusedPackets::default());
        Self { admitted, refused, tenure, is_open: watch::Sender::default() }
    }

    /// Lets nodes in from now on.
    pub fn open(&self) {
        self.is_open.send_replace(true);
    }

    /// Whether this controller is the active one, and still loads the site.
    fn loads(&self) -> bool {
        self.tenure.holds() && !*self.is_open.borrow()
    }

    fn opens(&self) -> watch::Receiver<bool> {
        self.is_open.subscribe()
    }
}

/// Events of a link for the driver loop.
///
/// The events of one connection come in their order. A node that connects again takes over, and
/// then [`Connected`](Self::Connected) of the newer connection may come before
/// [`Disconnected`](Self::Disconnected) of the older: the higher number is the newer.
#[derive(Debug)]
pub enum LinkEvent {
    /// A node has connected. It may have been revoked since its key was looked up: then close the connection.
    Connected {
        node: NodeId,
        /// Number of the connection: higher is newer, never 0.
        connection: u64,
    },
    /// A node sent messages; the seal is valid and every bound holds.
    Received {
        node: NodeId,
        /// The node's connection that sent them.
        connection: u64,
        messages: Vec<Up>,
    },
    /// A connection that was [`Connected`](Self::Connected) has ended.
    Disconnected {
        node: NodeId,
        /// Number of the connection.
        connection: u64,
    },
    /// A client wants to become a node. The certificate is made after a positive reply: the basis of the
    /// grant must be durable by then.
    Join {
        /// The request.
        ask: JoinAsk,
        /// The grant, or why not.
        reply: oneshot::Sender<Result<JoinGrant, NotJoined>>,
    },
}

/// A joining agent's request. The answer may get lost: the same name and key with the same token
/// once more is the same joining, and must be granted again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinAsk {
    pub token_id: TokenId,
    /// The proof of it.
    pub secret: TokenSecret,
    /// The name that is wanted.
    pub name: NodeId,
    /// The node's sealing key.
    pub seal_public: SealPublic,
    pub agent_version: String,
    /// The server is a node of another site and moves here.
    pub moves: bool,
}

/// The reason why someone does not become a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotJoined {
    /// A reason for the operator.
    pub reason: String,
    /// A further request may come after this time.
    pub after: Option<Duration>,
}

/// The driver's confirmation that the node is known, durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinGrant;
