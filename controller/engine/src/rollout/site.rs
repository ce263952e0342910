//! The rollouts of the site: for each stack's operation, by the path of the set.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_shared::{MonoTime, NodeId};

use super::machine::{Health, Look, Rollout};
use super::member::Event;
use super::record::{MemberRecord, Proven, RolloutChange, RolloutRecord, RolloutSnapshot};

/// Rollouts of one stack, by the path of their set.
type BySet = BTreeMap<Arc<str>, Rollout>;

/// **Invariant.** A stack in `by_stack` has a rollout; `kept` is what the store has once all
/// changes are committed.
#[derive(Default)]
pub(crate) struct Rollouts {
    by_stack: BTreeMap<u64, OfStack>,
    kept: RolloutSnapshot,
}

/// The rollouts of one stack's operation.
#[derive(Default)]
pub(crate) struct OfStack {
    by_set: BTreeMap<Arc<str>, Rollout>,
    /// A look at these rollouts is queued. It follows once the rest of the input is done.
    is_woken: bool,
    /// Time of the next look.
    due: Option<MonoTime>,
}

/// Decisions from a look at all rollouts of a stack.
#[derive(Default)]
pub(crate) struct Looks {
    pub of_sets: Vec<(Arc<str>, Look)>,
    /// The timer to clear, and the timer to set.
    pub timers: (Option<MonoTime>, Option<MonoTime>),
}

impl Rollouts {
    pub fn is_rolling(&self, stack: u64) -> bool {
        self.by_stack.contains_key(&stack)
    }

    /// See [`View::leftovers`](crate::View::leftovers).
    pub fn len(&self) -> usize {
        self.by_stack.len()
    }

    pub fn all(&self) -> impl Iterator<Item = &Rollout> {
        self.by_stack.values().flat_map(|of| of.by_set.values())
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

    /// Replaces the rollouts of a stack.
    pub fn begin(&mut self, stack: u64, rollouts: BySet) {
        match rollouts.is_empty() {
            true => drop(self.by_stack.remove(&stack)),
            false => self.by_stack.entry(stack).or_default().by_set = rollouts,
        }
    }

    /// The stack's operation ends, or is laid out again: [`Rollouts::begin`] then adds its rollouts
    /// again. Also returns the timer to clear.
    pub fn end(&mut self, stack: u64) -> Option<(BySet, Option<MonoTime>)> {
        self.by_stack.remove(&stack).map(|of| (of.by_set, of.due))
    }

    /// Applies an event to a member. Returns whether the member's state changes.
    pub fn tell(&mut self, stack: u64, member: &Arc<str>, event: Event) -> bool {
        let rollout = set_of(member).and_then(|set| self.get_mut(stack, set));
        rollout.is_some_and(|rollout| rollout.tell(member, event))
    }

    /// A node has connected or gone away. Returns the members for which a look may decide
    /// something, by stack.
    pub fn tell_of_node(&mut self, node: &NodeId, event: Event) -> Vec<(u64, String)> {
        let sets =
            self.by_stack.iter_mut().flat_map(|(stack, of)| of.by_set.iter_mut().map(|of| (*stack, of)));
        let told = sets.filter_map(|(stack, (set, rollout))| {
            let member = format!("{set}[{node}]");
            rollout.tell_of_node(&member, event).then_some((stack, member))
        });
        told.collect()
    }

    /// Asks for a look at a stack's rollouts. Returns whether the caller must queue it.
    pub fn wake(&mut self, stack: u64) -> bool {
        self.by_stack.get_mut(&stack).is_some_and(|of| !std::mem::replace(&mut of.is_woken, true))
    }

    /// The timer of a look has run out. Returns whether the caller must queue a look.
    pub fn is_due(&mut self, stack: u64, due: MonoTime) -> bool {
        let of = self.by_stack.get_mut(&stack);
        let is_due = of.is_some_and(|of| of.due.take_if(|it| *it == due).is_some());
        is_due && self.wake(stack)
    }

    /// Decides which members begin now. Nothing begins in a stack that does not go on, nor while the
    /// timer is overdue.
    pub fn look(
        &mut self,
        stack: u64,
        goes_on: bool,
        now: MonoTime,
        health: &dyn Fn(&str) -> Health,
    ) -> Looks {
        let Some(of) = self.by_stack.get_mut(&stack) else { return Looks::default() };
        of.is_woken = false;
        // After a stall, a report that a canary failed or drifted may still be unread. The timer fires
        // once all that arrived is read, and looks again.
        let is_overdue = of.due.is_some_and(|due| due <= now);
        if !goes_on || is_overdue {
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

    /// The stored rollout of a row, if it belongs to the traversal.
    pub fn kept(
        &self,
        row: u64,
        traversal: u64,
    ) -> Option<(&RolloutRecord, &BTreeMap<Arc<str>, MemberRecord>)> {
        let (record, members) = self.kept.rollouts.get(&row)?;
        (record.traversal == traversal).then_some((record, members))
    }

    /// The changes of a stack's rollouts to persist. `row` finds the row of a set by its path.
    pub fn save(
        &mut self,
        stack: u64,
        row: &dyn Fn(&str) -> Option<u64>,
        now: MonoTime,
    ) -> Vec<RolloutChange> {
        let of = self.by_stack.get_mut(&stack).into_iter().flat_map(|of| &mut of.by_set);
        let changes = of.filter_map(|(set, rollout)| rollout.save(row(set)?, now));
        let changes: Vec<RolloutChange> = changes.collect();
        changes.iter().for_each(|change| self.kept.apply(change.clone()));
        changes
    }

    /// The rollout of a row is over: the store forgets it.
    pub fn over(&mut self, row: u64) -> Option<RolloutChange> {
        self.kept.rollouts.remove(&row).map(|_| RolloutChange::Over(row))
    }

    pub fn is_proven(&self, row: u64, proven: Proven) -> bool {
        self.kept.proven.get(&row) == Some(&proven)
    }

    /// Notes that all members of the row's set have this revision. Returns the change to persist.
    pub fn prove(&mut self, row: u64, proven: Proven) -> Option<RolloutChange> {
        let is_new = self.kept.proven.insert(row, proven) != Some(proven);
        is_new.then_some(RolloutChange::Proven(row, Some(proven)))
    }

    /// The row is gone: the store forgets its rollout and its proof.
    pub fn forget(&mut self, row: u64) -> impl Iterator<Item = RolloutChange> {
        let proven = self.kept.proven.remove(&row).map(|_| RolloutChange::Proven(row, None));
        self.over(row).into_iter().chain(proven)
    }
}

/// The set in a member's name: `a[web-1]` belongs to the set `a`.
pub(crate) fn set_of(name: &str) -> Option<&str> {
    name.strip_suffix(']')?.rsplit_once('[').map(|(set, _)| set)
}

/// The node in a member's name; empty for a row that is not a member.
pub(crate) fn node_of(name: &str) -> &str {
    name.strip_suffix(']').and_then(|name| name.rsplit_once('[')).map_or("", |(_, node)| node)
}
