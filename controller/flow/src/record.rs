//! Records of flow tables in the store, and their changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::flow::FlowError;
use muster_shared::model::flow::{Bridge, FlowId, Packed};
use muster_shared::{Generation, NodeId};
use muster_template::ForeignPolicy;

use crate::application::Applications;
use crate::operation::{FlowAction, FlowStages, OperationStatus};
use crate::owner::Owner;

/// A durable change.
#[derive(Clone, Debug)]
pub enum FlowChange {
    /// Inserts or replaces.
    Device(Box<FlowDeviceRecord>),
    /// Removes a device with its entries.
    DeviceRemoved(u32),
    /// Inserts or replaces entries, each with its former versions.
    Entries {
        device: u32,
        entries: Vec<FlowEntryRecord>,
        /// Removed entries. None of them is among `entries`.
        gone: Vec<FlowId>,
    },
    /// Writes up to `serial` have ended. Removed entries are gone. Versions before these writes are
    /// no longer needed.
    Settled {
        device: u32,
        /// The newest of these writes.
        serial: u64,
    },
    /// A table was forgotten, and its agent may not know that.
    Forgotten(ForgottenRecord),
    /// The agent of a forgotten table knows that.
    ForgottenHeard { node: NodeId, bridge: Bridge },
    /// Inserts the name of an application.
    Application { number: u64, name: Box<str> },
    /// Inserts or replaces.
    Operation(Box<FlowOperationRecord>),
    /// The further stages of an operation. Written once, at its start.
    Stages { operation: u64, stages: FlowStages },
    /// Removes an operation.
    OperationRemoved(u64),
    /// A stage has started on a device.
    Part(FlowPartRecord),
    /// A stage has ended on a device.
    PartRemoved {
        /// The operation of the stage.
        operation: u64,
        device: u32,
    },
}

/// Table `flow_devices`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowDeviceRecord {
    pub device: u32,
    pub node: NodeId,
    pub bridge: Bridge,
    /// Serial of the newest write.
    pub serial: u64,
    /// Writes up to this one have ended.
    pub settled: u64,
    /// The batch that the agent may have, and the newest write in it.
    pub sent: Option<(Generation, u64)>,
    /// The policy for rules of others.
    pub foreign: ForeignPolicy,
}

/// Table `flow_forgotten`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgottenRecord {
    pub node: NodeId,
    pub bridge: Bridge,
    /// Batches decided before this generation belong to the forgotten table.
    pub generation: Generation,
}

/// The state of an entry that does not follow from its write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowMark {
    /// The state follows from the write.
    #[default]
    None,
    /// The device refused the entry.
    Failed,
    /// The entry expired by its own timeout.
    Expired,
    /// The device cannot correct the entry at present.
    Wrong,
    /// The device had lost or changed the entry, which is sent again.
    Again,
    /// The entry expired by its own timeout, and its agent has forgotten that.
    Gone,
}

impl FlowMark {
    pub(crate) const COUNT: usize = 6;
    const ALL: [Self; Self::COUNT] =
        [Self::None, Self::Failed, Self::Expired, Self::Wrong, Self::Again, Self::Gone];

    /// The name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            FlowMark::None => "",
            FlowMark::Failed => "FAILED",
            FlowMark::Expired => "EXPIRED",
            FlowMark::Wrong => "WRONG",
            FlowMark::Again => "AGAIN",
            FlowMark::Gone => "GONE",
        }
    }

    /// From [`FlowMark::as_str`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mark| mark.as_str() == name)
    }
}

/// Table `flow_entries`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowEntryRecord {
    pub id: FlowId,
    /// The wanted form, or the last one if the entry is being removed.
    pub packed: Packed,
    pub serial: u64,
    pub owner: Owner,
    /// The entry is being removed.
    pub removing: bool,
    /// The state, if it does not follow from the write.
    pub mark: FlowMark,
    /// Hidden values went into the entry, so its content and reason are not shown.
    pub hidden: bool,
    pub reason: Option<Arc<str>>,
    /// Former versions while writes are open, the newest first.
    pub past: Vec<FlowPast>,
}

