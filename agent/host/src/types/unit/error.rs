//! The reasons why a unit is not as desired, and whether a further attempt can help.
//!
//! Absent: when that attempt comes (`controller/engine/src/job/next_attempt.rs`).

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::journal::quoted;
use crate::files::FileError;
use crate::resource::Fault;
use crate::systemd::{SystemdError, UnitState, Verb};

/// The reason why a unit is not as desired.
#[derive(Debug, Error)]
pub enum UnitFault {
    #[error(transparent)]
    Systemd(#[from] SystemdError),
    /// An error of one of the unit's files.
    #[error(transparent)]
    File(#[from] FileError),
    /// An error of the drop-ins' folder.
    #[error("cannot make the folder of {}: {source}", .path.display())]
    Folder { path: PathBuf, source: io::Error },
    /// The file is too large to be a unit's file.
    #[error("{} is too large for a unit's file; look at what is in it and remove it", .0.display())]
    TooLarge(PathBuf),
    /// The unit's file does not exist.
    #[error(
        "there is no unit {0}: give its content, or install the package that brings it and depend on that"
    )]
    Missing(String),
    #[error("systemd does not take {unit} ({load}): {why}")]
    Refused {
        unit: String,
        /// systemd's term for the load state.
        load: String,
        /// systemd's reason, or the path of the file.
        why: String,
    },
    /// Enabling or disabling succeeded, but the state differs.
    #[error("{unit} is {is} and cannot be {}: it needs an [Install] section for that", if *.wanted { "enabled" } else { "disabled" })]
    Enabled {
        unit: String,
        /// systemd's term for the state.
        is: String,
        wanted: bool,
    },
    /// A start or the like failed.
    #[error("cannot {verb} {unit}: {how}{}", quoted(.log))]
    NotDone { unit: String, verb: Verb, how: String, log: Vec<String> },
    /// The unit did not stay up.
    #[error("{unit} does not stay active: it is {how}{}", quoted(.log))]
    NotUp { unit: String, how: String, log: Vec<String> },
    /// The unit failed, and its former state was restored.
    #[error("{0} (what was there before this job is back)")]
    PutBack(Box<UnitFault>),
    /// The unit failed, and its former state could not be restored.
    #[error("{fault} (and what was there before this job is not back: {back})")]
    NotPutBack { fault: Box<UnitFault>, back: Box<UnitFault> },
}

impl UnitFault {
    pub(super) fn of_load(unit: &str, state: &UnitState) -> Self {
        match state.load.as_str() {
            "not-found" => Self::Missing(unit.into()),
            load => {
                let why = match state.load_error.as_str() {
                    "" => "the system's log says which line".to_owned(),
                    error => error.to_owned(),
                };
                Self::Refused { unit: unit.into(), load: load.into(), why }
            }
        }
    }

    pub(super) fn after(self, back: Option<Self>) -> Self {
        match back {
            None => Self::PutBack(Box::new(self)),
            Some(back) => Self::NotPutBack { fault: Box::new(self), back: Box::new(back) },
        }
    }
}

impl Fault for UnitFault {
    fn is_permanent(&self) -> bool {
        match self {
            Self::File(error) => error.is_permanent(),
            Self::TooLarge(_) | Self::Refused { .. } | Self::Enabled { .. } => true,
            Self::PutBack(fault) => fault.is_permanent(),
            _ => false,
        }
    }
}
