//! Nodes that an operator removes, and the things that may be left on them.
//!
//! ```text
//!   remove ─▶ row whose job may have reached the node ─▶ lost row ── the name joins again, Hello ─▶ Delete ─▶ done: gone
//!                │                                        ▲                                          └─▶ failed: listed still
//!                └ live: a new thing takes its place      └── failed ones are tried again at the next Hello
//! ```
//!
//! A lost row belongs to no stack (`stack` 0) and claims nothing, so no operation waits for it. The row goes only
//! when the node itself reports that the thing is gone. A node that joins again is sent nothing else until its
//! clean-up has ended.
//!
//! Absent: that clean-up (`node/returned.rs`), and its end (`node/lost_row.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use muster_shared::NodeId;

use crate::elapsed::Elapsed;
use crate::node::NodeKey;
use crate::operation::revision::{Pending, Purpose};
use crate::record::{Change, Observation, StackAction, Status};
use crate::request::{Refusal, Source};
use crate::row::outcome::TaskOutcome;
use crate::row::{Row, Slot};
use crate::todo::Todo;
use crate::traversal::walk::Stage;
use crate::traversals::Traversals;

/// Names in one event or reason: a line.
const NAMED: usize = 10;

/// The lost rows of a node.
#[derive(Debug, Default)]
pub(crate) struct LostRows {
    pub all: BTreeSet<Slot>,
    /// Rows whose clean-up has not ended since the node's last Hello.
    pub open: BTreeSet<Slot>,
    /// Rows that wait for room.
    pub queue: VecDeque<Slot>,
}

impl LostRows {
    pub fn insert(&mut self, slot: Slot) {
        self.all.insert(slot);
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.all.iter().copied()
    }

    /// Whether a clean-up is open. Until it ends, the node is sent nothing else.
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }
}

/// The effect of a removal on one stack.
#[derive(Default)]
struct RemovalEffect {
    /// Slots of live rows that now stand for a new thing.
    recreated: BTreeSet<Slot>,
    /// Names of the rows that are lost.
    left: Vec<String>,
}

impl RemovalEffect {
    fn is_empty(&self) -> bool {
        self.recreated.is_empty() && self.left.is_empty()
    }
}

impl Traversals {
    /// Removes a node from the site, whatever its state. Returns the new lost rows.
    pub(crate) fn remove_node(&mut self, name: &NodeId) -> Result<Vec<Slot>, Refusal> {
        let key = self.removable(name)?;
        self.cut_off(key);
        self.jobs.graph.nodes.leave(key);
        self.jobs.graph.nodes[key].joined = None;
        // A server that joins under this name is another one.
        self.jobs.graph.nodes[key].facts = None;
        self.jobs.graph.ctx.agenda.push_back(Todo::Left(name.clone()));
        self.jobs.graph.ctx.change(Change::NodeRemoved(name.clone()));
        self.decide_by_leaving(key);
        let mut losses: BTreeMap<u64, RemovalEffect> = BTreeMap::new();
        // The slot of each lost row, by its slot before.
        let mut moved: BTreeMap<Slot, Slot> = BTreeMap::new();
        for slot in self.jobs.graph.rows_on(key) {
            self.end_for_good(slot);
            if !self.jobs.graph.rows[slot].is_lost() {
                let loss = losses.entry(self.jobs.graph.rows[slot].stack).or_default();
                if let Some(lost) = self.leave_behind(slot, loss) {
                    moved.insert(slot, lost);
                }
            }
        }
        let node = &mut self.jobs.graph.nodes[key];
        node.queue.clear();
        node.lost.queue.clear();
        node.lost.open.clear();
        self.keep_order_of(key, &moved);
        for (stack, loss) in losses {
            self.go_on_without(stack, &loss, name);
        }
        self.jobs.graph.follow_node(key);
        Ok(moved.into_values().collect())
    }