/// Table `flow_past`: a former version of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPast {
    /// The wanted form.
    pub packed: Packed,
    /// The write that wanted it.
    pub serial: u64,
    pub owner: Owner,
    /// The entry was being removed.
    pub removing: bool,
    pub mark: FlowMark,
    /// Hidden values went into the version, so its content is not shown.
    pub hidden: bool,
}

/// Table `flow_operations`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowOperationRecord {
    /// Never used twice.
    pub id: u64,
    pub action: FlowAction,
    pub status: OperationStatus,
    /// The present or last stage, from 0.
    pub stage: u32,
    /// Number of stages.
    pub stages: u32,
    /// Number of entries that are as the operation wants them.
    pub done: u64,
    /// Number of all entries.
    pub total: u64,
    /// Seconds until a change that could cut a node off is undone.
    pub confirm_timeout: Option<u32>,
    pub errors: Vec<FlowError>,
}

/// Table `flow_parts`: a stage of an operation on a device that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPartRecord {
    /// The operation.
    pub operation: u64,
    /// The device.
    pub device: u32,
    /// The serial of the write.
    pub serial: u64,
    pub count: u64,
}

/// The records of a store, and the meaning of each change to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowSnapshot {
    /// By number.
    pub devices: BTreeMap<u32, FlowDeviceRecord>,
    /// By device and id.
    pub entries: BTreeMap<(u32, FlowId), FlowEntryRecord>,
    /// By id, with the further stages of open operations.
    pub operations: BTreeMap<u64, (FlowOperationRecord, FlowStages)>,
    /// By operation and device.
    pub parts: BTreeMap<(u64, u32), FlowPartRecord>,
    /// Forgotten tables that agents may still have.
    pub forgotten: BTreeMap<(NodeId, Bridge), Generation>,
    /// Names of applications by number.
    pub applications: Applications,
    /// The highest operation number so far.
    pub highest: u64,
}

impl FlowSnapshot {
    /// Applies a change as the store does.
    pub fn apply(&mut self, change: FlowChange) {
        match change {
            FlowChange::Device(record) => drop(self.devices.insert(record.device, *record)),
            FlowChange::DeviceRemoved(device) => {
                self.devices.remove(&device);
                self.entries.retain(|(of, _), _| *of != device);
                self.parts.retain(|(_, of), _| *of != device);
            }
            FlowChange::Entries { device, entries, gone } => {
                self.entries.extend(entries.into_iter().map(|entry| ((device, entry.id), entry)));
                for id in gone {
                    self.entries.remove(&(device, id));
                }
            }
            FlowChange::Settled { device, serial } => {
                self.entries
                    .retain(|(of, _), entry| *of != device || !entry.removing || entry.serial > serial);
                for ((of, _), entry) in &mut self.entries {
                    if *of == device {
                        let mut until = entry.serial;
                        entry.past.retain(|past| std::mem::replace(&mut until, past.serial) > serial);
                    }
                }
            }
            FlowChange::Forgotten(ForgottenRecord { node, bridge, generation }) => {
                self.forgotten.insert((node, bridge), generation);
            }
            FlowChange::ForgottenHeard { node, bridge } => drop(self.forgotten.remove(&(node, bridge))),
            FlowChange::Application { number, name } => drop(self.applications.insert(number, name)),
            FlowChange::Operation(record) => {
                self.highest = self.highest.max(record.id);
                let ended = record.status != OperationStatus::InProgress;
                let known =
                    self.operations.entry(record.id).or_insert_with(|| (*record.clone(), Arc::default()));
                known.0 = *record;
                if ended {
                    known.1 = Arc::default();
                }
            }
            FlowChange::Stages { operation, stages } => {
                if let Some(known) = self.operations.get_mut(&operation) {
                    known.1 = stages;
                }
            }
            FlowChange::OperationRemoved(id) => drop(self.operations.remove(&id)),
            FlowChange::Part(part) => drop(self.parts.insert((part.operation, part.device), part)),
            FlowChange::PartRemoved { operation, device } => drop(self.parts.remove(&(operation, device))),
        }
    }
}
