//! The walk of a traversal: which nodes of the graph it visits, and how far it is. Only the methods
//! here write its counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_shared::MonoTime;
use muster_template::Tree;

use crate::row::Slot;
use crate::traversal::delete_first::DeleteFirst;

/// A traversal in memory. It exists until the stack is COMPLETE.
pub(crate) struct Walk {
    pub tree: Arc<Tree>,
    pub stage: Stage,
    /// When that stage began.
    pub since: MonoTime,
    pub timeout: Option<MonoTime>,
    /// In a check: rows that have not answered.
    pub asked: BTreeSet<Slot>,
    /// State of the first clean-up, if the operation deletes first.
    pub delete_first: Option<Box<DeleteFirst>>,
    /// Rows that wait for an operator, by name.
    pub at_hooks: BTreeSet<(Arc<str>, Slot)>,
    /// When batches of groups start, by [`muster_template::Pause::batch`].
    pub batches: BTreeMap<Arc<str>, MonoTime>,
    /// Nodes that began or ceased to match the stack's selectors since the operation started.
    pub fleet: FleetChange,
    /// The number of times that the tree was expanded because a value became known.
    pub anew: u32,
    /// Nodes of the graph to visit, by index in the tree.
    visits: Vec<u32>,
    needed_by: Adjacency,
    /// Nodes of the graph in this traversal.
    total: usize,
    /// Nodes of the graph that had ended before the walk was derived again.
    ended_before: usize,
    /// Forward nodes that are not ready.
    forward_left: usize,
    /// Rows that count as failed.
    failed: usize,
    /// No row can go on, because one failed. A late outcome may change that.
    ended: bool,
}

/// The number of nodes that began to match selectors, and of those that ceased to.
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

/// State of a walk that goes on when it is derived again within its operation.
pub(crate) struct KeptWalk {
    pub timeout: Option<MonoTime>,
    since: MonoTime,
    batches: BTreeMap<Arc<str>, MonoTime>,
    fleet: FleetChange,
    anew: u32,
    ended_before: usize,
    ended: bool,
}

impl Walk {
    /// A walk that visits these nodes of the graph and then cleans up as many rows as `extras`.
    pub fn new(
        tree: Arc<Tree>,
        visits: Vec<u32>,
        needed_by: Adjacency,
        extras: usize,
        now: MonoTime,
    ) -> Self {
        Self {
            tree,
            stage: Stage::Forward,
            since: now,
            timeout: None,
            asked: BTreeSet::new(),
            delete_first: None,
            at_hooks: BTreeSet::new(),
            batches: BTreeMap::new(),
            fleet: FleetChange::default(),
            anew: 0,
            total: visits.len() + extras,
            ended_before: 0,
            forward_left: visits.len(),
            failed: 0,
            ended: false,
            visits,
            needed_by,
        }
    }

    /// A check of so many rows, of which those in `asked` are asked.
    pub fn check(tree: Arc<Tree>, rows: usize, asked: BTreeSet<Slot>, now: MonoTime) -> Self {
        let walk = Self::new(tree, Vec::new(), Adjacency::default(), rows, now);
        Self { stage: Stage::Check, asked, ..walk }
    }

    /// State for the next walk of the same operation. `extras`: rows to clean up.
    pub fn kept(&self, extras: usize) -> KeptWalk {
        KeptWalk {
            timeout: self.timeout,
            since: self.since,
            batches: self.batches.clone(),
            fleet: self.fleet,
            anew: self.anew,
            ended_before: self.done_of(extras).0,
            ended: self.ended,
        }
    }

    /// Goes on where the walk before was.
    pub fn go_on_from(&mut self, kept: KeptWalk) {
        (self.since, self.ended, self.ended_before) = (kept.since, kept.ended, kept.ended_before);
        (self.batches, self.fleet, self.anew) = (kept.batches, kept.fleet, kept.anew);
    }

    /// Goes on to this stage.
    pub fn enter(&mut self, stage: Stage, now: MonoTime) {
        (self.stage, self.since) = (stage, now);
    }

    /// Goes on to clean-up. Failures of the stage before do not count in it.
    pub fn enter_cleanup(&mut self, now: MonoTime) {
        self.enter(Stage::Cleanup, now);
        (self.failed, self.ended) = (0, false);
    }

    /// Nodes of the graph to visit, by index in the tree.
    pub fn visits(&self) -> &[u32] {
        &self.visits
    }

    /// The resources that need this one, by index.
    pub fn needed_by(&self, index: usize) -> &[u32] {
        self.needed_by.of(index)
    }

    pub fn is_forward_done(&self) -> bool {
        self.forward_left == 0
    }

    /// Forward nodes that are not ready.
    #[cfg(test)]
    pub fn forward_left(&self) -> usize {
        self.forward_left
    }

    /// Rows that count as failed.
    pub fn failed(&self) -> usize {
        self.failed
    }

    /// The number of nodes of the graph that have ended, and the number of all nodes. `extras`:
    /// rows to clean up.
    pub fn done_of(&self, extras: usize) -> (usize, usize) {
        let left = match self.stage {
            Stage::Check => self.asked.len(),
            Stage::First | Stage::Forward | Stage::Cleanup => self.forward_left + extras,
        };
        (self.ended_before + self.total.saturating_sub(left), self.ended_before + self.total)
    }

    /// A forward row is ready.
    pub fn row_ready(&mut self) {
        self.forward_left -= 1;
    }

    /// Another row takes the place of one, which is cleaned up.
    pub fn row_replaced(&mut self) {
        self.total += 1;
    }

    pub fn row_failed(&mut self) {
        self.failed += 1;
    }

    /// A row that counted as failed goes on.
    pub fn row_goes_on(&mut self) {
        self.failed -= 1;
        self.ended = false;
    }

    /// No row can go on, or the operation has ended. Returns whether that is new.
    pub fn end(&mut self) -> bool {
        !std::mem::replace(&mut self.ended, true)
    }

    /// The operation has time again.
    pub fn reopen(&mut self, timeout: MonoTime) {
        (self.ended, self.timeout) = (false, Some(timeout));
    }

    /// Rows of a name that wait for an operator.
    pub fn at_hooks_of(&self, name: &str) -> impl Iterator<Item = Slot> {
        let name: Arc<str> = name.into();
        let from = (Arc::clone(&name), Slot(0));
        self.at_hooks.range(from..).take_while(move |(other, _)| *other == name).map(|(_, slot)| *slot)
    }
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
