//! Changes to make durable, and effects that wait for them.
//!
//! **Invariants.** The removal of a stack goes before all later changes, because a new stack may
//! have its name. A row or stack that changed often is written once, as it is when the driver asks.
//! No effect leaves before all changes so far were handed out.
//!
//! Absent: how a change is written (`controller/src/store/write.rs`).

use std::collections::{BTreeSet, VecDeque};

use muster_shared::model::Down;
use muster_shared::{Epoch, MonoTime, StackName};

use crate::context::Context;
use crate::engine::Effect;
use crate::graph::Graph;
use crate::node::{NodeKey, Nodes};
use crate::record::Change;
use crate::request::{Answer, Refusal};
use crate::row::Slot;
use crate::row::rows::Rows;
use crate::stack::stacks::Stacks;
use crate::timer::TimerKey;

/// Room kept in each queue: for a slice of a large operation. A turn with a hundred thousand changes
/// leaves no room for as many behind.
const KEPT: usize = 16 * 1024;

/// Changes and effects of the inputs so far.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Grows with every change that a watcher may want to see.
    seq: u64,
    rows: VecDeque<Slot>,
    stacks: BTreeSet<u64>,
    changes: VecDeque<Change>,
    /// The number of stack removals in `changes`.
    removals: usize,
    effects: VecDeque<Effect>,
}

impl Journal {
    /// An empty journal for a start with this epoch.
    pub fn new(epoch: Epoch) -> Self {
        Self {
            // A client that watches across a restart must not take a new state for one it knows.
            seq: u64::from(epoch.0) << 32,
            rows: VecDeque::new(),
            stacks: BTreeSet::new(),
            changes: VecDeque::new(),
            removals: 0,
            effects: VecDeque::new(),
        }
    }

    /// The number of the newest state.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The number of a new state.
    pub fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Makes a change durable.
    pub fn change(&mut self, change: Change) {
        self.changes.push_back(change);
    }

    /// Queues an effect until all changes so far are durable.
    pub fn effect(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// Marks a stack to be written.
    pub fn stack(&mut self, stack: u64) {
        self.stacks.insert(stack);
    }

    /// Marks parts of a row to be written: all of it (`full`) or its progress, and its edges.
    pub fn row(&mut self, rows: &mut Rows, slot: Slot, full: Option<bool>, edges: bool) {
        let row = &mut rows[slot];
        if !row.dirty.is_queued() {
            self.rows.push_back(slot);
        }
        let dirty = row.dirty_mut();
        // The store does not have what was left either.
        dirty.is_left = false;
        dirty.progress |= full.is_some();
        dirty.full |= full == Some(true);
        dirty.edges |= edges;
    }

    /// Leaves a row that was marked last to a later turn. Returns false if it is written in this one.
    pub fn leave(&mut self, rows: &mut Rows, slot: Slot) -> bool {
        let is_left = self.rows.pop_back_if(|last| *last == slot).is_some();
        if is_left {
            rows[slot].dirty_mut().is_left = true;
        }
        is_left
    }

    /// The next change of a marked stack or row. It is made only now, so that a hundred thousand of
    /// them are never in memory at once.
    fn next_touched(&mut self, state: &mut Touched<'_>) -> Option<Change> {
        while let Some(id) = self.stacks.pop_first() {
            if let Some(stack) = state.stacks.get(&id) {
                return Some(Change::Stack(Box::new(stack.record(state.now))));
            }
        }
        while let Some(slot) = self.rows.front().copied() {
            let Some(row) = state.rows.get_mut(slot) else {
                self.rows.pop_front();
                continue;
            };
            let dirty = row.dirty;
            if dirty.full || dirty.progress {
                let unsaved = row.dirty_mut();
                (unsaved.full, unsaved.progress) = (false, false);
                let row = &state.rows[slot];
                return Some(match dirty.full {
                    true => {
                        let node = row.node.map(|key| state.nodes[key].name.clone());
                        Change::Resource(Box::new(row.record(node, state.now)))
                    }
                    false => Change::Progress(Box::new(row.progress_record(state.now))),
                });
            }
            row.dirty_mut().edges = false;
            self.rows.pop_front();
            if dirty.edges {
                let row = &state.rows[slot];
                let requires = row.requires.iter().map(|slot| state.rows[*slot].id).collect();
                return Some(Change::Edges { needed_by: row.id, requires });
            }
        }
        None
    }

    /// Queues the removal of a stack. All changes so far go before it, because a row may have just
    /// left the stack.
    pub fn stack_removed(&mut self, state: &mut Touched<'_>, id: u64, name: StackName, traversal: u64) {
        while let Some(change) = self.next_touched(state) {
            self.changes.push_back(change);
        }
        self.changes.push_back(Change::StackRemoved { id, name, traversal });
        self.removals += 1;
    }

    /// Changes queued up to the last removal of a stack, then marked stacks and rows.
    pub fn first_change(&mut self, state: &mut Touched<'_>) -> Option<Change> {
        match self.changes.pop_front_if(|_| self.removals > 0) {
            Some(change) => {
                self.removals -= usize::from(matches!(change, Change::StackRemoved { .. }));
                Some(change)
            }
            None => self.next_touched(state),
        }
    }

    /// Other queued changes.
    pub fn next_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// The next effect. The caller asks once there are no more changes.
    pub fn next_effect(&mut self) -> Option<Effect> {
        let effect = self.effects.pop_front();
        if effect.is_none() {
            self.changes.shrink_to(KEPT);
            self.effects.shrink_to(KEPT);
            self.rows.shrink_to(KEPT);
        }
        effect
    }
}

/// The state that records are made from.
pub(crate) struct Touched<'e> {
    pub rows: &'e mut Rows,
    pub stacks: &'e Stacks,
    pub nodes: &'e Nodes,
    pub now: MonoTime,
}

