//! The reasons why a user or a group is not as desired, and whether a further attempt can help. No error contains a
//! password or its hash.
//!
//! Absent: when that attempt comes (`controller/engine/src/job/next_attempt.rs`).

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::resource::Fault;

/// The reason why a user or a group is not as desired.
#[derive(Debug, Error)]
pub enum AccountFault {
    /// The account has the number 0.
    #[error("{0} has the number 0 on this server: the superuser is not Muster's to change")]
    Root(String),
    #[error("cannot read {}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    /// shadow-utils are not there.
    #[error("there is no {0} on this server: install the package passwd (Debian) or shadow-utils")]
    NoTool(&'static str),
    /// The tool does not run.
    #[error("cannot run {tool}: {source}")]
    Run { tool: &'static str, source: io::Error },
    #[error("{tool} says: {said}")]
    Tool {
        tool: &'static str,
        status: Option<i32>,
        /// The last output of the command.
        said: String,
    },
    /// The user is logged in, or one of the user's programs runs.
    #[error(
        "{user} runs process {process} ({command}): end it first, for its number or home would change under it"
    )]
    Busy { user: String, process: i32, command: String },
    /// Nothing to unlock.
    #[error("{0} has no password that could be unlocked: give its password_hash")]
    NoPassword(String),
    /// Keys have no place.
    #[error("{user} has no home at {home} for its keys: make that folder, or give another home")]
    NoHome {
        user: String,
        /// The desired path.
        home: String,
    },
    #[error("the authorized keys of {user}: {fault}")]
    Keys { user: String, fault: Box<AccountFault> },
    /// The tool succeeded, and the account still differs.
    #[error("{name} after the change: {differ}")]
    Differs { name: String, differ: String },
    /// The change failed after a part of it was done.
    #[error("{fault} ({})", match .back { None => "what was there before this job is back".to_owned(), Some(back) => format!("what was there before this job could not be restored: {back}") })]
    After {
        fault: Box<AccountFault>,
        /// The reason why that could not be undone.
        back: Option<Box<AccountFault>>,
    },
}

impl Fault for AccountFault {
    fn is_permanent(&self) -> bool {
        match self {
            Self::Root(_) | Self::NoTool(_) | Self::NoPassword(_) => true,
            // A taken or missing group or number is permanent; a lock (10) and the like may pass.
            Self::Tool { tool, status, .. } => {
                ["useradd", "usermod", "groupadd", "groupmod"].contains(tool) && matches!(status, Some(2..=9))
            }
            Self::After { fault, .. } | Self::Keys { fault, .. } => fault.is_permanent(),
            Self::File { .. }
            | Self::Run { .. }
            | Self::Busy { .. }
            | Self::NoHome { .. }
            | Self::Differs { .. } => false,
        }
    }
}

impl AccountFault {
    pub(super) fn gone(name: &str) -> Self {
        Self::Differs { name: name.to_owned(), differ: "there is no such user".into() }
    }

    pub(super) fn after(self, back: Option<Self>) -> Self {
        Self::After { fault: Box::new(self), back: back.map(Box::new) }
    }

    pub(super) fn of_keys(self, user: &str) -> Self {
        Self::Keys { user: user.to_owned(), fault: Box::new(self) }
    }
}
