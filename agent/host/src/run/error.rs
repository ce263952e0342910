//! Reasons why the end of a run is unknown, and whether a further attempt can help.
//!
//! Absent: a script that ran and failed (`agent/src/host/deployment.rs`).

use std::io;

use thiserror::Error;

use crate::systemd::SystemdError;

/// The reason why the end of a run is unknown.
#[derive(Debug, Error)]
pub enum RunFailed {
    /// The directory cannot be used.
    #[error("cannot {doing} on the node's disk: {source}")]
    Disk {
        /// The attempted operation.
        doing: &'static str,
        /// The reason of the failure.
        source: io::Error,
    },
    /// A record in it makes no sense.
    #[error(
        "the record of the run is damaged, or of another version of the agent: how it ended is not known"
    )]
    Damaged,
    /// The task cannot be passed to a process.
    #[error("{0}")]
    Task(String),
    /// The supervisor cannot be started.
    #[error("cannot start what watches over the run: {source}")]
    Start { source: io::Error },
    /// systemd cannot be asked for a unit.
    #[error(transparent)]
    Systemd(#[from] SystemdError),
    /// The supervisor ended before the run began.
    #[error("what watches over the run ended before it began: its log (journal) says why")]
    NeverBegan,
    /// The run began, and its end was not seen.
    #[error("the run was interrupted{}: the server went down, or its processes were killed", often(*times))]
    Interrupted { times: u32 },
}

impl RunFailed {
    /// A new attempt would end alike, or is not wanted.
    pub fn is_permanent(&self) -> bool {
        match self {
            RunFailed::Interrupted { .. } | RunFailed::Task(_) => true,
            RunFailed::Disk { .. }
            | RunFailed::Damaged
            | RunFailed::Start { .. }
            | RunFailed::Systemd(_)
            | RunFailed::NeverBegan => false,
        }
    }
}

fn often(times: u32) -> String {
    if times == 1 { String::new() } else { format!(" {times} times") }
}
