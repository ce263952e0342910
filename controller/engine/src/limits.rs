//! The limits of a site, as its operator sets them (`limits` in `controller/src/config.rs`), and their defaults.
//!
//! Absent: whether there is room for a job (`traversal/gate.rs`).

use std::time::Duration;

use muster_shared::model::JOB_TIMEOUT;

use crate::node::NODES_MAX;
use crate::node::join_token::TOKENS_MAX;

/// Bounds on work in flight, on retries, and on what the engine keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Jobs at one agent.
    pub in_flight_per_node: usize,
    /// Jobs of one stack at connected agents.
    pub in_flight_per_stack: usize,
    /// An agent fails a job after this time, plus the time that the job itself states.
    pub job_timeout: Duration,
    /// Retries before a resource is FAILED.
    pub retries: u32,
    /// Rows that an operation visits and writes in one turn. All nodes wait for a turn and its
    /// commit, so a larger operation enters its rows in slices.
    pub rows_per_turn: usize,
    /// Interval at which agents send a heartbeat.
    pub heartbeat: Duration,
    /// The first interval of the progress check, which operators set as `limits.quiet`.
    pub quiet: Duration,
    /// Newest revisions kept of a stack.
    pub revisions_kept: u32,
    /// COMPLETE revisions remembered for rollback.
    pub complete_kept: usize,
    /// Things listed for one node of a restored site. A node that lies leaves room for the others.
    pub held_per_node: usize,
    /// Ended operations on flow tables that a client can still query.
    pub flow_operations_kept: usize,
    /// Open join tokens.
    pub tokens_max: usize,
    /// Nodes that have joined or are named, as by a template.
    pub nodes_max: usize,
    /// The pause between two intents whose packets are traced in the background. `None`: none are.
    pub verify_every: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight_per_node: 256,
            in_flight_per_stack: 20_000,
            job_timeout: JOB_TIMEOUT,
            retries: 3,
            rows_per_turn: 10_000,
            heartbeat: Duration::from_secs(60),
            quiet: Duration::from_secs(60),
            revisions_kept: 100,
            complete_kept: 100,
            held_per_node: 1000,
            flow_operations_kept: 1000,
            tokens_max: TOKENS_MAX,
            nodes_max: NODES_MAX,
            verify_every: None,
        }
    }
}
