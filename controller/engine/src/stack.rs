//! A stack and the traversal that walks it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use indexmap::IndexSet;
use muster_shared::{Generation, MonoTime, StackName};
use muster_template::{Policies, Tree};

use crate::delete_first::DeleteFirst;
use crate::follow::{MembershipUpdates, NodeSet};
use crate::hidden::Hidden;
use crate::progress_check::ProgressCheck;
use crate::record::{StackAction, StackRecord, Status};
use crate::row::Slot;
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
    pub rollback: bool,
    pub delete_first: bool,
    /// The operation gives every resource a job.
    pub converge: bool,
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
    /// How many of `failures` belong to the operation before this rollback.
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
    pub in_flight: usize,
    /// Rows with work, so that a view need not look through a million rows.
    pub working: BTreeSet<Slot>,
    /// Rows that wait for signals, or for time to pass.
    pub waiting: BTreeSet<Slot>,
    pub walk: Option<Walk>,
    /// The `for_each` sets, which say for which nodes the stack has members.
    pub sets: Vec<NodeSet>,
    /// When the stack adds and drops members.
    pub membership: MembershipUpdates,
    /// Corrections that succeeded in the present turn of the engine, by path, each with its generation.
    pub put_right: BTreeMap<Arc<str>, Generation>,
    /// The number of the last change to this stack.
    pub seq: u64,
}

/// A traversal in memory. It exists until the stack is COMPLETE.
pub(crate) struct Walk {
    pub tree: Arc<Tree>,
    pub needed_by: Adjacency,
    pub stage: Stage,
    /// When that stage began.
    pub since: MonoTime,
    /// Nodes of the graph to visit, by index.
    pub visits: Vec<u32>,
    /// Nodes of the graph in this traversal.
    pub total: usize,
    /// Nodes of the graph that had ended before the operation was laid out again.
    pub ended_before: usize,
    /// Nodes that began or ceased to match the stack's selectors since the operation started.
    pub fleet: FleetChange,
    /// Forward nodes that are not ready.
    pub forward_left: usize,
    /// In a check: rows that have not answered.
    pub asked: BTreeSet<Slot>,
    pub failed: usize,
    /// State of the first clean-up, if the operation deletes first.
    pub delete_first: Option<Box<DeleteFirst>>,
    /// Rows that wait for an operator, by name.
    pub at_hooks: BTreeSet<(Arc<str>, Slot)>,
    /// No row can go on, because one failed. A late outcome may change that.
    pub ended: bool,
    /// When batches of groups start, by [`muster_template::Pause::batch`].
    pub batches: BTreeMap<Arc<str>, MonoTime>,
    /// How often the operation was laid out again because a value became known.
    pub anew: u32,
    pub timeout: Option<MonoTime>,
}

/// How many nodes began to match selectors, and how many ceased to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FleetChange {
    pub joined: usize,
    pub left: usize,
}

/// Stages of a traversal. Clean-up comes last; with `delete_first` a part of it also comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    First,
    Forward,
    Cleanup,
    /// Nothing is walked: nodes are asked about their rows.
    Check,
}

/// The resources that need each resource, by index in the template.
#[derive(Default)]
pub(crate) struct Adjacency {
    offsets: Box<[u32]>,
    targets: Box<[u32]>,
}

impl Adjacency {
    /// Turns "needs" into "is needed by".
    pub fn reversed<'a>(count: usize, requires: impl Fn(usize) -> &'a [u32]) -> Self {
        let mut offsets = vec![0u32; count + 1];
        for index in 0..count {
            for &required in requires(index) {
                offsets[required as usize + 1] += 1;
            }
        }
        for index in 0..count {
            offsets[index + 1] += offsets[index];
        }
        let mut next = offsets.clone();
        let mut targets = vec![0u32; offsets[count] as usize];
        for index in 0..count {
            for &required in requires(index) {
                let at = &mut next[required as usize];
                targets[*at as usize] =
                    u32::try_from(index).expect("a template has fewer than 2^32 resources");
                *at += 1;
            }
        }
        Self { offsets: offsets.into(), targets: targets.into() }
    }

    /// The resources that need this one, by index. Empty if the traversal visits nothing.
    pub fn of(&self, index: usize) -> &[u32] {
        match self.offsets.get(index..index + 2) {
            Some([from, to]) => &self.targets[*from as usize..*to as usize],
            _ => &[],
        }
    }
}

impl Walk {
    /// Rows of a name that wait for an operator.
    pub fn at_hooks_of(&self, name: &str) -> impl Iterator<Item = Slot> {
        let name: Arc<str> = name.into();
        let from = (Arc::clone(&name), Slot(0));
        self.at_hooks.range(from..).take_while(move |(other, _)| *other == name).map(|(_, slot)| *slot)
    }
}

impl Stack {
    /// How far the traversal is. Rows that ended before it was laid out again count as ended.
    pub fn progress(&self) -> ProgressView {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let Some(walk) = &self.walk else {
            let all = count(self.forward.len());
            return ProgressView { done: all, total: all, ..ProgressView::default() };
        };
        let left = match walk.stage {
            Stage::Check => walk.asked.len(),
            Stage::First | Stage::Forward | Stage::Cleanup => walk.forward_left + self.extras.len(),
        };
        ProgressView {
            done: count(walk.ended_before + walk.total.saturating_sub(left)),
            total: count(walk.ended_before + walk.total),
            in_flight: count(self.in_flight),
            failed: count(walk.failed),
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
            rollback: false,
            delete_first: false,
            converge: false,
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
            in_flight: 0,
            working: BTreeSet::new(),
            waiting: BTreeSet::new(),
            walk: None,
            sets: Vec::new(),
            membership: MembershipUpdates::default(),
            put_right: BTreeMap::new(),
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

    pub fn record(&self) -> StackRecord {
        StackRecord {
            id: self.id,
            name: self.name.clone(),
            action: self.action,
            status: self.status,
            reason: self.reason.clone(),
            revision: self.revision,
            traversal: self.traversal,
            timeout_s: self.timeout_s,
            rollback: self.rollback,
            delete_first: self.delete_first,
            converge: self.converge,
            cancelled: self.cancelled,
            timed_out: self.timed_out,
            complete: self.complete.clone(),
            outputs: self.outputs.clone(),
            parameters: self.parameters.clone(),
            hidden_digests: self.hidden_digests.clone(),
            events: self.events,
            failures: self.failures.clone(),
        }
    }
}
