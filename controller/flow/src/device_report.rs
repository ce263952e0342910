//! Reports of agents about their devices, and the start and end of connections. Decides whether a
//! report ends the batch in flight.
//!
//! Absent: what an applied or refused batch leads to (`batch.rs`), and the node's own `Hello`
//! (`controller/engine/src/node/session.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::model::flow::{Bridge, DeviceName, FlowRefusal, FlowState, FlowUp};
use muster_shared::{Generation, NodeId};
use muster_template::MASK;

use crate::device::{DeviceKey, Flows};
use crate::effect::Effect;
use crate::forget::Forgotten;
use crate::site::Turn;

/// The state of a node.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// The agent's connection, once it has sent a Hello.
    pub connection: Option<u64>,
    /// The agent has reported all its devices since its Hello.
    pub has_told: bool,
    /// Devices that the agent named on this connection so far.
    said: BTreeSet<Bridge>,
    /// The devices that have a table.
    pub devices: BTreeMap<Bridge, DeviceKey>,
    /// Forgotten tables that the agent may still have.
    pub forgotten: BTreeMap<Bridge, Forgotten>,
}

impl Peer {
    /// Whether the agent is connected.
    pub fn is_there(&self) -> bool {
        self.connection.is_some()
    }

    /// Number of devices that the agent named so far, while it reports all of them.
    pub fn named(&self) -> usize {
        self.said.len()
    }

    /// Whether nothing is known of the node.
    pub fn is_idle(&self) -> bool {
        self.connection.is_none() && self.devices.is_empty() && self.forgotten.is_empty()
    }
}

impl Flows {
    /// A node's agent sent a Hello. It reports its devices next, and nothing is sent before.
    pub fn greeted(&mut self, node: &NodeId, connection: u64) {
        self.peers.entry(node.clone()).or_default().connection = Some(connection);
        self.hear_anew(node);
    }

    /// A node is away. Its tables stay as they are, and wait.
    pub fn away(&mut self, node: &NodeId) {
        let Some(peer) = self.peers.get_mut(node) else { return };
        peer.connection = None;
        self.hear_anew(node);
        for key in self.of_node(node) {
            self.end_questions(key);
        }
        self.drop_idle_peer(node);
    }

    fn hear_anew(&mut self, node: &NodeId) {
        let Some(peer) = self.peers.get_mut(node) else { return };
        peer.has_told = false;
        peer.said.clear();
        for key in self.of_node(node) {
            if let Some(device) = self.get_mut(key) {
                (device.heard, device.comparing) = (false, None);
            }
        }
    }

    /// Whether the agent has reported all its devices since its Hello.
    pub fn has_told(&self, node: &NodeId) -> bool {
        self.peers.get(node).is_some_and(|peer| peer.has_told)
    }

    /// Handles a message of a node's agent.
    pub fn received(&mut self, turn: &mut Turn<'_>, node: &NodeId, message: FlowUp) {
        if !self.peers.get(node).is_some_and(Peer::is_there) {
            return;
        }
        let of = |flows: &Self, bridge| flows.peers.get(node)?.devices.get(&bridge).copied();
        match message {
            FlowUp::States { states, complete } => self.states_told(turn, node, states, complete),
            FlowUp::Buckets { device, number, sums } => {
                if let Some(key) = of(self, device) {
                    self.buckets_told(key, number, &sums);
                }
            }
            FlowUp::Entries { device, number, entries, last } => {
                if let Some(key) = of(self, device) {
                    self.entries_told(turn, key, number, entries, last);
                }
            }
            FlowUp::Stats { device, number, entries, tables, last } => {
                if let Some(key) = of(self, device) {
                    self.stats_told(turn.now, key, number, entries, tables, last);
                }
            }
            FlowUp::Foreign { device, number, rules, last } => {
                if let Some(key) = of(self, device) {
                    self.foreign_told(turn, key, number, rules, last);
                }
            }
            // A trace concerns no table: the engine takes the answer.
            FlowUp::Traced { .. } => {}
        }
    }

    fn states_told(&mut self, turn: &mut Turn<'_>, node: &NodeId, states: Vec<FlowState>, complete: bool) {
        let mut told: Vec<DeviceKey> = Vec::new();
        for state in states {
            let is_greeting = !self.has_told(node);
            let name = DeviceName { node: node.clone(), bridge: state.device.clone() };
            let is_forgotten = self.is_of_forgotten(turn.now, node, &state);
            if !is_forgotten {
                told.extend(self.state_told(turn, &name, state));
            }
            // Unknown devices are not remembered, because an agent may name any.
            if is_greeting
                && (is_forgotten || self.find(&name).is_some())
                && let Some(peer) = self.peers.get_mut(node)
            {
                peer.said.insert(name.bridge);
            }
        }
        if complete
            && let Some(peer) = self.peers.get_mut(node)
            && !peer.has_told
        {
            peer.has_told = true;
            let mut said = std::mem::take(&mut peer.said);
            self.all_tables_said(node, &said);
            if let Some(peer) = self.peers.get(node) {
                said.retain(|bridge| !peer.forgotten.contains_key(bridge));
            }
            told = self.of_node(node);
            for key in &told {
                let Some(device) = self.get_mut(*key) else { continue };
                device.heard = true;
                if !said.contains(&device.name.bridge) {
                    device.state = None;
                }
                self.leave_repairs(turn, *key);
            }
        }
        for key in told {
            self.pump(turn, key);
        }
        self.effect(Effect::Told(node.clone()));
    }

    fn state_told(
        &mut self,
        turn: &mut Turn<'_>,
        name: &DeviceName,
        mut state: FlowState,
    ) -> Option<DeviceKey> {
        if state.decided != Generation::default() && !turn.generations.rise_above(state.decided) {
            return None; // no controller gives such a generation
        }
        let key = match self.find(name) {
            Some(key) => key,
            // The device is unknown: a store was restored, or the table was forgotten while the
            // node was away.
            None if state.entries > 0 => self.device(name).ok()?,
            None => return None,
        };
        let device = self.get_mut(key)?;
        let (decided, mut refused) = (state.decided, state.refused.take());
        let (flight, table) = (device.in_flight.as_ref(), &device.table);
        if let Some(FlowRefusal { id, reason, .. }) = &mut refused {
            let sent = flight.map_or(&[][..], |flight| &flight.ids);
            *reason = table.told(std::mem::take(reason), id.as_ref().map_or(sent, std::slice::from_ref));
        }
        state.reason = match state.entry {
            // The agent names an entry that its table no longer has, and that may have hidden something.
            Some(id) if table.get(id).is_none() => MASK.to_owned(),
            Some(id) => table.told(state.reason, &[id]),
            None => table.told_of_device(state.reason),
        };
        let sent = flight.map(|flight| flight.generation);
        device.state = Some(state);
        match sent {
            Some(sent) if sent == decided => match refused {
                Some(refusal) => self.batch_refused(turn, key, &refusal),
                None => self.batch_applied(turn, key),
            },
            // A batch that this store does not know decided it. Above its generation there is room
            // again.
            Some(sent) if sent < decided => self.wait_again(key),
            Some(_) | None => {}
        }
        Some(key)
    }
}
