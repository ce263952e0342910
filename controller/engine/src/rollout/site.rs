//! The rollouts of the site: those of each stack's operation, by the path of their set.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_shared::{MonoTime, NodeId};

use super::machine::{Health, Look, Rollout};
use super::member::Event;
use super::record::{MemberRecord, Proven, RolloutChange, RolloutRecord, RolloutSnapshot};

/// Rollouts of one stack, by the path of their set.
type BySet = BTreeMap<Arc<str>, Rollout>;

/// **Invariant.** A stack in `by_stack` has a rollout; `kept` is what the store has when all changes are committed.
#[derive(Default)]
pub(crate) struct Rollouts {
    by_stack: BTreeMap<u64, OfStack>,
    kept: RolloutSnapshot,
}

/// The rollouts of one stack's operation.
#[derive(Default)]
pub(crate) struct OfStack {
    by_set: BTreeMap<Arc<str>, Rollout>,
    /// They are looked at when all else of the input in hand is done.
    is_woken: bool,
    /// When they are looked at for the time's sake.
    due: Option<MonoTime>,
}

/// What follows from a look at all rollouts of a stack.
#[derive(Default)]
pub(crate) struct Looks {
    pub of_sets: Vec<(Arc<str>, Look)>,
    /// The timer that ends, and the one that begins.
    pub timers: (Option<MonoTime>, Option<MonoTime>),
}

impl Rollouts {
    pub fn is_rolling(&self, stack: u64) -> bool {
        self.by_stack.contains_key(&stack)
    }

    /// See [`Engine::leftovers`](crate::Engine::leftovers).
    pub fn len(&self) -> usize {
        self.by_stack.len()
    }

    pub fn of_stack(&self, stack: u64) -> impl Iterator<Item = (&Arc<str>, &Rollout)> {
        self.by_stack.get(&stack).into_iter().flat_map(|of| &of.by_set)
    }

    pub fn get(&self, stack: u64, set: &str) -> Option<&Rollout> {
        self.by_stack.get(&stack)?.by_set.get(set)
    }

    pub fn get_mut(&mut self, stack: u64, set: &str) -> Option<&mut Rollout> {
        self.by_stack.get_mut(&stack)?.by_set.get_mut(set)
    }

    pub fn of_member(&self, stack: u64, member: &str) -> Option<&Rollout> {
        self.get(stack, set_of(member)?)
    }

    /// These are the rollouts of a stack from now on.
    pub fn begin(&mut self, stack: u64, rollouts: BySet) {
        match rollouts.is_empty() {
            true => drop(self.by_stack.remove(&stack)),
            false => self.by_stack.entry(stack).or_default().by_set = rollouts,
        }
    }

    /// The stack's operation ends, or is laid out again: then its rollouts come back with [`Rollouts::begin`]. Also
    /// returns the timer that ends.
    pub fn end(&mut self, stack: u64) -> Option<(BySet, Option<MonoTime>)> {
        self.by_stack.remove(&stack).map(|of| (of.by_set, of.due))
    }

    /// Something has happened to a member. Returns whether that changes its state.
    pub fn tell(&mut self, stack: u64, member: &Arc<str>, event: Event) -> bool {
        let rollout = set_of(member).and_then(|set| self.get_mut(stack, set));
        rollout.is_some_and(|rollout| rollout.tell(member, event))
    }

    /// A node has come or gone. Returns the members of which something may follow, by stack.
    pub fn tell_of_node(&mut self, node: &NodeId, event: Event) -> Vec<(u64, String)> {
        let sets =
            self.by_stack.iter_mut().flat_map(|(stack, of)| of.by_set.iter_mut().map(|of| (*stack, of)));
        let told = sets.filter_map(|(stack, (set, rollout))| {
            let member = format!("{set}[{node}]");
            rollout.tell_of_node(&member, event).then_some((stack, member))
        });
        told.collect()
    }

    /// Returns whether a look at a stack's rollouts is to be queued.
    pub fn wake(&mut self, stack: u64) -> bool {
        self.by_stack.get_mut(&stack).is_some_and(|of| !std::mem::replace(&mut of.is_woken, true))
    }

    /// The time has come that a look asked for. Returns whether the look is to be queued.
    pub fn is_due(&mut self, stack: u64, due: MonoTime) -> bool {
        let of = self.by_stack.get_mut(&stack);
        let is_due = of.is_some_and(|of| of.due.take_if(|it| *it == due).is_some());
        is_due && self.wake(stack)
    }

    /// Decides which members begin now. A stack that does not go on is only noted as looked at.
    pub fn look(
        &mut self,
        stack: u64,
        goes_on: bool,
        now: MonoTime,
        health: &dyn Fn(&str) -> Health,
    ) -> Looks {
        let Some(of) = self.by_stack.get_mut(&stack) else { return Looks::default() };
        of.is_woken = false;
        if !goes_on {
            return Looks::default();
        }
        let looks = of.by_set.iter_mut().map(|(set, rollout)| (Arc::clone(set), rollout.look(now, health)));
        let of_sets = looks.collect();
        let due = of.by_set.values().filter_map(|rollout| rollout.due(now)).min();
        Looks { of_sets, timers: (std::mem::replace(&mut of.due, due), due) }
    }

    pub fn load(&mut self, kept: RolloutSnapshot) {
        self.kept = kept;
    }

    /// What was kept of the rollout of a row in a traversal.
    pub fn kept(
        &self,
        row: u64,
        traversal: u64,
    ) -> Option<(&RolloutRecord, &BTreeMap<Arc<str>, MemberRecord>)> {
        let (record, members) = self.kept.rollouts.get(&row)?;
        (record.traversal == traversal).then_some((record, members))
    }

    /// What the store is to have of a stack's rollouts, whose sets have these rows, and has not.
    pub fn save(&mut self, stack: u64, row: &dyn Fn(&str) -> Option<u64>) -> Vec<RolloutChange> {
        let of = self.by_stack.get_mut(&stack).into_iter().flat_map(|of| &mut of.by_set);
        let changes = of.filter_map(|(set, rollout)| rollout.save(row(set)?));
        let changes: Vec<RolloutChange> = changes.collect();
        changes.iter().for_each(|change| self.kept.apply(change.clone()));
        changes
    }

    /// The rollout of a row is over: nothing of it is kept any more.
    pub fn over(&mut self, row: u64) -> Option<RolloutChange> {
        self.kept.rollouts.remove(&row).map(|_| RolloutChange::Over(row))
    }

    pub fn is_proven(&self, row: u64, proven: Proven) -> bool {
        self.kept.proven.get(&row) == Some(&proven)
    }

    /// All members of the set of a row have this.
    pub fn prove(&mut self, row: u64, proven: Proven) -> Option<RolloutChange> {
        let is_new = self.kept.proven.insert(row, proven) != Some(proven);
        is_new.then_some(RolloutChange::Proven(row, Some(proven)))
    }

    /// The row is gone.
    pub fn forget(&mut self, row: u64) -> impl Iterator<Item = RolloutChange> {
        let proven = self.kept.proven.remove(&row).map(|_| RolloutChange::Proven(row, None));
        self.over(row).into_iter().chain(proven)
    }
}

/// The set of a member, as its name says: `a[web-1]` is of the set `a`.
pub(crate) fn set_of(name: &str) -> Option<&str> {
    name.strip_suffix(']')?.rsplit_once('[').map(|(set, _)| set)
}

/// The node of a member, as its name says; empty for what is no member.
pub(crate) fn node_of(name: &str) -> &str {
    name.strip_suffix(']').and_then(|name| name.rsplit_once('[')).map_or("", |(_, node)| node)
}
