//! What the store keeps of intents and of the network.

use std::collections::BTreeMap;

use muster_shared::model::flow::DeviceName;

use crate::manager::{IntentNo, IntentRecord, PortRecord};

/// A change of what is durable of intents.
#[derive(Clone, Debug)]
pub enum IntentChange {
    /// Inserts or replaces; with the id of the row it belongs to, if it is a resource's.
    Intent(Box<IntentRecord>, Option<u64>),
    /// It is forgotten.
    Removed(IntentNo),
    /// A device as it was last heard of.
    Device {
        device: DeviceName,
        /// It exists.
        up: bool,
        /// By name.
        ports: Vec<PortRecord>,
    },
    /// The node was removed.
    DeviceRemoved(DeviceName),
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct IntentSnapshot {
    /// By number.
    pub intents: BTreeMap<IntentNo, (IntentRecord, Option<u64>)>,
    /// By name: it exists, and its ports.
    pub devices: BTreeMap<DeviceName, (bool, Vec<PortRecord>)>,
    /// The highest number ever given.
    pub highest: u64,
}

impl IntentSnapshot {
    /// As the store does it.
    pub fn apply(&mut self, change: IntentChange) {
        match change {
            IntentChange::Intent(record, owner) => {
                self.highest = self.highest.max(record.no.0);
                self.intents.insert(record.no, (*record, owner));
            }
            IntentChange::Removed(no) => drop(self.intents.remove(&no)),
            IntentChange::Device { device, up, ports } => drop(self.devices.insert(device, (up, ports))),
            IntentChange::DeviceRemoved(device) => drop(self.devices.remove(&device)),
        }
    }
}
