//! Attempts of a job: what ends one without success, when the next one begins, and when the job has failed.
//!
//! Absent: the deadline of a sent job (`job_deadline.rs`), and what a job that has failed for good leads to
//! (`readiness.rs`).

use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::Action;

use crate::job_end::JobEnd;
use crate::jobs::Jobs;
use crate::record::{Observation, Status};
use crate::row::{Role, Row, Slot, WorkState};
use crate::todo::Todo;

/// The delay between retries doubles from the first to the longest.
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// The delay before retry number `retries`, counted from 1.
pub(crate) fn backoff(retries: u32) -> Duration {
    BACKOFF_FIRST.saturating_mul(1 << retries.saturating_sub(1).min(16)).min(BACKOFF_MAX)
}

impl Jobs {
    /// Whether a resource that the row needs is not ready. Without an operation in progress
    /// `blocked` is not kept, so the needs are read. Their node may have been removed in the meantime.
    fn is_blocked(&self, row: &Row) -> bool {
        let is_unready = |needed: &Row| !needed.ready && needed.role != Role::Cleanup;
        let needs_one = || row.requires.iter().filter_map(|slot| self.graph.rows.get(*slot)).any(is_unready);
        let acts = matches!(row.action, Some(Action::Create | Action::Update | Action::Adopt));
        let is_counted = self.graph.stacks.get(&row.stack).is_some_and(|it| it.status == Status::InProgress);
        !row.is_going() && (row.blocked > 0 || !is_counted && acts && needs_one())
    }

    /// The timer of a job: a backoff is over, or an agent has not answered in time.
    pub(crate) fn work_due(&mut self, slot: Slot, due: MonoTime) {
        let is_blocked = self.graph.rows.get(slot).is_some_and(|row| self.is_blocked(row));
        let Some(row) = self.graph.rows.get_mut(slot) else { return };
        let Some(state) = row.work_is_due(due) else { return };
        match state {
            // A need became unready while the job was out, or while the controller was down.
            WorkState::Backoff if is_blocked => {
                let action = row.action;
                self.graph.tell_ended(
                    slot,
                    action,
                    "before it was tried again",
                    "what it needs is not ready",
                );
                self.abandon_work(slot, JobEnd::Withdrawn);
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
                self.attempt_ended(slot, "no answer from the agent in time", JobEnd::TimedOut, false);
            }
            WorkState::NodeAway | WorkState::Queued => {}
        }
    }

    /// An attempt failed. The next one follows after a backoff, or the job has failed.
    pub(crate) fn attempt_failed(&mut self, slot: Slot, reason: &str, permanent: bool) {
        self.attempt_ended(slot, reason, JobEnd::Failed, permanent);
    }

    /// The same; `end` is how the job ends if no other attempt follows.
    fn attempt_ended(&mut self, slot: Slot, reason: &str, end: JobEnd, permanent: bool) {
        let limit = self.graph.ctx.limits.retries;
        self.graph.add_cause(slot, reason);
        let row = &mut self.graph.rows[slot];
        row.set_reason(reason);
        if permanent || row.retry_count >= limit {
            if row.action == Some(Action::Check) && row.observed == Observation::InSync {
                self.observe(slot, Observation::Unknown);
            }
            self.abandon_work(slot, end);
            return match self.graph.rows[slot].cause.is_drift() {
                true => self.graph.failed_after_drift(slot),
                false => self.fail_row(slot, reason.to_owned()),
            };
        }
        let delay = backoff(row.count_retry());
        self.graph.tell_of_attempt(slot, reason, delay.as_secs());
        self.try_again(slot, delay);
    }

    /// Schedules the next attempt of a job after `delay`.
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

    /// The attempt failed because the node's disk has no room. Such an attempt does not count as a retry.
    pub(crate) fn found_no_room(&mut self, slot: Slot, reason: &str) {
        let row = &mut self.graph.rows[slot];
        let delay = BACKOFF_FIRST.saturating_mul(1 << row.attempt.min(16)).min(BACKOFF_MAX);
        let is_told = row.reason.as_deref() == Some(reason);
        row.set_reason(reason);
        if !is_told {
            self.graph.add_cause(slot, reason);
            self.graph.tell_of_attempt(slot, reason, delay.as_secs());
        }
        self.try_again(slot, delay);
    }
}
