//! The difference between a device's rules and its table while nothing may be corrected: see
//! [`Site::holds_table`](crate::Site).

use std::collections::BTreeSet;

use muster_shared::model::flow::FlowId;
use serde::{Deserialize, Serialize};

/// Entries of a flow table that differ, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableDifference {
    /// Entries on the device and not in the store.
    pub unknown: BTreeSet<FlowId>,
    /// Entries in both with different content.
    pub newer: BTreeSet<FlowId>,
    /// Entries in the store and not on the device.
    pub deleted: BTreeSet<FlowId>,
}

impl TableDifference {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.unknown.len() + self.newer.len() + self.deleted.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
