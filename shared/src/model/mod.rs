//! The model of what travels between controller and agent, free of any encoding.

mod facts;
pub mod flow;
mod message;
pub mod network;
mod spec;
mod stray;
mod survey;
pub mod topology;
mod types;
mod watch;

pub use facts::{Counters, DiskFacts, Facts, LinkFacts, NeighbourFacts, OsFacts, PciFacts};
pub use message::{
    CHALLENGE_BYTES, Down, Hello, JOB_TIMEOUT, JOBS_EVERY, JOBS_TOLD_MAX, Job, JobState, LedgerEntry,
    MoveOutcome, Observed, Outcome, Progress, Report, ReportKey, Stage, Up, Welcome,
};
pub use spec::{Action, Claim, Content, ContentDigest, Lane, OnDelete};
pub use stray::{DESCRIBED_MAX, STRAY_NAME_MAX, Stray};
pub use survey::{LEFT_OUT_LINE_MAX, LEFT_OUT_MAX, SURVEYED_MAX, Survey};
pub(crate) use types::map_in_bounds;
pub use types::*;
pub use watch::{Drift, DriftState};
