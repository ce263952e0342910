//! Rollouts: what [`wave`] decides, carried out on the rows of a set. What is kept lies with the row that stands for the
//! set, so that a restart of the controller goes on with the same batch.
//!
//! A rollout that is aborted fails that row: the stack is FAILED, and who waited keeps what it had. A rollback needs no
//! canary and no pause, for its content was COMPLETE; nor does what was rolled out to the end before, as for a node that
//! joins later.

mod wave;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_shared::StackName;
use muster_template::{Kind, Set, Tree, suggestion};
use serde::{Deserialize, Serialize};

pub(crate) use self::wave::Wave;
use self::wave::{Health, Kept, Policy, State};
use crate::engine::{Engine, Todo};
use crate::node::NodeKey;
use crate::record::{StackAction, Status};
use crate::request::{Answer, Refusal};
use crate::resource::{Role, Row, Slot};
use crate::stack::{Stack, Stage};
use crate::timer::TimerKey;

/// How a rollout stands, in the row of its set.
const ROLLOUT: &str = "rollout";
/// What was rolled out to the end: a revision, and a digest of what the set says in it.
const PROVEN: &str = "proven";

/// What an operator wants of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RolloutAction {
    /// Nothing more begins, until it is resumed.
    Pause,
    /// It goes on.
    Resume,
    /// What it waits for is waited for no more: the next batch begins.
    Promote,
    /// Nothing more of it begins: the stack is FAILED, and who has not begun keeps what it has.
    Abort,
}

/// The rollouts of a walk.
#[derive(Default)]
pub(crate) struct Rollouts {
    /// By the path of their set.
    pub waves: BTreeMap<Arc<str>, Wave>,
    /// They are looked at when all else of the input in hand is done.
    turns: bool,
    /// When they are looked at for the time's sake.
    due: Option<muster_shared::MonoTime>,
}

