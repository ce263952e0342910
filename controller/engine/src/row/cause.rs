//! The cause for which a resource has a job.
//!
//! A **background job** runs outside of a traversal. No operation counts its failure, and it takes
//! no place in a rollout. If a correction or its unit restart fails for good, the resource stays
//! FAILED until a retry (`drift/correct.rs`) or an operation.
//!
//! Absent: the causes of a failure (`failure.rs`).

use crate::record::Status;
use crate::row::Row;

/// Cause of a resource's present job; after a failure, of its last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// The traversal of an operation.
    #[default]
    Traversal,
    /// `stack check`, which only asks.
    Check,
    /// A correction of drift.
    Correction,
    /// A restart after the correction of a resource that a systemd unit names in `restart_on` or `reload_on`.
    UnitRestart,
    /// A rebuild of a thing that its agent has lost.
    Rebuild,
    /// The clean-up of a thing on a node that joined again, or of a thing that a restored store
    /// never knew.
    LostCleanup,
}

impl Cause {
    const ALL: [Cause; 6] = [
        Cause::Traversal,
        Cause::Check,
        Cause::Correction,
        Cause::UnitRestart,
        Cause::Rebuild,
        Cause::LostCleanup,
    ];

    /// The name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::Traversal => "traversal",
            Cause::Check => "check",
            Cause::Correction => "correction",
            Cause::UnitRestart => "unit_restart",
            Cause::Rebuild => "rebuild",
            Cause::LostCleanup => "lost_cleanup",
        }
    }

    /// From [`Cause::as_str`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == name)
    }

    /// Whether drift caused the job, directly or through a unit that names the resource.
    pub fn is_drift(self) -> bool {
        match self {
            Cause::Correction | Cause::UnitRestart => true,
            Cause::Traversal | Cause::Check | Cause::Rebuild | Cause::LostCleanup => false,
        }
    }
}

impl Row {
    /// Whether a job for drift has failed for good.
    pub fn failed_after_drift(&self) -> bool {
        self.status() == Some(Status::Failed) && self.cause().is_drift()
    }

    /// Whether a correction has failed for good.
    pub fn could_not_be_corrected(&self) -> bool {
        self.status() == Some(Status::Failed) && self.cause() == Cause::Correction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_read_as_it_was_written() {
        for cause in Cause::ALL {
            assert_eq!(Cause::from_name(cause.as_str()), Some(cause));
        }
        assert_eq!(Cause::from_name("aside"), None);
    }
}
