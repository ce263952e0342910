//! Intents after a start: the network as it was last heard of, then who stands on it.

use std::collections::BTreeMap;

use muster_intent::manager::{IntentNo, Op, SettledPort};
use muster_intent::topology::ConnectPoint;
use muster_shared::model::flow::{DeviceName, Packed};

use super::record::IntentSnapshot;
use crate::engine::Engine;
use crate::flow::record::FlowMark;
use crate::flow::{DeviceKey, Target};

/// A write that is not decided: what it is about, and what may be there until it is.
type Undecided = (Vec<Op>, Vec<Packed>);

impl Engine {
    /// When flow tables and rows are there.
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
            let _left_out = self.intents.manager.tell_device(self.now, &name, up, &ports);
            let _too_many = self.intents.manager.set_away(&name, true);
        }
        self.declare_links();
        for (from, at) in missed {
            self.intents.manager.load_missed(&from, &at);
        }
        // By intent, device and write.
        let mut open: BTreeMap<(IntentNo, DeviceKey, u64), Undecided> = BTreeMap::new();
        let mut refused: BTreeMap<IntentNo, Vec<(DeviceName, Packed)>> = BTreeMap::new();
        let mut placed: BTreeMap<IntentNo, Vec<(DeviceName, Packed)>> = BTreeMap::new();
        for (key, device) in self.flows.iter() {
            let Some(name) = self.device_name(key) else { continue };
            for (owner, _) in device.table.owners() {
                let Some(no) = owner.as_intent() else { continue };
                for kept in device.table.owned(owner).filter_map(|id| device.table.get(id)) {
                    if kept.mark == FlowMark::Failed {
                        refused.entry(no).or_default().push((name.clone(), kept.packed.clone()));
                        continue;
                    }
                    if !kept.removing {
                        placed.entry(no).or_default().push((name.clone(), kept.packed.clone()));
                    }
                }
            }
            // Of all writes that are not decided, also where a newer one is another's: each may fail by itself.
            let waiting = device.table.waiting().iter().filter_map(|id| device.table.get(*id));
            for write in waiting.flat_map(|kept| kept.open_writes(device.table.settled())) {
                let Some(no) = write.owner.as_intent() else { continue };
                let packed = write.packed.clone();
                let op = if write.removing { Op::Remove(packed) } else { Op::Put(packed) };
                let (ops, before) = open.entry((no, key, write.serial)).or_default();
                ops.push(op);
                before.extend(write.before().cloned());
            }
        }
        for (no, (record, owner)) in intents {
            let (placed, refused) = (placed.remove(&no), refused.remove(&no));
            self.intents.manager.load(record, placed.unwrap_or_default(), refused.unwrap_or_default());
            if let Some(row) = owner {
                self.intents.owners.insert(no, row);
            }
        }
        for ((no, key, serial), (ops, before)) in open {
            let Some(name) = self.device_name(key) else { continue };
            let token = self.intents.manager.load_open(no, &name, ops, before);
            let waiters = self.flows.get_mut(key).map(|device| &mut device.waiters);
            if let (Some(token), Some(waiters)) = (token, waiters) {
                waiters.entry(serial).or_default().push(Target::Intent(token));
            }
        }
    }
}
