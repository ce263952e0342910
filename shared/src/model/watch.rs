//! How resources stand while no job is at them.

use crate::{Generation, ResourceId};

/// How a resource was found when somebody else may have changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// Which.
    pub resource: ResourceId,
    /// Of the state that was applied last: what it was compared with.
    pub generation: Generation,
    /// How it stands.
    pub state: DriftState,
    /// What differs, for the operator; bounded, free of content. Empty if nothing does.
    pub reason: String,
}

/// How a resource stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriftState {
    /// As it was applied.
    InSync,
    /// It differs.
    Drifted,
    /// Nothing of it is there.
    Missing,
}
