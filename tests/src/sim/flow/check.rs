//! Checks, whenever a switch is touched or a table is reported, against the disks of both sides and the switch itself.
//! The checks ask neither the engine nor the agent.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_agent_core::{Op, TableEntry};
use muster_flow::record::{FlowEntryRecord, FlowSnapshot};
use muster_shared::NodeId;
use muster_shared::model::flow::{Bridge, DeviceName, EntryState, FlowId, FlowUp, Packed};

use super::super::world::World;
use super::switch::{Bundled, MANAGEMENT, OTHER};

/// A message is no longer on its way.
const LATE: Duration = Duration::from_secs(120);

/// The number of a device in the store.
pub fn number_of(flows: &FlowSnapshot, node: &NodeId, bridge: &Bridge) -> Option<u32> {
    let mut devices = flows.devices.values();
    devices.find(|device| device.node == *node && device.bridge == *bridge).map(|device| device.device)
}

/// Whether an entry is, or was and may still be, this.
pub fn knows(entry: &FlowEntryRecord, packed: &Packed) -> bool {
    entry.packed == *packed || entry.past.iter().any(|past| past.packed == *packed)
}

impl World {
    /// Checks that a batch that is applied is on disk, the whole of it, or undoes the one that is.
    pub(super) fn batch_is_on_disk(&mut self, at: usize, bridge: &Bridge, ops: &[Op]) {
        let name = self.machines[at].name.clone();
        let durable = self.machines[at].disk.logs.get(bridge).map(|log| log.fold(true)).unwrap_or_default();
        let open = durable.open.map(|open| open.ops).unwrap_or_default();
        let puts = |ops: &[Op]| -> BTreeSet<(FlowId, u64)> {
            ops.iter().filter(|op| op.put).map(|op| (op.id, op.digest)).collect()
        };
        let removes =
            |ops: &[Op]| -> BTreeSet<FlowId> { ops.iter().filter(|op| !op.put).map(|op| op.id).collect() };
        let is_there = |id: &FlowId| durable.kept.contains_key(id);
        let whole = puts(ops) == puts(&open)
            && removes(ops) == removes(&open).into_iter().filter(is_there).collect::<BTreeSet<_>>();
        let known = |op: &&Op| durable.kept.get(&op.id).is_some_and(|kept| kept.digest == op.digest);
        let undoes = ops.iter().filter(|op| op.put).all(|op| known(&op));
        if !whole && !undoes {
            self.violate(format!(
                "{name}/{bridge} is given {ops:?}, which is neither the batch on disk nor what undoes it: {open:?}"
            ));
        }
    }

    /// Checks that a repair does not restore an entry that ended by its timeout. Another entry in the same place may be
    /// restored, as where a change is undone that replaced it.
    pub(super) fn repair_is_right(&mut self, at: usize, bridge: &Bridge, put: &[TableEntry]) {
        let machine = &self.machines[at];
        let durable = machine.disk.logs.get(bridge).map(|log| log.fold(true)).unwrap_or_default();
        let plane = machine.host.switch.planes.get(bridge.as_str());
        let ended = |it: &TableEntry| {
            durable.kept.get(&it.id).is_some_and(|kept| kept.state == EntryState::Expired)
                || plane.is_some_and(|plane| plane.ended.get(&it.id) == Some(&it.digest))
        };
        if let Some(kept) = put.iter().find(|kept| ended(kept)) {
            let (id, name) = (kept.id, machine.name.clone());
            self.violate(format!("{id} on {name}/{bridge} ended by its timeout, and is restored"));
        }
    }

    /// No rule of ours comes to a switch that its table does not account for.
    pub(super) fn is_accounted_for(&mut self, at: usize, bridge: &Bridge, bundle: &[Bundled]) {
        // The other one of two servers with one identity may have taken it off.
        if self.was_cloned(at) {
            self.excuses(at, bridge);
        }
        let wrong = {
            let machine = &self.machines[at];
            let shared = self.shared.borrow();
            let flows = &shared.tables.flows;
            let Some(number) = number_of(flows, &machine.name, bridge) else { return };
            let excused = machine.disk.excused.get(bridge);
            let unknown = |op: &&Bundled| match op {
                Bundled::Put(id, packed) => {
                    let entry = flows.entries.get(&(number, *id));
                    !entry.is_some_and(|entry| knows(entry, packed))
                        && !excused.is_some_and(|all| all.contains(&(*id, packed.digest())))
                }
                Bundled::Remove(_) => false,
            };
            bundle.iter().find(unknown).map(|op| {
                format!("{}/{bridge} is given {op:?}, which its table does not account for", machine.name)
            })
        };
        wrong.into_iter().for_each(|wrong| self.violate(wrong));
    }

