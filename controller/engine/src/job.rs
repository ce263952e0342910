//! Jobs: queued, sent, withdrawn, tried again.

use std::sync::Arc;
use std::time::Duration;

use muster_shared::model::{Action, Down, JOB_TIMEOUT, Job};
use muster_shared::{Attempt, MonoTime};
use muster_template::Desired;

use crate::cause::Cause;
use crate::jobs::Jobs;
use crate::node::{NODES_MAX, NodeKey};
use crate::record::{Observation, PackedSpec, Status};
use crate::rollout::Ended;
use crate::row::{Role, Row, Slot, WorkState};
use crate::silence::ANSWER_GRACE;
use crate::todo::Todo;
use crate::token::TOKENS_MAX;

/// Bounds on work in flight, and how often it is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Jobs with one agent.
    pub in_flight_per_node: usize,
    /// Jobs of one stack with agents that are there.
    pub in_flight_per_stack: usize,
    /// An agent ends a job as failed after this, and what the job itself says it takes.
    pub job_timeout: Duration,
    /// After this many further tries a resource is FAILED.
    pub retries: u32,
    /// How often agents are to say that they are there.
    pub heartbeat: Duration,
    /// After so long without any progress of a stack an event says so.
    pub quiet: Duration,
    /// Newest revisions kept of a stack.
    pub revisions_kept: u32,
    /// COMPLETE revisions remembered for rollback.
    pub complete_kept: usize,
    /// Things that are listed of one node that has what the store does not know: a node that lies leaves room for the others.
    pub held_per_node: usize,
    /// Operations on flow tables that have ended and can still be asked for.
    pub flow_operations_kept: usize,
    /// Join tokens open at a time.
    pub tokens_max: usize,
    /// Nodes known or named.
    pub nodes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight_per_node: 256,
            in_flight_per_stack: 20_000,
            job_timeout: JOB_TIMEOUT,
            retries: 3,
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

/// Delays between tries: this, doubled each time, up to the longest.
pub(crate) const BACKOFF_FIRST: Duration = Duration::from_secs(1);
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// The delay before the next try, after so many.
pub(crate) fn backoff(retries: u32) -> Duration {
    BACKOFF_FIRST.saturating_mul(1 << retries.saturating_sub(1).min(16)).min(BACKOFF_MAX)
}

/// A job that was decided on.
pub(crate) struct NewJob {
    pub cause: Cause,
    pub node: NodeKey,
    pub action: Action,
    /// What is to be; `None` where the row's last desired state is taken away.
    pub spec: Option<PackedSpec>,
    /// A large content that the spec refers to, unless it is stored already.
    pub content: Option<Arc<[u8]>>,
}

impl NewJob {
    /// Takes away what a row stands for, by [`Row::farewell`].
    pub fn removal(cause: Cause, node: NodeKey, action: Action) -> Self {
        Self { cause, node, action, spec: None, content: None }
    }
}

impl Jobs {
    /// Makes a job of what was decided; it goes as soon as its node is there and has room.
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

    /// Sends what waits for this node, as far as there is room.
    pub(crate) fn pump(&mut self, node: NodeKey) {
        if self.graph.restored.awaits_ledger(&self.graph.nodes[node].name) {
            return; // what it holds may be newer than the job
        }
        while self.may_send(node) {
            let Some(slot) = self.graph.nodes[node].next_in_line() else { return };
            if !self.waits_in_line(slot, node) {
                continue;
            }
            if self.graph.waits_for_disk(&self.graph.rows[slot]) {
                self.graph.nodes[node].no_room.push_back(slot);
                continue;
            }
            match self.graph.stacks.get_mut(&self.graph.rows[slot].stack) {
                Some(stack) if stack.in_flight >= self.graph.ctx.limits.in_flight_per_stack => {
                    stack.queue.push_back(slot);
                }
                // A lost row has none.
                Some(_) | None => self.send_job(slot, node),
            }
        }
    }

    fn may_send(&self, node: NodeKey) -> bool {
        let at = &self.graph.nodes[node];
        at.ready
            && at.sent.len() < self.graph.ctx.limits.in_flight_per_node
            && !self.graph.is_in_maintenance(node)
    }

