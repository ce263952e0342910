//! A stack and the traversal that walks it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use indexmap::IndexSet;
use muster_shared::{Generation, MonoTime, StackName};
use muster_template::{Policies, Tree};

use crate::delete_first::DeleteFirst;
use crate::fleet::{MembershipUpdates, NodeSet};
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
    /// Every resource gets a job in its operation.
    pub converge: bool,
    /// It is rolled back to what was COMPLETE. After a restart, what is noted of a rollout knows that.
    pub returns: bool,
    /// Its operation was cancelled: nothing more of it begins.
    pub cancelled: bool,
    /// Its operation has had its time: no further batch of a group begins.
    pub timed_out: bool,
    pub complete: Vec<u32>,
    pub outputs: Vec<OutputView>,
    pub parameters: BTreeMap<String, serde_json::Value>,
    pub hidden_digests: BTreeMap<String, String>,
    pub hidden: Hidden,
    pub events: u64,
    pub failures: Vec<FailureView>,
    /// As many of them are of the operation that this rollback followed.
    pub failures_before: usize,
    pub progress_check: ProgressCheck,
    /// What the environments of the current revision say of resources.
    pub policies: Policies,
    /// Rows of the current revision, by name, which is the order of the template's resources.
    pub forward: Vec<Slot>,
    /// Beside `forward`, so that a million can be compared without a look at the rows: the definition of a row that is
    /// as it was asked for and that nothing has touched since; 0 where the row itself must be looked at.
    pub settled: Vec<u128>,
    /// [`muster_template::names_digest`] of `forward`.
    pub names: u128,
    /// Rows to be cleaned up.
    pub extras: IndexSet<Slot>,
    /// Rows that wait because the stack has enough in flight.
    pub queue: VecDeque<Slot>,
    /// Of them, those whose clean-up has failed in this operation, which was laid out again since: they are not tried again.
    pub unclean: BTreeSet<Slot>,
    /// Jobs with agents that are there.
    pub in_flight: usize,
    /// Rows with work: those who watch are not to look through a million rows for them.
    pub working: BTreeSet<Slot>,
    /// Rows that wait for signals, or for time to pass.
    pub waiting: BTreeSet<Slot>,
    pub walk: Option<Walk>,
    /// Whom its resources are for.
    pub sets: Vec<NodeSet>,
    /// When it follows the nodes.
    pub membership: MembershipUpdates,
    /// What was put right in this turn, by path, with the generation of the correction.
    pub put_right: BTreeMap<Arc<str>, Generation>,
    /// The last change, in the engine's count of changes.
    pub seq: u64,
}

/// One traversal in memory: there until the stack is COMPLETE.
pub(crate) struct Walk {
    pub tree: Arc<Tree>,
    pub needed_by: Adjacency,
    pub stage: Stage,
    /// When that stage began.
    pub since: MonoTime,
    /// What was laid out to be visited, by index.
    pub visits: Vec<u32>,
    /// Graph nodes of this traversal.
    pub total: usize,
    /// Those that had ended before it was laid out again.
    pub ended_before: usize,
    /// Nodes that came and went since it began, by the selectors of its sets.
    pub fleet: FleetChange,
    /// Forward nodes that are not ready.
    pub forward_left: usize,
    /// In a check: rows that have not answered.
    pub asked: BTreeSet<Slot>,
    pub failed: usize,
    /// If it deletes first.
    pub delete_first: Option<Box<DeleteFirst>>,
    /// Rows that wait for an operator, by name.
    pub at_hooks: BTreeSet<(Arc<str>, Slot)>,
    /// Nothing more can be done, for something failed; an outcome that comes late may yet revive it.
    pub ended: bool,
    /// When those batches of groups begin that wait after the one before, by [`muster_template::Pause::batch`].
    pub batches: BTreeMap<Arc<str>, MonoTime>,
    /// How often it was laid out again for what became known on the way.
    pub anew: u32,
    pub timeout: Option<MonoTime>,
}

/// How many nodes selectors have come to mean, and to mean no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FleetChange {
    pub joined: usize,
    pub left: usize,
}

/// Clean-up comes last, and where it was asked for also first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    First,
    Forward,
    Cleanup,
    /// Nothing is walked: rows are asked about.
    Check,
}

/// Who needs a resource, by index in the template.
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

    /// In the order of the template, which is by name. Nobody, where nothing is to be visited.
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
    /// How far its traversal is: what had ended before it was laid out again has ended.
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

    /// Nothing of its traversal begins.
    pub fn is_still(&self) -> bool {
        self.cancelled || self.action == StackAction::Check
    }

    /// The stack has failed because the time of its operation was over.
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