/// One rollout, in `stack show`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutView {
    /// The resource with the `for_each`.
    pub resource: String,
    /// going, paused, timed_out or aborted.
    pub state: String,
    /// canary, batch, pause or done; empty where nothing begins.
    pub stage: String,
    /// Why it was aborted.
    pub reason: String,
    /// Members.
    pub total: u64,
    /// As the revision wants them.
    pub done: u64,
    /// Begun and not ended.
    pub in_flight: u64,
    /// Failed in this operation.
    pub failed: u64,
    /// Their turn is yet to come.
    pub waiting: u64,
    /// Of these, those whose node is away.
    pub away: u64,
    /// Members under way at once, at most.
    pub batch: u64,
    /// With one more that fails it is aborted.
    pub max_failures: u64,
    /// Seconds until the next batch; none where it waits for something else.
    pub next_in: Option<u64>,
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
        let sets: Vec<(Arc<str>, Wave)> =
            tree.sets().filter_map(|set| self.wave_of(id, tree, &set, old)).collect();
        let Some(walk) = self.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()) else { return };
        walk.rollouts.waves = sets.into_iter().collect();
        match walk.rollouts.waves.is_empty() {
            true => self.rolling.remove(&id),
            false => self.rolling.insert(id),
        };
    }

    fn wave_of(
        &self,
        id: u64,
        tree: &Tree,
        set: &Set<'_>,
        old: Option<&Rollouts>,
    ) -> Option<(Arc<str>, Wave)> {
        let stack = self.stacks.get(&id)?;
        let mut policy = Policy::new(set.rollout()?, set.members().len());
        let row = &self.rows[*stack.forward.get(set.index())?];
        let is_proven = row.attributes.get(PROVEN).is_some_and(|proven| *proven == proven_as(stack, set));
        if is_proven || stack.action == StackAction::Rollback {
            policy = policy.proven();
        }
        let noted = row.attributes.get(ROLLOUT).and_then(|text| serde_json::from_str::<Noted>(text).ok());
        let path = tree.shared_name(set.index());
        let old = old.and_then(|old| old.waves.get(&path));
        let mut wave = match (old, noted.filter(|noted| noted.traversal == stack.traversal)) {
            (Some(old), _) => Wave::going_on_from(policy, old),
            (None, Some(Noted { kept, .. })) => Wave::of(policy, kept),
            (None, None) => Wave::new(policy),
        };
        let is_ready =
            |name: &str| tree.index_of(name).is_some_and(|index| self.rows[stack.forward[index]].ready);
        wave.settle(&|name| tree.index_of(name).is_some(), &is_ready);
        if self.now < self.grace {
            wave.bear_until(self.grace);
        }
        Some((path, wave))
    }

    /// After a restart of the controller, as they were kept.
    pub(crate) fn take_up_rollouts(&mut self, id: u64, tree: &Tree) {
        self.begin_rollouts(id, tree, None);
        if !self.rolling.contains(&id) {
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
        self.rolling.remove(&id);
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
        let (is_under_way, node) = (row.work.is_some(), node_of(&name));
        let is_there = node.parse().ok().and_then(|node| self.nodes.find(&node));
        let is_there = is_there.is_some_and(|key| self.nodes[key].ready);
        let Some(stack) = self.stacks.get_mut(&id) else { return false };
        let Some(walk) = &mut stack.walk else { return false };
        let Some(wave) = walk.rollouts.waves.get_mut(tree.name(set)) else { return false };
        if wave.may_begin(&name) {
            return false;
        }
        if is_under_way {
            // Another job is taken back first.
            if is_done {
                wave.take_in(&name);
                self.turn_soon(id);
            }
            return false;
        }
        wave.hold(&name, is_there);
        if !matches!(wave.state(), State::Aborted(_)) {
            stack.waiting.insert(slot);
            self.touch(id);
        }
        self.turn_soon(id);
        true
    }

    /// Its turn is yet to come.
    pub(crate) fn is_held(&self, row: &Row) -> bool {
        self.wave_with(row).is_some_and(|wave| wave.holds(&row.name))
    }

    /// What such a row does; nothing, where its turn will not come.
    pub(crate) fn phase_of_held(&self, row: &Row) -> &'static str {
        match self.wave_with(row).map(Wave::state) {
            Some(State::Aborted(_)) | None => "",
            Some(State::Going | State::Paused | State::TimedOut) => "rollout",
        }
    }

    fn wave_with(&self, row: &Row) -> Option<&Wave> {
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
        self.tell_wave(slot, |wave, name| wave.ended(name));
    }

    /// A member has failed for good.
    pub(crate) fn turn_failed(&mut self, slot: Slot) {
        self.tell_wave(slot, |wave, name| wave.failed_of(name));
    }

    fn tell_wave(&mut self, slot: Slot, tell: impl Fn(&mut Wave, &Arc<str>)) {
        let row = &self.rows[slot];
        let id = row.stack;
        // An old row goes under the name of the new one.
        if row.role == Role::Cleanup || !self.rolling.contains(&id) {
            return;
        }
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        let Some(walk) = &mut stack.walk else { return };
        let Some(wave) = set_of(&row.name).and_then(|set| walk.rollouts.waves.get_mut(set)) else { return };
        tell(wave, &row.name);
        if row.rare().pause.is_none() {
            stack.waiting.remove(&slot);
        }
        self.turn_soon(id);
    }

    /// A node has come or gone.
    pub(crate) fn turn_of_node(&mut self, key: NodeKey) {
        if self.rolling.is_empty() {
            return;
        }
        let (node, is_there) = (self.nodes[key].name.clone(), self.nodes[key].ready);
        for id in self.rolling.clone() {
            let Some(walk) = self.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()) else { continue };
            let mut matters = false;
            for (path, wave) in &mut walk.rollouts.waves {
                matters |= wave.node(&format!("{path}[{node}]"), is_there);
            }
            if matters {
                self.turn_soon(id);
            }
        }
    }

    /// A row was seen to be another than is wanted.
    pub(crate) fn turn_disturbed(&mut self, slot: Slot) {
        let id = self.rows[slot].stack;
        if self.rolling.contains(&id) {
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
        let mut aborted = Vec::new();
        for (path, wave) in &mut waves {
            let was_canary = wave.is_canary();
            let went = !matches!(wave.state(), State::Aborted(_));
            let begin = wave.turn(self.now, &|name| self.health(id, name));
            if !begin.is_empty() {
                let what = if was_canary && wave.is_canary() { "its canary" } else { "a batch" };
                self.note(id, format!("rollout of {path}: {what} begins: {}", named(&begin)));
            }
            for name in begin {
                let Some(slot) = self.row_named(id, &name) else { continue };
                if let Some(stack) = self.stacks.get_mut(&id) {
                    stack.waiting.remove(&slot);
                }
                self.agenda.push_back(Todo::Visit(slot));
            }
            if went && let State::Aborted(reason) = wave.state() {
                aborted.push((Arc::clone(path), reason.clone()));
            }
            self.note_wave(id, path, wave);
        }
        let due = waves.values().filter_map(Wave::due).filter(|due| *due > self.now).min();
        let Some(walk) = self.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()) else { return };
        walk.rollouts.waves = waves;
        let before = std::mem::replace(&mut walk.rollouts.due, due);
        if let Some(before) = before {
            self.timers.clear(before, TimerKey::Turn(id));
        }
        if let Some(due) = due {
            self.timers.set(due, TimerKey::Turn(id));
        }
        for (path, reason) in aborted {
            self.rollout_aborted(id, &path, &reason);
        }
    }

    /// The time has come.
    pub(crate) fn turn_due(&mut self, id: u64, due: muster_shared::MonoTime) {
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

    fn note_wave(&mut self, id: u64, path: &str, wave: &mut Wave) {
        let Some(kept) = wave.take_changed().cloned() else { return };
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
        let ended = self.rows[slot].attributes.remove(ROLLOUT).is_some();
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
        let aborted = |wave: &Wave| matches!(wave.state(), State::Aborted(_));
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

    /// The stack has had its time: no further batch begins. Who waits for its node alone goes on when that is back.
    pub(crate) fn rollouts_time_out(&mut self, id: u64) -> String {
        let Some(walk) = self.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()) else {
            return String::new();
        };
        let mut stopped = Vec::new();
        let mut waves = std::mem::take(&mut walk.rollouts.waves);
        for (path, wave) in &mut waves {
            let (waiting, away) = wave.waiting();
            match wave.state() {
                State::Going if waiting > away => wave.set_state(State::TimedOut),
                State::Paused => {}
                State::Going | State::TimedOut | State::Aborted(_) => continue,
            }
            stopped.push(format!("{path} ({waiting} yet to begin)"));
            self.note_wave(id, path, wave);
        }
        if let Some(walk) = self.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()) {
            walk.rollouts.waves = waves;
        }
        if stopped.is_empty() {
            return String::new();
        }
        let stack = self.stacks.get(&id).map_or("?", |stack| stack.name.as_str());
        format!(
            "; rollouts stopped: {}: go on with 'muster stack rollout {stack} resume'",
            stopped.join(", ")
        )
    }

    /// A revision does not go over one that an operator has paused.
    pub(crate) fn no_paused_rollout(&self, id: u64) -> Result<(), Refusal> {
        let stack = &self.stacks[&id];
        let Some(walk) = stack.walk.as_ref().filter(|_| !stack.cancelled) else { return Ok(()) };
        let goes_on = |path: &str, wave: &Wave| {
            wave.is_open() || stack.status == Status::InProgress && !self.is_set_ready(id, path)
        };
        let is_paused = |path: &str, wave: &Wave| *wave.state() == State::Paused && goes_on(path, wave);
        let paused = walk.rollouts.waves.iter().find(|(path, wave)| is_paused(path, wave));
        let Some((path, _)) = paused else { return Ok(()) };
        let name = &stack.name;
        Err(Refusal::Conflict(format!(
            "the rollout of {path} of stack '{name}' is paused at revision {}: resume or abort it first, with 'muster stack \
             rollout {name} resume' or 'abort', or roll back",
            stack.revision
        )))
    }

    fn is_set_ready(&self, id: u64, path: &str) -> bool {
        self.row_named(id, path).is_none_or(|slot| self.rows[slot].ready)
    }

    /// An operator has a say.
    pub(crate) fn steer_rollout(
        &mut self,
        name: &StackName,
        action: RolloutAction,
        resource: Option<&str>,
    ) -> Result<Answer, Refusal> {
        let id = self.find(name)?;
        let stack = &self.stacks[&id];
        let none = || {
            Refusal::Conflict(format!(
                "no rollout of stack '{name}' is under way: it is {}_{}",
                stack.action.as_str(),
                stack.status.as_str()
            ))
        };
        let walk = stack.walk.as_ref().filter(|walk| !stack.is_still() && walk.stage != Stage::Check);
        let walk = walk.filter(|walk| !walk.rollouts.waves.is_empty()).ok_or_else(none)?;
        if let Some(resource) = resource
            && !walk.rollouts.waves.contains_key(resource)
        {
            let near = suggestion(resource, walk.rollouts.waves.keys().map(|path| &**path));
            return Err(Refusal::NotFound(format!("stack '{name}' has no rollout of '{resource}'{near}")));
        }
        let is_meant = |path: &str| resource.is_none_or(|resource| resource == path);
        let open: Vec<Arc<str>> = walk
            .rollouts
            .waves
            .iter()
            .filter(|(path, _)| is_meant(path) && !self.is_set_ready(id, path))
            .filter(|(_, wave)| action != RolloutAction::Promote || wave.is_open())
            .map(|(path, _)| path.clone())
            .collect();
        let fitting = |path: &Arc<str>| {
            matches!(
                (action, walk.rollouts.waves[path].state()),
                (RolloutAction::Pause | RolloutAction::Promote, State::Going)
                    | (RolloutAction::Resume, State::Paused | State::TimedOut)
                    | (RolloutAction::Abort, State::Going | State::Paused | State::TimedOut)
            )
        };
        let meant: Vec<Arc<str>> = open.iter().filter(|path| fitting(path)).cloned().collect();
        if meant.is_empty() {
            let Some(path) = open.first() else { return Err(none()) };
            let how = match walk.rollouts.waves[path].state() {
                State::Going => "is not paused".to_owned(),
                State::Paused => "is paused".to_owned(),
                State::TimedOut => "was stopped when the stack had had its time: resume it".to_owned(),
                State::Aborted(why) => format!("was aborted ({why}): update the stack, or roll back"),
            };
            return Err(Refusal::Conflict(format!("the rollout of {path} {how}")));
        }
        let said = format!("rollout of {}: {}", named(&meant), action.as_str());
        for path in &meant {
            self.steer(id, path, action);
        }
        self.note(id, said);
        self.turn_soon(id);
        Ok(self.begun(id, Vec::new()))
    }

    fn steer(&mut self, id: u64, path: &Arc<str>, action: RolloutAction) {
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        let Some(walk) = &mut stack.walk else { return };
        let Some(mut wave) = walk.rollouts.waves.remove(path) else { return };
        match action {
            RolloutAction::Pause => wave.set_state(State::Paused),
            RolloutAction::Resume => wave.set_state(State::Going),
            RolloutAction::Promote => wave.promote(),
            RolloutAction::Abort => wave.abort("an operator wants it so".into()),
        }
        let reason = match wave.state() {
            State::Aborted(reason) => Some(reason.clone()),
            State::Going | State::Paused | State::TimedOut => None,
        };
        self.note_wave(id, path, &mut wave);
        let Some(walk) = self.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()) else { return };
        walk.rollouts.waves.insert(Arc::clone(path), wave);
        match reason {
            Some(reason) => self.rollout_aborted(id, path, &reason),
            None if action == RolloutAction::Resume => self.give_time(id),
            None => {}
        }
    }

    /// What had its time gets it again.
    fn give_time(&mut self, id: u64) {
        let now = self.now;
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        let Some(walk) = stack.walk.as_mut().filter(|walk| walk.timed_out) else { return };
        let due = now + Duration::from_secs(stack.timeout_s);
        (walk.timed_out, walk.ended, walk.timeout) = (false, false, Some(due));
        (stack.status, stack.reason) = (Status::InProgress, String::new());
        self.timers.set(due, TimerKey::Stack(id, stack.traversal));
        self.stack_changed(id);
        self.watch(id);
        self.event(id, None);
    }

    /// For `stack show`.
    pub(crate) fn rollout_views(&self, stack: &Stack) -> Vec<RolloutView> {
        let Some(walk) = stack.walk.as_ref().filter(|walk| walk.stage != Stage::Check) else {
            return Vec::new();
        };
        let sets = walk.tree.sets().filter_map(|set| Some((walk.rollouts.waves.get(set.name())?, set)));
        sets.map(|(wave, set)| {
            let done =
                set.members().iter().filter(|at| self.rows[stack.forward[**at as usize]].ready).count();
            let ((waiting, away), in_flight) = (wave.waiting(), wave.begun().len());
            let (state, reason) = match wave.state() {
                State::Going => ("going", ""),
                State::Paused => ("paused", ""),
                State::TimedOut => ("timed_out", ""),
                State::Aborted(reason) => ("aborted", &**reason),
            };
            let next = wave.due().filter(|_| in_flight == 0).map(|due| due.since(self.now).as_secs());
            let stage = match () {
                () if done == set.members().len() => "done",
                () if state != "going" => "",
                () if wave.is_canary() => "canary",
                () if next.is_some() => "pause",
                () => "batch",
            };
            RolloutView {
                resource: set.name().to_owned(),
                state: state.to_owned(),
                stage: stage.to_owned(),
                reason: stack.without_hidden(&walk.tree, reason),
                total: set.members().len() as u64,
                done: done as u64,
                in_flight: in_flight as u64,
                failed: wave.failed() as u64,
                waiting: waiting as u64,
                away: away as u64,
                batch: wave.policy.batch as u64,
                max_failures: wave.policy.max_failures as u64,
                next_in: next,
            }
        })
        .collect()
    }
}

impl RolloutAction {
    /// As operators write it.
    pub fn as_str(self) -> &'static str {
        match self {
            RolloutAction::Pause => "pause",
            RolloutAction::Resume => "resume",
            RolloutAction::Promote => "promote",
            RolloutAction::Abort => "abort",
        }
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

fn node_of(name: &str) -> &str {
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