    /// Notes the entries on an agent's disk that the table does not know (any more): they may come to the switch until
    /// that is corrected.
    pub fn excuses(&mut self, at: usize, bridge: &Bridge) {
        let machine = &self.machines[at];
        let Some(log) = machine.disk.logs.get(bridge) else { return };
        let folded = log.fold(false);
        let open = folded.open.iter().flat_map(|open| open.ops.iter().filter(|op| op.put));
        let all =
            folded.kept.values().map(|kept| (kept.id, kept.digest)).chain(open.map(|op| (op.id, op.digest)));
        let unknown: Vec<_> = {
            let shared = self.shared.borrow();
            let flows = &shared.tables.flows;
            let number = number_of(flows, &machine.name, bridge);
            let is_known = |(id, digest): &(FlowId, u64)| {
                let entry = number.and_then(|number| flows.entries.get(&(number, *id)));
                entry.is_some_and(|entry| {
                    entry.packed.digest() == *digest
                        || entry.past.iter().any(|past| past.packed.digest() == *digest)
                })
            };
            all.filter(|it| !is_known(it)).collect()
        };
        self.machines[at].disk.excused.entry(bridge.clone()).or_default().extend(unknown);
    }

    /// Checks that a batch that is told of as decided is on disk.
    pub fn tells_what_is_durable(&mut self, at: usize, up: &FlowUp) {
        let FlowUp::States { states, .. } = up else { return };
        for state in states {
            let log = self.machines[at].disk.logs.get(&state.device);
            let durable = log.map(|log| log.fold(true)).unwrap_or_default();
            // One that was refused is as if it had never come, on disk or not.
            let well = state.refused.is_none() && state.decided > durable.decided;
            if well {
                let (name, decided) = (self.machines[at].name.clone(), state.decided);
                self.violate(format!(
                    "{name} says that batch {decided} of {} is decided, which is not on its disk",
                    state.device
                ));
            }
        }
    }

    /// A batch that was on its way when its table was forgotten. A frozen agent takes it when it goes on.
    pub(super) fn excuses_late(&mut self, at: usize, bridge: &Bridge) {
        let machine = &self.machines[at];
        let forgotten = machine.disk.forgotten_at.get(bridge).copied();
        if forgotten.is_some_and(|when| self.now.since(when.max(machine.frozen_until)) < LATE) {
            self.excuses(at, bridge);
        }
    }

    /// The controller's tables have gone back: what its agent has, and what is on its way within it, is not known to them.
    pub fn table_may_be_another(&mut self, at: usize) {
        for bridge in [MANAGEMENT, OTHER].map(str::parse).into_iter().flatten() {
            self.machines[at].disk.forgotten_at.insert(bridge, self.now);
        }
        self.excuses_all(at);
    }

    /// Excuses all of its devices.
    pub fn excuses_all(&mut self, at: usize) {
        for bridge in self.machines[at].disk.logs.keys().cloned().collect::<Vec<_>>() {
            self.excuses(at, &bridge);
        }
    }

    /// The controller has no table of it any more.
    pub fn table_is_gone(&mut self, device: &DeviceName) {
        self.note(|_| format!("the table of {device} is gone"));
        for at in 0..self.machines.len() {
            if self.machines[at].name == device.node {
                self.machines[at].disk.forgotten_at.insert(device.bridge.clone(), self.now);
                self.excuses(at, &device.bridge);
            }
        }
    }

    /// An agent whose answer was lost with its controller has taken what was refused when it was sent again; it has it
    /// until the two are compared.
    pub fn version_is_gone(&mut self, device: &DeviceName) {
        for at in 0..self.machines.len() {
            if self.machines[at].name == device.node {
                self.excuses(at, &device.bridge);
            }
        }
    }
}
