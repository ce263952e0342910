//! The site at a glance, as `muster status` shows it, and the state of a node that operators see:
//! online, offline, maintenance and others.
//!
//! Absent: when a node is away (`node/away.rs`), and all else that is shown of a node
//! (`view/node.rs`).

use muster_api::site::{AgentCounts, WaitingView};
use muster_shared::{Epoch, MonoTime};

use crate::node::Node;
use crate::node::greeting_state::Presence;
use crate::view::View;

/// The state of a node, as operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// The agent is connected.
    Online,
    /// The agent is connected, and has no room to record jobs.
    DiskFull,
    /// The agent is not connected.
    Offline,
    /// An operator holds back the node's jobs.
    Maintenance,
    /// Two agents with the node's identity are running.
    Conflict,
    /// An operator revoked the node.
    Revoked,
    /// The node was removed, and something may be left on it.
    Lost,
}

impl NodeState {
    /// The name that operators see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::DiskFull => "disk_full",
            Self::Offline => "offline",
            Self::Maintenance => "maintenance",
            Self::Conflict => "conflict",
            Self::Revoked => "revoked",
            Self::Lost => "lost",
        }
    }
}

/// The site as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteView {
    /// The epoch of this start of the controller.
    pub epoch: Epoch,
    /// The store was older than what agents know, and some differences are undecided.
    pub restored: bool,
    /// Agents by state.
    pub agents: AgentCounts,
    /// Decisions that wait for an operator.
    pub waiting: WaitingView,
}

fn count(agents: &mut AgentCounts, state: NodeState) {
    match state {
        NodeState::Online => agents.online += 1,
        NodeState::DiskFull => agents.disk_full += 1,
        NodeState::Offline => agents.offline += 1,
        NodeState::Maintenance => agents.maintenance += 1,
        NodeState::Conflict => agents.conflict += 1,
        NodeState::Revoked | NodeState::Lost => {}
    }
}

impl Node {
    /// The state of the node. `None`: it is only a name.
    pub(crate) fn state(&self, now: MonoTime) -> Option<NodeState> {
        match &self.joined {
            Some(joined) if joined.revoked => Some(NodeState::Revoked),
            Some(_) if self.instances.in_conflict(now).len() > 1 => Some(NodeState::Conflict),
            Some(joined) if joined.maintenance => Some(NodeState::Maintenance),
            Some(_) if self.presence != Presence::Away && self.disk_full.is_some() => {
                Some(NodeState::DiskFull)
            }
            Some(_) if self.presence != Presence::Away => Some(NodeState::Online),
            Some(_) => Some(NodeState::Offline),
            None if self.lost.is_empty() => None,
            None => Some(NodeState::Lost),
        }
    }
}

impl View<'_> {
    /// The site at a glance.
    pub fn site_view(&self) -> SiteView {
        let mut agents = AgentCounts::default();
        self.graph
            .nodes
            .iter()
            .filter_map(|(_, node)| node.state(self.graph.ctx.now))
            .for_each(|state| count(&mut agents, state));
        let stacks = self.graph.stacks.values().filter(|stack| !stack.cancelled);
        let hooks =
            stacks.filter_map(|stack| stack.walk.as_ref()).map(|walk| walk.at_hooks.len() as u64).sum();
        let restore = self.graph.restored.count() as u64;
        let waiting = WaitingView { restore, hooks, approvals: 0 };
        SiteView { epoch: self.graph.ctx.epoch(), agents, restored: self.graph.restored.is_on(), waiting }
    }
}
