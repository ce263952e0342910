//! Resources of a stack, and what each needs, as JSON.
//!
//! Absent: the requests (`controller/src/api/resource.rs`), and what each value is
//! (`controller/engine/src/view/stack.rs`, `controller/engine/src/view/phase.rs`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `resource list -o json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ResourceView {
    /// The resource's name in the template.
    pub name: String,
    /// The row.
    pub id: String,
    /// The one thing it stands for.
    pub physical_id: String,
    /// Muster::File, …
    #[serde(rename = "type")]
    pub kind: String,
    /// The resource's node; empty until known.
    pub node: String,
    /// INIT, CREATE, UPDATE, DELETE, CHECK or RETAIN.
    pub action: String,
    /// IN_PROGRESS, COMPLETE or FAILED; INIT before anything was done.
    pub status: String,
    pub status_reason: String,
    /// The generation of the last job.
    pub generation: String,
    /// in_sync, drifted, missing or unknown.
    pub observed: String,
    /// While IN_PROGRESS: waiting, hook, pause, rollout, signals, facts, node_away, maintenance, disk_full, queued,
    /// running, settling or backoff; else empty.
    pub phase: String,
    /// Seconds since it has been in that phase.
    pub phase_seconds: u64,
    /// The resources it still waits for: those it needs, or, to be cleaned up, those that need it. Of very many the
    /// first.
    pub waits_for: Vec<String>,
    /// The resources it needs.
    pub requires: Vec<String>,
    /// Physical id of the row it replaces.
    pub replaces: Option<String>,
    /// Physical id of the row that replaces it.
    pub replaced_by: Option<String>,
    /// The number of retries of its job.
    pub retry_count: u32,
    /// The reasons why each attempt of the present job failed, oldest first.
    pub causes: Vec<String>,
    /// The hook at which the resource waits for an operator.
    pub hook: Option<String>,
    /// The drift policy: correct, report or ignore. Empty for a resource on no server.
    pub drift_policy: String,
    /// The number of corrections since the resource was last calm.
    pub corrections: u32,
    /// open: it was corrected too often and is left as it is; else closed.
    pub breaker: String,
}

/// `stack graph -o json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GraphView {
    /// The stack's name.
    pub name: String,
    /// CREATE, UPDATE, …
    pub action: String,
    /// IN_PROGRESS, COMPLETE or FAILED.
    pub status: String,
    /// The current revision.
    pub revision: u32,
    /// Each row stands for all resources of a type.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_type: bool,
    /// Rows of the current revision by name, then those that are cleaned up.
    pub nodes: Vec<GraphNodeView>,
    /// In the order of the nodes that need.
    pub edges: Vec<GraphEdgeView>,
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GraphNodeView {
    /// The row, as in [`GraphEdgeView`].
    pub id: String,
    /// The resource's name in the template.
    pub name: String,
    /// The one thing it stands for.
    pub physical_id: String,
    /// Muster::File, …
    #[serde(rename = "type")]
    pub kind: String,
    /// The resource's node; empty until known.
    pub node: String,
    /// forward or clean-up.
    pub role: String,
    /// INIT, CREATE, UPDATE or DELETE.
    pub action: String,
    /// IN_PROGRESS, COMPLETE or FAILED; INIT before anything was done.
    pub status: String,
    pub status_reason: String,
    /// As in [`ResourceView`].
    pub phase: String,
    /// As in [`ResourceView`].
    pub phase_seconds: u64,
    /// The hook at which the resource waits for an operator.
    pub hook: Option<String>,
    /// The graph node is done: those that need it may go.
    pub ready: bool,
    /// Physical id of the row it replaces.
    pub replaces: Option<String>,
    /// Physical id of the row that replaces it.
    pub replaced_by: Option<String>,
}

/// An edge: one row needs another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GraphEdgeView {
    /// The row that is needed.
    pub resource_id: String,
    /// The row that needs it.
    pub needed_by: String,
}

/// POST /v1/stacks/{stack}/resources/{resource}/clear-hook
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClearHook<H> {
    /// Such as pre-create.
    pub hook: H,
}

/// The outcome of a signal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Signalled {
    /// The handle.
    pub resource: String,
    /// The id of the signal.
    pub id: String,
    /// A signal of this id came before.
    pub again: bool,
    /// The number of signals so far.
    pub signals: usize,
}