    fn removable(&self, name: &NodeId) -> Result<NodeKey, Refusal> {
        let nodes = &self.jobs.graph.nodes;
        let waiting = nodes.find(name).map(|key| &nodes[key]).filter(|node| node.joined.is_none());
        match waiting {
            Some(node) if !node.lost.is_empty() => Err(Refusal::Conflict(format!(
                "node '{name}' was removed before; what may be left on it ({} resources, see 'muster node show {name}') \
                 is cleaned up should it join again",
                node.lost.len()
            ))),
            Some(node) if !node.rows.is_empty() => Err(Refusal::NotFound(format!(
                "node '{name}' has not joined, so there is nothing to remove; {} resources wait for it: let it join, \
                 or update their stacks",
                node.rows.len()
            ))),
            _ => self.jobs.graph.joined(name),
        }
    }

    /// Ends the row's job: its outcome will never be known.
    fn end_for_good(&mut self, slot: Slot) {
        if self.jobs.graph.rows[slot].is_sent() {
            self.jobs.settle(slot, TaskOutcome::Lost);
            let node =
                self.jobs.graph.rows[slot].node.map(|node| self.jobs.graph.nodes[node].name.to_string());
            let row = &mut self.jobs.graph.rows[slot];
            if let (None, Some(node)) = (&row.reason(), node) {
                row.set_reason(&format!("node {node} was removed"));
            }
        } else {
            self.jobs.withdraw(slot);
        }
        self.jobs.graph.leave_hook(slot);
        self.jobs.graph.not_failed(slot);
    }

    /// Cuts a row off from the node. Returns the lost row if something may be left there.
    fn leave_behind(&mut self, slot: Slot, loss: &mut RemovalEffect) -> Option<Slot> {
        self.jobs.keep_claims_of(slot, &[]);
        let row = &self.jobs.graph.rows[slot];
        let (stack, dropped) = (row.stack, row.dropped().is_some());
        // An external row is not applied: others made its thing.
        if !row.is_applied() {
            let stands = row.is_external() && !dropped;
            self.off_the_node(slot);
            if stands {
                let row = &mut self.jobs.graph.rows[slot];
                row.be_unready();
                row.lose_status();
                self.jobs.observe(slot, Observation::Unknown);
                loss.recreated.insert(slot);
            }
            self.jobs.graph.answered(slot);
            self.jobs.graph.ctx.agenda.push_back(Todo::Visit(slot));
            return None;
        }
        self.jobs.graph.answered(slot);
        if dropped {
            self.jobs.graph.stacks.get_mut(&stack)?.extras.swap_remove(&slot);
            self.lose(slot, stack);
            self.jobs.graph.room_made(stack, slot);
            loss.left.push(self.jobs.graph.rows[slot].name.to_string());
            return Some(slot);
        }
        let old = self.recreate(slot);
        loss.recreated.insert(slot);
        loss.left.push(old.name.to_string());
        let node = old.node;
        let lost = self.jobs.graph.rows.insert(old);
        self.jobs.graph.is_off(slot, node);
        self.jobs.graph.is_on(lost, node);
        self.lose(lost, stack);
        Some(lost)
    }

    /// Clears a row that has nothing on its node.
    fn off_the_node(&mut self, slot: Slot) {
        let spec = self.jobs.graph.rows[slot].clear();
        self.jobs.graph.place(slot, None);
        if let Some(spec) = spec {
            self.jobs.release_content(&spec.unpack());
        }
        self.jobs.graph.row_changed(slot, true);
    }

    /// Makes the row stand for a new thing, in its place in the stack. Returns the row as it was.
    fn recreate(&mut self, slot: Slot) -> Row {
        let (id, physical) = self.jobs.graph.ctx.ids.row();
        let old = &self.jobs.graph.rows[slot];
        let new = old.recreated(id, physical);
        let (before, stack) = (old.id, old.stack);
        let old = self.jobs.graph.rows.replace(slot, new);
        self.jobs.drop_breaker(slot, old.details().breaker);
        self.jobs.graph.row_changed(slot, true);
        self.jobs.graph.edges_changed(slot);
        // Only a row that replaces another is named in `replaced_by`.
        let known = self.jobs.graph.stacks.get(&stack).filter(|_| old.replaces.is_some());
        let extras: Vec<Slot> = known.map(|stack| stack.extras.iter().copied().collect()).unwrap_or_default();
        for other in extras {
            if self.jobs.graph.rows[other].replaced_by() == Some(before) {
                self.jobs.graph.rows[other].set_replaced_by(id);
                self.jobs.graph.row_changed(other, true);
            }
        }
        old
    }

