//! Rollouts: what [`machine`] decides, carried out on the rows of a set. What is kept lies with the row that stands for the
//! set, so that a restart of the controller goes on with the same batch.
//!
//! A rollout that is aborted fails that row: the stack is FAILED, and who waited keeps what it had. A rollback to what
//! was COMPLETE needs no canary and no pause, and nobody stops it; nor need what was rolled out to the end before, as for a
//! node that joins later.

mod machine;
mod member;
mod members;
mod policy;
mod steer;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_shared::MonoTime;
use muster_template::{Kind, Set, Tree};
use serde::{Deserialize, Serialize};

use self::machine::{Health, Kept, Rollout};
pub(crate) use self::member::Ended;
use self::member::{Event, Standing};
use self::policy::{Course, Policy};
pub use self::steer::RolloutAction;
pub use self::view::RolloutView;
use crate::engine::{Engine, Todo};
use crate::node::NodeKey;
use crate::progress::Phase;
use crate::record::{StackAction, Status};
use crate::resource::{Role, Row, Slot};
use crate::stack::{Stack, Stage};
use crate::timer::TimerKey;

/// How a rollout stands, in the row of its set.
const ROLLOUT: &str = "rollout";
/// What was rolled out to the end: a revision, and a digest of what the set says in it.
const PROVEN: &str = "proven";

/// The rollouts of a walk.
#[derive(Default)]
pub(crate) struct Rollouts {
    /// By the path of their set.
    pub waves: BTreeMap<Arc<str>, Rollout>,
    /// They are looked at when all else of the input in hand is done.
    turns: bool,
    /// When they are looked at for the time's sake.
    due: Option<MonoTime>,
}

/// What stands in a row of a set.
#[derive(Serialize, Deserialize)]
struct Noted {
    traversal: u64,
    #[serde(flatten)]
    kept: Kept,
}

