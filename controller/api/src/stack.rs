//! Stacks, as JSON: operations on them, how they stand, their history.
//!
//! Absent: the requests (`controller/src/api/stack.rs`), and what each value is
//! (`controller/engine/src/view/stack.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::StackName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `stack show -o json`; `created_at` and `updated_at` are added by whoever keeps the clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StackView {
    /// The stack's name.
    pub name: String,
    /// The id of the stack.
    pub id: String,
    /// CREATE, UPDATE, DELETE, ROLLBACK or CHECK.
    pub action: String,
    /// IN_PROGRESS, COMPLETE or FAILED.
    pub status: String,
    pub status_reason: String,
    /// The current revision.
    pub revision: u32,
    /// The current traversal.
    pub traversal: u64,
    /// RFC 3339 UTC.
    pub created_at: String,
    /// RFC 3339 UTC.
    pub updated_at: String,
    /// Values in force; hidden ones masked.
    pub parameters: BTreeMap<String, Value>,
    /// Empty until the stack is COMPLETE.
    pub outputs: Vec<OutputView>,
    /// The progress of the traversal.
    pub progress: ProgressView,
    /// Nodes that its selectors have come to mean since the traversal began.
    pub nodes_joined: u64,
    /// Nodes that its selectors mean no more since then.
    pub nodes_left: u64,
    /// Up to 20 resources on which something is being done, with the phase each is in.
    pub active: Vec<ActiveView>,
    /// Changes that go through resources of a `for_each` in batches.
    pub rollouts: Vec<RolloutView>,
    /// Whether a failure of the operation is followed by a rollback.
    pub rollback: bool,
    /// Seconds that the operation may take.
    pub timeout: u64,
    /// Counts up with every change of the stack or a resource of it; for watching.
    pub seq: u64,
}

/// An output of a stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OutputView {
    /// The name of the output.
    pub key: String,
    /// The output's value; null if it could not be computed.
    pub value: Value,
    /// The reason why it could not be computed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub output_error: String,
    /// From the template.
    pub description: String,
}

/// The progress of a traversal, in graph nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProgressView {
    /// Observed ready, or cleaned up.
    pub done: u64,
    /// The graph nodes that the traversal visits.
    pub total: u64,
    /// Jobs with an agent.
    pub in_flight: u64,
    /// Failed for good.
    pub failed: u64,
}

/// A resource on which something is being done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ActiveView {
    /// The resource.
    pub name: String,
    /// The node.
    pub node: String,
    /// See [`crate::resource::ResourceView::phase`].
    pub phase: String,
    /// See [`crate::resource::ResourceView::phase_seconds`].
    pub phase_seconds: u64,
}

/// A rollout, in `stack show`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RolloutView {
    /// The resource with the `for_each`.
    pub resource: String,
    /// going, paused, timed_out or aborted.
    pub state: String,
    /// canary, batch, pause or done; empty where nothing begins.
    pub stage: String,
    /// The reason of an abort.
    pub reason: String,
    pub total: u64,
    /// Members that are as the revision wants them.
    pub done: u64,
    /// Members that have begun and not ended.
    pub in_flight: u64,
    /// Members in flight whose node is away.
    pub in_flight_away: u64,
    /// Failed in this operation.
    pub failed: u64,
    /// Members whose turn is yet to come.
    pub waiting: u64,
    /// Waiting members whose node is away.
    pub away: u64,
    /// The most members under way at once.
    pub batch: u64,
    /// The most members that may fail; one more aborts the rollout.
    pub max_failures: u64,
    /// Seconds until the next batch; none where it waits for something else.
    pub next_in: Option<u64>,
}

/// `stack failures -o json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FailureView {
    /// The resource's name in the template.
    pub resource: String,
    /// The one thing it stands for.
    pub physical_id: String,
    /// Muster::File, …
    #[serde(rename = "type")]
    pub kind: String,
    /// The resource's node; empty until known.
    pub node: String,
    /// CREATE, UPDATE, DELETE, CHECK or RETAIN.
    pub action: String,
    /// The last cause.
    pub reason: String,
    /// The reasons why each attempt failed, oldest first.
    pub causes: Vec<String>,
}

/// An event of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EventRow {
    /// Counts up within the stack.
    pub number: u64,
    /// RFC 3339 UTC.
    pub time: String,
    /// The resource; none for the stack itself.
    pub resource: Option<String>,
    /// The physical id of the resource.
    pub physical_id: Option<String>,
    /// CREATE, …
    pub action: String,
    /// IN_PROGRESS, …
    pub status: String,
    pub reason: String,
    /// The user who asked for it; none for a consequence of earlier events.
    pub actor: Option<String>,
}

/// A revision of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RevisionRow {
    /// Counts up from 1.
    pub number: u32,
    /// RFC 3339 UTC.
    pub created_at: String,
    /// The stack was COMPLETE with it.
    pub complete: bool,
    /// Whether it is the stack's newest revision.
    pub current: bool,
    /// The template's file.
    pub source_name: String,
    /// CREATE, UPDATE, ROLLBACK to N; empty where it was not written down.
    pub made_by: String,
}

