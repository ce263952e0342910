//! How a device's rules differ from its table, where nobody may put that right: see [`Site::holds_table`](crate::Site).

use std::collections::BTreeSet;

use muster_shared::model::flow::FlowId;
use serde::{Deserialize, Serialize};

/// Entries of a flow table, by how they differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableDifference {
    /// On the device, and not in the store.
    pub unknown: BTreeSet<FlowId>,
    /// In both, each with another content.
    pub newer: BTreeSet<FlowId>,
    /// In the store, and not on the device.
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
