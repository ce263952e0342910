//! The third layer: which jobs there are, what they may do and what they came to. Checks, corrections and rollouts are here,
//! for they give jobs or hold them back.

use crate::claim::Claims;
use crate::content::Contents;
use crate::engine::Config;
use crate::fetches::Fetches;
use crate::graph::Graph;
use crate::node::NodeKey;
use crate::rollout::Rollouts;
use crate::unsettled::Unsettled;

/// Jobs, over the graph.
pub(crate) struct Jobs {
    pub graph: Graph,
    pub claims: Claims,
    /// Large contents that specs refer to.
    pub contents: Contents,
    /// Which nodes fetch them.
    pub fetches: Fetches<NodeKey>,
    pub rollouts: Rollouts,
    /// Rows that are to be put right outside of an operation.
    pub unsettled: Unsettled,
}

impl Jobs {
    /// None.
    pub fn new(config: Config) -> Self {
        Self {
            graph: Graph::new(config),
            claims: Claims::default(),
            contents: Contents::default(),
            fetches: Fetches::default(),
            rollouts: Rollouts::default(),
            unsettled: Unsettled::default(),
        }
    }
}
