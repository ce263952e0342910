//! Decides when a stage of a traversal has ended, and whether the stack is COMPLETE or
//! FAILED, and computes its outputs then. A traversal is the walk over a stack's graph.
//!
//! ```text
//!   (First ▶) Forward ── all ready ──▶ Cleanup ── all gone ──▶ COMPLETE (or, for DELETE, no stack)
//!                └── nothing can go on ────┴─────────────▶ FAILED, or rolled back
//! ```
//!
//! Absent: the visit of a row, which makes a job or finds nothing to do (`traversal/visit.rs`), the
//! counts of the walk (`traversal/walk.rs`), and an operation that times out (`traversal/timeout.rs`).

use serde_json::Value;

use crate::record::{StackAction, Status};
use crate::row::Role;
use crate::row::attribute::Rendered;
use crate::stack::Stack;
use crate::traversal::timeout::had_its_time;
use crate::traversal::walk::{Stage, Walk};
use crate::traversals::Traversals;
use crate::view::OutputView;

/// Failures that a stack's reason names. Each failed resource has a reason of its own.
const TOLD: usize = 3;

impl Traversals {
    pub(crate) fn check_end(&mut self, id: u64) {
        let goes_on = |stack: &&mut Stack| !stack.cancelled && !stack.waits_for_visits();
        let Some(stack) = self.jobs.graph.stacks.get_mut(&id).filter(goes_on) else { return };
        let Some(walk) = &mut stack.walk else { return };
        let rests = stack.working.is_empty() && stack.waiting.is_empty() && walk.at_hooks.is_empty();
        match walk.stage {
            Stage::Check => self.jobs.end_of_check(id),
            Stage::First if walk.failed() == 0 => self.jobs.end_first(id),
            Stage::Forward if walk.is_forward_done() && !stack.extras.is_empty() => {
                walk.enter_cleanup(self.jobs.graph.ctx.now);
                self.jobs.begin_cleanup(id);
            }
            Stage::Forward | Stage::Cleanup if walk.is_forward_done() && stack.extras.is_empty() => {
                self.complete(id);
            }
            Stage::First | Stage::Forward | Stage::Cleanup => {
                if rests && walk.failed() > 0 && walk.end() {
                    self.stuck(id);
                }
            }
        }
    }

    pub(crate) fn complete(&mut self, id: u64) {
        let outputs = self.outputs(&self.jobs.graph.stacks[&id]);
        let Some(stack) = self.jobs.graph.stacks.get_mut(&id) else { return };
        if let Some(walk) = &stack.walk {
            stack.hidden.complete(walk.tree.secrets());
        }
        for index in stack.walk.as_ref().map(Walk::visits).unwrap_or_default() {
            let row = &mut self.jobs.graph.rows[stack.forward[*index as usize]];
            row.rest();
            row.forget_changed(false);
        }
        self.jobs.prove_sets(id);
        self.jobs.leave_walk(id);
        let Some(stack) = self.jobs.graph.stacks.get_mut(&id) else { return };
        stack.status = Status::Complete;
        stack.reason = String::new();
        stack.outputs = outputs;
        stack.queue.shrink_to_fit(); // a job that restores a thing its agent lost may still wait
        // A revision that was walked again is the first already.
        if stack.complete.first() != Some(&stack.revision) {
            stack.complete.insert(0, stack.revision);
        }
        stack.complete.truncate(self.jobs.graph.ctx.limits.complete_kept);
        if stack.action == StackAction::Delete {
            let (name, traversal) = (stack.name.clone(), stack.traversal);
            self.jobs.graph.event(id, None);
            self.jobs.graph.stacks.remove(&id);
            self.jobs.graph.stack_removed(id, name, traversal);
            return;
        }
        self.jobs.graph.stack_changed(id);
        self.jobs.graph.event(id, None);
        self.jobs.correct_all(|row| row.stack == id);
    }

    pub(crate) fn stuck(&mut self, id: u64) {
        let mut reason = self.why_stuck(id);
        if let Some(stack) = self.jobs.graph.stacks.get(&id).filter(|stack| stack.timed_out) {
            reason = format!("{}; {reason}", had_its_time(stack));
        }
        self.jobs.end_failed(id, reason);
    }

    pub(crate) fn outputs(&self, stack: &Stack) -> Vec<OutputView> {
        let Some(walk) = &stack.walk else { return Vec::new() };
        let references = Rendered { graph: &self.jobs.graph, stack };
        let render = |(index, output): (usize, &muster_template::Output)| {
            let (value, error) = match walk.tree.render_output(index, &references) {
                Ok(value) => (stack.masked(&walk.tree, value), String::new()),
                // The error may quote a hidden value.
                Err(error) => (Value::Null, stack.without_hidden(&walk.tree, &error.to_string())),
            };
            OutputView {
                key: output.key.to_string(),
                description: output.description.as_deref().unwrap_or_default().to_owned(),
                value,
                output_error: error,
            }
        };
        walk.tree.outputs().iter().enumerate().map(render).collect()
    }

    /// The reason why no row can go on: `3 resources failed: a: …; b: …; c: …`.
    pub(crate) fn why_stuck(&self, id: u64) -> String {
        let Some(stack) = self.jobs.graph.stacks.get(&id) else { return String::new() };
        let rows = stack.forward.iter().chain(&stack.extras).map(|slot| &self.jobs.graph.rows[*slot]);
        let mut failed = rows.filter(|row| row.failed && row.role != Role::Steady);
        let told: Vec<String> = failed
            .by_ref()
            .take(TOLD)
            .map(|row| {
                let away = self.jobs.is_held(row).then_some("its node was away when its turn came");
                format!("{}: {}", row.name, away.or(row.reason()).unwrap_or("failed"))
            })
            .collect();
        let more = failed.count();
        match (told.len(), more) {
            (0 | 1, _) => told.concat(),
            (n, 0) => format!("{n} resources failed: {}", told.join("; ")),
            (n, more) => format!("{} resources failed: {}; …", n + more, told.join("; ")),
        }
    }
}
