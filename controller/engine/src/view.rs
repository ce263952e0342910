//! What operators see, as serde types with the JSON keys of the command line's contract.

use std::collections::BTreeMap;

use muster_shared::{ResourceId, StackName};
use muster_template::Kind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::Engine;
pub use crate::node_view::{DriftView, LostView, NodeView, TokenView};
use crate::progress::{NeededBy, Phase};
use crate::record::{Observation, Status, action_str};
use crate::resource::{Row, Slot};
use crate::rollout::RolloutView;
use crate::stack::Stack;

mod graph;
mod page;

pub use graph::{GraphEdgeView, GraphNodeView, GraphView};
pub use page::Which;

/// `stack show -o json`; `created_at` and `updated_at` are added by whoever keeps the clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StackView {
    /// The stack's name.
    pub name: String,
    /// Its id.
    pub id: String,
    /// CREATE, UPDATE, DELETE, ROLLBACK or CHECK.
    pub action: String,
    /// IN_PROGRESS, COMPLETE or FAILED.
    pub status: String,
    /// Why.
    pub status_reason: String,
    /// The current revision.
    pub revision: u32,
    /// The current traversal.
    pub traversal: u64,
    /// RFC 3339 UTC.
    #[serde(default)]
    pub created_at: String,
    /// RFC 3339 UTC.
    #[serde(default)]
    pub updated_at: String,
    /// Values in force; hidden ones masked.
    pub parameters: BTreeMap<String, Value>,
    /// Empty until the stack is COMPLETE.
    pub outputs: Vec<OutputView>,
    /// How far the traversal is.
    pub progress: ProgressView,
    /// Nodes that its selectors have come to mean since the traversal began.
    #[serde(default)]
    pub nodes_joined: u64,
    /// Nodes that its selectors mean no more since then.
    #[serde(default)]
    pub nodes_left: u64,
    /// Up to 20 resources on which something is being done, with the phase each is in.
    #[serde(default)]
    pub active: Vec<ActiveView>,
    /// Changes that go through resources of a `for_each` in batches.
    #[serde(default)]
    pub rollouts: Vec<RolloutView>,
    /// Counts up with every change of the stack or a resource of it; for watching.
    pub seq: u64,
}

/// One output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutputView {
    /// Its name.
    pub key: String,
    /// Its value; null if it could not be computed.
    pub value: Value,
    /// From the template.
    pub description: String,
}

/// How far a traversal is, in graph nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressView {
    /// Observed ready, or cleaned up.
    pub done: u64,
    /// All that the traversal touches.
    pub total: u64,
    /// Jobs with an agent.
    pub in_flight: u64,
    /// Failed for good.
    pub failed: u64,
}

/// A resource on which something is being done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveView {
    /// The resource.
    pub name: String,
    /// Where it is.
    pub node: String,
    /// See [`ResourceView::phase`].
    pub phase: String,
    /// See [`ResourceView::phase_seconds`].
    #[serde(default)]
    pub phase_seconds: u64,
}

/// `resource list -o json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceView {
    /// Its name in the template.
    pub name: String,
    /// The row.
    pub id: String,
    /// The one thing it stands for.
    pub physical_id: String,
    /// Muster::File, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Where it is; empty until known.
    pub node: String,
    /// INIT, CREATE, UPDATE, DELETE, CHECK or RETAIN.
    pub action: String,
    /// IN_PROGRESS, COMPLETE or FAILED; INIT before anything was done.
    pub status: String,
    /// Why.
    pub status_reason: String,
    /// Of its last job.
    pub generation: String,
    /// in_sync, drifted, missing or unknown.
    pub observed: String,
    /// While IN_PROGRESS: waiting, hook, pause, rollout, signals, facts, node_away, maintenance, queued, running, settling or
    /// backoff; else empty.
    pub phase: String,
    /// Seconds since it has been in that phase.
    #[serde(default)]
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
    /// How often its job was tried again.
    pub retry_count: u32,
    /// Why each attempt of its present job failed, oldest first.
    #[serde(default)]
    pub causes: Vec<String>,
    /// Where it waits for an operator.
    #[serde(default)]
    pub hook: Option<String>,
    /// What becomes of it when somebody else has changed it: correct, report or ignore. Empty for what is on no server.
    #[serde(default)]
    pub drift_policy: String,
    /// How often it was corrected since it was last calm.
    #[serde(default)]
    pub corrections: u32,
    /// open: it was corrected too often and is left as it is; else closed.
    #[serde(default)]
    pub breaker: String,
}

