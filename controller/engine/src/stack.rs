//! A stack: its revision, the rows of that revision, and the operation under way.
//!
//! Absent: operations on a stack (`operation.rs`), and what operators see of it (`view/stack.rs`).

pub(crate) mod follow;
pub(crate) mod stacks;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use indexmap::IndexSet;
use muster_api::user::NodeLabel;
use muster_shared::{Generation, MonoTime, StackName};
use muster_template::Policies;

use crate::elapsed::Elapsed;
use crate::job::in_flight::InFlight;
use crate::record::{StackAction, StackRecord, Status};
use crate::row::Slot;
use crate::stack::follow::{MembershipUpdates, NodeSet};
use crate::traversal::begin_in_slices::Entering;
use crate::traversal::progress_check::ProgressCheck;
use crate::traversal::walk::Walk;
use crate::view::hidden::Hidden;
use crate::view::{FailureView, OutputView, ProgressView};

/// A named set of resources.
pub(crate) struct Stack {
    pub id: u64,
    pub name: StackName,
    pub action: StackAction,
    pub status: Status,
    pub reason: String,
    pub revision: u32,
    pub traversal: u64,
    pub timeout_s: u64,
    /// Since when the operation runs.
    pub runs: Elapsed,
    pub rollback: bool,
    pub delete_first: bool,
    /// The operation gives every resource a job.
    pub converge: bool,
    /// The operation adopts what it would create.
    pub adopt: bool,
    /// The operation rolls back to a COMPLETE revision. After a restart, the record of a rollout
    /// says so.
    pub returns: bool,
    /// The operation was cancelled, so no further job of it starts.
    pub cancelled: bool,
    /// The operation has timed out, so no further batch of a group starts.
    pub timed_out: bool,
    pub complete: Vec<u32>,
    pub outputs: Vec<OutputView>,
    pub parameters: BTreeMap<String, serde_json::Value>,
    pub hidden_digests: BTreeMap<String, String>,
    pub hidden: Hidden,
    pub events: u64,
    pub failures: Vec<FailureView>,
    /// The number of `failures` that belong to the operation before this rollback.
    pub failures_before: usize,
    pub progress_check: ProgressCheck,
    /// Policies for resources in the environments of the current revision.
    pub policies: Policies,
    /// Rows of the current revision, by name, which is the order of the template's resources.
    pub forward: Vec<Slot>,
    /// Beside `forward`: the definition of each settled row, or 0 if a plan must look at the row. A
    /// plan compares a million resources without reading their rows.
    pub settled: Vec<u128>,
    /// [`muster_template::names_digest`] of `forward`.
    pub names: u128,
    /// Rows to be cleaned up.
    pub extras: IndexSet<Slot>,
    /// Rows that wait because the stack has too many jobs in flight.
    pub queue: VecDeque<Slot>,
    /// Rows in `extras` whose clean-up failed in this operation before it was laid out again. It
    /// does not try them again.
    pub unclean: BTreeSet<Slot>,
    /// Jobs at connected agents.
    pub in_flight: InFlight,
    /// Rows with work, so that a view need not look through a million rows.
    pub working: BTreeSet<Slot>,
    /// Rows that wait for signals, or for time to pass.
    pub waiting: BTreeSet<Slot>,
    pub walk: Option<Walk>,
    /// Rows of a large operation that are not entered yet.
    pub entering: Option<Box<Entering>>,
    /// The `for_each` sets, which say for which nodes the stack has members.
    pub sets: Vec<NodeSet>,
    /// When the stack adds and drops members.
    pub membership: MembershipUpdates,
    /// Corrections that succeeded in the present turn of the engine, by path, each with its generation.
    pub corrected: BTreeMap<Arc<str>, Generation>,
    /// The label that every node of the stack has: see [`Graph::in_scope`](crate::graph::Graph::in_scope).
    pub scope: Option<NodeLabel>,
    /// The number of the last change to this stack.
    pub seq: u64,
}

impl Stack {
    pub fn progress(&self) -> ProgressView {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        match &self.walk {
            Some(walk) => {
                let (done, total) = walk.done_of(self.extras.len());
                ProgressView {
                    done: count(done),
                    total: count(total),
                    in_flight: count(self.in_flight.count()),
                    failed: count(walk.failed()),
                }
            }
            None => {
                let all = count(self.forward.len());
                ProgressView { done: all, total: all, ..ProgressView::default() }
            }
        }
    }

    pub fn new(id: u64, name: StackName) -> Self {
        Self {
            id,
            name,
            action: StackAction::Create,
            status: Status::InProgress,
            reason: String::new(),
            revision: 0,
            traversal: 0,
            timeout_s: 0,
            runs: Elapsed::default(),
            rollback: false,
            delete_first: false,
            converge: false,
            adopt: false,
            returns: false,
            cancelled: false,
            timed_out: false,
            complete: Vec::new(),
            outputs: Vec::new(),
            parameters: BTreeMap::new(),
            hidden_digests: BTreeMap::new(),
            hidden: Hidden::default(),
            events: 0,
            failures: Vec::new(),
            failures_before: 0,
            progress_check: ProgressCheck::default(),
            policies: Policies::default(),
            forward: Vec::new(),
            settled: Vec::new(),
            names: 0,
            extras: IndexSet::new(),
            unclean: BTreeSet::new(),
            queue: VecDeque::new(),
            in_flight: InFlight::default(),
            working: BTreeSet::new(),
            waiting: BTreeSet::new(),
            walk: None,
            entering: None,
            sets: Vec::new(),
            membership: MembershipUpdates::default(),
            corrected: BTreeMap::new(),
            scope: None,
            seq: 0,
        }
    }

    /// Whether no job of the operation starts: the stack was cancelled, or is being checked.
    pub fn is_still(&self) -> bool {
        self.cancelled || self.action == StackAction::Check
    }

    /// Whether the stack is FAILED because its operation timed out.
    pub fn has_timed_out(&self) -> bool {
        self.status == Status::Failed && self.timed_out
    }

    pub fn is_being_deleted(&self) -> bool {
        self.action == StackAction::Delete && self.status == Status::InProgress
    }

    pub fn record(&self, now: MonoTime) -> StackRecord {
        StackRecord {
            id: self.id,
            name: self.name.clone(),
            action: self.action,
            status: self.status,
            reason: self.reason.clone(),
            revision: self.revision,
            traversal: self.traversal,
            timeout_s: self.timeout_s,
            ran: (self.status == Status::InProgress).then(|| self.runs.so_far(now)),
            rollback: self.rollback,
            delete_first: self.delete_first,
            converge: self.converge,
            adopt: self.adopt,
            entering: self.entering.as_ref().is_some_and(|entering| entering.begins),
            cancelled: self.cancelled,
            timed_out: self.timed_out,
            complete: self.complete.clone(),
            outputs: self.outputs.clone(),
            parameters: self.parameters.clone(),
            hidden_digests: self.hidden_digests.clone(),
            events: self.events,
            failures: self.failures.clone(),
            scope: self.scope.clone(),
        }
    }
}
