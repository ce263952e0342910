//! Heartbeats: how often agents send them, and what follows if the drift digest in one differs from
//! ours.
//!
//! Absent: the ledger's digest, which is in `Hello` (`node/session.rs`), and after what silence a node is away
//! (`controller/src/link/away_after_silence.rs`).

use std::time::Duration;

use muster_shared::model::Down;

use crate::graph::Graph;
use crate::node::NodeKey;

/// Heartbeats of all agents per second: a hundredth of a processor core, with room to spare. A
/// heartbeat reports drift. If the interval is longer than a connection may be silent, agents keep
/// the connection alive in a cheaper way.
const HEARTBEATS_PER_SECOND: u64 = 200;
/// The longest interval. A node that is away is noticed by its connection. An agent that is silent
/// for longer may not be well.
const HEARTBEAT_MAX: Duration = Duration::from_secs(600);

impl Graph {
    /// The interval of heartbeats. It grows with the number of nodes.
    pub(crate) fn heartbeat_every(&self) -> Duration {
        let nodes = u64::try_from(self.nodes.count()).unwrap_or(u64::MAX);
        let stretched = Duration::from_secs(nodes / HEARTBEATS_PER_SECOND).min(HEARTBEAT_MAX);
        self.ctx.limits.heartbeat.max(stretched)
    }

    /// Handles a heartbeat. If the digests differ, a message was lost, and the agent is asked for
    /// its drift again.
    pub(crate) fn heartbeat(&mut self, node: NodeKey, drift: Option<u128>) {
        let at = &self.nodes[node];
        if at.presence.is_ready() && drift.is_some_and(|drift| drift != at.drifts_digest) {
            self.unhear_strays(node);
            self.send(node, Down::AskDrift);
        }
    }
}
