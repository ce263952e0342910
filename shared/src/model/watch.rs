//! Drift: the state of a resource while no job works on it, as an agent reports it.
//!
//! Absent: when an agent looks (`agent/core/src/watch.rs`), and whether drift is corrected
//! (`controller/engine/src/drift/correct.rs`).

use crate::{Generation, ResourceId};

/// The state of a resource after others may have changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    pub resource: ResourceId,
    /// The generation of the last applied state, with which the host was compared.
    pub generation: Generation,
    pub state: DriftState,
    /// The differences, for the operator; bounded, free of content. Empty if there are none.
    pub reason: String,
}

impl Drift {
    /// The digest of a resource that differs; zero for one that does not. Both sides combine the digests of
    /// all reports on a connection by exclusive or, and so know whether they agree.
    pub fn digest(resource: ResourceId, generation: Generation, state: DriftState) -> u128 {
        let state: u8 = match state {
            DriftState::InSync => return 0,
            DriftState::Drifted => 1,
            DriftState::Missing => 2,
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update(resource.0.as_bytes());
        hasher.update(&generation.epoch.0.to_le_bytes());
        hasher.update(&generation.number.to_le_bytes());
        hasher.update(&[state]);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        u128::from_le_bytes(bytes)
    }
}

/// The state of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriftState {
    /// The state is as applied.
    InSync,
    Drifted,
    /// The host has nothing of the resource.
    Missing,
}
