//! How the site was over the last hours.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Samples that the active controller has taken since its start. They are in its memory alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HistoryView {
    /// Seconds between two samples. Where the controller was too busy to look, one is missing.
    pub every_seconds: u64,
    /// Oldest first.
    pub samples: Vec<SampleView>,
}

/// The site at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SampleView {
    /// RFC 3339.
    pub at: String,
    /// Seconds before the newest sample.
    pub age_seconds: u64,
    /// Connections of agents that were let in.
    pub connections: u64,
    /// Nodes that have joined and are not revoked.
    pub nodes: u64,
    /// Resources that are not as they were made.
    pub drifted: u64,
    /// Jobs that ended since the sample before, by outcome.
    pub jobs: BTreeMap<String, u64>,
}
