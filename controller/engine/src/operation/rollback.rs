//! Decides which revision a rollback goes to, whether an operator asks for it or it follows a failure.
//!
//! Absent: what makes a revision a good one (`traversal/stage_end.rs`), the operation that restores it
//! (`operation.rs`), and the revision's way from the store (`operation/revision.rs`).

use muster_shared::StackName;

use crate::engine::Engine;
use crate::jobs::Jobs;
use crate::operation::revision::{Pending, Purpose};
use crate::record::{StackAction, Status};
use crate::request::{Answer, Refusal, Source};

impl Engine {
    /// Starts a rollback. Returns an answer only if no revision has to be loaded.
    pub(crate) fn rollback(
        &mut self,
        name: &StackName,
        to: Option<u32>,
        request: Option<u64>,
    ) -> Result<Option<Answer>, Refusal> {
        let id = self.traversals.jobs.changeable(name)?;
        let stack = &self.graph().stacks[&id];
        let revision = match to {
            Some(0) => None,
            Some(to) if to > stack.revision => {
                return Err(Refusal::NotFound(format!(
                    "stack '{name}' has no revision {to}: its newest is {}",
                    stack.revision
                )));
            }
            Some(to) => Some(to),
            // The status is that of the check, not of the revision.
            None if stack.action == StackAction::Check => {
                stack.complete.iter().find(|good| **good != stack.revision).copied()
            }
            None if stack.status == Status::Complete => stack.complete.get(1).copied(),
            None => stack.complete.first().copied(),
        };
        // Each rollback that is pending keeps a whole revision in memory: an operator has one at a time.
        let is_asked = |pending: &Pending| pending.purpose == Purpose::RollBack && pending.request.is_some();
        if request.is_some() && self.graph().stacks.pending_of(id).any(is_asked) {
            return Err(Refusal::Conflict(format!(
                "a rollback of stack '{name}' begins already: wait until its revision is read"
            )));
        }
        match revision {
            Some(revision) => {
                let pending = Pending {
                    stack: id,
                    traversal: stack.traversal,
                    revision,
                    request,
                    purpose: Purpose::RollBack,
                    actor: self.graph().ctx.actor.clone(),
                };
                self.graph_mut().load_revision(name.clone(), revision, pending);
                Ok(None)
            }
            // An operator must name the empty revision if any revision was COMPLETE.
            None if to.is_none() && !stack.complete.is_empty() => Err(Refusal::Conflict(format!(
                "stack '{name}' has no good revision before {}: 'muster stack rollback {name} --to 0' empties it, \
                 'muster stack delete {name}' removes it",
                stack.revision
            ))),
            None => self.roll_back_to(id, 0, Source::nothing(), request.is_some()).map(Some),
        }
    }

    /// Starts the rollback that follows a failure, if the operator asked for one. It stays owed
    /// until it has started, also over a restart.
    pub(crate) fn roll_back_if_owed(&mut self, id: u64) {
        let Some(stack) = self.graph().stacks.get(&id) else { return };
        let begins = |pending: &Pending| pending.traversal == stack.traversal;
        if !stack.rollback || stack.status != Status::Failed || self.graph().stacks.pending_of(id).any(begins)
        {
            return;
        }
        let (name, traversal) = (stack.name.clone(), stack.traversal);
        let revision = stack.complete.first().copied();
        let pending = Pending {
            stack: id,
            traversal,
            revision: revision.unwrap_or(0),
            request: None,
            purpose: Purpose::RollBack,
            actor: None,
        };
        match revision {
            Some(revision) => self.graph_mut().load_revision(name, revision, pending),
            None => {
                self.graph_mut().stacks.wait(0, pending);
                self.revision_loaded(0, Ok(Source::nothing()));
            }
        }
    }
}

impl Jobs {
    /// Drops the rollback that would follow a failure, because it could not be made or is no longer wanted.
    pub(crate) fn owe_no_rollback(&mut self, id: u64) {
        if let Some(stack) = self.graph.stacks.get_mut(&id)
            && std::mem::take(&mut stack.rollback)
        {
            self.graph.stack_changed(id);
        }
    }
}