/// `stack failures -o json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureView {
    /// Its name in the template.
    pub resource: String,
    /// The one thing it stands for.
    pub physical_id: String,
    /// Muster::File, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Where it is; empty until known.
    pub node: String,
    /// CREATE, UPDATE, DELETE, CHECK or RETAIN.
    pub action: String,
    /// The last cause.
    pub reason: String,
    /// Why each attempt failed, oldest first.
    pub causes: Vec<String>,
}

/// Resources shown as active: a screen's worth.
const ACTIVE_MAX: usize = 20;

impl Engine {
    /// Stacks, by action and status.
    pub fn stack_counts(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        let mut counts = BTreeMap::new();
        for stack in self.stacks.values() {
            *counts.entry((stack.action.as_str(), stack.status.as_str())).or_default() += 1;
        }
        counts
    }

    /// One stack, with its outputs and what is being done.
    pub fn stack_view(&self, name: &StackName) -> Option<StackView> {
        let stack = self.stacks.named(name)?;
        let mut view = self.short_view(stack);
        view.outputs.clone_from(&stack.outputs);
        view.parameters.clone_from(&stack.parameters);
        view.rollouts = self.rollout_views(stack);
        let hooks = stack.walk.iter().filter(|_| !stack.cancelled).flat_map(|walk| &walk.at_hooks);
        let busy =
            stack.working.iter().chain(hooks.map(|(_, slot)| slot)).chain(&stack.waiting).take(ACTIVE_MAX);
        let active = |slot: &Slot| {
            let row = &self.rows[*slot];
            ActiveView {
                name: row.name.to_string(),
                node: self.node_of(row),
                phase: Phase::shown(self.phase(row)),
                phase_seconds: self.phase_time(row).as_secs(),
            }
        };
        view.active = busy.map(active).collect();
        view.active.sort_by(|a, b| a.name.cmp(&b.name));
        Some(view)
    }

    /// All stacks, without outputs and parameters.
    pub fn stack_views(&self) -> Vec<StackView> {
        self.stacks.after(None).map(|stack| self.short_view(stack)).collect()
    }

    /// A stack's place in the count of changes: for those who watch.
    pub fn stack_seq(&self, name: &StackName) -> Option<u64> {
        Some(self.stacks.named(name)?.seq)
    }

    /// A stack's id: another may have its name later.
    pub fn stack_id(&self, name: &StackName) -> Option<u64> {
        self.stacks.id_of(name)
    }

    /// What failed in a stack's last operation.
    pub fn failure_views(&self, name: &StackName) -> Option<Vec<FailureView>> {
        Some(self.stacks.named(name)?.failures.clone())
    }

    fn short_view(&self, stack: &Stack) -> StackView {
        let fleet = stack.walk.as_ref().map(|walk| walk.fleet).unwrap_or_default();
        StackView {
            name: stack.name.to_string(),
            id: stack.id.to_string(),
            action: stack.action.as_str().into(),
            status: stack.status.as_str().into(),
            status_reason: stack.reason.clone(),
            revision: stack.revision,
            traversal: stack.traversal,
            progress: stack.progress(),
            nodes_joined: fleet.joined as u64,
            nodes_left: fleet.left as u64,
            seq: stack.seq,
            ..StackView::default()
        }
    }

