//! The timeout of an operation: its stack is FAILED, with what it still waits for. Jobs under way go on: a node
//! that returns finishes its branch.
//!
//! Absent: the timer (`timer.rs`), and the timeout of a job (`job/deadline.rs`).

use std::time::Duration;

use muster_shared::MonoTime;

use crate::record::Status;
use crate::row::Slot;
use crate::stack::Stack;
use crate::traversals::Traversals;

/// The least time of an operation that a start takes up: this part of its timeout, and so many seconds of it. Agents
/// connect again, and some servers boot.
const RETURN_PART: u32 = 4;
const RETURN_LEAST: Duration = Duration::from_secs(120);

impl Stack {
    /// When the operation has had its time. After a restart of the controller, agents get a while to come back.
    pub fn deadline(&self, now: MonoTime) -> MonoTime {
        let timeout = Duration::from_secs(self.timeout_s);
        let least = (timeout / RETURN_PART).max(RETURN_LEAST).min(timeout);
        self.runs.reaches(timeout).max(now + least)
    }
}

impl Traversals {
    /// The operation of a stack has timed out.
    pub(crate) fn stack_due(&mut self, id: u64, traversal: u64) {
        let Some(stack) = self.jobs.graph.stacks.get_mut(&id).filter(|stack| stack.traversal == traversal)
        else {
            return;
        };
        if stack.status != Status::InProgress {
            return;
        }
        stack.timed_out = true;
        if let Some(walk) = &mut stack.walk {
            walk.timeout = None;
        }
        let waiting: Vec<Slot> = stack.waiting.iter().copied().collect();
        for slot in waiting {
            if self.jobs.graph.is_before_batch(slot) {
                self.jobs.graph.end_pause(slot);
            }
        }
        let Some(stack) = self.jobs.graph.stacks.get(&id) else { return };
        let missing = self.missing_nodes(stack);
        let timed_out = had_its_time(stack);
        let hooks = self.jobs.graph.hooks_waited_at(id);
        let rollouts = self.jobs.rollouts_time_out(id);
        let reason = match missing.len() {
            0 if hooks.is_empty() => match self.what_is_waited_for(id) {
                Some(waiting) => format!("{timed_out}; not ended: {waiting}"),
                None => timed_out,
            },
            0 => timed_out,
            1..=10 => format!("{timed_out}; missing nodes: {}", missing.join(", ")),
            n => format!("{timed_out}; {n} nodes missing: {}, …", missing[..10].join(", ")),
        };
        self.jobs.end_failed(id, reason + &hooks + &rollouts);
    }
}

/// The reason of an operation that timed out.
pub(crate) fn had_its_time(stack: &Stack) -> String {
    format!("timed out after {} s", stack.timeout_s)
}
