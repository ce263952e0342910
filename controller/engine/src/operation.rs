//! Operations on stacks, and how a traversal begins.

use std::time::Duration;

use muster_shared::StackName;
use muster_template::suggestion;

use crate::acceptance::Planned;
use crate::engine::{Effect, Engine, Todo};
use crate::layout::Before;
use crate::record::{Change, RevisionRecord, StackAction, Status};
use crate::request::{Answer, Options, Refusal, Source};
use crate::stack::Stack;
use crate::timer::TimerKey;

/// Stacks in a site.
const STACKS_MAX: usize = 100_000;

/// An operation that waits for a revision to be loaded.
pub(crate) struct Pending {
    pub stack: u64,
    /// The traversal it was decided in; a newer one makes what the engine decided moot.
    pub traversal: u64,
    pub revision: u32,
    /// The operator's request; none: the engine decided.
    pub request: Option<u64>,
    pub purpose: Purpose,
}

/// What a loaded revision is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Its content comes back.
    RollBack,
    /// The current one is walked again.
    TakeUp,
    /// What is there is compared with the current one.
    Check,
}

/// Where an operation leads.
struct Target {
    action: StackAction,
    /// In a rollback: the revision that comes back.
    revision: Option<u32>,
    options: Options,
    /// An operator asks for it.
    is_wish: bool,
}

impl Engine {
    pub(crate) fn create(
        &mut self,
        name: StackName,
        source: Source,
        options: Options,
    ) -> Result<Answer, Refusal> {
        if self.stacks.id_of(&name).is_some() {
            return Err(Refusal::Conflict(format!(
                "stack '{name}' exists already: update it with 'muster stack update {name}', or choose another name"
            )));
        }
        if self.stacks.len() >= STACKS_MAX {
            return Err(Refusal::Conflict(format!("the site has {STACKS_MAX} stacks, which is its limit")));
        }
        let stack = Stack::new(self.ids.next_stack(), name.clone());
        let id = stack.id;
        self.stacks.insert(id, stack);
        let target = Target { action: StackAction::Create, revision: None, options, is_wish: true };
        let begun = self.begin(id, source, target);
        match begun {
            Ok(_) => {
                self.ids.keep_stack();
                self.stacks.name(id);
            }
            Err(_) => {
                self.stacks.remove(&id);
            }
        }
        begun
    }

    pub(crate) fn update(
        &mut self,
        name: &StackName,
        source: Source,
        options: Options,
    ) -> Result<Answer, Refusal> {
        let id = self.changeable(name)?;
        self.no_paused_rollout(id)?;
        let target = Target { action: StackAction::Update, revision: None, options, is_wish: true };
        self.begin(id, source, target)
    }

    pub(crate) fn delete(&mut self, name: &StackName) -> Result<Answer, Refusal> {
        let id = self.find(name)?;
        let stack = &self.stacks[&id];
        if stack.is_being_deleted() {
            return Ok(self.begun(id, Vec::new()));
        }
        let timeout = Duration::from_secs(stack.timeout_s);
        let options = Options { timeout, ..Options::default() };
        let target = Target { action: StackAction::Delete, revision: None, options, is_wish: true };
        self.begin(id, Source::nothing(), target)
    }

    /// Answers at once if no revision has to be loaded.
    pub(crate) fn rollback(
        &mut self,
        name: &StackName,
        to: Option<u32>,
        request: Option<u64>,
    ) -> Result<Option<Answer>, Refusal> {
        let id = self.changeable(name)?;
        let stack = &self.stacks[&id];
        let revision = match to {
            Some(0) => None,
            Some(to) if to > stack.revision => {
                return Err(Refusal::NotFound(format!(
                    "stack '{name}' has no revision {to}: its newest is {}",
                    stack.revision
                )));
            }
            Some(to) => Some(to),
            // A check says nothing of the revision.
            None if stack.action == StackAction::Check => {
                stack.complete.iter().find(|good| **good != stack.revision).copied()
            }
            None if stack.status == Status::Complete => stack.complete.get(1).copied(),
            None => stack.complete.first().copied(),
        };
        match revision {
            Some(revision) => {
                let pending = Pending {
                    stack: id,
                    traversal: stack.traversal,
                    revision,
                    request,
                    purpose: Purpose::RollBack,
                };
                self.load_revision(name.clone(), revision, pending);
                Ok(None)
            }
            // To nothing, which an operator must name where anything was ever good.
            None if to.is_none() && !stack.complete.is_empty() => Err(Refusal::Conflict(format!(
                "stack '{name}' has no good revision before {}: 'muster stack rollback {name} --to 0' empties it, \
                 'muster stack delete {name}' removes it",
                stack.revision
            ))),
            None => self.roll_back_to(id, 0, Source::nothing(), request.is_some()).map(Some),
        }
    }

