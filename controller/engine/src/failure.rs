//! Failures of a stack's operation with all their causes, and the events of failed, withdrawn and
//! retried jobs. Failures are kept until the next operation starts. An automatic rollback leaves
//! them in place.
//!
//! Absent: when a job is tried again or has failed (`row/outcome.rs`), and what a failed row leads to
//! (`traversal/readiness.rs`).

use muster_shared::model::Action;

use crate::graph::Graph;
use crate::record::{Status, action_str};
use crate::row::Slot;
use crate::view::FailureView;

/// Failures kept of one operation. More would not be read one by one.
const FAILURES_MAX: usize = 1000;

impl Graph {
    /// Adds the cause of a failed attempt.
    pub(crate) fn add_cause(&mut self, slot: Slot, reason: &str) {
        self.rows[slot].add_cause(reason);
    }

    /// Writes the event that an attempt failed and will be retried.
    pub(crate) fn tell_of_attempt(&mut self, slot: Slot, reason: &str, again_s: u64) {
        let row = &self.rows[slot];
        let state = (action_str(row.action()), Status::InProgress.as_str());
        let attempt = row.attempt + 1;
        self.row_event(
            slot,
            state,
            format!("attempt {attempt} failed, tried again in {again_s} s: {reason}"),
        );
    }

    /// Writes the event that a job was withdrawn. `when` says how far the job was.
    pub(crate) fn tell_withdrawn(&mut self, slot: Slot, action: Option<Action>, when: &str) {
        let stack = self.stacks.get(&self.rows[slot].stack);
        let why = match stack.is_some_and(|stack| stack.cancelled) {
            true => "the operation was cancelled",
            false => "something else is wanted of it now",
        };
        self.tell_ended(slot, action, when, why);
    }

    /// Writes the event that a job ended without success for the reason `why`.
    pub(crate) fn tell_ended(&mut self, slot: Slot, action: Option<Action>, when: &str, why: &str) {
        let action = action_str(action);
        let reason = format!("{action} was withdrawn {when}: {why}");
        self.row_event(slot, (action, Status::Failed.as_str()), reason);
    }

    /// Adds the failure of a resource.
    pub(crate) fn add_failure(&mut self, slot: Slot) {
        let row = &self.rows[slot];
        let Some(stack) = self.stacks.get(&row.stack) else { return };
        let reason = row.reason().unwrap_or_default().to_owned();
        let mut causes: Vec<String> = row.details().causes.iter().map(ToString::to_string).collect();
        if causes.last() != Some(&reason) {
            causes.push(reason.clone());
        }
        let failure = FailureView {
            resource: row.name.to_string(),
            physical_id: row.shown_id(),
            kind: row.type_name().into(),
            node: row.node.map(|key| self.nodes[key].name.to_string()).unwrap_or_default(),
            action: action_str(row.action()).into(),
            reason,
            causes,
        };
        let (id, before) = (row.stack, stack.failures_before);
        let known =
            stack.failures[before..].iter().position(|known| known.physical_id == failure.physical_id);
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        match known {
            Some(at) => stack.failures[before + at] = failure,
            None if stack.failures.len() < FAILURES_MAX => stack.failures.push(failure),
            None => return,
        }
        self.stack_changed(id);
    }

    /// Drops the failure of a resource that recovered.
    pub(crate) fn mended(&mut self, slot: Slot) {
        let row = &mut self.rows[slot];
        row.clear_causes();
        let (id, physical) = (row.stack, row.shown_id());
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        let before = stack.failures_before;
        if stack.failures.len() == before {
            return;
        }
        let found = stack.failures[before..].iter().position(|failure| failure.physical_id == physical);
        if let Some(at) = found {
            stack.failures.remove(before + at);
            self.stack_changed(id);
        }
    }

    /// An automatic rollback keeps the failures of the operation before it.
    pub(crate) fn keep_failures(&mut self, id: u64, failures: Vec<FailureView>) {
        if let Some(stack) = self.stacks.get_mut(&id) {
            stack.failures_before = failures.len();
            stack.failures = failures;
        }
    }

    /// Counts the row as failed in the traversal.
    pub(crate) fn count_failed(&mut self, slot: Slot) {
        let row = &mut self.rows[slot];
        let walk = self.stacks.get_mut(&row.stack).and_then(|stack| stack.walk.as_mut());
        if let Some(walk) = walk
            && !row.set_failed(true)
        {
            walk.row_failed();
        }
    }

    /// Takes the row out of the failed ones of the traversal.
    pub(crate) fn not_failed(&mut self, slot: Slot) {
        let row = &mut self.rows[slot];
        if row.set_failed(false)
            && let Some(walk) = self.stacks.get_mut(&row.stack).and_then(|stack| stack.walk.as_mut())
        {
            walk.row_goes_on();
        }
    }
}
