//! Actions of operators on rollouts: which ones a pause, resume, promote or abort applies to, and
//! what it changes there. Also decides which rollouts of a stack that has timed out stop.
//!
//! Absent: what that does to rows (`rollout/rows.rs`).

use std::sync::Arc;

use muster_api::stack::RolloutAction;
use muster_template::suggestion;

use super::machine::Rollout;
use super::record::Course;
use super::site::Rollouts;
use crate::request::Refusal;
use crate::stack::Stack;

impl Rollouts {
    /// The sets whose rollouts an action applies to. `goes_on`: the stack's operation goes on.
    pub fn meant(
        &self,
        stack: &Stack,
        goes_on: bool,
        action: RolloutAction,
        resource: Option<&str>,
        is_ready: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<Arc<str>>, Refusal> {
        let none = || {
            let (action, status) = (stack.action.as_str(), stack.status.as_str());
            Refusal::Conflict(format!(
                "no rollout of stack '{}' is under way: it is {action}_{status}",
                stack.name
            ))
        };
        if !goes_on || !self.is_rolling(stack.id) {
            return Err(none());
        }
        if let Some(resource) = resource
            && self.get(stack.id, resource).is_none()
        {
            let near = suggestion(resource, self.of_stack(stack.id).map(|(path, _)| &**path));
            return Err(Refusal::NotFound(format!(
                "stack '{}' has no rollout of '{resource}'{near}",
                stack.name
            )));
        }
        let is_meant = |path: &str| resource.is_none_or(|resource| resource == path);
        let open: Vec<(&Arc<str>, &Rollout)> = self
            .of_stack(stack.id)
            .filter(|(path, _)| is_meant(path) && !is_ready(path))
            .filter(|(_, rollout)| action != RolloutAction::Promote || rollout.is_open())
            .collect();
        let fitting = open.iter().filter(|(_, rollout)| fits(action, rollout.course()));
        let meant: Vec<Arc<str>> = fitting.map(|(path, _)| Arc::clone(path)).collect();
        let Some((path, rollout)) = open.first().filter(|_| meant.is_empty()) else {
            return if meant.is_empty() { Err(none()) } else { Ok(meant) };
        };
        let how = match rollout.course() {
            Course::Going => "is not paused".to_owned(),
            Course::Paused => "is paused".to_owned(),
            Course::TimedOut => "was stopped when the stack had had its time: resume it".to_owned(),
            Course::Aborted(why) => format!("was aborted ({why}): update the stack, or roll back"),
        };
        Err(Refusal::Conflict(format!("the rollout of {path} {how}")))
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

    /// The stack has timed out while `yet` members had not started. Returns whether those members no
    /// longer begin. A rollout goes on if all of them only wait for their nodes.
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

/// Whether an action makes sense for a rollout on this course.
fn fits(action: RolloutAction, course: &Course) -> bool {
    matches!(
        (action, course),
        (RolloutAction::Pause | RolloutAction::Promote, Course::Going)
            | (RolloutAction::Resume, Course::Paused | Course::TimedOut)
            | (RolloutAction::Abort, Course::Going | Course::Paused | Course::TimedOut)
    )
}