    /// Takes the row out of its stack.
    fn lose(&mut self, slot: Slot, stack: u64) {
        let from = self.jobs.graph.stacks.get(&stack).map(|stack| stack.name.clone());
        let row = &mut self.jobs.graph.rows[slot];
        let breaker = row.lose(from);
        if let Some(node) = row.node {
            self.jobs.graph.nodes[node].lost.insert(slot);
        }
        self.jobs.unsettled.set_drifted(slot, false);
        self.jobs.drop_breaker(slot, breaker);
        self.jobs.graph.row_changed(slot, true);
    }

    /// Keeps the order of lost rows: a row that needed another goes before it.
    fn keep_order_of(&mut self, key: NodeKey, moved: &BTreeMap<Slot, Slot>) {
        for &slot in moved.values() {
            let requires = self.jobs.graph.rows[slot].requires.iter();
            let requires: BTreeSet<Slot> = requires.filter_map(|slot| moved.get(slot)).copied().collect();
            self.jobs.graph.rows[slot].set_requires(requires.into_iter().collect());
            self.jobs.graph.edges_changed(slot);
        }
        self.jobs.graph.count_lost(key);
    }

    /// Goes on with a stack that has lost rows: ends its clean-up, and makes again what the
    /// revision wants.
    fn go_on_without(&mut self, id: u64, loss: &RemovalEffect, node: &NodeId) {
        // If nothing was made on the node yet, no row has changed.
        if !loss.is_empty() {
            self.mend_edges(id, &loss.recreated);
            self.unready_those_that_need(id, &loss.recreated);
        }
        if !loss.left.is_empty() {
            let mut reason = format!("node {node} was removed; may be left on it: {}", named(&loss.left));
            if !loss.recreated.is_empty() {
                let recreated: Vec<String> =
                    loss.recreated.iter().map(|slot| self.jobs.graph.rows[*slot].name.to_string()).collect();
                reason.push_str(&format!("; will be recreated: {}", named(&recreated)));
            }
            self.jobs.graph.note(id, reason);
        }
        let Some(stack) = self.jobs.graph.stacks.get_mut(&id) else { return };
        let stage = stack.walk.as_ref().map(|walk| walk.stage);
        match (loss.recreated.is_empty(), stage) {
            (true, Some(Stage::Cleanup)) => self.count_again(id),
            (true, Some(Stage::First)) => self.jobs.visit_first(id),
            (true, _) => {}
            // A check reports what differs. The next operation corrects it.
            (false, Some(Stage::Check)) => self.jobs.withdraw_vain_questions(id),
            (false, Some(_)) => self.take_up_walk(id),
            (false, None) if stack.status == Status::Complete => {
                self.begin_again(id, format!("node {node} was removed: its resources are recreated"));
            }
            (false, None) => {} // its revision cannot be read; a newer one finds what is missing
        }
        self.jobs.graph.ctx.agenda.push_back(Todo::CheckEnd(id));
    }

    /// Removes edges from rows of the stack to lost rows.
    fn mend_edges(&mut self, id: u64, recreated: &BTreeSet<Slot>) {
        let Some(stack) = self.jobs.graph.stacks.get(&id) else { return };
        let slots: Vec<Slot> = stack.forward.iter().chain(&stack.extras).copied().collect();
        for slot in slots {
            let needs = &self.jobs.graph.rows[slot].requires;
            let kept: Vec<Slot> =
                needs.iter().copied().filter(|slot| self.jobs.graph.rows[*slot].stack == id).collect();
            // A row that stands for a new thing has a new id, so its edges are stored again.
            if kept.len() < needs.len() || kept.iter().any(|slot| recreated.contains(slot)) {
                self.jobs.graph.rows[slot].set_requires(kept.into());
                self.jobs.graph.edges_changed(slot);
            }
        }
    }