    pub(crate) fn pump_stack(&mut self, id: u64) {
        let Some(stack) = self.graph.stacks.get_mut(&id) else { return };
        if stack.in_flight >= self.graph.ctx.limits.in_flight_per_stack {
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
        // Queued before the epoch rose: the node may know the number, of another history.
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

    /// Says to the agent what it has to know of a job it may have.
    pub(crate) fn transmit(&mut self, slot: Slot, node: NodeKey) {
        let row = &self.graph.rows[slot];
        let (Some(action), Some(work)) = (row.action, &row.work) else { return };
        let spec = match row.spec.as_ref().map(PackedSpec::unpack) {
            Some(Desired::Node(spec)) => Some(spec),
            Some(Desired::Flows(_)) => return self.graph.ctx.agenda.push_back(Todo::Write(slot)),
            // A stray; or a row whose desired state was not known yet in the copy that a restored store has.
            None if action == Action::Delete => None,
            None => return self.graph.ctx.agenda.push_back(Todo::Unsendable(slot)),
            // It has no jobs.
            Some(Desired::Virtual(_)) => return,
        };
        let message = match spec {
            _ if work.state == WorkState::Withdrawing => {
                Down::Withdraw { resource: row.physical, generation: row.generation }
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
            Down::Remove(_) if !self.graph.removes_strays(node) => {
                return self.graph.ctx.agenda.push_back(Todo::Unsendable(slot));
            }
            Down::Remove(_) => self.graph.silent_at(node, self.graph.ctx.limits.job_timeout),
            _ => self.graph.ctx.now + self.graph.ctx.limits.job_timeout + ANSWER_GRACE,
        };
        self.graph.set_due(slot, Some(due));
        self.graph.unhear(node, self.graph.rows[slot].physical);
        self.graph.send(node, message);
    }

    /// Takes a job back: at once if it was not sent, else when the agent says that it had not begun.
    pub(crate) fn take_back(&mut self, slot: Slot) {
        if self.graph.break_pause(slot) {
            return;
        }
        let row = &self.graph.rows[slot];
        let (Some(work), Some(node)) = (&row.work, row.node) else { return };
        if row.action == Some(Action::Check) && !row.is_adopted() {
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

    /// The job never began: the row is as it was before. Unless it is a further try: an earlier one may have done
    /// something.
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

    /// Earlier tries failed, and there is no further one.
    fn give_up_trying(&mut self, slot: Slot) {
        self.graph.tell_taken_back(slot, self.graph.rows[slot].action, "before it was tried again");
        self.abandon_work(slot);
    }

    /// The job ended without success: what is there is anyone's guess. What was claimed before stays claimed.
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

    /// Something that it needs is not ready. Where no operation is under way nobody counts that, and its node may have been
    /// removed since.
    fn is_blocked(&self, row: &Row) -> bool {
        let is_unready = |needed: &Row| !needed.ready && needed.role != Role::Cleanup;
        let needs_one = || row.requires.iter().filter_map(|slot| self.graph.rows.get(*slot)).any(is_unready);
        let acts = matches!(row.action, Some(Action::Create | Action::Update));
        let is_counted = self.graph.stacks.get(&row.stack).is_some_and(|it| it.status == Status::InProgress);
        !row.is_going() && (row.blocked > 0 || !is_counted && acts && needs_one())
    }

    /// A backoff is over, or an agent has not answered in time.
    pub(crate) fn work_due(&mut self, slot: Slot, due: MonoTime) {
        let is_blocked = self.graph.rows.get(slot).is_some_and(|row| self.is_blocked(row));
        let Some(row) = self.graph.rows.get_mut(slot) else { return };
        let Some(state) = row.work_is_due(due) else { return };
        match state {
            // It was out when that went, or when the controller ended.
            WorkState::Backoff if is_blocked => {
                let action = row.action;
                self.graph.tell_ended(
                    slot,
                    action,
                    "before it was tried again",
                    "what it needs is not ready",
                );
                self.abandon_work(slot);
            }
            WorkState::Backoff => {
                row.next_attempt();
                let Some(node) = row.node else { return };
                let state =
                    if self.graph.nodes[node].ready { WorkState::Queued } else { WorkState::NodeAway };
                self.graph.set_work(slot, state);
                self.graph.row_changed(slot, false);
                self.line_up(slot, node);
            }
            WorkState::Withdrawing => {
                if let Some(node) = row.node {
                    self.transmit(slot, node);
                }
            }
            WorkState::Sent | WorkState::Running | WorkState::Settling => {
                self.attempt_failed(slot, "no answer from the agent in time", false);
            }
            WorkState::NodeAway | WorkState::Queued => {}
        }
    }

    pub(crate) fn attempt_failed(&mut self, slot: Slot, reason: &str, permanent: bool) {
        let limit = self.graph.ctx.limits.retries;
        self.graph.add_cause(slot, reason);
        let row = &mut self.graph.rows[slot];
        row.set_reason(reason);
        if permanent || row.retry_count >= limit {
            if row.action == Some(Action::Check) && row.observed == Observation::InSync {
                self.observe(slot, Observation::Unknown);
            }
            self.abandon_work(slot);
            return match self.graph.rows[slot].cause.is_drift() {
                true => self.graph.failed_after_drift(slot),
                false => self.fail_row(slot, reason.to_owned()),
            };
        }
        let delay = backoff(row.count_retry());
        self.graph.tell_of_attempt(slot, reason, delay.as_secs());
        self.try_again(slot, delay);
    }

    /// The job's attempt has come to nothing; the next one comes after a while.
    pub(crate) fn try_again(&mut self, slot: Slot, delay: Duration) {
        let (stack, node) = (self.graph.rows[slot].stack, self.graph.rows[slot].node);
        if let Some(node) = node
            && self.graph.nodes[node].sent.remove(&slot)
        {
            if self.graph.nodes[node].ready
                && let Some(stack) = self.graph.stacks.get_mut(&stack)
            {
                stack.in_flight -= 1;
            }
            self.graph.ctx.agenda.push_back(Todo::Pump(node));
            self.graph.ctx.agenda.push_back(Todo::PumpStack(stack));
        }
        self.graph.set_work(slot, WorkState::Backoff);
        self.graph.set_due(slot, Some(self.graph.ctx.now + delay));
        self.graph.row_changed(slot, false);
    }

    /// What the agent may have is said again.
    pub(crate) fn transmit_sent(&mut self, key: NodeKey) {
        for slot in self.graph.nodes[key].sent.clone() {
            self.transmit(slot, key);
        }
    }
}
