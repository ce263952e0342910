//! An engine that is loaded from its tables has the same state as the running one.
//!
//! The random tests compare both in each state that they reach, as if the controller ended there.
//! State that is not stored does not count: connections, the progress of a clean-up, and which rows
//! have failed in the present operation.

use std::collections::BTreeMap;

use super::bed::{Bed, config};
use crate::engine::{Engine, Input};
use crate::record::{StackAction, StackRecord, Status};
use crate::row::{Role, Row, Slot, TaskState};
use crate::stack::Stack;
use crate::view::View;

/// Texts of the engine's state, by subject.
type EngineState = BTreeMap<String, String>;

impl Bed {
    /// Panics if an engine that is loaded now would have another state.
    pub fn is_loaded_as_it_is(&self) {
        let mut loaded =
            Engine::load(config(self.epoch + 1, self.limits), self.tables.loaded_at(self.now), self.now);
        loaded.handle(self.now, Input::Timeout);
        // A job that was never sent is decided on again, in slices if there are many.
        while loaded.graph().ctx.slices.has_next() {
            while loaded.poll_effect().is_some() {}
            loaded.handle(self.now, Input::Timeout);
        }
        let (runs, loaded) = (self.engine.view().known(), loaded.view().known());
        let all: BTreeMap<&String, ()> = runs.keys().chain(loaded.keys()).map(|of| (of, ())).collect();
        let differ: Vec<String> = all
            .into_keys()
            .filter(|of| runs.get(*of) != loaded.get(*of))
            .map(|of| format!("{of}: {:?} | {:?}", runs.get(of), loaded.get(of)))
            .collect();
        assert!(differ.is_empty(), "what runs | what is loaded\n{}", differ.join("\n"));
    }
}

impl View<'_> {
    fn known(&self) -> EngineState {
        let mut known = EngineState::new();
        for stack in self.graph.stacks.values() {
            let id = stack.id;
            // The number of the last event may differ: a job that is decided on again writes
            // another event.
            known.insert(
                format!("stack {id}"),
                format!("{:?}", StackRecord { events: 0, ..stack.record(self.graph.ctx.now) }),
            );
            known.insert(format!("forward of {id}"), self.rows_of(stack.forward.iter()));
            known.insert(format!("extras of {id}"), self.rows_of(stack.extras.iter()));
            // A failed operation has ended, however far it was.
            let walk = stack.walk.as_ref().filter(|_| stack.status == Status::InProgress);
            known.insert(
                format!("left of {id}"),
                format!("{:?}", walk.map(crate::traversal::walk::Walk::forward_left)),
            );
        }
        for stack in self.graph.stacks.values() {
            for (path, rollout) in self.jobs.rollouts.of_stack(stack.id) {
                known.insert(format!("rollout {path} of {}", stack.id), rollout.stored(self.graph.ctx.now));
            }
        }
        for (node, claim, slot) in self.jobs.claims.all() {
            let (node, row) = (&self.graph.nodes[node].name, self.graph.rows[slot].id);
            known.insert(format!("claim of {claim:?} on {node}"), row.to_string());
        }
        known.insert("addresses".to_owned(), format!("{:?}", self.traversals.addresses));
        // A check that is taken up asks about all rows again.
        let checks = |stack: &Stack| stack.action == StackAction::Check && stack.status == Status::InProgress;
        let rows = self.graph.rows.slots().map(|slot| &self.graph.rows[slot]);
        for row in rows.filter(|row| !self.graph.stacks.get(&row.stack).is_some_and(checks)) {
            for (what, shown) in shown(row) {
                known.insert(format!("row {} {}: {what}", row.id, row.name), shown);
            }
        }
        known
    }

    fn rows_of<'s>(&self, slots: impl Iterator<Item = &'s Slot>) -> String {
        let mut ids: Vec<u64> = slots.map(|slot| self.graph.rows[*slot].id).collect();
        ids.sort_unstable();
        format!("{ids:?}")
    }
}

fn shown(row: &Row) -> [(&'static str, String); 15] {
    let role = match row.role {
        // A ready row needs nothing more from its traversal.
        Role::Forward if row.ready => Role::Steady,
        role => role,
    };
    [
        ("action", format!("{:?}", row.action())),
        ("status", format!("{:?}", row.status())),
        ("reason", format!("{:?}", row.reason())),
        ("ready", row.ready.to_string()),
        ("applied", row.is_applied().to_string()),
        ("held", format!("{:?}", row.held())),
        ("handed over", row.handed_over.to_string()),
        ("observed", format!("{:?}", row.observed())),
        ("role", format!("{role:?}")),
        ("cause", format!("{:?}", row.cause())),
        ("task", format!("{:?}", row.task().map(|task| place(task.state)))),
        ("hook", format!("{:?}", row.details().hook)),
        ("pause", format!("{:?}", row.details().pause.map(|pause| pause.of_batch))),
        (
            "breaker",
            format!(
                "{:?}",
                row.details().breaker.map(|it| (it.corrected.count, it.made_again.count, it.open))
            ),
        ),
        ("notes", format!("{:?} {:?}", row.details().notes, row.attributes)),
    ]
}

/// State of a job, whether or not its node is connected.
fn place(state: TaskState) -> &'static str {
    match state {
        TaskState::NodeAway | TaskState::Queued => "waits",
        // A withdrawn job is withdrawn again once its node is connected.
        TaskState::Sent | TaskState::Running | TaskState::Settling | TaskState::Withdrawing => "is out",
        TaskState::Backoff => "is tried again",
    }
}
