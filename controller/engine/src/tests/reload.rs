//! An engine that is loaded from its tables has the same state as the running one.
//!
//! The random tests compare both in the states that they reach, as if the controller ended there.
//! State that is not stored does not count: connections, the progress of a clean-up, rows that
//! have failed in the present operation, the claims that a row had before its job, and which of
//! several rows of a stack that handed over claims has one of them.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::flow::DeviceView;
use muster_shared::MonoTime;
use muster_template::Tree;

use super::bed::{Bed, config};
use crate::engine::{Engine, Input};
use crate::record::{ProgressRecord, ResourceRecord, StackAction, StackRecord, Status};
use crate::row::{Role, Row, Slot, TaskState};
use crate::stack::Stack;
use crate::view::View;

/// Steps of a random test from one comparison to the next.
const COMPARED_EVERY: usize = 4;

/// State that is not stored.
const NOT_STORED: &str = "not stored";

/// Texts of the engine's state, by subject.
type EngineState = BTreeMap<String, String>;

impl Bed {
    /// As [`Bed::is_loaded_as_it_is`] at some steps of a random test. All of them take several times as
    /// long as the test itself.
    pub fn is_loaded_as_it_is_at(&self, step: usize) {
        if step.is_multiple_of(COMPARED_EVERY) {
            self.is_loaded_as_it_is();
        }
    }

