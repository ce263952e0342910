//! Rows of the audit for changes that no request caused: who ran a command of `muster-controller`.
//!
//! Absent: rows of requests (`driver/audit.rs`), and of changes of the active controller (`lease/succession.rs`).

use std::borrow::Cow;

use muster_engine::record::AuditRecord;
use nix::unistd::Uid;

use crate::this_host::{host_name, user_name};

/// The user who runs this program, on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runner {
    pub actor: String,
    pub from: String,
}

impl Runner {
    /// The user of this process.
    pub fn of_this_process() -> Self {
        Self {
            actor: user_name(Uid::current()),
            from: format!("host {}, process {}", host_name(), std::process::id()),
        }
    }

    /// The row about what this user did.
    pub fn did(&self, action: &'static str, target: &str, what: String) -> AuditRecord {
        AuditRecord {
            actor: self.actor.clone(),
            from: self.from.clone(),
            action: Cow::Borrowed(action),
            target: target.to_owned(),
            what,
            result: "ok".to_owned(),
        }
    }
}
