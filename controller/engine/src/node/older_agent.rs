//! Agents older than this controller: what they do not read, and are not sent.
//!
//! An agent says in its `Hello` how many additions to the wire format it reads
//! ([`READS`](muster_shared::wire::READS)). A job of a type that it does not know fails before it
//! is sent, so that nothing of it is on the node. The next operation of the stack tries again.
//!
//! Absent: agents newer than the controller. They leave out what the welcome does not name (`CONTROLLER_READS`).

use muster_shared::NodeId;
use muster_shared::model::Action;
use muster_shared::wire::{READS, READS_ADOPT, agent_that_reads};
use muster_template::Desired;

use crate::graph::Graph;
use crate::node::{Node, NodeKey};
use crate::record::PackedSpec;
use crate::row::Row;

/// Agents that read at least this describe and remove strays.
const READS_STRAYS: u32 = 1;

impl Node {
    /// Whether the agent can be asked to describe strays, and to remove one.
    pub fn reads_strays(&self) -> bool {
        self.reads >= READS_STRAYS
    }
}

impl Graph {
    /// Whether the node is connected and its agent is too old to describe strays.
    pub(crate) fn tells_no_strays(&self, node: &NodeId) -> bool {
        let node = self.nodes.find(node).map(|key| &self.nodes[key]);
        node.is_some_and(|node| node.presence.is_ready() && !node.reads_strays())
    }

    /// The reason why the agent of a connected node is too old for the row's job.
    pub(crate) fn too_old_for(&self, row: &Row, key: NodeKey) -> Option<String> {
        let node = &self.nodes[key];
        if node.reads >= READS {
            return None;
        }
        if row.action() == Some(Action::Adopt) && node.reads < READS_ADOPT {
            return self.cannot_adopt(key);
        }
        let Some(Desired::Node(spec)) = row.spec().map(PackedSpec::unpack) else {
            return None;
        };
        if spec.reads() <= node.reads {
            return None;
        }
        let has = node.joined.as_ref().map_or("an older version", |joined| &joined.agent_version);
        Some(format!(
            "{} runs muster-agent {has}, {} needs {}: upgrade the agent",
            node.name,
            spec.type_name(),
            agent_that_reads(spec.reads())
        ))
    }
}
