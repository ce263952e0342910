//! Jobs: queue, send, withdraw. For their attempts see `retry.rs`.

use std::sync::Arc;
use std::time::Duration;

use muster_shared::Attempt;
use muster_shared::model::{Action, Down, JOB_TIMEOUT, Job};
use muster_template::Desired;

use crate::cause::Cause;
use crate::gate::JobWait;
use crate::job_deadline::ANSWER_GRACE;
use crate::jobs::Jobs;
use crate::node::{NODES_MAX, NodeKey};
use crate::record::{Observation, PackedSpec};
use crate::rollout::Ended;
use crate::row::{Slot, WorkState};
use crate::todo::Todo;
use crate::token::TOKENS_MAX;

/// Bounds on work in flight, on retries, and on what the engine keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Jobs at one agent.
    pub in_flight_per_node: usize,
    /// Jobs of one stack at connected agents.
    pub in_flight_per_stack: usize,
    /// An agent fails a job after this time, plus the time that the job itself states.
    pub job_timeout: Duration,
    /// Retries before a resource is FAILED.
    pub retries: u32,
    /// Rows that an operation visits and writes in one turn. All nodes wait for a turn and its
    /// commit, so a larger operation enters its rows in slices.
    pub rows_per_turn: usize,
    /// Interval at which agents send a heartbeat.
    pub heartbeat: Duration,
    /// The first interval of the progress check, which operators set as `limits.quiet`.
    pub quiet: Duration,
    /// Newest revisions kept of a stack.
    pub revisions_kept: u32,
    /// COMPLETE revisions remembered for rollback.
    pub complete_kept: usize,
    /// Things listed for one node of a restored site. A node that lies leaves room for the others.
    pub held_per_node: usize,
    /// Ended operations on flow tables that a client can still query.
    pub flow_operations_kept: usize,
    /// Open join tokens.
    pub tokens_max: usize,
    /// Nodes that have joined or are named, as by a template.
    pub nodes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight_per_node: 256,
            in_flight_per_stack: 20_000,
            job_timeout: JOB_TIMEOUT,
            retries: 3,
            rows_per_turn: 10_000,
            heartbeat: Duration::from_secs(60),
            quiet: Duration::from_secs(60),
            revisions_kept: 100,
            complete_kept: 100,
            held_per_node: 1000,
            flow_operations_kept: 1000,
            tokens_max: TOKENS_MAX,
            nodes_max: NODES_MAX,
        }
    }
}

