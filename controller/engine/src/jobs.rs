//! The third layer: jobs, what they may do, and their outcomes. Checks, corrections and rollouts
//! are here, because they queue jobs or hold them back.

use crate::claim::Claims;
use crate::content::Contents;
use crate::engine::Config;
use crate::fetches::Fetches;
use crate::graph::Graph;
use crate::job_end::JobEnds;
use crate::node::NodeKey;
use crate::rollout::Rollouts;
use crate::unsettled::Unsettled;

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
