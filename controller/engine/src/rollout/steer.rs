//! What operators want of rollouts, and what becomes of them when their stack has had its time.

use std::sync::Arc;
use std::time::Duration;

use muster_shared::StackName;
use muster_template::suggestion;
use serde::{Deserialize, Serialize};

use super::machine::Rollout;
use super::named;
use super::policy::Course;
use crate::engine::Engine;
use crate::record::Status;
use crate::request::{Answer, Refusal};
use crate::stack::Stage;
use crate::timer::TimerKey;

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

impl Engine {
    /// The stack has had its time: no further batch begins. Who waits for its node alone goes on when that is back.
    pub(crate) fn rollouts_time_out(&mut self, id: u64) -> String {
        let Some(walk) = self.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()) else {
            return String::new();
        };
        let mut stopped = Vec::new();
        let mut waves = std::mem::take(&mut walk.rollouts.waves);
        for (path, wave) in &mut waves {
            let yet = self.yet_to_begin(id, path, wave);
            let (waiting, away) = (wave.waiting(), wave.away());
            match wave.course() {
                Course::Going if yet == 0 || (waiting, away) == (yet, yet) => {
                    wave.keep();
                    self.note_wave(id, path, wave);
                    continue;
                }
                Course::Going => wave.set_course(Course::TimedOut),
                Course::Paused if yet > 0 => {}
                Course::Paused | Course::TimedOut | Course::Aborted(_) => continue,
            }
            stopped.push(format!("{path} ({yet} yet to begin)"));
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

    /// Members whose turn is yet to come, also those that wait for what they need.
    fn yet_to_begin(&self, id: u64, path: &str, wave: &Rollout) -> usize {
        let Some(stack) = self.stacks.get(&id) else { return 0 };
        let Some(set) = stack.walk.as_ref().and_then(|walk| walk.tree.sets().find(|set| set.name() == path))
        else {
            return 0;
        };
        let rows = set.members().iter().map(|index| &self.rows[stack.forward[*index as usize]]);
        rows.filter(|row| !row.ready && !wave.has_begun(&row.name) && (wave.holds(&row.name) || !row.failed))
            .count()
    }

    /// A revision does not go over one that an operator has paused.
    pub(crate) fn no_paused_rollout(&self, id: u64) -> Result<(), Refusal> {
        let stack = &self.stacks[&id];
        let Some(walk) = stack.walk.as_ref().filter(|_| !stack.cancelled) else { return Ok(()) };
        let goes_on = |path: &str, wave: &Rollout| {
            wave.is_open() || stack.status == Status::InProgress && !self.is_set_ready(id, path)
        };
        let is_paused = |path: &str, wave: &Rollout| *wave.course() == Course::Paused && goes_on(path, wave);
        let paused = walk.rollouts.waves.iter().find(|(path, wave)| is_paused(path, wave));
        let Some((path, _)) = paused else { return Ok(()) };
        let name = &stack.name;
        Err(Refusal::Conflict(format!(
            "the rollout of {path} of stack '{name}' is paused at revision {}: resume or abort it first, with 'muster stack \
             rollout {name} resume' or 'abort', or roll back",
            stack.revision
        )))
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
                (action, walk.rollouts.waves[path].course()),
                (RolloutAction::Pause | RolloutAction::Promote, Course::Going)
                    | (RolloutAction::Resume, Course::Paused | Course::TimedOut)
                    | (RolloutAction::Abort, Course::Going | Course::Paused | Course::TimedOut)
            )
        };
        let meant: Vec<Arc<str>> = open.iter().filter(|path| fitting(path)).cloned().collect();
        if meant.is_empty() {
            let Some(path) = open.first() else { return Err(none()) };
            let how = match walk.rollouts.waves[path].course() {
                Course::Going => "is not paused".to_owned(),
                Course::Paused => "is paused".to_owned(),
                Course::TimedOut => "was stopped when the stack had had its time: resume it".to_owned(),
                Course::Aborted(why) => format!("was aborted ({why}): update the stack, or roll back"),
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
            RolloutAction::Pause => wave.set_course(Course::Paused),
            RolloutAction::Resume => wave.set_course(Course::Going),
            RolloutAction::Promote => wave.promote(),
            RolloutAction::Abort => wave.set_course(Course::Aborted("an operator wants it so".into())),
        }
        let reason = match wave.course() {
            Course::Aborted(reason) => Some(reason.clone()),
            Course::Going | Course::Paused | Course::TimedOut => None,
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
        let Some(walk) = stack.walk.as_mut().filter(|_| stack.timed_out) else { return };
        let due = now + Duration::from_secs(stack.timeout_s);
        (walk.ended, walk.timeout) = (false, Some(due));
        (stack.status, stack.reason, stack.timed_out) = (Status::InProgress, String::new(), false);
        self.timers.set(due, TimerKey::Stack(id, stack.traversal));
        self.stack_changed(id);
        self.watch(id);
        self.event(id, None);
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
