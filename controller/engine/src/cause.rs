//! Why a resource has a job.
//!
//! A **background job** runs outside of a traversal: no operation counts its failure, and it takes no place in a rollout.
//! A correction and the unit restart after it go further: where one fails for good the resource stays FAILED until it is
//! tried again in its own time (`correct.rs`), or an operator asks for an operation.

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
    /// The resource drifted.
    Correction,
    /// A correction of something that a systemd unit names in `restart_on` or `reload_on`.
    UnitRestart,
    /// Its agent has lost it.
    Rebuild,
    /// A removed node is back and may have it still, or a restored store never knew it.
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

    /// As the store has it.
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

    /// Drift is the cause, directly or of what a unit names.
    pub fn is_drift(self) -> bool {
        match self {
            Cause::Correction | Cause::UnitRestart => true,
            Cause::Traversal | Cause::Check | Cause::Rebuild | Cause::LostCleanup => false,
        }
    }
}

impl Row {
    /// The last job was caused by drift, and has failed for good.
    pub fn failed_after_drift(&self) -> bool {
        self.status == Some(Status::Failed) && self.cause.is_drift()
    }

    /// The last job is a correction that has failed for good.
    pub fn could_not_be_corrected(&self) -> bool {
        self.status == Some(Status::Failed) && self.cause == Cause::Correction
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