impl Engine {
    /// The rollouts of an operation that begins or goes on. `old`: as they were a moment before.
    pub(crate) fn begin_rollouts(&mut self, id: u64, tree: &Tree, old: Option<&Rollouts>) {
        let sets: Vec<(Arc<str>, Rollout)> =
            tree.sets().filter_map(|set| self.wave_of(id, tree, &set, old)).collect();
        let Some(walk) = self.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()) else { return };
        walk.rollouts.waves = sets.into_iter().collect();
        let is_rolling = !walk.rollouts.waves.is_empty();
        self.stacks.set_rolling(id, is_rolling);
        if is_rolling {
            self.turn_soon(id);
        }
    }

    /// The node of a member.
    fn is_there(&self, name: &str) -> bool {
        self.away_since(name).is_none()
    }

    /// Since when it is away, at most since the start of the controller.
    fn away_since(&self, name: &str) -> Option<MonoTime> {
        let node = node_of(name).parse().ok().and_then(|node| self.nodes.find(&node));
        let node = node.map(|key| &self.nodes[key]);
        node.is_none_or(|node| !node.ready)
            .then(|| node.map_or(self.began, |node| node.away_since.max(self.began)))
    }

    fn wave_of(
        &self,
        id: u64,
        tree: &Tree,
        set: &Set<'_>,
        old: Option<&Rollouts>,
    ) -> Option<(Arc<str>, Rollout)> {
        let stack = self.stacks.get(&id)?;
        let mut policy = Policy::new(set.rollout()?, set.members().len());
        let row = &self.rows[*stack.forward.get(set.index())?];
        let noted = row.attributes.get(ROLLOUT).and_then(|text| serde_json::from_str::<Noted>(text).ok());
        let noted = noted.filter(|noted| noted.traversal == stack.traversal).map(|noted| noted.kept);
        let path = tree.shared_name(set.index());
        let old = old.and_then(|old| old.waves.get(&path));
        let is_proven = row.attributes.get(PROVEN).is_some_and(|proven| *proven == proven_as(stack, set));
        let returned = old.map(Rollout::returns).or_else(|| noted.as_ref().map(|kept| kept.returns));
        let returns = stack.action == StackAction::Rollback && (stack.returns || returned == Some(true));
        if returns {
            policy = policy.back(set.members().len());
        } else if is_proven {
            policy = policy.proven();
        }
        let is_new = old.is_none() && noted.is_none();
        let mut wave = match (old, noted) {
            (Some(old), _) => old.clone(),
            (None, Some(kept)) => Rollout::load(policy, kept),
            (None, None) => Rollout::new(policy),
        };
        if returns {
            wave.set_returns();
        }
        if is_new && stack.has_timed_out() && !row.ready {
            wave.set_course(Course::TimedOut);
        }
        let leaving: BTreeSet<&str> = stack
            .extras
            .iter()
            .map(|slot| &self.rows[*slot])
            .filter(|row| row.work.is_some() && !row.is_going())
            .map(|row| &*row.name)
            .collect();
        wave.lay_out(policy, self.now, &|name| {
            let row = tree.index_of(name).map(|index| &self.rows[stack.forward[index]]);
            Standing {
                is_member: row.is_some(),
                is_ready: row.is_some_and(|row| row.ready),
                works: row.map_or_else(|| leaving.contains(name), |row| row.work.is_some()),
                is_there: self.is_there(name),
            }
        });
        Some((path, wave))
    }

    /// After a restart of the controller, as they were kept.
    pub(crate) fn take_up_rollouts(&mut self, id: u64, tree: &Tree) {
        self.begin_rollouts(id, tree, None);
        if !self.stacks.is_rolling(id) {
            return;
        }
        // Who failed in an operation before has its turn in this one.
        let Some(stack) = self.stacks.get(&id) else { return };
        let failed = |slot: &&Slot| self.rows[**slot].failed && self.failed_in_rollout(**slot) == Some(false);
        let again: Vec<Slot> = stack.forward.iter().filter(failed).copied().collect();
        for slot in again {
            self.rows[slot].failed = false;
            if let Some(walk) = self.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()) {
                walk.failed -= 1;
            }
            self.agenda.push_back(Todo::Visit(slot));
        }
        self.fail_aborted(id);
        self.turn_soon(id);
    }

    /// Nothing of a walk waits for its turn any more.
    pub(crate) fn leave_rollouts(&mut self, id: u64) {
        self.stacks.set_rolling(id, false);
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        let Some(walk) = &mut stack.walk else { return };
        if let Some(due) = walk.rollouts.due.take() {
            self.timers.clear(due, TimerKey::Turn(id));
        }
        if !walk.rollouts.waves.is_empty() {
            stack.waiting.retain(|slot| self.rows[*slot].rare().pause.is_some());
        }
    }

    /// Whether a row that has something to do is to wait for its turn. `is_done`: the job that is out does it.
    pub(crate) fn waits_for_turn(&mut self, slot: Slot, tree: &Tree, is_done: bool) -> bool {
        let row = &self.rows[slot];
        let Some(set) = tree.set_of(row.index as usize) else { return false };
        let (name, id) = (row.name.clone(), row.stack);
        let (is_under_way, away, now) = (row.work.is_some(), self.away_since(&name), self.now);
        // A job of the operation before that no agent has was in that one's batch. In this one its turn comes anew.
        let is_unbegun = is_done && row.is_unsent();
        // A background job is no turn.
        let is_done = is_done && !row.cause.is_drift();
        let Some(stack) = self.stacks.get_mut(&id) else { return false };
        let Some(walk) = &mut stack.walk else { return false };
        let Some(wave) = walk.rollouts.waves.get_mut(tree.name(set)) else { return false };
        if wave.has_begun(&name) {
            return false;
        }
        if is_under_way && !is_unbegun {
            // Another job is taken back first.
            if is_done {
                wave.tell(&name, Event::UnderWay(away.map(|_| now)));
                self.turn_soon(id);
            }
            return false;
        }
        wave.tell(&name, Event::Wanted(away));
        if !wave.is_aborted() {
            stack.waiting.insert(slot);
            self.touch(id);
        }
        self.turn_soon(id);
        self.take_back(slot);
        true
    }

    /// Its turn is yet to come.
    pub(crate) fn is_held(&self, row: &Row) -> bool {
        self.wave_with(row).is_some_and(|wave| wave.holds(&row.name))
    }

    /// What such a row does; nothing, where its turn will not come.
    pub(crate) fn phase_of_held(&self, row: &Row) -> Option<Phase> {
        match self.wave_with(row).map(Rollout::course) {
            Some(Course::Aborted(_)) | None => None,
            Some(Course::Going | Course::Paused | Course::TimedOut) => Some(Phase::Rollout),
        }
    }

    /// Of a member whose turn is passed over because its node is away: the set, and the node.
    pub(crate) fn away_member<'r>(&self, row: &'r Row) -> Option<(&'r str, &'r str)> {
        let is_passed_over = self.phase_of_held(row).is_some() && self.is_held(row);
        let set = set_of(&row.name).filter(|_| is_passed_over && !self.is_there(&row.name))?;
        Some((set, node_of(&row.name)))
    }

    fn wave_with(&self, row: &Row) -> Option<&Rollout> {
        let walk = self.stacks.get(&row.stack)?.walk.as_ref()?;
        walk.rollouts.waves.get(set_of(&row.name)?)
    }

    /// After a restart: whether a member's failure is of this operation.
    pub(crate) fn failed_in_rollout(&self, slot: Slot) -> Option<bool> {
        let row = &self.rows[slot];
        self.wave_with(row).map(|wave| wave.has_failed(&row.name))
    }

    /// A member is ready, or wanted no more.
    pub(crate) fn turn_ended(&mut self, slot: Slot) {
        self.tell_wave(slot, Event::EndsWell);
    }

    /// A member has failed for good.
    pub(crate) fn turn_failed(&mut self, slot: Slot) {
        self.tell_wave(slot, Event::Fails);
    }

    fn tell_wave(&mut self, slot: Slot, event: Event) {
        let row = &self.rows[slot];
        let id = row.stack;
        // An old row goes under the name of the new one.
        if row.role == Role::Cleanup || !self.stacks.is_rolling(id) {
            return;
        }
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        let Some(walk) = &mut stack.walk else { return };
        let Some(wave) = set_of(&row.name).and_then(|set| walk.rollouts.waves.get_mut(set)) else { return };
        wave.tell(&row.name, event);
        if row.rare().pause.is_none() {
            stack.waiting.remove(&slot);
        }
        self.turn_soon(id);
    }

    /// A node has come or gone.
    pub(crate) fn turn_of_node(&mut self, key: NodeKey) {
        let rolling = self.stacks.rolling();
        if rolling.is_empty() {
            return;
        }
        let node = self.nodes[key].name.clone();
        let event = if self.nodes[key].ready { Event::NodeBack } else { Event::NodeGone(self.now) };
        for id in rolling {
            let Some(walk) = self.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()) else { continue };
            let names = walk.rollouts.waves.iter_mut().map(|(path, wave)| (format!("{path}[{node}]"), wave));
            let told: Vec<String> =
                names.filter_map(|(name, wave)| wave.tell_of_node(&name, event).then_some(name)).collect();
            for name in &told {
                self.turn_is_not_missed(id, name);
            }
            if !told.is_empty() {
                self.turn_soon(id);
            }
        }
    }

    /// With `away: fail`: it counts as failed until its node is back.
    fn miss_turn(&mut self, id: u64, name: &str) {
        let Some(slot) = self.row_named(id, name) else { return };
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        stack.waiting.remove(&slot);
        if let Some(walk) = &mut stack.walk
            && !std::mem::replace(&mut self.rows[slot].failed, true)
        {
            walk.failed += 1;
        }
        self.agenda.push_back(Todo::CheckEnd(id));
    }

    fn turn_is_not_missed(&mut self, id: u64, name: &str) {
        let Some(slot) = self.row_named(id, name) else { return };
        let row = &self.rows[slot];
        // Of one that was aborted nobody's turn comes any more.
        let is_open = self.wave_with(row).is_some_and(|wave| !wave.is_aborted());
        if !is_open || !self.is_held(row) || !row.failed || !self.is_there(name) {
            return;
        }
        self.not_failed(slot);
        if let Some(stack) = self.stacks.get_mut(&id) {
            stack.waiting.insert(slot);
        }
    }

    /// Members that are none any more: what is under way of them is taken back, or counts when it has ended.
    pub(crate) fn leave_turns(&mut self, id: u64, dropped: &[Slot]) {
        if !self.stacks.is_rolling(id) {
            return;
        }
        for slot in dropped {
            let row = &self.rows[*slot];
            if row.role != Role::Forward || row.work.is_none() || row.is_going() {
                continue;
            }
            let name = Arc::clone(&row.name);
            let Some(walk) = self.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()) else { return };
            let wave = set_of(&name).and_then(|set| walk.rollouts.waves.get_mut(set));
            if let Some(wave) = wave {
                wave.tell(&name, Event::Leaves);
                self.take_back(*slot);
            }
        }
    }

    /// What was under way of one that left has ended.
    pub(crate) fn left_ended(&mut self, slot: Slot, how: Ended) {
        let row = &self.rows[slot];
        let (id, name) = (row.stack, Arc::clone(&row.name));
        if row.is_going() || !self.stacks.is_rolling(id) {
            return;
        }
        let Some(walk) = self.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()) else { return };
        let wave = set_of(&name).and_then(|set| walk.rollouts.waves.get_mut(set));
        if wave.is_some_and(|wave| wave.tell(&name, Event::JobEnds(how))) {
            self.turn_soon(id);
        }
    }

    /// A row was seen to be another than is wanted.
    pub(crate) fn turn_disturbed(&mut self, slot: Slot) {
        let id = self.rows[slot].stack;
        if self.stacks.is_rolling(id) {
            self.turn_soon(id);
        }
    }

    fn turn_soon(&mut self, id: u64) {
        let Some(walk) = self.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()) else { return };
        if !std::mem::replace(&mut walk.rollouts.turns, true) {
            self.agenda.push_back(Todo::Turn(id));
        }
    }

    /// Looks whose turn it is.
    pub(crate) fn turn(&mut self, id: u64) {
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        let is_still = stack.is_still();
        let Some(walk) = &mut stack.walk else { return };
        walk.rollouts.turns = false;
        if is_still || walk.stage != Stage::Forward {
            return;
        }
        let mut waves = std::mem::take(&mut walk.rollouts.waves);
        let (mut aborted, mut missed) = (Vec::new(), Vec::new());
        for (path, wave) in &mut waves {
            let look = wave.look(self.now, &|name| self.health(id, name));
            if !look.begin.is_empty() {
                let what = if look.of_canary { "its canary" } else { "a batch" };
                self.note(id, format!("rollout of {path}: {what} begins: {}", named(&look.begin)));
            }
            if !look.missed.is_empty() {
                let named = named(&look.missed);
                self.note(
                    id,
                    format!("rollout of {path}: their nodes were away when their turn came: {named}"),
                );
            }
            missed.extend(look.missed);
            for name in look.begin {
                let Some(slot) = self.row_named(id, &name) else { continue };
                if let Some(stack) = self.stacks.get_mut(&id) {
                    stack.waiting.remove(&slot);
                }
                self.agenda.push_back(Todo::Visit(slot));
            }
            aborted.extend(look.aborted.map(|reason| (Arc::clone(path), reason)));
            self.note_wave(id, path, wave);
        }
        let due = waves.values().filter_map(|wave| wave.due(self.now)).min();
        let Some(walk) = self.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()) else { return };
        walk.rollouts.waves = waves;
        let before = std::mem::replace(&mut walk.rollouts.due, due);
        if let Some(before) = before {
            self.timers.clear(before, TimerKey::Turn(id));
        }
        if let Some(due) = due {
            self.timers.set(due, TimerKey::Turn(id));
        }
        for name in missed {
            self.miss_turn(id, &name);
        }
        for (path, reason) in aborted {
            self.rollout_aborted(id, &path, &reason);
        }
    }

    /// The time has come.
    pub(crate) fn turn_due(&mut self, id: u64, due: MonoTime) {
        let Some(walk) = self.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()) else { return };
        if walk.rollouts.due == Some(due) {
            walk.rollouts.due = None;
            self.turn_soon(id);
        }
    }

    fn health(&self, id: u64, name: &str) -> Health {
        let Some(row) = self.row_named(id, name).map(|slot| &self.rows[slot]) else { return Health::Well };
        if row.observed.differs() {
            let why = row.reason.as_deref().unwrap_or(row.observed.as_str());
            return Health::Disturbed(why.to_owned());
        }
        if row.rare().unhealthy || row.status == Some(Status::Failed) {
            let why = row.reason.as_deref().unwrap_or("it is unhealthy");
            return Health::Disturbed(why.to_owned());
        }
        match row.node {
            Some(key) if self.nodes[key].ready => Health::Well,
            _ => Health::Away,
        }
    }

    fn row_named(&self, id: u64, name: &str) -> Option<Slot> {
        let forward = &self.stacks.get(&id)?.forward;
        let at = forward.binary_search_by(|slot| (*self.rows[*slot].name).cmp(name)).ok()?;
        Some(forward[at])
    }

    fn note_wave(&mut self, id: u64, path: &str, wave: &mut Rollout) {
        let Some(kept) = wave.take_changed() else { return };
        let Some(slot) = self.row_named(id, path) else { return };
        let traversal = self.stacks[&id].traversal;
        let Ok(text) = serde_json::to_string(&Noted { traversal, kept }) else { return };
        self.rows[slot].attributes.insert(ROLLOUT.to_owned(), text);
        self.row_changed(slot, false);
    }

    /// All of a set is as the revision wants it.
    pub(crate) fn set_is_ready(&mut self, slot: Slot, tree: &Tree) {
        let index = self.rows[slot].index as usize;
        if tree.kind(index) != Kind::Set {
            return;
        }
        let Some(set) = tree.sets().find(|set| set.index() == index) else { return };
        let (id, has_members) = (self.rows[slot].stack, !set.members().is_empty());
        let walk = self.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut());
        let wave = walk.and_then(|walk| walk.rollouts.waves.get_mut(set.name()));
        let is_stopped = wave.is_some_and(|wave| {
            wave.is_over(has_members);
            wave.is_stopped()
        });
        let ended = match is_stopped {
            // It is kept for whoever comes.
            true => {
                self.turn_soon(id);
                false
            }
            false => self.rows[slot].attributes.remove(ROLLOUT).is_some(),
        };
        let is_new = self.prove(slot, &set);
        if ended || is_new {
            self.row_changed(slot, false);
        }
    }

    /// Of a set with members; whether that is new.
    fn prove(&mut self, slot: Slot, set: &Set<'_>) -> bool {
        let Some(stack) = self.stacks.get(&self.rows[slot].stack) else { return false };
        if set.rollout().is_none() || set.members().is_empty() {
            return false;
        }
        let proven = proven_as(stack, set);
        let attributes = &mut self.rows[slot].attributes;
        let is_new = attributes.get(PROVEN) != Some(&proven);
        if is_new {
            attributes.insert(PROVEN.to_owned(), proven);
        }
        is_new
    }

    /// All of a stack is as the revision wants it, also sets that had nothing to do.
    pub(crate) fn prove_sets(&mut self, id: u64) {
        let Some(stack) = self.stacks.get(&id) else { return };
        let Some(tree) = stack.walk.as_ref().map(|walk| Arc::clone(&walk.tree)) else { return };
        for set in tree.sets() {
            let slot = self.stacks.get(&id).and_then(|stack| stack.forward.get(set.index())).copied();
            if let Some(slot) = slot
                && self.prove(slot, &set)
            {
                self.row_changed(slot, false);
            }
        }
    }

    fn rollout_aborted(&mut self, id: u64, path: &Arc<str>, reason: &str) {
        let Some(stack) = self.stacks.get(&id) else { return };
        let Some(wave) = stack.walk.as_ref().and_then(|walk| walk.rollouts.waves.get(path)) else { return };
        let held: Vec<Slot> = wave.all_waiting().filter_map(|name| self.row_named(id, name)).collect();
        let untouched = held.len();
        if let Some(stack) = self.stacks.get_mut(&id) {
            held.iter().for_each(|slot| {
                stack.waiting.remove(slot);
            });
        }
        let Some(slot) = self.row_named(id, path) else { return };
        self.fail_row(slot, format!("its rollout was aborted: {reason}; {untouched} were not begun"));
    }

    /// After a restart: one that was aborted counts as failed again.
    pub(crate) fn fail_aborted(&mut self, id: u64) {
        let Some(walk) = self.stacks.get(&id).and_then(|stack| stack.walk.as_ref()) else { return };
        let aborted = |wave: &Rollout| wave.is_aborted();
        let paths: Vec<Arc<str>> = walk
            .rollouts
            .waves
            .iter()
            .filter(|(_, wave)| aborted(wave))
            .map(|(path, _)| path.clone())
            .collect();
        for path in paths {
            let Some(slot) = self.row_named(id, &path).filter(|slot| !self.rows[*slot].failed) else {
                continue;
            };
            self.rows[slot].failed = true;
            if let Some(walk) = self.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()) {
                walk.failed += 1;
            }
        }
    }

    fn is_set_ready(&self, id: u64, path: &str) -> bool {
        self.row_named(id, path).is_none_or(|slot| self.rows[slot].ready)
    }
}

/// What comes from other resources may be another in another revision, though the set says the same.
fn proven_as(stack: &Stack, set: &Set<'_>) -> String {
    format!("{}/{:032x}", stack.revision, set.source())
}

/// `a[web-1]` is of the set `a`.
fn set_of(name: &str) -> Option<&str> {
    name.strip_suffix(']')?.rsplit_once('[').map(|(set, _)| set)
}

/// The node of a member, as its name says it; empty for what is none.
pub(crate) fn node_of(name: &str) -> &str {
    name.strip_suffix(']').and_then(|name| name.rsplit_once('[')).map_or("", |(_, node)| node)
}

/// Names in an event: a line.
const NAMED: usize = 10;

fn named(names: &[Arc<str>]) -> String {
    let first: Vec<&str> = names.iter().take(NAMED).map(|name| &**name).collect();
    match names.len() {
        0..=NAMED => first.join(", "),
        more => format!("{} and {} more", first.join(", "), more - NAMED),
    }
}
