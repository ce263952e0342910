//! Rollouts: [`machine`] decides, and this file tells it what happens to rows and nodes. `rollout/rows.rs`
//! carries its decisions out on the rows of a set. The store keeps a rollout under the row of its set, so
//! a restart of the controller goes on with the same batch.
//!
//! An aborted rollout fails the row of its set: the stack is FAILED, and waiting members keep what
//! they had. A rollback to a COMPLETE revision has no canary and no pause, and failures do not stop
//! it. A revision that the whole set already had has no canary and no pause either, as for a node
//! that joins later.
//!
//! Absent: the properties of a rollout and their defaults (`controller/template/src/rollout.rs`).

pub(crate) mod rows;

mod machine;
mod member;
mod members;
mod numbers;
pub(crate) mod record;
mod site;
mod steer;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::member::Standing;
use self::numbers::Policy;
use self::record::{Course, Proven};
use self::site::set_of;
use muster_shared::MonoTime;
use muster_template::{Kind, Set, Tree};

use crate::jobs::Jobs;
use crate::node::NodeKey;
use crate::record::{Change, StackAction, Status};
use crate::request::Refusal;
use crate::row::{Role, Row, Slot};
use crate::stack::Stack;
use crate::timer::TimerKey;
use crate::todo::Todo;

pub(crate) use self::machine::{Health, Rollout};
pub(crate) use self::member::Ended;
pub(crate) use self::member::Event;
pub(crate) use self::site::{Rollouts, node_of};

impl Jobs {
    /// Starts the rollouts of an operation that begins or goes on.
    pub(crate) fn begin_rollouts(&mut self, id: u64, tree: &Tree) {
        let rollouts = tree.sets().filter_map(|set| self.rollout_of(id, tree, &set)).collect();
        self.rollouts.begin(id, rollouts);
        self.look_at_rollouts_soon(id);
    }

    /// Whether the node of a member is connected and ready.
    fn is_there(&self, name: &str) -> bool {
        self.away_since(name).is_none()
    }

    /// Since when the node of a member is away, at the earliest since the start of the controller.
    /// `None`: the node is there.
    pub(crate) fn away_since(&self, name: &str) -> Option<MonoTime> {
        let node = node_of(name).parse().ok().and_then(|node| self.graph.nodes.find(&node));
        let node = node.map(|key| &self.graph.nodes[key]);
        node.is_none_or(|node| !node.presence.is_ready())
            .then(|| node.map_or(self.graph.ctx.began, |node| node.away_since.max(self.graph.ctx.began)))
    }

    fn rollout_of(&self, id: u64, tree: &Tree, set: &Set<'_>) -> Option<(Arc<str>, Rollout)> {
        let stack = self.graph.stacks.get(&id)?;
        let mut policy = Policy::new(set.rollout()?, set.members().len());
        let row = &self.graph.rows[*stack.forward.get(set.index())?];
        let kept = self.rollouts.kept(row.id, stack.traversal);
        let path = tree.shared_name(set.index());
        let old = self.rollouts.get(id, &path);
        let returned = old.map(Rollout::returns).or(kept.map(|(record, _)| record.returns));
        let returns = stack.action == StackAction::Rollback && (stack.returns || returned == Some(true));
        if returns {
            policy = policy.back(set.members().len());
        } else if self.rollouts.is_proven(row.id, proven_as(stack, set)) {
            policy = policy.proven();
        }
        let is_new = old.is_none() && kept.is_none();
        let mut rollout = match (old, kept) {
            (Some(old), _) => old.clone(),
            (None, Some((record, members))) => {
                Rollout::load(policy, record.clone(), members, self.graph.ctx.now)
            }
            (None, None) => Rollout::new(policy, stack.traversal),
        };
        if returns {
            rollout.set_returns();
        }
        if is_new && stack.has_timed_out() && !row.ready {
            rollout.set_course(Course::TimedOut);
        }
        // A removal is no work of the rollout: a member that left and is back begins when its turn comes.
        let works = |row: &Row| row.task().is_some() && !row.is_going();
        let extras = stack.extras.iter().map(|slot| &self.graph.rows[*slot]);
        let leaving: BTreeSet<&str> = extras.filter(|row| works(row)).map(|row| &*row.name).collect();
        rollout.lay_out(policy, self.graph.ctx.now, &|name| {
            let row = tree.index_of(name).map(|index| &self.graph.rows[stack.forward[index]]);
            Standing {
                is_member: row.is_some(),
                is_ready: row.is_some_and(|row| row.ready),
                works: row.map_or_else(|| leaving.contains(name), works),
                is_there: self.is_there(name),
            }
        });
        Some((path, rollout))
    }

