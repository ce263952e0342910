//! Starts operations on stacks: create, update, delete and roll back. A newer operation takes the place of the one in
//! progress. `drift/check.rs` starts a check, `operation/cancel.rs` cancels, and `operation/rollback.rs` rolls back
//! after a failure.
//!
//! Absent: the checks before an operation starts (`operation/acceptance.rs`), and which jobs of the operation
//! before are withdrawn (`traversal/derive.rs`, `traversal/visit.rs`).

pub(crate) mod acceptance;
pub(crate) mod audit_difference;
pub(crate) mod cancel;
pub(crate) mod preview;
pub(crate) mod revision;
pub(crate) mod rollback;

use std::time::Duration;

use muster_shared::StackName;

use crate::elapsed::Elapsed;
use crate::engine::Engine;
use crate::jobs::Jobs;
use crate::operation::acceptance::Planned;
use crate::record::{Change, RevisionRecord, StackAction, Status};
use crate::request::{Answer, Options, Refusal, Source};
use crate::stack::Stack;
use crate::traversal::derive::{Kept, Occasion};
use crate::traversal::layout::LayoutContext;

/// Bound on the stacks of a site.
const STACKS_MAX: usize = 100_000;

/// The target of an operation.
struct Target {
    action: StackAction,
    /// The revision to restore, in a rollback.
    revision: Option<u32>,
    options: Options,
    /// An operator asked for the operation.
    is_wish: bool,
}