    /// The rows of a stack: those of the current revision, or `all`, also those being cleaned up.
    pub fn resource_views(&self, name: &StackName, all: bool) -> Option<Vec<ResourceView>> {
        let stack = self.stacks.named(name)?;
        let extras = stack.extras.iter().filter(|_| all || stack.forward.is_empty());
        let needed = self.still_needed(stack);
        let view = |slot: &Slot| self.resource_view(stack, *slot, &needed);
        // What stands for all that a `for_each` makes is no resource of its own.
        let is_listed = |slot: &&Slot| all || self.rows[**slot].kind != Kind::Set;
        Some(stack.forward.iter().chain(extras).filter(is_listed).map(view).collect())
    }

    fn resource_view(&self, stack: &Stack, slot: Slot, needed: &NeededBy<'_>) -> ResourceView {
        let row = &self.rows[slot];
        let name_of = |slot: &Slot| self.rows.get(*slot).map(|row| row.name.to_string());
        let physical_of =
            |id: Option<u64>| self.rows.of_id(id?).map(|slot| self.rows[slot].physical.to_string());
        ResourceView {
            name: row.name.to_string(),
            id: row.id.to_string(),
            physical_id: row.shown_id(),
            kind: row.type_name().into(),
            node: self.node_of(row),
            action: action_str(row.action).into(),
            status: status_of(row).into(),
            status_reason: match row.rare().hook.filter(|_| !stack.cancelled) {
                Some(hook) => self.hook_reason(slot, hook),
                None if row.pauses() => self.pause_reason(slot),
                None if self.phase(row) == Some(Phase::Facts) => {
                    format!("waits for {} to tell what it is", self.asked(row))
                }
                None => row.reason.as_deref().unwrap_or_default().into(),
            },
            generation: row.generation.to_string(),
            observed: observed(row).into(),
            phase: Phase::shown(self.phase(row)),
            phase_seconds: self.phase_time(row).as_secs(),
            waits_for: self.waits_for(stack, slot, needed),
            requires: row.requires.iter().filter_map(name_of).collect(),
            replaces: physical_of(row.replaces),
            replaced_by: physical_of(row.replaced_by),
            retry_count: row.retry_count,
            causes: row.rare().causes.iter().map(ToString::to_string).collect(),
            hook: row.rare().hook.filter(|_| !stack.cancelled).map(|hook| hook.as_str().into()),
            drift_policy: if row.kind.is_here() { "" } else { row.drift_policy().as_str() }.into(),
            corrections: row.corrections(),
            breaker: row.breaker().into(),
        }
    }

    fn node_of(&self, row: &Row) -> String {
        match row.node {
            Some(key) => self.nodes[key].name.to_string(),
            // Nothing was decided for it yet, and yet it is for one node alone.
            None if self.is_held(row) => crate::rollout::node_of(&row.name).to_owned(),
            None => String::new(),
        }
    }

    /// Every row with its last desired state, dropped ones included: for simulation and tests.
    pub fn physical_ids(&self, name: &StackName) -> Vec<(String, ResourceId)> {
        let Some(stack) = self.stacks.named(name) else { return Vec::new() };
        let rows = stack.forward.iter().chain(&stack.extras).map(|slot| &self.rows[*slot]);
        rows.map(|row| (row.name.to_string(), row.physical)).collect()
    }
}

fn status_of(row: &Row) -> &'static str {
    row.status.map_or("INIT", Status::as_str)
}

fn observed(row: &Row) -> &'static str {
    let is_there = row.applied || row.is_adopted();
    match (row.observed, row.status) {
        (Observation::Drifted | Observation::Missing, _) => row.observed.as_str(),
        (Observation::Unknown | Observation::InSync, _) if !is_there => "missing",
        (Observation::Unknown | Observation::InSync, Some(Status::Complete)) => "in_sync",
        (Observation::InSync, _) if row.is_intact() => "in_sync",
        (Observation::Unknown | Observation::InSync, _) => "unknown",
    }
}
