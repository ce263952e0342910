//! Jobs: queues them, and sends them as far as there is room.
//!
//! Absent: further attempts (`job/next_attempt.rs`), and jobs that are not wanted any more (`job/withdraw.rs`).

pub(crate) mod apply_outcome;
pub(crate) mod deadline;
pub(crate) mod end_counts;
pub(crate) mod fetches;
pub(crate) mod in_flight;
pub(crate) mod next_attempt;
pub(crate) mod queue;
pub(crate) mod report;
pub(crate) mod timer;
pub(crate) mod withdraw;

use std::sync::Arc;

use muster_shared::Attempt;
use muster_shared::model::{Action, Down, Job};
use muster_template::Desired;

use crate::job::deadline::ANSWER_GRACE;
use crate::jobs::Jobs;
use crate::node::NodeKey;
use crate::record::{Observation, PackedSpec};
use crate::row::cause::Cause;
use crate::row::{NewTask, Slot, TaskState};
use crate::todo::Todo;
use crate::traversal::gate::JobWait;

/// A job to queue.
pub(crate) struct NewJob {
    pub cause: Cause,
    pub node: NodeKey,
    pub action: Action,
    /// The desired state. `None`: the thing is removed, and the row keeps what was sent last.
    pub spec: Option<PackedSpec>,
    /// A large content that the spec refers to. `None` if the store has it.
    pub content: Option<Arc<[u8]>>,
}

impl NewJob {
    /// A job that removes the row's thing; `action` is [`Row::farewell`].
    pub fn removal(cause: Cause, node: NodeKey, action: Action) -> Self {
        Self { cause, node, action, spec: None, content: None }
    }
}

impl Jobs {
    /// Queues a job for a row. The job leaves once its node is connected and has room.
    pub(crate) fn queue_job(&mut self, slot: Slot, job: NewJob) {
        let NewJob { cause, node, action, spec, content } = job;
        if let Some(spec) = &spec {
            self.keep_content(&spec.unpack(), content);
        }
        if self.graph.restored.is_on() && action != Action::Check {
            self.decided(slot);
        }
        self.graph.not_failed(slot);
        self.graph.job_begins(slot);
        let generation = self.graph.ctx.next_generation();
        let state =
            if self.graph.nodes[node].presence.is_ready() { TaskState::Queued } else { TaskState::NodeAway };
        let now = self.graph.ctx.now;
        let row = &mut self.graph.rows[slot];
        row.begin(NewTask { cause, action, generation, spec, state }, now);
        if row.node != Some(node) {
            let physical = row.physical;
            if let Some(old) = self.graph.place(slot, Some(node)) {
                self.graph.unhear(old, physical);
            }
        }
        let stack = self.graph.rows[slot].stack;
        if action != Action::Check {
            self.observe(slot, Observation::Unknown);
        }
        if let Some(stack) = self.graph.stacks.get_mut(&stack) {
            stack.working.insert(slot);
        }
        self.graph.row_changed(slot, true);
        self.graph.event(stack, Some(slot));
        self.line_up(slot, node);
    }

    /// Sends jobs queued for a node while there is room.
    pub(crate) fn pump(&mut self, node: NodeKey) {
        while self.graph.may_send(node) {
            let Some(slot) = self.graph.nodes[node].next_in_line() else { return };
            if !self.waits_in_line(slot, node) {
                continue;
            }
            if self.graph.too_old_for(&self.graph.rows[slot], node).is_some() {
                self.graph.ctx.agenda.push_back(Todo::Unsendable(slot));
                continue;
            }
            match self.graph.holds_job(slot) {
                None => self.send_job(slot, node),
                Some(JobWait::Disk) => self.graph.nodes[node].no_room.push_back(slot),
                Some(JobWait::Stack) => {
                    if let Some(stack) = self.graph.stacks.get_mut(&self.graph.rows[slot].stack) {
                        stack.queue.push_back(slot);
                    }
                }
            }
        }
    }

    pub(crate) fn pump_stack(&mut self, id: u64) {
        let Some(stack) = self.graph.stacks.get_mut(&id) else { return };
        if stack.in_flight.count() >= self.graph.ctx.limits.in_flight_per_stack || stack.holds_jobs() {
            return;
        }
        let Some(slot) = stack.queue.pop_front() else { return };
        if let Some(node) = self.graph.rows.get(slot).and_then(|row| row.node) {
            self.line_up(slot, node);
        }
        self.graph.ctx.agenda.push_back(Todo::PumpStack(id));
    }

    pub(crate) fn send_job(&mut self, slot: Slot, node: NodeKey) {
        self.enter_flight(slot, node);
        // The generation is of an earlier epoch. The node may know the same number from another
        // history.
        if self.graph.rows[slot].attempt == 0
            && self.graph.rows[slot].generation.epoch < self.graph.ctx.epoch()
        {
            let generation = self.graph.ctx.next_generation();
            self.graph.rows[slot].renumber(generation);
        }
        let row = &mut self.graph.rows[slot];
        row.leave();
        self.graph.set_task(slot, TaskState::Sent);
        self.graph.row_changed(slot, false);
        self.transmit(slot, node);
    }

    /// Sends the agent the message for a row's job: the job, its removal, or its withdrawal.
    pub(crate) fn transmit(&mut self, slot: Slot, node: NodeKey) {
        let row = &self.graph.rows[slot];
        let (Some(action), Some(task)) = (row.action(), row.task()) else { return };
        let spec = match row.spec().map(PackedSpec::unpack) {
            Some(Desired::Node(spec)) => Some(spec),
            Some(Desired::Flows(_)) => return self.graph.ctx.agenda.push_back(Todo::Write(slot)),
            // A stray has no spec. Nor does a row of a restored store if the backup is older than
            // the spec.
            None if action == Action::Delete => None,
            None => return self.graph.ctx.agenda.push_back(Todo::Unsendable(slot)),
            // Virtual resources have no jobs.
            Some(Desired::Virtual(_)) => return,
        };
        let limits = &self.graph.ctx.limits;
        let (message, due) = match spec {
            _ if task.state == TaskState::Withdrawing => {
                let withdraw = Down::Withdraw { resource: row.physical, generation: row.generation };
                (withdraw, self.graph.ctx.now + limits.job_timeout + ANSWER_GRACE)
            }
            // The agent is older than the one that was sent the job.
            Some(_) if self.graph.too_old_for(row, node).is_some() => {
                return self.graph.ctx.agenda.push_back(Todo::Unsendable(slot));
            }
            Some(spec) => {
                let job = Job {
                    resource: row.physical,
                    generation: row.generation,
                    attempt: Attempt(row.attempt),
                    action,
                    timeout: self.graph.ctx.job_timeout(&spec),
                    spec,
                };
                let due = self.graph.silent_at(node, job.timeout);
                (Down::Job(job), due)
            }
            None if !self.graph.nodes[node].reads_strays() => {
                return self.graph.ctx.agenda.push_back(Todo::Unsendable(slot));
            }
            None => (Down::Remove(row.key()), self.graph.silent_at(node, limits.job_timeout)),
        };
        self.graph.set_due(slot, Some(due));
        self.graph.unhear(node, self.graph.rows[slot].physical);
        self.graph.send(node, message);
    }

    /// Sends the agent again all jobs that it may have.
    pub(crate) fn transmit_sent(&mut self, key: NodeKey) {
        for slot in self.graph.nodes[key].sent.clone() {
            self.transmit(slot, key);
        }
    }
}