impl Graph {
    /// The next change that comes before all others: removals of stacks, then marked stacks and rows.
    pub(crate) fn first_change(&mut self) -> Option<Change> {
        let mut touched =
            Touched { rows: &mut self.rows, stacks: &self.stacks, nodes: &self.nodes, now: self.ctx.now };
        self.ctx.journal.first_change(&mut touched)
    }

    pub(crate) fn answer(&mut self, id: u64, answer: Result<Answer, Refusal>) {
        self.ctx.journal.effect(Effect::Answer { id, answer });
    }

    /// Records the removal of a stack.
    pub(crate) fn stack_removed(&mut self, id: u64, name: StackName, traversal: u64) {
        self.ctx.journal.next_seq();
        let mut touched =
            Touched { rows: &mut self.rows, stacks: &self.stacks, nodes: &self.nodes, now: self.ctx.now };
        self.ctx.journal.stack_removed(&mut touched, id, name, traversal);
    }

    pub(crate) fn row_changed(&mut self, slot: Slot, full: bool) {
        self.ctx.journal.row(&mut self.rows, slot, Some(full), false);
        let row = &self.rows[slot];
        let (stack, index) = (row.stack, row.index as usize);
        self.touch(stack);
        if let Some(stack) = self.stacks.get_mut(&stack)
            && stack.forward.get(index) == Some(&slot)
            && let Some(settled) = stack.settled.get_mut(index)
        {
            *settled = 0;
        }
    }

    pub(crate) fn edges_changed(&mut self, slot: Slot) {
        self.ctx.journal.row(&mut self.rows, slot, None, true);
    }

    pub(crate) fn stack_changed(&mut self, stack: u64) {
        self.ctx.journal.stack(stack);
        self.touch(stack);
    }

    /// Gives a stack a new number for watchers, and sets its progress check.
    pub(crate) fn touch(&mut self, stack: u64) {
        let seq = self.ctx.journal.next_seq();
        if let Some(stack) = self.stacks.get_mut(&stack) {
            stack.seq = seq;
            if let Some((old, due)) = stack.progress_check.moved(self.ctx.now, self.ctx.limits.quiet) {
                let key = TimerKey::ProgressCheck(stack.id);
                self.ctx.timers.clear(old, key);
                self.ctx.timers.set(due, key);
            }
        }
    }

    pub(crate) fn send(&mut self, node: NodeKey, message: Down) {
        let node = &self.nodes[node];
        if let Some(connection) = node.presence.connection() {
            self.ctx.effect(Effect::Send { node: node.name.clone(), connection, message });
        }
    }
}

impl Context {
    pub(crate) fn effect(&mut self, effect: Effect) {
        self.journal.effect(effect);
    }

    pub(crate) fn change(&mut self, change: Change) {
        self.journal.change(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_goes_before_what_comes_after_it() {
        let (mut rows, stacks, nodes) = (Rows::default(), Stacks::default(), Nodes::default());
        let mut state = Touched { rows: &mut rows, stacks: &stacks, nodes: &nodes, now: MonoTime::default() };
        let mut journal = Journal::new(Epoch(3));
        assert_eq!((journal.next_seq(), journal.seq()), (3 << 32 | 1, 3 << 32 | 1));
        let token = |id: u8| Change::TokenRemoved([id; 8]);
        journal.change(token(1));
        journal.stack_removed(&mut state, 7, "web".parse().unwrap(), 9);
        journal.change(token(2));
        journal.effect(Effect::Warn("now".into()));
        let mut told = Vec::new();
        while let Some(change) = journal.first_change(&mut state) {
            told.push(format!("{change:?}"));
        }
        assert!(told[0].starts_with("TokenRemoved([1") && told[1].starts_with("StackRemoved"), "{told:?}");
        assert_eq!(told.len(), 2, "what came after it waits for what else is first");
        assert!(matches!(journal.next_change(), Some(Change::TokenRemoved([2, ..]))));
        assert!(journal.next_change().is_none());
        assert!(matches!(journal.next_effect(), Some(Effect::Warn(_))));
    }
}
