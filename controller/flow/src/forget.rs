//! Tables that are forgotten: what is on the device stays there. An agent that has not heard of it is told again, and
//! what it says of the table until then is not believed: else it would be made anew, and its rules be taken away.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_shared::model::flow::{Bridge, FlowDown, FlowState};
use muster_shared::{Generation, MonoTime, NodeId};

use crate::device::{DeviceKey, Flows, Target};
use crate::effect::Failure;
use crate::operation::{Begun, FlowAction, Operation, OperationStatus};
use crate::record::{FlowChange, ForgottenRecord};
use crate::session::Peer;
use crate::site::{Refused, Turn};

/// Tables that were forgotten while their nodes were away, or just now: as many as there may be devices.
const FORGOTTEN_MAX: usize = 100_000;

/// An agent that still speaks of a table is told no sooner that it is forgotten.
const SAID_AGAIN: Duration = Duration::from_secs(30);

/// A table that its agent may still have.
#[derive(Debug)]
pub(crate) struct Forgotten {
    /// What the agent decided before is of that table.
    pub generation: Generation,
    /// The connection it was said over last, and when.
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

    /// Over each connection, and now and then to an agent that could not do it: its disk may have room by now.
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

    /// Whether the agent speaks of a table that was forgotten; then it is told so.
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

    /// The agent has no such table any more, or one that was made since.
    fn heard_of_forgotten(&mut self, node: &NodeId, bridge: &Bridge) {
        let Some(peer) = self.peers.get_mut(node) else { return };
        if peer.forgotten.remove(bridge).is_some() {
            self.change(FlowChange::ForgottenHeard { node: node.clone(), bridge: bridge.clone() });
        }
    }

    /// All tables that an agent has, as it greeted: what is not among them is forgotten.
    pub(crate) fn all_tables_said(&mut self, node: &NodeId, said: &BTreeSet<Bridge>) {
        let forgotten = self.peers.get(node).into_iter().flat_map(|peer| peer.forgotten.keys());
        for bridge in forgotten.filter(|bridge| !said.contains(*bridge)).cloned().collect::<Vec<_>>() {
            self.heard_of_forgotten(node, &bridge);
        }
    }
}
