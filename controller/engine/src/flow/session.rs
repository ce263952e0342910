//! What agents say of their devices, and what follows when they come and go.

use muster_shared::Generation;
use muster_shared::model::flow::{Bridge, DeviceName, FlowRefusal, FlowState, FlowUp};

use super::device::DeviceKey;
use crate::engine::Engine;
use crate::node::NodeKey;

impl Engine {
    /// The node's agent greeted: it says next how its devices stand, and nothing is sent before.
    pub(crate) fn flows_hello(&mut self, node: NodeKey) {
        self.nodes[node].flows_heard = false;
        self.nodes[node].flows_said.clear();
        for key in self.flows.of_node(node) {
            if let Some(device) = self.flows.get_mut(key) {
                (device.heard, device.comparing) = (false, None);
            }
        }
    }

    /// The node is away: its tables stay as they are and wait.
    pub(crate) fn flows_away(&mut self, node: NodeKey) {
        self.flows_hello(node);
        for key in self.flows.of_node(node) {
            self.end_asks(key);
        }
    }

    pub(crate) fn flow_up(&mut self, node: NodeKey, message: FlowUp) {
        if !self.nodes[node].ready {
            return;
        }
        match message {
            FlowUp::States { states, complete } => self.flow_states(node, states, complete),
            FlowUp::Buckets { device, number, sums } => {
                if let Some(key) = self.flows.find(node, &device) {
                    self.buckets_told(key, number, &sums);
                }
            }
            FlowUp::Entries { device, number, entries, last } => {
                if let Some(key) = self.flows.find(node, &device) {
                    self.entries_told(key, number, entries, last);
                }
            }
            FlowUp::Stats { device, number, entries, tables, last } => {
                if let Some(key) = self.flows.find(node, &device) {
                    self.stats_told(key, number, entries, tables, last);
                }
            }
            FlowUp::Foreign { device, number, rules, last } => {
                if let Some(key) = self.flows.find(node, &device) {
                    self.foreign_told(key, number, rules, last);
                }
            }
        }
    }

    fn flow_states(&mut self, node: NodeKey, states: Vec<FlowState>, complete: bool) {
        let mut told: Vec<DeviceKey> = Vec::new();
        for state in states {
            let greeting = !self.nodes[node].flows_heard;
            let bridge = state.device.clone();
            let is_forgotten = self.is_of_forgotten(node, &state);
            if !is_forgotten {
                told.extend(self.flow_state(node, &bridge, state));
            }
            // What nobody here knows is not remembered: an agent may name any.
            if greeting && (is_forgotten || self.flows.find(node, &bridge).is_some()) {
                self.nodes[node].flows_said.insert(bridge);
            }
        }
        if complete && !self.nodes[node].flows_heard {
            self.nodes[node].flows_heard = true;
            let mut said = std::mem::take(&mut self.nodes[node].flows_said);
            self.all_tables_said(node, &said);
            if let Some(forgotten) = self.flows.forgotten.get(&node) {
                said.retain(|bridge| !forgotten.contains_key(bridge));
            }
            told = self.flows.of_node(node);
            for key in &told {
                let Some(device) = self.flows.get_mut(*key) else { continue };
                device.heard = true;
                if !said.contains(&device.bridge) {
                    device.state = None;
                }
                self.leave_repairs(*key);
            }
        }
        for key in told {
            self.pump_device(key);
        }
        self.tables_compared(node);
    }

    fn flow_state(&mut self, node: NodeKey, bridge: &Bridge, mut state: FlowState) -> Option<DeviceKey> {
        if state.decided != Generation::default() && !self.rise_above(state.decided) {
            return None; // no controller gives such a generation
        }
        let key = match self.flows.find(node, bridge) {
            Some(key) => key,
            // Nobody here knows of it: a store was restored, or its table was forgotten while the node was away.
            None if state.entries > 0 => {
                let name = DeviceName { node: self.nodes[node].name.clone(), bridge: bridge.clone() };
                self.device(&name).ok()?
            }
            None => return None,
        };
        let device = self.flows.get_mut(key)?;
        let (decided, mut refused) = (state.decided, state.refused.take());
        let (flight, table) = (device.in_flight.as_ref(), &device.table);
        if let Some(FlowRefusal { id, reason, .. }) = &mut refused {
            let sent = flight.map_or(&[][..], |flight| &flight.ids);
            *reason = table.told(std::mem::take(reason), id.as_ref().map_or(sent, std::slice::from_ref));
        }
        state.reason = table.told_of_device(state.reason);
        let sent = flight.map(|flight| flight.generation);
        device.state = Some(state);
        match sent {
            Some(sent) if sent == decided => match refused {
                Some(refusal) => self.batch_refused(key, &refusal),
                None => self.batch_applied(key),
            },
            // Decided by a batch that this store does not know: above it there is room again.
            Some(sent) if sent < decided => self.wait_again(key),
            Some(_) | None => {}
        }
        Some(key)
    }
}
