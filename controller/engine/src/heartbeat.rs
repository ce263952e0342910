//! Heartbeats: how often agents say that they are there, and what follows.

use std::time::Duration;

use muster_shared::model::Down;

use crate::graph::Graph;
use crate::node::NodeKey;

/// Heartbeats of all agents in a second: a hundredth of a processor core, with room to spare. They say what differs; where
/// they are further apart than a connection may be silent, agents say between them that they are there, which costs less.
const HEARTBEATS_PER_SECOND: u64 = 200;
/// Who is away is noticed by its connection; an agent that says nothing for longer is not trusted to be well.
const HEARTBEAT_MAX: Duration = Duration::from_secs(600);

impl Graph {
    /// How often agents are to say that they are there: ever more seldom the more there are.
    pub(crate) fn heartbeat_every(&self) -> Duration {
        let nodes = u64::try_from(self.nodes.count()).unwrap_or(u64::MAX);
        let stretched = Duration::from_secs(nodes / HEARTBEATS_PER_SECOND).min(HEARTBEAT_MAX);
        self.ctx.limits.heartbeat.max(stretched)
    }

    /// What a link has lost of what the agent said is asked for again.
    pub(crate) fn heartbeat(&mut self, node: NodeKey, drift: Option<u128>) {
        let at = &self.nodes[node];
        if at.ready && drift.is_some_and(|drift| drift != at.drifts_digest) {
            self.unhear_strays(node);
            self.send(node, Down::AskDrift);
        }
    }
}
