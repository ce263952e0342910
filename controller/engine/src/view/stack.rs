//! Stacks and resources as operators see them, in the types of the API (`muster_api`).

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_shared::{ResourceId, StackName};
use muster_template::Kind;

use crate::record::{Observation, Status, action_str};
use crate::row::cause::Cause;
use crate::row::{Row, Slot};
use crate::stack::Stack;
use crate::view::View;
use crate::view::phase::{NeededBy, Phase};

pub use muster_api::resource::{GraphEdgeView, GraphNodeView, GraphView, ResourceView};
pub use muster_api::stack::{ActiveView, FailureView, OutputView, ProgressView, StackView};

/// Resources shown as active: about a screen.
const ACTIVE_MAX: usize = 20;

/// The purpose of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    /// 0: it is of no stack.
    pub stack: u64,
    pub stack_name: Option<StackName>,
    pub resource: Arc<str>,
    pub cause: Cause,
}

impl View<'_> {
    /// Number of stacks by action and status.
    pub fn stack_counts(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        let mut counts = BTreeMap::new();
        for stack in self.graph.stacks.values() {
            *counts.entry((stack.action.as_str(), stack.status.as_str())).or_default() += 1;
        }
        counts
    }

    /// A stack, with outputs, parameters and active resources.
    pub fn stack_view(&self, name: &StackName) -> Option<StackView> {
        let stack = self.graph.stacks.named(name)?;
        let mut view = self.short_view(stack);
        view.outputs.clone_from(&stack.outputs);
        view.parameters.clone_from(&stack.parameters);
        view.rollouts = self.rollout_views(stack);
        let hooks = stack.walk.iter().filter(|_| !stack.cancelled).flat_map(|walk| &walk.at_hooks);
        let busy =
            stack.working.iter().chain(hooks.map(|(_, slot)| slot)).chain(&stack.waiting).take(ACTIVE_MAX);
        let active = |slot: &Slot| {
            let row = &self.graph.rows[*slot];
            ActiveView {
                name: row.name.to_string(),
                node: self.node_of(row),
                phase: Phase::shown(self.traversals.phase(row)),
                phase_seconds: self.traversals.phase_time(row).as_secs(),
            }
        };
        view.active = busy.map(active).collect();
        view.active.sort_by(|a, b| a.name.cmp(&b.name));
        Some(view)
    }

    /// The stacks, without outputs and parameters.
    pub fn stack_views(&self) -> Vec<StackView> {
        self.graph.stacks.after(None).map(|stack| self.short_view(stack)).collect()
    }

    /// The number of the last change to a stack, for watchers.
    pub fn stack_seq(&self, name: &StackName) -> Option<u64> {
        Some(self.graph.stacks.named(name)?.seq)
    }

    /// The id of a stack. Another stack may have the name later.
    pub fn stack_id(&self, name: &StackName) -> Option<u64> {
        self.graph.stacks.id_of(name)
    }

    /// Failures in a stack's last operation.
    pub fn failure_views(&self, name: &StackName) -> Option<Vec<FailureView>> {
        Some(self.graph.stacks.named(name)?.failures.clone())
    }

    /// Returns the purpose of a thing's present job.
    pub fn job_view(&self, thing: &ResourceId) -> Option<JobView> {
        let row = self.graph.rows.get(self.graph.rows.of_thing(thing)?)?;
        let stack_name = self.graph.stacks.get(&row.stack).map(|stack| stack.name.clone());
        Some(JobView { stack: row.stack, stack_name, resource: Arc::clone(&row.name), cause: row.cause() })
    }

    pub(super) fn short_view(&self, stack: &Stack) -> StackView {
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
            rollback: stack.rollback,
            timeout: stack.timeout_s,
            seq: stack.seq,
            ..StackView::default()
        }
    }

    /// The rows of a stack: those of the current revision; with `all` also dropped ones.
    pub fn resource_views(&self, name: &StackName, all: bool) -> Option<Vec<ResourceView>> {
        let stack = self.graph.stacks.named(name)?;
        let extras = stack.extras.iter().filter(|_| all || stack.forward.is_empty());
        let needed = self.traversals.still_needed(stack);
        let view = |slot: &Slot| self.resource_view(stack, *slot, &needed);
        // The row of a `for_each` is no resource of its own.
        let is_listed = |slot: &&Slot| all || self.graph.rows[**slot].kind != Kind::Set;
        Some(stack.forward.iter().chain(extras).filter(is_listed).map(view).collect())
    }

    pub(super) fn resource_view(&self, stack: &Stack, slot: Slot, needed: &NeededBy<'_>) -> ResourceView {
        let row = &self.graph.rows[slot];
        let name_of = |slot: &Slot| self.graph.rows.get(*slot).map(|row| row.name.to_string());
        let physical_of = |id: Option<u64>| {
            self.graph.rows.of_id(id?).map(|slot| self.graph.rows[slot].physical.to_string())
        };
        ResourceView {
            name: row.name.to_string(),
            id: row.id.to_string(),
            physical_id: row.shown_id(),
            kind: row.type_name().into(),
            node: self.node_of(row),
            action: action_str(row.action()).into(),
            status: status_of(row).into(),
            status_reason: match row.details().hook.filter(|_| !stack.cancelled) {
                Some(hook) => self.graph.hook_reason(slot, hook),
                None if row.pauses() => self.pause_reason(slot),
                None if self.traversals.phase(row) == Some(Phase::Facts) => {
                    format!("waits for {} to tell what it is", self.traversals.asked(row))
                }
                None => row.reason().unwrap_or_default().into(),
            },
            generation: row.generation.to_string(),
            observed: observed(row).into(),
            phase: Phase::shown(self.traversals.phase(row)),
            phase_seconds: self.traversals.phase_time(row).as_secs(),
            waits_for: self.traversals.waits_for(stack, slot, needed),
            requires: row.requires.iter().filter_map(name_of).collect(),
            replaces: physical_of(row.replaces),
            replaced_by: physical_of(row.replaced_by()),
            retry_count: row.retry_count,
            causes: row.details().causes.iter().map(ToString::to_string).collect(),
            hook: row.details().hook.filter(|_| !stack.cancelled).map(|hook| hook.as_str().into()),
            drift_policy: if row.kind.is_virtual() { "" } else { row.drift_policy().as_str() }.into(),
            corrections: row.corrections(),
            breaker: row.breaker().into(),
        }
    }

    fn node_of(&self, row: &Row) -> String {
        match row.node {
            Some(key) => self.graph.nodes[key].name.to_string(),
            // A member that waits for its turn has no job yet, but its name has the node.
            None if self.jobs.is_held(row) => crate::rollout::node_of(&row.name).to_owned(),
            None => String::new(),
        }
    }

    /// Names and ids of all rows of a stack, including dropped ones, for the simulator and tests.
    pub fn physical_ids(&self, name: &StackName) -> Vec<(String, ResourceId)> {
        let Some(stack) = self.graph.stacks.named(name) else { return Vec::new() };
        let rows = stack.forward.iter().chain(&stack.extras).map(|slot| &self.graph.rows[*slot]);
        rows.map(|row| (row.name.to_string(), row.physical)).collect()
    }
}

pub(super) fn status_of(row: &Row) -> &'static str {
    row.status().map_or("INIT", Status::as_str)
}

fn observed(row: &Row) -> &'static str {
    let is_there = row.is_applied() || row.is_external();
    match (row.observed(), row.status()) {
        (Observation::Drifted | Observation::Missing, _) => row.observed().as_str(),
        (Observation::Unknown | Observation::InSync, _) if !is_there => "missing",
        (Observation::Unknown | Observation::InSync, Some(Status::Complete)) => "in_sync",
        (Observation::InSync, _) if row.is_intact() => "in_sync",
        (Observation::Unknown | Observation::InSync, _) => "unknown",
    }
}
