//! Records of intents and of the network in the store.

use std::collections::BTreeMap;

use muster_shared::model::flow::DeviceName;

use crate::manager::{IntentNo, IntentRecord, PortRecord};

/// A durable change.
#[derive(Clone, Debug)]
pub enum IntentChange {
    /// Inserts or replaces an intent, with the id of the row that owns it, if any.
    Intent(Box<IntentRecord>, Option<u64>),
    /// Forgets an intent.
    Removed(IntentNo),
    /// A device as last reported.
    Device {
        device: DeviceName,
        /// Whether the device exists.
        up: bool,
        /// Ports by name.
        ports: Vec<PortRecord>,
    },
    /// Removes a device of a removed node.
    DeviceRemoved(DeviceName),
}

/// The records of a store.
#[derive(Clone, Debug, Default)]
pub struct IntentSnapshot {
    /// By number.
    pub intents: BTreeMap<IntentNo, (IntentRecord, Option<u64>)>,
    /// By name: whether the device exists, and its ports.
    pub devices: BTreeMap<DeviceName, (bool, Vec<PortRecord>)>,
    /// The highest number given so far.
    pub highest: u64,
}

impl IntentSnapshot {
    /// Applies a change as the store does.
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
