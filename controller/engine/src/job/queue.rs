//! The job of a row while it has not ended: its state and deadline, its place in the node's line,
//! and the counts.
//!
//! Absent: what follows when the deadline is over (`Jobs::task_due`, `job/timer.rs`), and which job of a
//! line is sent next (`Jobs::pump`, `job.rs`).

use std::collections::BTreeSet;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::Spec;

use crate::context::Context;
use crate::graph::Graph;
use crate::job::end_counts::JobEnd;
use crate::jobs::Jobs;
use crate::node::NodeKey;
use crate::row::{Slot, TaskState};
use crate::timer::TimerKey;
use crate::todo::Todo;

/// Stale places allowed in a node's line, beyond two for each of its rows.
const PLACES_SPARE: usize = 64;

impl Graph {
    pub(crate) fn set_task(&mut self, slot: Slot, state: TaskState) {
        let now = self.ctx.now;
        let row = &mut self.rows[slot];
        if row.set_task_state(state, now) {
            let stack = row.stack;
            self.touch(stack);
        }
    }

    pub(crate) fn set_due(&mut self, slot: Slot, due: Option<MonoTime>) {
        let Some(old) = self.rows[slot].set_task_due(due) else { return };
        if let Some(old) = old {
            self.ctx.timers.clear(old, TimerKey::Task(slot));
        }
        if let Some(due) = due {
            self.ctx.timers.set(due, TimerKey::Task(slot));
        }
    }
}

impl Jobs {
    /// Takes a job that ends out of all queues and counts. Returns whether there is one. The caller writes into the row
    /// what its end leaves.
    pub(crate) fn leave_queues(&mut self, slot: Slot, end: JobEnd) -> bool {
        self.graph.set_due(slot, None);
        let row = &self.graph.rows[slot];
        if row.task().is_none() {
            return false;
        }
        self.ends.count(end);
        let (stack_id, node) = (row.stack, row.node);
        if let Some(stack) = self.graph.stacks.get_mut(&stack_id) {
            stack.working.remove(&slot);
        }
        if let Some(node) = node {
            self.leave_flight(slot, node);
        }
        // The row may need another correction or a restart.
        if self.unsettled.counted().contains(&slot) || self.unsettled.owed().contains(&slot) {
            self.graph.ctx.agenda.push_back(Todo::Correct(slot));
        }
        self.graph.ctx.agenda.push_back(Todo::CheckEnd(stack_id));
        true
    }

    /// Whether the row's job waits in the node's line. A place stays in line after its job was withdrawn.
    pub(crate) fn waits_in_line(&self, slot: Slot, node: NodeKey) -> bool {
        self.graph.rows.get(slot).is_some_and(|row| {
            let state = row.task().map(|task| task.state);
            row.node == Some(node) && matches!(state, Some(TaskState::Queued | TaskState::NodeAway))
        })
    }

    pub(crate) fn line_up(&mut self, slot: Slot, node: NodeKey) {
        let lost = self.graph.rows[slot].is_lost();
        let node_at = &mut self.graph.nodes[node];
        if lost {
            node_at.lost.queue.push_back(slot)
        } else {
            node_at.queue.push_back(slot)
        };
        self.close_ranks(node);
        self.graph.ctx.agenda.push_back(Todo::Pump(node));
    }

    /// Drops places of withdrawn jobs from the line of a node that is away, so that a year of
    /// operations does not make it long.
    fn close_ranks(&mut self, node: NodeKey) {
        let places = self.graph.nodes[node].queue.len();
        if places <= 2 * self.graph.nodes[node].rows.len() + PLACES_SPARE {
            return;
        }
        let mut queue = std::mem::take(&mut self.graph.nodes[node].queue);
        let mut seen = BTreeSet::new();
        queue.retain(|slot| self.waits_in_line(*slot, node) && seen.insert(*slot));
        self.graph.nodes[node].queue = queue;
    }

    /// Sets the state of a job that waits in line. A job that waits for a retry or for another node
    /// stays as it is.
    pub(crate) fn set_task_if_waiting(&mut self, slot: Slot, node: NodeKey, state: TaskState) {
        if self.waits_in_line(slot, node) {
            self.graph.set_task(slot, state);
        }
    }
}

impl Context {
    /// Time that an agent has for a job.
    pub(crate) fn job_timeout(&self, spec: &Spec) -> Duration {
        self.limits.job_timeout + spec.own_time()
    }
}