    /// Panics if an engine that is loaded now would have another state. States in which a start
    /// does at once what would come later are not compared.
    pub fn is_loaded_as_it_is(&self) {
        if self.enters() || self.engine.view().goes_another_way() {
            return;
        }
        let mut loaded =
            Engine::load(config(self.epoch + 1, self.limits), self.tables.loaded_at(self.now), self.now);
        loaded.handle(self.now, Input::Timeout);
        // A job that was never sent is decided on again, in slices if there are many.
        while loaded.graph().ctx.slices.has_next() {
            while loaded.poll_effect().is_some() {}
            loaded.handle(self.now, Input::Timeout);
        }
        let (runs, loaded) = (self.engine.view().known(), loaded.view().known());
        let subjects: BTreeSet<&String> = runs.keys().chain(loaded.keys()).collect();
        let differ: Vec<String> = subjects
            .into_iter()
            .map(|subject| (subject, [runs.get(subject), loaded.get(subject)]))
            .filter(|(_, [runs, loaded])| runs != loaded)
            .filter(|(_, both)| both.iter().flatten().all(|state| *state != NOT_STORED))
            .map(|(subject, [runs, loaded])| format!("{subject}: {runs:?} | {loaded:?}"))
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
                let rollout = rollout.stored(self.graph.ctx.now);
                let rollout = if self.withdraws(stack) { NOT_STORED.to_owned() } else { rollout };
                known.insert(format!("rollout {path} of {}", stack.id), rollout);
            }
        }
        for (node, claim, slot) in self.jobs.claims.all() {
            let (node, row) = (&self.graph.nodes[node].name, &self.graph.rows[slot]);
            // While a job is out, a row also keeps the claims that it had before.
            let is_wanted = row.spec().is_some_and(|spec| spec.unpack().claims().contains(claim));
            let owner = match (is_wanted, row.handed_over) {
                (true, true) => format!("a row of {} that handed over some of its claims", row.stack),
                (true, false) => row.id.to_string(),
                (false, _) => NOT_STORED.to_owned(),
            };
            known.insert(format!("claim of {claim:?} on {node}"), owner);
        }
        known.insert("addresses".to_owned(), format!("{:?}", self.traversals.addresses));
        for device in self.flows.device_views() {
            let DeviceView { added, pending_add, pending_remove, failed, expired, wrong, .. } = device;
            let root = device.device.parse().ok().and_then(|name| self.flows.root(&name));
            let table = [added, pending_add, pending_remove, failed, expired, wrong];
            known.insert(format!("table of {}", device.device), format!("{root:?} {table:?}"));
        }
        // A check that is taken up asks about all rows again.
        let checks = |stack: &Stack| stack.action == StackAction::Check && stack.status == Status::InProgress;
        let rows = self.graph.rows.slots().map(|slot| &self.graph.rows[slot]);
        for row in rows.filter(|row| !self.graph.stacks.get(&row.stack).is_some_and(checks)) {
            // A clean-up that has failed is tried again.
            let is_tried_again = row.role == Role::Cleanup && row.failed;
            for (what, shown) in shown(row) {
                let shown = if is_tried_again { NOT_STORED.to_owned() } else { shown };
                known.insert(format!("row {} {}: {what}", row.id, row.name), shown);
            }
        }
        known
    }

    /// Whether a stack has to follow its nodes, depends on something that no visit has looked at
    /// yet, or deletes first: a start determines that stage again. It also withdraws jobs that come
    /// later by now, and replaces what an operator marked while its job waits.
    fn goes_another_way(&self) -> bool {
        let rows = self.graph.rows.slots().map(|slot| &self.graph.rows[slot]);
        let mut at_work = rows.filter(|row| row.task().is_some());
        at_work.any(|row| row.details().unhealthy || self.comes_later(row))
            || self.graph.stacks.values().any(|stack| {
                let is_under_way = stack.status == Status::InProgress;
                let grows = stack.walk.as_ref().is_some_and(|walk| {
                    let grown = self.graph.grown(stack, &walk.tree, is_under_way);
                    grown.is_ok_and(|grown| !are_laid_out_alike(&grown, &walk.tree))
                });
                grows || stack.membership.waits() || is_under_way && stack.delete_first
            })
    }

    /// Whether something else of the row's stack comes first.
    fn comes_later(&self, row: &Row) -> bool {
        let walk = self.graph.stacks.get(&row.stack).and_then(|stack| stack.walk.as_ref());
        match row.role {
            Role::Cleanup => walk.is_some_and(|walk| !walk.is_forward_done()),
            Role::Forward => row.blocked > 0,
            Role::Steady => false,
        }
    }

    /// Whether an agent has been asked not to start a job of the stack. A start does not ask if the
    /// job fits by now.
    fn withdraws(&self, stack: &Stack) -> bool {
        let task = |slot: &Slot| self.graph.rows[*slot].task();
        stack
            .forward
            .iter()
            .chain(&stack.extras)
            .filter_map(task)
            .any(|task| task.state == TaskState::Withdrawing)
    }

    fn rows_of<'s>(&self, slots: impl Iterator<Item = &'s Slot>) -> String {
        let mut ids: Vec<u64> = slots.map(|slot| self.graph.rows[*slot].id).collect();
        ids.sort_unstable();
        format!("{ids:?}")
    }
}

/// Whether two trees have the same resources, with the same needs.
fn are_laid_out_alike(one: &Tree, other: &Tree) -> bool {
    let requires = |index| one.requires(index) == other.requires(index);
    one.names() == other.names() && (0..one.len()).all(requires)
}

fn shown(row: &Row) -> [(&'static str, String); 16] {
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
        ("task", format!("{:?}", row.task().map(|task| place(task.state, row.was_tried())))),
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
        ("record", record(row)),
    ]
}

/// The record of a row without a job, but for times.
fn record(row: &Row) -> String {
    if row.task().is_some() {
        return NOT_STORED.to_owned();
    }
    let record = row.record(None, MonoTime::default());
    let progress = ProgressRecord { waited: None, corrections: None, ..record.progress };
    format!("{:?}", ResourceRecord { progress, ..record })
}

/// State of a job, whether or not its node is connected.
fn place(state: TaskState, was_tried: bool) -> &'static str {
    match state {
        TaskState::NodeAway | TaskState::Queued if was_tried => "is tried again",
        TaskState::NodeAway | TaskState::Queued => "waits",
        // A withdrawn job is withdrawn again once its node is connected.
        TaskState::Sent | TaskState::Running | TaskState::Settling | TaskState::Withdrawing => "is out",
        TaskState::Backoff => "is tried again",
    }
}
