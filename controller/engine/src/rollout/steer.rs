//! What operators want of rollouts, and what becomes of them when their stack has had its time.

use std::sync::Arc;

use muster_template::suggestion;
use serde::{Deserialize, Serialize};

use super::machine::Rollout;
use super::policy::Course;
use super::site::Rollouts;

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

/// Why an action is for no rollout of a stack.
pub(crate) enum Unfit {
    /// None is under way.
    None,
    /// No rollout has this name; and one that is like it, as a question.
    Unknown { near: String },
    /// A rollout stands in such a way that nothing comes of the action.
    Stands { path: Arc<str>, how: String },
}

impl Rollouts {
    /// The rollouts of a stack that an action is for.
    pub fn meant(
        &self,
        stack: u64,
        action: RolloutAction,
        resource: Option<&str>,
        is_ready: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<Arc<str>>, Unfit> {
        if !self.is_rolling(stack) {
            return Err(Unfit::None);
        }
        if let Some(resource) = resource
            && self.get(stack, resource).is_none()
        {
            let paths = self.of_stack(stack).map(|(path, _)| &**path);
            return Err(Unfit::Unknown { near: suggestion(resource, paths) });
        }
        let is_meant = |path: &str| resource.is_none_or(|resource| resource == path);
        let open: Vec<(&Arc<str>, &Rollout)> = self
            .of_stack(stack)
            .filter(|(path, _)| is_meant(path) && !is_ready(path))
            .filter(|(_, rollout)| action != RolloutAction::Promote || rollout.is_open())
            .collect();
        let Some((first, stands)) = open.first() else { return Err(Unfit::None) };
        let fitting = open.iter().filter(|(_, rollout)| action.fits(rollout.course()));
        let meant: Vec<Arc<str>> = fitting.map(|(path, _)| Arc::clone(path)).collect();
        if !meant.is_empty() {
            return Ok(meant);
        }
        let how = match stands.course() {
            Course::Going => "is not paused".to_owned(),
            Course::Paused => "is paused".to_owned(),
            Course::TimedOut => "was stopped when the stack had had its time: resume it".to_owned(),
            Course::Aborted(why) => format!("was aborted ({why}): update the stack, or roll back"),
        };
        Err(Unfit::Stands { path: Arc::clone(first), how })
    }
}

impl Rollout {
    pub fn steer(&mut self, action: RolloutAction) {
        match action {
            RolloutAction::Pause => self.set_course(Course::Paused),
            RolloutAction::Resume => self.set_course(Course::Going),
            RolloutAction::Promote => self.promote(),
            RolloutAction::Abort => self.set_course(Course::Aborted("an operator wants it so".into())),
        }
    }

    /// The stack has had its time while so many members were yet to begin. Returns whether those begin no more. A rollout
    /// of which all these wait for their nodes alone goes on when they are back.
    pub fn time_out(&mut self, yet: usize) -> bool {
        match self.course() {
            Course::Going if yet == 0 || (self.waiting(), self.absent()) == (yet, yet) => {
                self.keep();
                false
            }
            Course::Going => {
                self.set_course(Course::TimedOut);
                true
            }
            Course::Paused => yet > 0,
            Course::TimedOut | Course::Aborted(_) => false,
        }
    }
}

impl RolloutAction {
    fn fits(self, course: &Course) -> bool {
        matches!(
            (self, course),
            (RolloutAction::Pause | RolloutAction::Promote, Course::Going)
                | (RolloutAction::Resume, Course::Paused | Course::TimedOut)
                | (RolloutAction::Abort, Course::Going | Course::Paused | Course::TimedOut)
        )
    }

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