impl Engine {
    pub(crate) fn create(
        &mut self,
        name: StackName,
        source: Source,
        options: Options,
    ) -> Result<Answer, Refusal> {
        if self.graph().stacks.id_of(&name).is_some() {
            return Err(Refusal::Conflict(format!(
                "stack '{name}' exists already: update it with 'muster stack update {name}', or choose another name"
            )));
        }
        if self.graph().stacks.len() >= STACKS_MAX {
            return Err(Refusal::Conflict(format!("the site has {STACKS_MAX} stacks, which is its limit")));
        }
        let mut stack = Stack::new(self.graph().ctx.ids.next_stack(), name.clone());
        stack.scope = options.scope.clone();
        let id = stack.id;
        self.graph_mut().stacks.insert(id, stack);
        let target = Target { action: StackAction::Create, revision: None, options, is_wish: true };
        let begun = self.begin(id, source, target);
        match begun {
            Ok(_) => {
                self.graph_mut().ctx.ids.keep_stack();
                self.graph_mut().stacks.name(id);
            }
            Err(_) => {
                self.graph_mut().stacks.remove(&id);
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
        let id = self.traversals.jobs.changeable(name)?;
        self.graph().stacks[&id].is_at(options.revision)?;
        let options = Options { revision: None, ..options };
        self.traversals.jobs.no_paused_rollout(id)?;
        let target = Target { action: StackAction::Update, revision: None, options, is_wish: true };
        self.begin(id, source, target)
    }

    pub(crate) fn delete(&mut self, name: &StackName) -> Result<Answer, Refusal> {
        let id = self.graph().find(name)?;
        let stack = &self.graph().stacks[&id];
        if stack.is_being_deleted() {
            return Ok(self.graph().begun(id, Vec::new()));
        }
        let timeout = Duration::from_secs(stack.timeout_s);
        let options = Options { timeout, ..Options::default() };
        let target = Target { action: StackAction::Delete, revision: None, options, is_wish: true };
        self.begin(id, Source::nothing(), target)
    }

    pub(crate) fn roll_back_to(
        &mut self,
        id: u64,
        revision: u32,
        source: Source,
        is_wish: bool,
    ) -> Result<Answer, Refusal> {
        let stack = &self.graph().stacks[&id];
        let timeout = Duration::from_secs(stack.timeout_s);
        // A stack that needed room on the way forward needs it on the way back.
        let options = Options { timeout, delete_first: stack.delete_first, ..Options::default() };
        let target = Target { action: StackAction::Rollback, revision: Some(revision), options, is_wish };
        self.begin(id, source, target)
    }

    /// Checks everything that can be known now, then starts the traversal. A refusal has changed nothing.
    fn begin(&mut self, id: u64, source: Source, target: Target) -> Result<Answer, Refusal> {
        let stack = &self.graph().stacks[&id];
        let source = source
            .of_stack(&stack.name, &stack.id.to_string())
            .map_err(|errors| Refusal::Invalid(errors.to_string()))?;
        let number = stack.revision + u32::from(target.action != StackAction::Delete);
        let ends = takes_the_place_of(stack, target.action);
        let mut planned = self.view().planned(stack, &source, target.revision, &target.options)?;
        // The operation is accepted, so it decides about held things of the stack. They are
        // compared in a new plan.
        if target.is_wish && self.traversals.wish(id) {
            planned =
                self.view().planned(&self.graph().stacks[&id], &source, target.revision, &target.options)?;
        }
        let Planned { tree, plan, mut warnings } = planned;
        let changes = plan.difference(&self.graph().rows, &tree);
        warnings.splice(0..0, ends);
        let Source { policies, text, .. } = source;
        if target.action != StackAction::Delete {
            self.graph_mut().ctx.change(Change::Revision(RevisionRecord {
                stack: id,
                number,
                made_by: made_by(&target),
                text,
            }));
            let kept = self.graph().ctx.limits.revisions_kept;
            if number > kept {
                // The revisions that a rollback without --to leads to stay, however many fail after
                // them.
                let but = self.graph().stacks[&id].complete.iter().take(2).copied().collect();
                self.graph_mut().ctx.change(Change::RevisionsTrimmed {
                    stack: id,
                    below: number - kept + 1,
                    but,
                });
            }
        }
        let stack = &self.graph().stacks[&id];
        let ended = stack.status == Status::Complete;
        let steady = plan.same_rows && ended && stack.walk.is_none();
        // A start would have to know which revision a rollback returns to, and how far a first
        // stage is.
        let enters = target.action != StackAction::Rollback
            && !target.options.delete_first
            && self.graph().is_large(&plan);
        self.traversals.jobs.enter(id, number, &target);
        if enters {
            self.graph_mut().begin_entering(id);
        }
        self.traversals.jobs.forget_breakers(id);
        if target.action != StackAction::Delete
            && let Some(stack) = self.graph_mut().stacks.get_mut(&id)
        {
            stack.policies = policies;
        }
        self.traversals.lay_out(id, &plan, LayoutContext { steady, anew: false, ended }, &tree);
        self.traversals.derive(id, tree, Some(plan.needed_by), Occasion::Begun, Kept::nothing());
        self.graph_mut().event(id, None);
        let mut begun = self.graph().begun(id, warnings);
        if let Answer::Stack { difference, .. } = &mut begun {
            *difference = changes;
        }
        Ok(begun)
    }
}

impl Stack {
    /// Whether an update of this revision may begin; of any, if it is `None`.
    pub(crate) fn is_at(&self, revision: Option<u32>) -> Result<(), Refusal> {
        match revision {
            Some(wanted) if wanted != self.revision => Err(Refusal::Conflict(format!(
                "stack '{}' is at revision {}, not {wanted}: look again",
                self.name, self.revision
            ))),
            Some(_) | None => Ok(()),
        }
    }
}

impl Jobs {
    pub(crate) fn changeable(&self, name: &StackName) -> Result<u64, Refusal> {
        let id = self.graph.find(name)?;
        if self.graph.stacks[&id].is_being_deleted() {
            return Err(Refusal::Conflict(format!(
                "stack '{name}' is being deleted: wait until it is gone, or stop that with 'muster stack cancel {name}'"
            )));
        }
        Ok(id)
    }

    fn enter(&mut self, id: u64, number: u32, target: &Target) {
        let (traversal, now) = (self.graph.ctx.ids.traversal(), self.graph.ctx.now);
        self.leave_walk(id);
        let Some(stack) = self.graph.stacks.get_mut(&id) else { return };
        stack.action = target.action;
        stack.status = Status::InProgress;
        stack.reason = match (target.action, target.revision) {
            (StackAction::Rollback, Some(0)) => "rolling back to nothing".into(),
            (StackAction::Rollback, Some(to)) => format!("rolling back to revision {to}"),
            _ => String::new(),
        };
        stack.revision = number;
        stack.traversal = traversal;
        (stack.timeout_s, stack.runs) = (target.options.timeout.as_secs(), Elapsed::starting(now));
        stack.rollback = target.options.rollback;
        let Options { delete_first, converge, adopt, .. } = target.options;
        (stack.delete_first, stack.converge, stack.adopt) = (delete_first, converge, adopt);
        stack.returns = target.action == StackAction::Rollback
            && target.revision.is_none_or(|to| to == 0 || stack.complete.contains(&to));
        (stack.cancelled, stack.timed_out) = (false, false);
        stack.unclean.clear();
        (stack.failures, stack.failures_before) = (Vec::new(), 0);
        self.graph.stack_changed(id);
    }
}

/// A warning if the operation replaces one in progress.
fn takes_the_place_of(stack: &Stack, action: StackAction) -> Option<String> {
    let is_another = action != StackAction::Create && stack.status == Status::InProgress;
    is_another.then(|| {
        format!(
            "this {} takes the place of the {} in progress: jobs that have started run to their end, no others start",
            action.as_str(),
            stack.action.as_str()
        )
    })
}

/// The text that `stack revisions` shows.
fn made_by(target: &Target) -> String {
    match (target.action, target.revision) {
        (StackAction::Rollback, Some(to)) => format!("{} to {to}", target.action.as_str()),
        (action, _) => action.as_str().into(),
    }
}
