//! Tables that are forgotten: what is on the device stays there. An agent that has not heard of it is told again, and
//! what it says of the table until then is not believed: else it would be made anew, and its rules be taken away.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_shared::model::flow::{Bridge, DeviceName, FlowDown, FlowState};
use muster_shared::{Generation, MonoTime};

use super::device::{DeviceKey, Target};
use super::operation::{FlowAction, Operation};
use super::record::{FlowChange, ForgottenRecord};
use crate::engine::Engine;
use crate::node::NodeKey;
use crate::record::{Change, Status};
use crate::request::{Answer, Refusal};

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

impl Engine {
    pub(super) fn forget_device(&mut self, key: DeviceKey, name: &DeviceName) -> Result<Answer, Refusal> {
        if self.flows.forgotten.values().map(|of| of.len()).sum::<usize>() >= FORGOTTEN_MAX {
            return Err(Refusal::Conflict(format!("agents have yet to forget {FORGOTTEN_MAX} tables")));
        }
        let Some(device) = self.flows.get_mut(key) else { return Ok(Answer::Done) };
        let (node, bridge, rules) = (device.node, device.bridge.clone(), device.table.len() as u64);
        let waiters: Vec<Target> = std::mem::take(&mut device.waiters).into_values().flatten().collect();
        let generation = self.next_generation();
        let record = ForgottenRecord { node: name.node.clone(), bridge: bridge.clone(), generation };
        self.change(Change::Flow(FlowChange::Forgotten(record)));
        let forgotten = Forgotten { generation, said: None };
        self.flows.forgotten.entry(node).or_default().insert(bridge.clone(), forgotten);
        self.say_forget(node, &bridge);
        for target in waiters {
            self.target_ended(key, target, Err((None, "its table was purged", true)));
        }
        self.end_asks(key);
        self.flows.remove(key);
        self.change(Change::Flow(FlowChange::DeviceRemoved(key.0)));
        let warnings = if self.nodes[node].ready {
            Vec::new()
        } else {
            vec![format!("node {} is away: its agent is told when it comes back", name.node)]
        };
        self.flows.next_operation += 1;
        let id = self.flows.next_operation;
        self.flows.operations.insert(
            id,
            Operation {
                action: FlowAction::Purge,
                status: Status::InProgress,
                stage: 0,
                stages: Arc::default(),
                stage_count: 1,
                done: rules,
                total: rules,
                confirm: None,
                open: BTreeSet::new(),
                errors: Vec::new(),
            },
        );
        self.end_operation(id, Status::Complete);
        Ok(Answer::Flows { operation: id, rules, devices: 1, warnings })
    }

    /// Over each connection, and now and then to an agent that could not do it: its disk may have room by now.
    fn say_forget(&mut self, node: NodeKey, bridge: &Bridge) {
        let Some(connection) = self.nodes[node].connection.filter(|_| self.nodes[node].ready) else { return };
        let of_node = self.flows.forgotten.get_mut(&node);
        let Some(forgotten) = of_node.and_then(|of| of.get_mut(bridge)) else { return };
        let is_said = |(over, at): &(u64, MonoTime)| *over == connection && self.now < *at + SAID_AGAIN;
        if !forgotten.said.as_ref().is_some_and(is_said) {
            forgotten.said = Some((connection, self.now));
            let generation = forgotten.generation;
            self.send_flow(node, FlowDown::Forget { device: bridge.clone(), generation });
        }
    }

    /// Whether the agent speaks of a table that was forgotten; then it is told so.
    pub(super) fn is_of_forgotten(&mut self, node: NodeKey, state: &FlowState) -> bool {
        let of_node = self.flows.forgotten.get(&node);
        let Some(forgotten) = of_node.and_then(|of| of.get(&state.device)) else { return false };
        if state.decided >= forgotten.generation {
            self.heard_of_forgotten(node, &state.device);
            return false;
        }
        self.say_forget(node, &state.device);
        true
    }

    /// The agent has no such table any more, or one that was made since.
    fn heard_of_forgotten(&mut self, node: NodeKey, bridge: &Bridge) {
        let Some(of_node) = self.flows.forgotten.get_mut(&node) else { return };
        if of_node.remove(bridge).is_none() {
            return;
        }
        if of_node.is_empty() {
            self.flows.forgotten.remove(&node);
        }
        let (node, bridge) = (self.nodes[node].name.clone(), bridge.clone());
        self.change(Change::Flow(FlowChange::ForgottenHeard { node, bridge }));
    }

    /// All tables that an agent has, as it greeted: what is not among them is forgotten.
    pub(super) fn all_tables_said(&mut self, node: NodeKey, said: &BTreeSet<Bridge>) {
        let of_node = self.flows.forgotten.get(&node).into_iter().flatten();
        let gone = of_node.map(|(bridge, _)| bridge).filter(|bridge| !said.contains(*bridge));
        for bridge in gone.cloned().collect::<Vec<_>>() {
            self.heard_of_forgotten(node, &bridge);
        }
    }
}