    pub(crate) fn revision_loaded(&mut self, load: u64, source: Result<Source, String>) {
        let Some(pending) = self.stacks.take_pending(load) else { return };
        let Pending { stack, traversal, revision, request, purpose } = pending;
        // What went first may come to nothing.
        self.correct_all(|row| row.stack == stack);
        let source = match self.stacks.get(&stack) {
            Some(stack) if purpose != Purpose::RollBack => source.and_then(|source| {
                let source = source.of_stack(&stack.name, &stack.id.to_string());
                source.map_err(|errors| errors.to_string())
            }),
            _ => source, // as an operation of its own
        };
        match (purpose, request) {
            (Purpose::RollBack, _) => {}
            (Purpose::TakeUp, _) => return self.taken_up(stack, traversal, source),
            (Purpose::Check, request) => {
                let answer = self.check_loaded(stack, traversal, source);
                return request.into_iter().for_each(|request| self.answer(request, answer.clone()));
            }
        }
        if request.is_none() && self.stacks.get(&stack).is_some_and(|stack| stack.status != Status::Failed) {
            return; // what had failed has ended well meanwhile
        }
        let current = self.stacks.get(&stack).map(|stack| (stack.is_being_deleted(), stack.traversal));
        let result = match (current, source) {
            (current, _) if request.is_none() && current.is_none_or(|(_, now)| now != traversal) => return,
            (None | Some((true, _)), _) => Err(Refusal::Conflict("the stack is being deleted".into())),
            (Some(_), Err(why)) => {
                Err(Refusal::NotFound(format!("revision {revision} cannot be loaded: {why}")))
            }
            (Some(_), Ok(source)) => {
                let failures = self.stacks[&stack].failures.clone();
                let begun = self.roll_back_to(stack, revision, source, request.is_some());
                if begun.is_ok() && request.is_none() {
                    self.keep_failures(stack, failures);
                }
                begun
            }
        };
        match (request, result) {
            (Some(id), answer) => self.answer(id, answer),
            (None, Ok(_)) => {}
            (None, Err(refusal)) => {
                self.owe_no_rollback(stack);
                self.end_failed(stack, format!("rollback failed: {refusal}"));
            }
        }
    }

    /// It could not be made, or is not wanted any more.
    pub(crate) fn owe_no_rollback(&mut self, id: u64) {
        if let Some(stack) = self.stacks.get_mut(&id)
            && std::mem::take(&mut stack.rollback)
        {
            self.stack_changed(id);
        }
    }

    fn roll_back_to(
        &mut self,
        id: u64,
        revision: u32,
        source: Source,
        is_wish: bool,
    ) -> Result<Answer, Refusal> {
        let stack = &self.stacks[&id];
        let timeout = Duration::from_secs(stack.timeout_s);
        // Where there was no room for both on the way there, there is none on the way back.
        let options = Options { timeout, delete_first: stack.delete_first, ..Options::default() };
        let target = Target { action: StackAction::Rollback, revision: Some(revision), options, is_wish };
        self.begin(id, source, target)
    }

    /// What to say of a name that no stack has.
    pub fn no_stack(&self, name: &StackName) -> Refusal {
        let near = suggestion(name.as_str(), self.stacks.names().map(StackName::as_str));
        Refusal::NotFound(format!("no stack '{name}'{near}"))
    }

    pub(crate) fn find(&self, name: &StackName) -> Result<u64, Refusal> {
        self.stacks.id_of(name).ok_or_else(|| self.no_stack(name))
    }

    pub(crate) fn changeable(&self, name: &StackName) -> Result<u64, Refusal> {
        let id = self.find(name)?;
        if self.stacks[&id].is_being_deleted() {
            return Err(Refusal::Conflict(format!(
                "stack '{name}' is being deleted: wait until it is gone, or stop that with 'muster stack cancel {name}'"
            )));
        }
        Ok(id)
    }

    pub(crate) fn begun(&self, id: u64, warnings: Vec<String>) -> Answer {
        let stack = &self.stacks[&id];
        Answer::Stack {
            name: stack.name.clone(),
            id,
            traversal: stack.traversal,
            revision: stack.revision,
            warnings,
        }
    }

