//! Revisions that the engine reads from the store, and the operations that wait for them.
//!
//! Absent: which revision a rollback goes to (`operation/rollback.rs`), and how many are kept (`operation.rs`).

use std::sync::Arc;

use muster_shared::StackName;

use crate::engine::{Effect, Engine};
use crate::graph::Graph;
use crate::record::Status;
use crate::request::{Refusal, Source};

/// An operation that waits for a revision.
pub(crate) struct Pending {
    pub stack: u64,
    /// The traversal at the time of the decision, which is dropped if there is a newer one.
    pub traversal: u64,
    pub revision: u32,
    /// The operator's request. `None`: the engine decided.
    pub request: Option<u64>,
    pub purpose: Purpose,
    /// The actor of the request.
    pub actor: Option<Arc<str>>,
}

/// The purpose of a loaded revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Restore its content.
    RollBack,
    /// Walk the current revision again.
    TakeUp,
    /// Compare things with the current revision.
    Check,
}

impl Graph {
    pub(crate) fn load_revision(&mut self, stack: StackName, revision: u32, pending: Pending) {
        let load = self.ctx.ids.load();
        self.stacks.wait(load, pending);
        self.ctx.effect(Effect::LoadRevision { load, stack, revision });
    }
}

impl Engine {
    pub(crate) fn revision_loaded(&mut self, load: u64, source: Result<Source, String>) {
        let Some(pending) = self.graph_mut().stacks.take_pending(load) else { return };
        let Pending { stack, traversal, revision, request, purpose, actor } = pending;
        self.graph_mut().ctx.actor = actor;
        // The operation that held corrections back may not start.
        self.traversals.jobs.correct_all(|row| row.stack == stack);
        let source = match self.graph().stacks.get(&stack) {
            Some(stack) if purpose != Purpose::RollBack => source.and_then(|source| {
                let source = source.of_stack(&stack.name, &stack.id.to_string());
                source.map_err(|errors| errors.to_string())
            }),
            _ => source, // as an operation of its own
        };
        match (purpose, request) {
            (Purpose::RollBack, _) => {}
            (Purpose::TakeUp, _) => return self.traversals.taken_up(stack, traversal, source),
            (Purpose::Check, request) => {
                let answer = self.traversals.jobs.check_loaded(stack, traversal, source);
                return request
                    .into_iter()
                    .for_each(|request| self.graph_mut().answer(request, answer.clone()));
            }
        }
        if request.is_none()
            && self.graph().stacks.get(&stack).is_some_and(|stack| stack.status != Status::Failed)
        {
            return; // a late success ended the failure
        }
        let current =
            self.graph().stacks.get(&stack).map(|stack| (stack.is_being_deleted(), stack.traversal));
        let result = match (current, source) {
            (current, _) if request.is_none() && current.is_none_or(|(_, now)| now != traversal) => return,
            (None | Some((true, _)), _) => Err(Refusal::Conflict("the stack is being deleted".into())),
            (Some((_, now)), _) if now != traversal => Err(Refusal::Conflict(format!(
                "another operation began before revision {revision} was read: look at the stack, and roll back again"
            ))),
            (Some(_), Err(why)) => {
                Err(Refusal::NotFound(format!("revision {revision} cannot be loaded: {why}")))
            }
            (Some(_), Ok(source)) => {
                let failures = self.graph().stacks[&stack].failures.clone();
                let begun = self.roll_back_to(stack, revision, source, request.is_some());
                if begun.is_ok() && request.is_none() {
                    self.graph_mut().keep_failures(stack, failures);
                }
                begun
            }
        };
        match (request, result) {
            (Some(id), answer) => self.graph_mut().answer(id, answer),
            (None, Ok(_)) => {}
            (None, Err(refusal)) => {
                self.traversals.jobs.owe_no_rollback(stack);
                self.traversals.jobs.end_failed(stack, format!("rollback failed: {refusal}"));
            }
        }
    }
}