/// A job to queue.
pub(crate) struct NewJob {
    pub cause: Cause,
    pub node: NodeKey,
    pub action: Action,
    /// The desired state; `None` removes the row's last desired state.
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
        let row = &mut self.graph.rows[slot];
        let prior = row.begin(cause, action, generation, spec);
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
        let state = if self.graph.nodes[node].ready { WorkState::Queued } else { WorkState::NodeAway };
        self.graph.rows[slot].give_work(state, self.graph.ctx.now, Some(prior));
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
        if stack.in_flight >= self.graph.ctx.limits.in_flight_per_stack || stack.holds_jobs() {
            return;
        }
        let Some(slot) = stack.queue.pop_front() else { return };
        if let Some(node) = self.graph.rows.get(slot).and_then(|row| row.node) {
            self.line_up(slot, node);
        }
        self.graph.ctx.agenda.push_back(Todo::PumpStack(id));
    }

    pub(crate) fn send_job(&mut self, slot: Slot, node: NodeKey) {
        self.graph.nodes[node].sent.insert(slot);
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
        let stack = row.stack;
        if let Some(stack) = self.graph.stacks.get_mut(&stack) {
            stack.in_flight += 1;
        }
        self.graph.set_work(slot, WorkState::Sent);
        self.graph.row_changed(slot, false);
        self.transmit(slot, node);
    }

    /// Sends the agent the message for a row's job: the job, its removal, or its withdrawal.
    pub(crate) fn transmit(&mut self, slot: Slot, node: NodeKey) {
        let row = &self.graph.rows[slot];
        let (Some(action), Some(work)) = (row.action, &row.work) else { return };
        let spec = match row.spec.as_ref().map(PackedSpec::unpack) {
            Some(Desired::Node(spec)) => Some(spec),
            Some(Desired::Flows(_)) => return self.graph.ctx.agenda.push_back(Todo::Write(slot)),
            // A stray has no spec. Nor does a row of a restored store if the backup is older than
            // the spec.
            None if action == Action::Delete => None,
            None => return self.graph.ctx.agenda.push_back(Todo::Unsendable(slot)),
            // Virtual resources have no jobs.
            Some(Desired::Virtual(_)) => return,
        };
        let message = match spec {
            _ if work.state == WorkState::Withdrawing => {
                Down::Withdraw { resource: row.physical, generation: row.generation }
            }
            // An agent took back its place that is older than the one that was sent the job.
            Some(_) if self.graph.too_old_for(row, node).is_some() => {
                return self.graph.ctx.agenda.push_back(Todo::Unsendable(slot));
            }
            Some(spec) => Down::Job(Job {
                resource: row.physical,
                generation: row.generation,
                attempt: Attempt(row.attempt),
                action,
                timeout: self.graph.ctx.job_timeout(&spec),
                spec,
            }),
            None => Down::Remove(row.key()),
        };
        let due = match &message {
            Down::Job(job) => self.graph.silent_at(node, job.timeout),
            Down::Remove(_) if !self.graph.nodes[node].reads_strays() => {
                return self.graph.ctx.agenda.push_back(Todo::Unsendable(slot));
            }
            Down::Remove(_) => self.graph.silent_at(node, self.graph.ctx.limits.job_timeout),
            _ => self.graph.ctx.now + self.graph.ctx.limits.job_timeout + ANSWER_GRACE,
        };
        self.graph.set_due(slot, Some(due));
        self.graph.unhear(node, self.graph.rows[slot].physical);
        self.graph.send(node, message);
    }

    /// Withdraws a job: at once if it was not sent, else when the agent confirms that it has not started.
    pub(crate) fn take_back(&mut self, slot: Slot) {
        if self.graph.break_pause(slot) {
            return;
        }
        let row = &self.graph.rows[slot];
        let (Some(work), Some(node)) = (&row.work, row.node) else { return };
        if row.action == Some(Action::Check) && !row.is_external() {
            return self.end_check(slot);
        }
        match work.state {
            WorkState::NodeAway | WorkState::Queued => self.undo_work(slot),
            WorkState::Backoff => self.give_up_trying(slot),
            WorkState::Sent | WorkState::Running | WorkState::Settling => {
                self.graph.set_work(slot, WorkState::Withdrawing);
                if self.graph.nodes[node].ready {
                    self.transmit(slot, node);
                }
            }
            WorkState::Withdrawing => {}
        }
    }

    /// Restores the row as it was before a job that never started. A retry is given up instead,
    /// because an earlier attempt may have changed something.
    pub(crate) fn undo_work(&mut self, slot: Slot) {
        if self.graph.rows[slot].attempt > 0 {
            return self.give_up_trying(slot);
        }
        self.graph.tell_taken_back(slot, self.graph.rows[slot].action, "before it began");
        self.left_ended(slot, Ended::Unbegun);
        let Some(work) = self.end_work(slot) else { return };
        let row = &mut self.graph.rows[slot];
        let new = row.spec.clone().filter(|_| !row.is_going() && work.previous.is_some());
        let observed = work.previous.as_ref().map(|previous| previous.observed);
        row.withdraw(work.previous);
        if let (Some(new), Some(node)) = (new.map(|new| new.unpack()), row.node) {
            let kept = row.spec.as_ref().map(|spec| spec.unpack().claims()).unwrap_or_default();
            for claim in new.claims().iter().filter(|claim| !kept.contains(claim)) {
                self.claims.release(node, claim, slot);
            }
            self.release_content(&new);
        }
        if let Some(observed) = observed {
            self.observe(slot, observed);
        }
        self.note_owed(slot);
        self.graph.row_changed(slot, true);
    }

    /// Ends a job that waits for its next attempt.
    fn give_up_trying(&mut self, slot: Slot) {
        self.graph.tell_taken_back(slot, self.graph.rows[slot].action, "before it was tried again");
        self.abandon_work(slot);
    }

    /// Ends a job without success. The state of the thing is unknown, so earlier claims stay.
    pub(crate) fn abandon_work(&mut self, slot: Slot) {
        let previous = self.end_work(slot).and_then(|work| work.previous);
        self.left_ended(slot, Ended::Failed);
        let row = &mut self.graph.rows[slot];
        row.abandon();
        if !row.is_going() {
            self.release_previous(previous);
        }
        self.graph.row_changed(slot, false);
    }

    /// Sends the agent again all jobs that it may have.
    pub(crate) fn transmit_sent(&mut self, key: NodeKey) {
        for slot in self.graph.nodes[key].sent.clone() {
            self.transmit(slot, key);
        }
    }
}
