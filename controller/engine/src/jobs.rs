//! The third layer's state: the graph, and what jobs need: claims, contents, rollouts, and the rows that background
//! jobs may change. Checks, corrections and rollouts belong to this layer, because they queue jobs or hold them back.
//!
//! Absent: its methods. `job.rs` begins and sends a job, `job/report.rs` takes its report, and `job/apply_outcome.rs`
//! its outcome.

use crate::claim::Claims;
use crate::content::Contents;
use crate::drift::background_rows::Unsettled;
use crate::engine::Config;
use crate::graph::Graph;
use crate::job::end_counts::JobEnds;
use crate::job::fetches::Fetches;
use crate::node::NodeKey;
use crate::rollout::Rollouts;

pub(crate) struct Jobs {
    pub graph: Graph,
    pub claims: Claims,
    /// Large contents that specs refer to.
    pub contents: Contents,
    /// The nodes that fetch contents now.
    pub fetches: Fetches<NodeKey>,
    pub rollouts: Rollouts,
    /// Rows that background jobs may change.
    pub unsettled: Unsettled,
    /// The ends of jobs since this start, for operators.
    pub ends: JobEnds,
}

impl Jobs {
    pub fn new(config: Config) -> Self {
        Self {
            graph: Graph::new(config),
            claims: Claims::default(),
            contents: Contents::default(),
            fetches: Fetches::default(),
            rollouts: Rollouts::default(),
            unsettled: Unsettled::default(),
            ends: JobEnds::default(),
        }
    }
}
