//! The undo record of a guarded change, which the ledger keeps until the change is confirmed: a restore has
//! only these bytes, also at boot.
//!
//! Absent: the state before Muster, which each type records itself.

use muster_agent_core::{Before, RunError};
use muster_host::hostname::NameState;
use muster_host::net::Snapshot;
use serde::{Deserialize, Serialize};

use super::decoded;

/// The undo record by kind of change.
#[derive(Serialize, Deserialize)]
pub(super) enum Undo {
    /// `Muster::NetworkConfig`
    Network(Snapshot),
    /// `Muster::Hostname`
    Hostname(NameState),
}

impl Undo {
    pub(super) fn decode(undo: &Before) -> Result<Self, RunError> {
        decoded(undo)
    }
}
