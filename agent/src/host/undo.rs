//! What a guarded change may touch, as the ledger keeps it until the change is confirmed: whoever puts it back has
//! these bytes alone, also at boot.
//!
//! Absent: what was there before Muster, which each type writes for itself.

use muster_agent_core::{Before, RunError};
use muster_host::hostname::NameState;
use muster_host::net::Snapshot;
use serde::{Deserialize, Serialize};

use super::decoded;

/// By kind of change.
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
