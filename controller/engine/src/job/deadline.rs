//! The deadline of a sent job: after it, a job of which the agent says nothing is lost. `job/timer.rs`
//! (`task_due`) says what follows.
//!
//! An agent that lists all its jobs owns their deadlines. A job may wait behind a long one, fetch
//! and run as long as that takes; the agent ends one that takes too long. Such a job is lost only
//! if the connected agent does not list it. An older agent reports only running jobs. For these the
//! controller counts the time since the job was sent, or since the last message about it.
//!
//! Absent: how long a job may take (`Context::job_timeout`, `job/queue.rs`).

use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::{JOBS_EVERY, JobState, Progress, ReportKey, Stage};
use muster_template::Desired;

use crate::graph::Graph;
use crate::node::NodeKey;
use crate::record::PackedSpec;
use crate::row::{Slot, Task, TaskState};

/// Grace beyond the time in which an agent must send something.
pub(crate) const ANSWER_GRACE: Duration = Duration::from_secs(30);
/// Lists of jobs in a row that leave a job out.
const ACCOUNTS: u32 = 3;

/// Time without a message about a job after which it is lost.
pub(crate) fn silence(tells_jobs: bool, timeout: Duration) -> Duration {
    if tells_jobs { JOBS_EVERY * ACCOUNTS + ANSWER_GRACE } else { timeout + ANSWER_GRACE }
}

impl Graph {
    /// Handles an agent's list of its jobs.
    pub(crate) fn jobs_told(&mut self, node: NodeKey, states: &[JobState]) {
        if self.nodes[node].presence.list_jobs() {
            for slot in self.nodes[node].sent.clone() {
                self.heard_of(slot, node);
            }
        }
        for JobState { key, stage } in states {
            let Some(slot) = self.sent_job(node, *key) else { continue };
            let (state, behind) = match stage {
                Stage::Waiting { behind } => {
                    (TaskState::Sent, behind.and_then(|behind| self.rows.of_thing(&behind)))
                }
                Stage::Fetching => (TaskState::Sent, None),
                Stage::Running => (TaskState::Running, None),
            };
            self.note_state(slot, state, behind);
            self.heard_of(slot, node);
        }
    }

    /// Handles a progress message for a running job.
    pub(crate) fn progress(&mut self, node: NodeKey, progress: Progress) {
        let Some(slot) = self.sent_job(node, progress.key) else { return };
        if self.rows[slot].key() == progress.key {
            self.note_state(
                slot,
                if progress.settling { TaskState::Settling } else { TaskState::Running },
                None,
            );
        }
        self.heard_of(slot, node);
    }

    /// The row whose job the agent may have, in any attempt.
    fn sent_job(&self, node: NodeKey, key: ReportKey) -> Option<Slot> {
        let slot = self.rows.of_thing(&key.resource)?;
        let row = &self.rows[slot];
        let is_it = row.node == Some(node) && row.generation == key.generation;
        let state = row.task().filter(|_| is_it)?.state;
        (state.is_sent() && state != TaskState::Withdrawing).then_some(slot)
    }

    fn note_state(&mut self, slot: Slot, state: TaskState, behind: Option<Slot>) {
        let settles = |task: &Task| task.state == TaskState::Settling;
        // For a running job, a list of jobs says less than an earlier progress message.
        if state != TaskState::Running || !self.rows[slot].task().is_some_and(settles) {
            self.set_task(slot, state);
        }
        self.rows[slot].queue_behind(behind);
    }

    pub(crate) fn heard_of(&mut self, slot: Slot, node: NodeKey) {
        let row = &self.rows[slot];
        let timeout = match row.spec().map(PackedSpec::unpack) {
            Some(Desired::Node(spec)) => self.ctx.job_timeout(&spec),
            None if row.is_stray() => self.ctx.limits.job_timeout,
            Some(Desired::Flows(_) | Desired::Virtual(_)) | None => return,
        };
        let due = self.silent_at(node, timeout);
        self.set_due(slot, Some(due));
    }

    /// When a job is lost if no further message comes.
    pub(crate) fn silent_at(&self, node: NodeKey, timeout: Duration) -> MonoTime {
        self.ctx.now + silence(self.nodes[node].presence.tells_jobs(), timeout)
    }

    /// The name of the row whose job a queued one waits for on the server, as operators see it.
    pub(crate) fn queued_behind(&self, slot: Slot) -> Option<String> {
        let row = &self.rows[slot];
        let task = row.task().filter(|task| task.state == TaskState::Sent)?;
        let other = self.rows.get(task.behind.filter(|other| *other != slot)?)?;
        if other.stack == row.stack {
            return Some(other.name.to_string());
        }
        let stack = self.stacks.get(&other.stack)?;
        Some(format!("{}/{}", stack.name, other.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_tells_of_its_jobs_counts_their_time() {
        let hour = Duration::from_secs(3600);
        assert_eq!(silence(true, hour), Duration::from_secs(210));
        assert_eq!(silence(false, hour), hour + Duration::from_secs(30));
    }
}