    /// Checks everything that can be known now, then begins the traversal. A refusal has changed nothing.
    fn begin(&mut self, id: u64, source: Source, target: Target) -> Result<Answer, Refusal> {
        let stack = &self.stacks[&id];
        let source = source
            .of_stack(&stack.name, &stack.id.to_string())
            .map_err(|errors| Refusal::Invalid(errors.to_string()))?;
        let number = stack.revision + u32::from(target.action != StackAction::Delete);
        let ends = takes_the_place_of(stack, target.action);
        let mut planned = self.planned(stack, &source, target.revision, &target.options)?;
        // It is not refused: what is held of the stack is decided, and compared.
        if target.is_wish && self.wish(id) {
            planned = self.planned(&self.stacks[&id], &source, target.revision, &target.options)?;
        }
        let Planned { tree, plan, mut warnings } = planned;
        warnings.splice(0..0, ends);
        let Source { policies, text, .. } = source;
        if target.action != StackAction::Delete {
            self.change(Change::Revision(RevisionRecord {
                stack: id,
                number,
                made_by: made_by(&target),
                text,
            }));
            let kept = self.limits.revisions_kept;
            if number > kept {
                // What a rollback without --to leads to stays, however many fail after it.
                let but = self.stacks[&id].complete.iter().take(2).copied().collect();
                self.change(Change::RevisionsTrimmed { stack: id, below: number - kept + 1, but });
            }
        }
        let stack = &self.stacks[&id];
        let ended = stack.status == Status::Complete;
        let steady = plan.same_rows && ended && stack.walk.is_none();
        self.enter(id, number, &target);
        self.forget_fights(id);
        if target.action != StackAction::Delete
            && let Some(stack) = self.stacks.get_mut(&id)
        {
            stack.policies = policies;
        }
        self.lay_out(id, plan, Before { steady, anew: false, fits: false, ended }, tree);
        self.watch(id);
        self.event(id, None);
        self.agenda.push_back(Todo::CheckEnd(id));
        Ok(self.begun(id, warnings))
    }

    fn enter(&mut self, id: u64, number: u32, target: &Target) {
        let traversal = self.ids.traversal();
        self.leave_walk(id);
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        stack.action = target.action;
        stack.status = Status::InProgress;
        stack.reason = match (target.action, target.revision) {
            (StackAction::Rollback, Some(0)) => "rolling back to nothing".into(),
            (StackAction::Rollback, Some(to)) => format!("rolling back to revision {to}"),
            _ => String::new(),
        };
        stack.revision = number;
        stack.traversal = traversal;
        stack.timeout_s = target.options.timeout.as_secs();
        stack.rollback = target.options.rollback;
        (stack.delete_first, stack.converge) = (target.options.delete_first, target.options.converge);
        stack.returns = target.action == StackAction::Rollback
            && target.revision.is_none_or(|to| to == 0 || stack.complete.contains(&to));
        (stack.cancelled, stack.timed_out) = (false, false);
        stack.unclean.clear();
        (stack.failures, stack.failures_before) = (Vec::new(), 0);
        self.stack_changed(id);
    }

    /// The traversal that ran until now releases nothing more.
    pub(crate) fn leave_walk(&mut self, id: u64) {
        self.watch_no_more(id);
        self.end_checks(id);
        self.leave_rollouts(id);
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        let traversal = stack.traversal;
        let Some(walk) = stack.walk.take() else { return };
        if let Some(due) = walk.timeout {
            self.timers.clear(due, TimerKey::Stack(id, traversal));
        }
        self.effect(Effect::Discard(walk.tree));
        self.fit_if_owed(id);
    }
}

/// What an operation ends that is in progress.
fn takes_the_place_of(stack: &Stack, action: StackAction) -> Option<String> {
    let is_another = action != StackAction::Create && stack.status == Status::InProgress;
    is_another.then(|| {
        format!(
            "this {} takes the place of the {} in progress: jobs that have begun run to their end, no others begin",
            action.as_str(),
            stack.action.as_str()
        )
    })
}

/// As `stack revisions` shows it.
fn made_by(target: &Target) -> String {
    match (target.action, target.revision) {
        (StackAction::Rollback, Some(to)) => format!("{} to {to}", target.action.as_str()),
        (action, _) => action.as_str().into(),
    }
}
