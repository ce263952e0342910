//! Intents after a start: first the network as last reported, then the intents on it.
//!
//! Absent: which intents stay as they are after a start (`controller/intent/src/manager/load.rs`).

use muster_flow::IntentWrites;
use muster_intent::manager::SettledPort;
use muster_intent::record::IntentSnapshot;
use muster_intent::topology::ConnectPoint;

use crate::engine::Engine;

impl Engine {
    /// Loads the network and the intents, after flow tables and rows.
    pub(crate) fn load_intents(&mut self, snapshot: IntentSnapshot) {
        let IntentSnapshot { intents, devices, highest } = snapshot;
        self.intents.highest = highest;
        let mut missed: Vec<(ConnectPoint, ConnectPoint)> = Vec::new();
        for (name, (up, ports)) in devices {
            let silent = ports.iter().filter_map(|port| {
                let at = ConnectPoint { device: name.clone(), port: port.name.clone() };
                Some((port.missed.clone()?, at))
            });
            missed.extend(silent);
            let port = |port: muster_intent::manager::PortRecord| SettledPort {
                name: port.name,
                up: port.up,
                heard: port.heard,
            };
            let ports: Vec<SettledPort> = ports.into_iter().map(port).collect();
            let _left_out = self.intents.manager.tell_device(self.graph().ctx.now, &name, up, &ports);
            let _too_many = self.intents.manager.set_away(&name, true);
        }
        self.declare_links();
        for (from, at) in missed {
            self.intents.manager.load_missed(&from, &at);
        }
        let IntentWrites { mut placed, mut refused, open } = self.flows.intent_writes();
        for (no, (record, owner)) in intents {
            let (placed, refused) = (placed.remove(&no), refused.remove(&no));
            self.intents.manager.load(record, placed.unwrap_or_default(), refused.unwrap_or_default());
            if let Some(row) = owner {
                self.intents.owners.insert(no, row);
            }
        }
        for ((no, key, serial), write) in open {
            let Some(name) = self.flows.name(key).cloned() else { continue };
            if let Some(token) = self.intents.manager.load_open(no, &name, write.ops, write.before) {
                self.flows.await_write(key, serial, token);
            }
        }
    }
}
