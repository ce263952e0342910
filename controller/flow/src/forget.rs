//! Forgotten tables: the rules stay on the device. An agent that does not know yet is told again.
//! Until then its reports about the table do not count: otherwise the table would be made again,
//! and its rules removed.
//!
//! Absent: who asks for that, and when a table may not be forgotten (`purge.rs`).

use std::collections::BTreeSet;
use std::time::Duration;

use muster_shared::model::flow::{Bridge, FlowDown, FlowState};
use muster_shared::{Generation, MonoTime, NodeId};

use crate::device::{DeviceKey, Flows, Target};
use crate::device_report::Peer;
use crate::effect::Failure;
use crate::operation::{Begun, FlowAction, Operation, OperationStatus};
use crate::record::{FlowChange, ForgottenRecord};
use crate::site::{Refused, Turn};

/// Bound on tables forgotten while their nodes were away, or just now: as many as there may be devices.
const FORGOTTEN_MAX: usize = 100_000;

/// The least interval in which an agent that still reports a table is told again to forget it.
const SAID_AGAIN: Duration = Duration::from_secs(30);

/// A forgotten table that its agent may still have.
#[derive(Debug)]
pub(crate) struct Forgotten {
    /// Batches decided before this generation belong to that table.
    pub generation: Generation,
    /// When the agent was told last, and over which connection.
    pub said: Option<(u64, MonoTime)>,
}

impl Flows {
    pub(crate) fn forget_device(&mut self, turn: &mut Turn<'_>, key: DeviceKey) -> Result<Begun, Refused> {
        if self.peers.values().map(|peer| peer.forgotten.len()).sum::<usize>() >= FORGOTTEN_MAX {
            return Err(Refused::Conflict(format!("agents have yet to forget {FORGOTTEN_MAX} tables")));
        }
        let generation = turn.generations.draw();
        let Some(device) = self.get_mut(key) else { return Ok(Begun::default()) };
        let (name, rules) = (device.name.clone(), device.table.len() as u64);
        let waiters: Vec<Target> = std::mem::take(&mut device.waiters).into_values().flatten().collect();
        let record = ForgottenRecord { node: name.node.clone(), bridge: name.bridge.clone(), generation };
        self.change(FlowChange::Forgotten(record));
        let forgotten = Forgotten { generation, said: None };
        self.peers.entry(name.node.clone()).or_default().forgotten.insert(name.bridge.clone(), forgotten);
        self.say_forget(turn.now, &name.node, &name.bridge);
        for target in waiters {
            let failure = Failure { rule: None, reason: "its table was purged".to_owned(), permanent: true };
            self.target_ended(turn, key, target, Err(failure));
        }
        self.end_questions(key);
        self.remove(key);
        let warnings = match self.peers.get(&name.node).is_some_and(Peer::is_there) {
            true => Vec::new(),
            false => vec![format!("node {} is away: its agent is told when it comes back", name.node)],
        };
        let operation = Operation {
            done: rules,
            total: rules,
            stage_count: 1,
            ..Operation::new(FlowAction::Purge, None)
        };
        let id = self.add_operation(operation);
        self.end_operation(id, OperationStatus::Complete);
        Ok(Begun { operation: id, rules, devices: 1, warnings })
    }

    /// Tells the agent to forget, once per connection, and again from time to time: its disk may
    /// have been full.
    fn say_forget(&mut self, now: MonoTime, node: &NodeId, bridge: &Bridge) {
        let Some(peer) = self.peers.get_mut(node) else { return };
        let Some((connection, forgotten)) = peer.connection.zip(peer.forgotten.get_mut(bridge)) else {
            return;
        };
        let is_said = |(over, at): &(u64, MonoTime)| *over == connection && now < *at + SAID_AGAIN;
        if !forgotten.said.as_ref().is_some_and(is_said) {
            forgotten.said = Some((connection, now));
            let generation = forgotten.generation;
            self.send(node.clone(), FlowDown::Forget { device: bridge.clone(), generation });
        }
    }

    /// Whether the agent reports a forgotten table. If so, it is told to forget it.
    pub(crate) fn is_of_forgotten(&mut self, now: MonoTime, node: &NodeId, state: &FlowState) -> bool {
        let peer = self.peers.get(node);
        let Some(forgotten) = peer.and_then(|peer| peer.forgotten.get(&state.device)) else { return false };
        if state.decided >= forgotten.generation {
            self.heard_of_forgotten(node, &state.device);
            return false;
        }
        self.say_forget(now, node, &state.device);
        true
    }

    /// The agent no longer has the table, or has one that was made since.
    fn heard_of_forgotten(&mut self, node: &NodeId, bridge: &Bridge) {
        let Some(peer) = self.peers.get_mut(node) else { return };
        if peer.forgotten.remove(bridge).is_some() {
            self.change(FlowChange::ForgottenHeard { node: node.clone(), bridge: bridge.clone() });
        }
    }

    /// The agent has reported all its tables after its Hello. Others are forgotten.
    pub(crate) fn all_tables_said(&mut self, node: &NodeId, said: &BTreeSet<Bridge>) {
        let forgotten = self.peers.get(node).into_iter().flat_map(|peer| peer.forgotten.keys());
        for bridge in forgotten.filter(|bridge| !said.contains(*bridge)).cloned().collect::<Vec<_>>() {
            self.heard_of_forgotten(node, &bridge);
        }
    }
}
