//! Attempts of a job: when the next one begins, and what operators read of one that failed.
//!
//! Absent: whether another attempt follows (`row/outcome.rs`), and the timer that begins it (`job/timer.rs`).

use std::time::Duration;

use crate::jobs::Jobs;
use crate::row::outcome::After;
use crate::row::{Slot, TaskState};

/// The delay between retries doubles from the first to the longest.
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// The delay before retry number `retries`, counted from 1.
pub(crate) fn backoff(retries: u32) -> Duration {
    BACKOFF_FIRST.saturating_mul(1 << retries.saturating_sub(1).min(16)).min(BACKOFF_MAX)
}

impl Jobs {
    /// An attempt failed, and the next one follows after a delay. A full disk does not count as a failed attempt.
    pub(crate) fn try_again(&mut self, slot: Slot, after: After, counts: bool, reason: &str) {
        if let Some(seen) = after.seen {
            self.observe(slot, seen);
        }
        let row = &mut self.graph.rows[slot];
        let (delay, is_news) = match counts {
            true => (backoff(row.count_retry()), true),
            false => (backoff(row.attempt + 1), row.reason() != Some(reason)),
        };
        row.set_reason(reason);
        if is_news {
            self.graph.add_cause(slot, reason);
            self.graph.tell_of_attempt(slot, reason, delay.as_secs());
        }
        self.next_attempt_in(slot, delay);
    }

    /// Schedules the next attempt of a job.
    fn next_attempt_in(&mut self, slot: Slot, delay: Duration) {
        if let Some(node) = self.graph.rows[slot].node {
            self.leave_flight(slot, node);
        }
        self.graph.set_task(slot, TaskState::Backoff);
        self.graph.set_due(slot, Some(self.graph.ctx.now + delay));
        self.graph.row_changed(slot, false);
    }
}
