//! What the store keeps of flow tables, and what its changes mean.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::flow::FlowError;
use muster_shared::model::flow::{Bridge, FlowId, Packed};
use muster_shared::{Generation, NodeId};
use muster_template::ForeignPolicy;

use crate::entry::Owner;
use crate::operation::{FlowAction, FlowStages, OperationStatus};

/// A change of what is durable of flow tables.
#[derive(Clone, Debug)]
pub enum FlowChange {
    /// Inserts or replaces.
    Device(Box<FlowDeviceRecord>),
    /// It is gone, with its entries.
    DeviceRemoved(u32),
    /// Inserts or replaces, each with what it was before.
    Entries {
        device: u32,
        /// Many at a time.
        entries: Vec<FlowEntryRecord>,
        /// These are there no more; none of them is among `entries`.
        gone: Vec<FlowId>,
    },
    /// All writes up to here have come to their end: entries that were to go are gone, and what others were before
    /// such a write is not needed any more.
    Settled {
        device: u32,
        /// Up to here.
        serial: u64,
    },
    /// A table was forgotten, and its agent may not know.
    Forgotten(ForgottenRecord),
    /// It does.
    ForgottenHeard { node: NodeId, bridge: Bridge },
    /// Inserts or replaces.
    Operation(Box<FlowOperationRecord>),
    /// What an operation is to do; once, when it begins.
    Stages { operation: u64, stages: FlowStages },
    /// The operation is forgotten.
    OperationRemoved(u64),
    /// A stage has begun on a device.
    Part(FlowPartRecord),
    /// And ended.
    PartRemoved {
        /// Of this operation.
        operation: u64,
        /// On this device.
        device: u32,
    },
}

/// Table `flow_devices`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowDeviceRecord {
    pub device: u32,
    pub node: NodeId,
    pub bridge: Bridge,
    /// Of the newest write.
    pub serial: u64,
    /// All writes up to here have come to their end.
    pub settled: u64,
    /// The batch that may be with the agent, and the newest write in it.
    pub sent: Option<(Generation, u64)>,
    /// What becomes of rules that are not ours.
    pub foreign: ForeignPolicy,
}

/// Table `flow_forgotten`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgottenRecord {
    pub node: NodeId,
    pub bridge: Bridge,
    /// What was decided before is of the table that was forgotten.
    pub generation: Generation,
}

/// How an entry stands besides what follows from its write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowMark {
    /// Nothing to say.
    #[default]
    None,
    /// The device would not have it.
    Failed,
    /// It ended by its own timeout.
    Expired,
    /// The device cannot put it right at present.
    Wrong,
    /// The device had lost or changed it: it is sent again.
    Again,
    /// It ended by its own timeout, and its agent has forgotten that.
    Gone,
}

impl FlowMark {
    pub(crate) const COUNT: usize = 6;
    const ALL: [Self; Self::COUNT] =
        [Self::None, Self::Failed, Self::Expired, Self::Wrong, Self::Again, Self::Gone];

    /// As it is kept.
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
    /// What it is to be, or was, if it is to go.
    pub packed: Packed,
    pub serial: u64,
    pub owner: Owner,
    /// It is to go.
    pub removing: bool,
    /// The state, where that does not follow from the write.
    pub mark: FlowMark,
    /// Something hidden went into it: nobody is to read what it is, nor why it is so.
    pub hidden: bool,
    pub reason: Option<Arc<str>>,
    /// What it was before, newest first, while its write is not decided.
    pub past: Vec<FlowPast>,
}

/// Table `flow_past`: what an entry was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPast {
    /// What it was to be.
    pub packed: Packed,
    /// By which write.
    pub serial: u64,
    pub owner: Owner,
    /// It was to go.
    pub removing: bool,
    pub mark: FlowMark,
    /// Something hidden went into it: nobody is to read what it was.
    pub hidden: bool,
}

/// Table `flow_operations`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowOperationRecord {
    /// Never used twice.
    pub id: u64,
    pub action: FlowAction,
    pub status: OperationStatus,
    /// The stage that is under way, or was the last; from 0.
    pub stage: u32,
    /// How many there are.
    pub stages: u32,
    /// Entries that are as it wants them.
    pub done: u64,
    /// Entries in all.
    pub total: u64,
    /// Seconds until a change that could cut a node off is taken back.
    pub confirm_timeout: Option<u32>,
    pub errors: Vec<FlowError>,
}

/// Table `flow_parts`: a stage of an operation on a device, while it has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPartRecord {
    /// The operation.
    pub operation: u64,
    /// The device.
    pub device: u32,
    /// The write that ends it.
    pub serial: u64,
    pub count: u64,
}

/// All that the store holds of flow tables; what each change means to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowSnapshot {
    /// By number.
    pub devices: BTreeMap<u32, FlowDeviceRecord>,
    /// By device and id.
    pub entries: BTreeMap<(u32, FlowId), FlowEntryRecord>,
    /// By id, with the stages of those that have not ended.
    pub operations: BTreeMap<u64, (FlowOperationRecord, FlowStages)>,
    /// By operation and device.
    pub parts: BTreeMap<(u64, u32), FlowPartRecord>,
    /// Tables that agents may still have, though there are none here.
    pub forgotten: BTreeMap<(NodeId, Bridge), Generation>,
    /// The highest operation ever.
    pub highest: u64,
}

impl FlowSnapshot {
    /// As a store does it.
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