/// POST /v1/stacks
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateStack {
    /// The stack's name.
    #[schemars(with = "String")]
    pub name: StackName,
    /// The template.
    pub template: TemplateFile,
    /// Environments, the later over the earlier.
    #[serde(default)]
    pub environments: Vec<EnvironmentFile>,
    /// Files that template and environments name, by key, beside the template's own files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Values of parameters.
    #[serde(default)]
    pub parameters: BTreeMap<String, Value>,
    /// The options of the operation.
    #[serde(default)]
    pub options: Options,
}

/// PUT /v1/stacks/{stack}
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateStack {
    /// The current one if absent.
    pub template: Option<TemplateFile>,
    /// As in [`CreateStack`].
    #[serde(default)]
    pub environments: Vec<EnvironmentFile>,
    /// As in [`CreateStack`]; files of the stack that are still named are kept beside them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Values of parameters.
    #[serde(default)]
    pub parameters: BTreeMap<String, Value>,
    /// Keeps the current values of parameters that are not given.
    #[serde(default)]
    pub existing: bool,
    /// Parameters whose current values are not kept, with `existing`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub clear_parameters: BTreeSet<String>,
    /// The revision that the update changes: it is refused if the stack is at another one. Any, if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u32>,
    /// The options of the operation.
    #[serde(default)]
    pub options: Options,
}

/// A template and the files it names.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateFile {
    /// The file's name, for the places of errors.
    pub name: String,
    /// The content of the file.
    pub text: String,
    /// Files that it names, by key.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// An environment.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentFile {
    /// The file's name, for the places of errors.
    pub name: String,
    /// The key among the files, to which the template's own references are relative; the name where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The content of the file.
    pub text: String,
}

/// The options of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// A failure is followed by a rollback.
    pub rollback: bool,
    /// A node that has never joined is refused, not waited for.
    pub require_nodes: bool,
    /// Whether resources that go are removed before the rest is made.
    pub delete_first: bool,
    /// Every resource gets a job.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub converge: bool,
    /// Whether existing things are taken over as they are; an operation that would change one fails.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub adopt: bool,
    /// Seconds until the operation has failed.
    pub timeout: Option<u64>,
    /// Nodes at which something is done at a time.
    pub max_nodes: Option<u32>,
}

/// A begun operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Begun {
    /// The stack's name.
    pub name: String,
    /// The stack's id: another may have its name later.
    pub id: String,
    /// CREATE, UPDATE, DELETE, ROLLBACK or CHECK.
    pub action: String,
    /// The traversal that carries it out.
    pub traversal: u64,
    /// The revision that it leads to.
    pub revision: u32,
    /// Hints at what the operator may not have meant.
    pub warnings: Vec<String>,
}

/// POST /v1/stacks/{stack}/rollback
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rollback {
    /// The one before the current one that was COMPLETE, if absent.
    pub to: Option<u32>,
}

/// POST /v1/stacks/{stack}/rollout
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SteerRollout {
    /// The request.
    pub action: RolloutAction,
    /// The resource of the rollout; all of the stack if absent.
    pub resource: Option<String>,
}

/// A request of an operator about a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RolloutAction {
    /// Nothing more begins, until it is resumed.
    Pause,
    /// Continue after a pause.
    Resume,
    /// End the wait: the next batch begins.
    Promote,
    /// Nothing more of it begins: the stack is FAILED, and who has not begun keeps what it has.
    Abort,
}

impl RolloutAction {
    /// As operators write it.
    pub fn as_str(self) -> &'static str {
        match self {
            RolloutAction::Pause => "pause",
            RolloutAction::Resume => "resume",
            RolloutAction::Promote => "promote",
            RolloutAction::Abort => "abort",
        }
    }
}

/// A stack in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StackRow {
    /// The stack's name.
    pub name: String,
    /// The id of the stack.
    pub id: String,
    /// CREATE, UPDATE, DELETE, ROLLBACK or CHECK.
    pub action: String,
    /// IN_PROGRESS, COMPLETE or FAILED.
    pub status: String,
    pub status_reason: String,
    /// The current revision.
    pub revision: u32,
    /// The current traversal.
    pub traversal: u64,
    /// RFC 3339 UTC.
    pub created_at: String,
    /// RFC 3339 UTC.
    pub updated_at: String,
    /// The progress of the traversal.
    pub progress: ProgressView,
}

/// `stack template -o json`; without values of parameters, for there may be secrets among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TemplateView {
    /// The revision of the template.
    pub revision: u32,
    /// The file's name.
    pub name: String,
    /// The text of the template.
    pub template: String,
    /// Files that it names, by key. A viewer is shown `******` for each content.
    pub files: BTreeMap<String, String>,
}
