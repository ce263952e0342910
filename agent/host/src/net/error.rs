//! The reasons why the network could not be read or changed, and whether anything may have changed.
//!
//! Absent: whether a further attempt can help (`network_failed`, `agent/src/host.rs`).

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use muster_shared::model::network::NetworkError;
use thiserror::Error as ThisError;

use super::execute::StepError;
use super::netlink::NetlinkError;
use super::network_managers::NetworkManagerError;
use super::ovsdb::OvsdbError;
use super::plan::PlanError;
use super::wanted::Difference;

/// Differences that are worth a line; the rest is counted.
const SHOWN: usize = 5;

/// The reason why the network could not be read or changed.
#[derive(Debug, ThisError)]
pub enum NetError {
    /// The document or its mapping is wrong.
    #[error(transparent)]
    Document(#[from] NetworkError),
    /// The document needs what the host lacks. Nothing was changed.
    #[error("{}", listed(.0))]
    Missing(Vec<Difference>),
    /// An obstacle prevents the change. Nothing was changed.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A network manager does not release a link. It may have removed its own settings from the link.
    #[error(transparent)]
    NetworkManager(#[from] NetworkManagerError),
    /// Nothing was changed.
    #[error("the document has no fallback_config")]
    NoFallback,
    /// Open vSwitch is needed and its database cannot be reached.
    #[error("cannot reach Open vSwitch's database at {}, which holds what was made; is openvswitch-switch running?", path.display())]
    NoOvs { path: PathBuf },
    /// The socket could not be opened.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    #[error("cannot read the host's network")]
    Observe(#[source] NetlinkError),
    #[error(transparent)]
    Ovsdb(#[from] OvsdbError),
    #[error(transparent)]
    Step(#[from] StepError),
    /// Reading the state back gave something else than was wanted.
    #[error("read back, the host differs: {}", listed(.0))]
    Differs(Vec<Difference>),
    /// The state could only be restored in part.
    #[error("{}; all else has been restored", chain(.0.as_ref()))]
    Partly(Box<NetError>),
}

impl NetError {
    /// Some steps may have been done.
    pub fn may_have_changed(&self) -> bool {
        match self {
            Self::NetworkManager(error) => !matches!(error, NetworkManagerError::Ifupdown { .. }),
            _ => matches!(self, Self::Step(_) | Self::Differs(_) | Self::Partly(_)),
        }
    }
}

/// An error with its causes in one line: `a: b: c`.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The first differences in one line, and how many more there are.
pub fn listed(differences: &[Difference]) -> String {
    let shown: Vec<String> = differences.iter().take(SHOWN).map(ToString::to_string).collect();
    match differences.len().saturating_sub(SHOWN) {
        0 => shown.join("; "),
        more => format!("{}; and {more} more", shown.join("; ")),
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.text)
    }
}
