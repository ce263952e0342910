//! The model of what travels between controller and agent, free of any encoding.

pub mod flow;
mod hostname;
mod message;
pub mod network;
mod properties;
mod spec;
mod watch;

pub use hostname::{HOSTNAME_MAX, HostnameError, check_hostname};
pub use message::{
    CHALLENGE_BYTES, Down, Hello, Job, LedgerEntry, Observed, Outcome, Progress, Report, ReportKey, Up,
    Welcome,
};
pub use spec::{
    Action, Claim, ClaimKind, Content, ContentDigest, Dummy, FailOn, File, Hostname, Lane, NetworkConfig,
    OnDelete, Spec,
};
pub use watch::{Counters, Drift, DriftState, Facts, LinkFacts};
