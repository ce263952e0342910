//! Checks what the controller writes of flow tables, as it becomes durable.

use muster_flow::OperationStatus;
use muster_flow::record::{FlowChange, FlowEntryRecord, FlowMark};
use muster_shared::model::flow::{DeviceName, FlowId};

use super::super::shared::{Noted, Shared};
use super::check::knows;

/// An entry in a word or two.
fn state(entry: &FlowEntryRecord) -> String {
    match (entry.removing, entry.mark) {
        (true, _) => "to go".to_owned(),
        (false, FlowMark::None) => "to be".to_owned(),
        (false, mark) => format!("{mark:?}"),
    }
}

impl Shared {
    /// A change of flow tables is durable.
    pub fn apply_flows(&mut self, change: FlowChange) {
        match &change {
            FlowChange::Entries { device, entries, gone } => {
                self.versions_are_dropped(*device, entries, gone);
                gone.iter().for_each(|id| self.entry_is_dropped(*device, *id));
                if let Some(record) = self.tables.flows.devices.get(device).filter(|_| !entries.is_empty()) {
                    let name = DeviceName { node: record.node.clone(), bridge: record.bridge.clone() };
                    self.flows.forgotten.remove(&name);
                }
                for entry in entries {
                    self.entry_goes(*device, entry);
                }
            }
            FlowChange::Operation(record) => {
                let wrong = self.flows.operation_went(record);
                wrong.into_iter().for_each(|wrong| self.violate(wrong));
                if record.status != OperationStatus::InProgress {
                    let how = if record.status == OperationStatus::Complete { "COMPLETE" } else { "FAILED" };
                    self.counts.add(format!("flow operation {} {how}", record.action.as_str()));
                }
                if record.stage > 0 {
                    self.counts.add("flow operation in a later stage");
                }
            }
            FlowChange::DeviceRemoved(number) => {
                if let Some(device) = self.tables.flows.devices.get(number) {
                    let name = DeviceName { node: device.node.clone(), bridge: device.bridge.clone() };
                    self.flows.forgets(&name);
                    self.noted.push(Noted::TableGone(name));
                }
            }
            FlowChange::Forgotten(record) => {
                let name = DeviceName { node: record.node.clone(), bridge: record.bridge.clone() };
                self.flows.forgotten.insert(name);
            }
            FlowChange::Device(_)
            | FlowChange::Application { .. }
            | FlowChange::ForgottenHeard { .. }
            | FlowChange::Settled { .. }
            | FlowChange::Stages { .. }
            | FlowChange::OperationRemoved(_)
            | FlowChange::Part(_)
            | FlowChange::PartRemoved { .. } => {}
        }
        self.tables.flows.apply(change);
    }

    /// A version that a change made or kept possible is no longer so: the newest, or one that an undecided change was made on.
    fn versions_are_dropped(&mut self, number: u32, entries: &[FlowEntryRecord], gone: &[FlowId]) {
        let flows = &self.tables.flows;
        let Some(device) = flows.devices.get(&number) else { return };
        let is_dropped = |entry: &FlowEntryRecord| {
            let was = flows.entries.get(&(number, entry.id));
            let mut versions = was
                .into_iter()
                .flat_map(|was| std::iter::once(&was.packed).chain(was.past.iter().map(|past| &past.packed)));
            versions.any(|packed| !knows(entry, packed))
        };
        if !gone.is_empty() || entries.iter().any(is_dropped) {
            let name = DeviceName { node: device.node.clone(), bridge: device.bridge.clone() };
            self.noted.push(Noted::VersionGone(name));
        }
    }

    /// Notes an entry as gone if it is not on its device and no longer wanted.
    fn entry_is_dropped(&mut self, number: u32, id: FlowId) {
        let flows = &self.tables.flows;
        let Some((device, entry)) = flows.devices.get(&number).zip(flows.entries.get(&(number, id))) else {
            return;
        };
        if matches!(entry.mark, FlowMark::Gone | FlowMark::Failed) && !entry.removing {
            let name = DeviceName { node: device.node.clone(), bridge: device.bridge.clone() };
            self.flows.is_dropped(name, id, device.serial);
        }
    }

    fn entry_goes(&mut self, number: u32, entry: &FlowEntryRecord) {
        let Some(device) = self.tables.flows.devices.get(&number) else {
            return self.violate(format!("an entry of device {number}, which there is not: {entry:?}"));
        };
        let name = DeviceName { node: device.node.clone(), bridge: device.bridge.clone() };
        let was = self.tables.flows.entries.get(&(number, entry.id));
        let from = was.map_or("none".to_owned(), state);
        let to = state(entry);
        // The write may have been undone within this commit.
        let is_version = |was: &FlowEntryRecord| {
            was.packed == entry.packed
                || was.past.iter().any(|past| past.serial == entry.serial && past.packed == entry.packed)
        };
        let is_given = was.is_some_and(|was| !was.owner.is_unnamed_operator() && is_version(was))
            && entry.owner.is_unnamed_operator()
            && entry.mark != FlowMark::Failed
            && !entry.removing;
        let goes = |was: &FlowEntryRecord| {
            was.removing
                || was.mark == FlowMark::Failed
                || entry.past.first().is_some_and(|past| past.removing)
        };
        let is_taking = !entry.owner.is_unnamed_operator()
            && was.is_some_and(|was| was.owner.is_unnamed_operator() && goes(was));
        let settled = device.settled;
        if from != to {
            self.counts.add(format!("flow entry {from} -> {to}"));
        }
        if entry.packed.unpack().id(&name) != entry.id {
            self.violate(format!("an entry of {name} is not what its id says: {entry:?}"));
        }
        if is_taking {
            self.flows.is_taking(name.clone(), entry.id, entry.serial);
        }
        if is_given {
            let known = entry.serial <= settled;
            self.flows.is_given(name, entry.id, entry.serial, entry.packed.clone(), known);
        }
    }
}