    /// The operation ends, or is laid out again: none of its members waits to begin any longer.
    /// Returns its rollouts.
    pub(crate) fn leave_rollouts(&mut self, id: u64) -> BTreeMap<Arc<str>, Rollout> {
        let Some((rollouts, due)) = self.rollouts.end(id) else { return BTreeMap::new() };
        if let Some(due) = due {
            self.graph.ctx.timers.clear(due, TimerKey::Rollouts(id));
        }
        if let Some(stack) = self.graph.stacks.get_mut(&id) {
            stack.waiting.retain(|slot| self.graph.rows[*slot].details().pause.is_some());
        }
        rollouts
    }

    /// Whether the row is a member that waits to begin.
    pub(crate) fn is_held(&self, row: &Row) -> bool {
        self.rollout_with(row).is_some_and(|rollout| rollout.holds(&row.name))
    }

    /// Whether the rollout of a waiting row may still start it: the rollout is not aborted.
    pub(crate) fn rollout_may_start(&self, row: &Row) -> bool {
        match self.rollout_with(row).map(Rollout::course) {
            Some(Course::Aborted(_)) | None => false,
            Some(Course::Going | Course::Paused | Course::TimedOut) => true,
        }
    }

    /// The set and the node of a member that is passed over because its node is away.
    pub(crate) fn away_member<'r>(&self, row: &'r Row) -> Option<(&'r str, &'r str)> {
        let is_passed_over = self.rollout_may_start(row) && self.is_held(row);
        let set = set_of(&row.name).filter(|_| is_passed_over && !self.is_there(&row.name))?;
        Some((set, node_of(&row.name)))
    }

    pub(crate) fn rollout_with(&self, row: &Row) -> Option<&Rollout> {
        self.rollouts.of_member(row.stack, &row.name)
    }

    /// After a restart: whether a member failed in this operation. `None`: the row has no rollout.
    pub(crate) fn failed_in_rollout(&self, slot: Slot) -> Option<bool> {
        let row = &self.graph.rows[slot];
        self.rollout_with(row).map(|rollout| rollout.has_failed(&row.name))
    }

    /// A member is ready, or no longer wanted.
    pub(crate) fn member_ended(&mut self, slot: Slot) {
        self.tell_rollout(slot, Event::EndsWell);
    }

    /// A member has failed for good.
    pub(crate) fn member_failed(&mut self, slot: Slot) {
        self.tell_rollout(slot, Event::Fails);
    }

    fn tell_rollout(&mut self, slot: Slot, event: Event) {
        let row = &self.graph.rows[slot];
        let id = row.stack;
        // A row in clean-up may have the name of a current row.
        if row.role == Role::Cleanup || self.rollout_with(row).is_none() {
            return;
        }
        self.rollouts.tell(id, &row.name, event);
        if row.details().pause.is_none()
            && let Some(stack) = self.graph.stacks.get_mut(&id)
        {
            stack.waiting.remove(&slot);
        }
        self.look_at_rollouts_soon(id);
    }

    /// A node has come or gone.
    pub(crate) fn tell_rollouts_of_node(&mut self, key: NodeKey) {
        let node = &self.graph.nodes[key];
        let event =
            if node.presence.is_ready() { Event::NodeBack } else { Event::NodeGone(self.graph.ctx.now) };
        for (id, name) in self.rollouts.tell_of_node(&node.name, event) {
            self.member_no_longer_missed(id, &name);
            self.look_at_rollouts_soon(id);
        }
    }

    /// A member that counts as failed because its node was away waits again once the node is back.
    fn member_no_longer_missed(&mut self, id: u64, name: &str) {
        let Some(slot) = self.row_named(id, name) else { return };
        let row = &self.graph.rows[slot];
        // An aborted rollout starts no further members.
        let is_open = self.rollout_with(row).is_some_and(|rollout| !rollout.is_aborted());
        if !is_open || !self.is_held(row) || !row.failed || !self.is_there(name) {
            return;
        }
        self.graph.not_failed(slot);
        if let Some(stack) = self.graph.stacks.get_mut(&id) {
            stack.waiting.insert(slot);
        }
    }

    /// The job of a member that left the set has ended.
    pub(crate) fn left_ended(&mut self, slot: Slot, how: Ended) {
        let row = &self.graph.rows[slot];
        let id = row.stack;
        if !row.is_going() && self.rollouts.tell(id, &row.name, Event::JobEnds(how)) {
            self.look_at_rollouts_soon(id);
        }
    }

    /// A row was seen to differ from its desired state.
    pub(crate) fn member_disturbed(&mut self, slot: Slot) {
        self.look_at_rollouts_soon(self.graph.rows[slot].stack);
    }

    /// Lets the router look at the rollouts of a stack, once for all events until then.
    pub(crate) fn look_at_rollouts_soon(&mut self, id: u64) {
        if self.rollouts.wake(id) {
            self.graph.ctx.agenda.push_back(Todo::Rollouts(id));
        }
    }

    /// The timer of a stack's rollouts has run out.
    pub(crate) fn rollouts_due(&mut self, id: u64, due: MonoTime) {
        if self.rollouts.is_due(id, due) {
            self.graph.ctx.agenda.push_back(Todo::Rollouts(id));
        }
    }

    pub(crate) fn row_named(&self, id: u64, name: &str) -> Option<Slot> {
        let forward = &self.graph.stacks.get(&id)?.forward;
        let at = forward.binary_search_by(|slot| (*self.graph.rows[*slot].name).cmp(name)).ok()?;
        Some(forward[at])
    }

    /// Saves the changes of a stack's rollouts.
    pub(crate) fn keep_rollouts(&mut self, id: u64) {
        let mut rollouts = std::mem::take(&mut self.rollouts);
        let row = |path: &str| self.row_named(id, path).map(|slot| self.graph.rows[slot].id);
        let changes = rollouts.save(id, &row, self.graph.ctx.now);
        self.rollouts = rollouts;
        changes.into_iter().for_each(|change| self.graph.ctx.change(Change::Rollout(change)));
    }

    /// The row is gone: forgets what the store keeps of its rollout.
    pub(crate) fn forget_rollout(&mut self, row: u64) {
        let changes = self.rollouts.forget(row);
        changes.into_iter().for_each(|change| self.graph.ctx.journal.change(Change::Rollout(change)));
    }

    /// Every member of a set is as the revision wants it.
    pub(crate) fn set_is_ready(&mut self, slot: Slot, tree: &Tree) {
        let index = self.graph.rows[slot].index as usize;
        if tree.kind(index) != Kind::Set {
            return;
        }
        let Some(set) = tree.sets().find(|set| set.index() == index) else { return };
        let (id, has_members) = (self.graph.rows[slot].stack, !set.members().is_empty());
        let is_stopped = self.rollouts.get_mut(id, set.name()).is_some_and(|rollout| {
            rollout.end(has_members);
            rollout.is_stopped()
        });
        match is_stopped {
            true => self.look_at_rollouts_soon(id), // It is kept for whoever comes.
            false => {
                let over = self.rollouts.over(self.graph.rows[slot].id);
                over.into_iter().for_each(|over| self.graph.ctx.change(Change::Rollout(over)));
            }
        }
        self.prove(slot, &set);
    }

    /// Notes that a set with members is as the revision wants it.
    fn prove(&mut self, slot: Slot, set: &Set<'_>) {
        let row = &self.graph.rows[slot];
        let Some(stack) = self.graph.stacks.get(&row.stack) else { return };
        if set.rollout().is_none() || set.members().is_empty() {
            return;
        }
        if let Some(proven) = self.rollouts.prove(row.id, proven_as(stack, set)) {
            self.graph.ctx.change(Change::Rollout(proven));
        }
    }

    /// Every row of a stack is as the revision wants it. Sets that had nothing to do count too.
    pub(crate) fn prove_sets(&mut self, id: u64) {
        let Some(stack) = self.graph.stacks.get(&id) else { return };
        let Some(tree) = stack.walk.as_ref().map(|walk| Arc::clone(&walk.tree)) else { return };
        for set in tree.sets() {
            let slot = self.graph.stacks.get(&id).and_then(|stack| stack.forward.get(set.index())).copied();
            if let Some(slot) = slot {
                self.prove(slot, &set);
            }
        }
    }

    /// The rows of sets whose rollout was aborted. These rows have failed.
    pub(crate) fn aborted_sets(&self, id: u64) -> Vec<Slot> {
        let aborted = self.rollouts.of_stack(id).filter(|(_, rollout)| rollout.is_aborted());
        aborted.filter_map(|(path, _)| self.row_named(id, path)).collect()
    }

    /// The stack has timed out: no further batch begins. A rollout that waits only for nodes that
    /// are away goes on when they return. Returns a text for the stack's reason.
    pub(crate) fn rollouts_time_out(&mut self, id: u64) -> String {
        let yet: BTreeMap<Arc<str>, usize> = self
            .rollouts
            .of_stack(id)
            .map(|(path, it)| (Arc::clone(path), self.yet_to_begin(id, path, it)))
            .collect();
        let mut stopped = Vec::new();
        for (path, yet) in yet {
            if self.rollouts.get_mut(id, &path).is_some_and(|rollout| rollout.time_out(yet)) {
                stopped.push(format!("{path} ({yet} yet to begin)"));
            }
        }
        self.keep_rollouts(id);
        if stopped.is_empty() {
            return String::new();
        }
        let stack = self.graph.stacks.get(&id).map_or("?", |stack| stack.name.as_str());
        format!(
            "; rollouts stopped: {}: go on with 'muster stack rollout {stack} resume'",
            stopped.join(", ")
        )
    }

    /// Number of members that have not started. Members that wait for other resources count too.
    fn yet_to_begin(&self, id: u64, path: &str, rollout: &Rollout) -> usize {
        let Some(stack) = self.graph.stacks.get(&id) else { return 0 };
        let Some(set) = stack.walk.as_ref().and_then(|walk| walk.tree.sets().find(|set| set.name() == path))
        else {
            return 0;
        };
        let rows = set.members().iter().map(|index| &self.graph.rows[stack.forward[*index as usize]]);
        let yet = |row: &&Row| {
            !row.ready && !rollout.has_begun(&row.name) && (rollout.holds(&row.name) || !row.failed)
        };
        rows.filter(yet).count()
    }

    /// Refuses a new revision while an operator has paused a rollout.
    pub(crate) fn no_paused_rollout(&self, id: u64) -> Result<(), Refusal> {
        let stack = &self.graph.stacks[&id];
        if stack.walk.is_none() || stack.cancelled {
            return Ok(());
        }
        let goes_on = |path: &str, rollout: &Rollout| {
            rollout.is_open() || stack.status == Status::InProgress && !self.is_set_ready(id, path)
        };
        let mut paused = self.rollouts.of_stack(id).filter(|(_, it)| *it.course() == Course::Paused);
        let Some((path, _)) = paused.find(|(path, rollout)| goes_on(path, rollout)) else { return Ok(()) };
        let name = &stack.name;
        Err(Refusal::Conflict(format!(
            "the rollout of {path} of stack '{name}' is paused at revision {}: resume or abort it first, with 'muster stack \
             rollout {name} resume' or 'abort', or roll back",
            stack.revision
        )))
    }

    pub(crate) fn is_set_ready(&self, id: u64, path: &str) -> bool {
        self.row_named(id, path).is_none_or(|slot| self.graph.rows[slot].ready)
    }
}

fn proven_as(stack: &Stack, set: &Set<'_>) -> Proven {
    Proven { revision: stack.revision, source: set.source() }
}