    /// Makes every row that needs a new thing unready, so that the traversal visits it again.
    fn unready_those_that_need(&mut self, id: u64, recreated: &BTreeSet<Slot>) {
        let Some(stack) = self.jobs.graph.stacks.get(&id).filter(|_| !recreated.is_empty()) else { return };
        let mut needed_by: BTreeMap<Slot, Vec<Slot>> = BTreeMap::new();
        for slot in &stack.forward {
            for required in &self.jobs.graph.rows[*slot].requires {
                needed_by.entry(*required).or_default().push(*slot);
            }
        }
        let mut queue: Vec<Slot> = recreated.iter().copied().collect();
        while let Some(slot) = queue.pop() {
            for next in needed_by.remove(&slot).unwrap_or_default() {
                self.jobs.graph.leave_hook(next);
                if !recreated.contains(&next) {
                    self.jobs.graph.rows[next].be_unready();
                    self.jobs.graph.row_changed(next, false);
                }
                queue.push(next);
            }
        }
    }

    /// Takes up the traversal as after a controller restart: rows that are not ready are made.
    fn take_up_walk(&mut self, id: u64) {
        let walk = self.jobs.graph.stacks.get(&id).and_then(|stack| stack.walk.as_ref());
        if let Some(tree) = walk.map(|walk| Arc::clone(&walk.tree)) {
            self.take_up(id, &tree);
        }
    }

    /// Starts a new operation with the current revision of a COMPLETE stack.
    pub(crate) fn begin_again(&mut self, id: u64, reason: String) {
        let (traversal, now) = (self.jobs.graph.ctx.ids.traversal(), self.jobs.graph.ctx.now);
        let Some(stack) = self.jobs.graph.stacks.get_mut(&id) else { return };
        stack.action = StackAction::Update;
        stack.status = Status::InProgress;
        stack.reason = reason;
        (stack.traversal, stack.runs) = (traversal, Elapsed::starting(now));
        (stack.rollback, stack.timed_out) = (false, false);
        stack.unclean.clear();
        (stack.failures, stack.failures_before) = (Vec::new(), 0);
        let (name, revision) = (stack.name.clone(), stack.revision);
        // The operation before has ended, also if a restart forgot that. The count of a check goes.
        for slot in &stack.forward {
            let row = &mut self.jobs.graph.rows[*slot];
            row.forget_changed(false);
            row.set_failed(false);
        }
        self.jobs.graph.stack_changed(id);
        self.jobs.graph.event(id, None);
        let pending =
            Pending { stack: id, traversal, revision, request: None, purpose: Purpose::TakeUp, actor: None };
        self.jobs.graph.load_revision(name, revision, pending);
    }

    /// Continues [`Self::begin_again`] once the store has read the revision.
    pub(crate) fn taken_up(&mut self, id: u64, traversal: u64, source: Result<Source, String>) {
        let waits = |stack: &crate::stack::Stack| stack.traversal == traversal && stack.walk.is_none();
        if !self.jobs.graph.stacks.get(&id).is_some_and(waits) {
            return; // a newer operation does this
        }
        match source {
            Ok(source) => self.resume(id, source),
            Err(why) => {
                self.jobs
                    .abandon(id, &format!("its revision cannot be read: {why}; update or delete the stack"));
            }
        }
    }

    /// Counts again what the rows in clean-up wait for, and visits those that are free now.
    fn count_again(&mut self, id: u64) {
        let Some(stack) = self.jobs.graph.stacks.get(&id) else { return };
        let extras: Vec<Slot> = stack.extras.iter().copied().collect();
        let mut blocked: BTreeMap<Slot, u32> = extras.iter().map(|slot| (*slot, 0)).collect();
        for slot in &extras {
            for required in &self.jobs.graph.rows[*slot].requires {
                if let Some(count) = blocked.get_mut(required) {
                    *count += 1;
                }
            }
        }
        for (slot, count) in blocked {
            let row = &mut self.jobs.graph.rows[slot];
            if row.set_blocked(count) > 0 && count == 0 {
                self.jobs.graph.ctx.agenda.push_back(Todo::Visit(slot));
            }
        }
    }
}

/// A line of names, the first ones of very many.
pub(crate) fn named(names: &[String]) -> String {
    match names.len() {
        0..=NAMED => names.join(", "),
        more => format!("{} and {} more", names[..NAMED].join(", "), more - NAMED),
    }
}
