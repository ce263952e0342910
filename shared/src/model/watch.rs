//! How resources stand while no job is at them.

use crate::{Generation, ResourceId};

/// How a resource was found when somebody else may have changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    pub resource: ResourceId,
    /// Of the state that was applied last: what it was compared with.
    pub generation: Generation,
    pub state: DriftState,
    /// What differs, for the operator; bounded, free of content. Empty if nothing does.
    pub reason: String,
}

impl Drift {
    /// Of a resource that differs; nothing of one that does not. Of all that an agent has said on a connection, combined by
    /// exclusive or, both sides know whether the other has the same.
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

/// How a resource stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriftState {
    /// As it was applied.
    InSync,
    Drifted,
    /// Nothing of it is there.
    Missing,
}
