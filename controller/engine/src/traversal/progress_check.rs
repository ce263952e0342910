//! The progress check of an operation: an event tells operators when its stack has made no progress for
//! a while, and what the stack waits for.
//!
//! ```text
//!   an operation begins ─▶ start ─▶ nothing changes for `Limits::quiet` ─▶ event ─▶ twice that time ─▶ event …
//!                            ▲                                               │      up to an hour
//!                            └──────────────── a row changes ◀───────────────┘
//! ```
//!
//! Absent: what a resource waits for (`view/phase.rs`), and the timeout of an operation (`Traversals::stack_due`,
//! `traversal/timeout.rs`).

use std::time::Duration;

use muster_shared::MonoTime;

use crate::graph::Graph;
use crate::record::Status;
use crate::timer::TimerKey;
use crate::traversals::Traversals;

/// The longest interval between two events about no progress. The first is `Limits::quiet`.
const QUIET_MAX: Duration = Duration::from_secs(3600);

/// State of the check.
#[derive(Debug, Default)]
pub(crate) struct ProgressCheck {
    /// When the stack or one of its rows changed last.
    moved: MonoTime,
    /// Time without progress until the next event.
    after: Duration,
    due: Option<MonoTime>,
}

impl ProgressCheck {
    /// Notes progress. After an event the next check comes sooner again: returns the old and the
    /// new time.
    pub fn moved(&mut self, now: MonoTime, first: Duration) -> Option<(MonoTime, MonoTime)> {
        self.moved = now;
        let old = self.due.filter(|_| self.after > first)?;
        (self.after, self.due) = (first, Some(now + first));
        Some((old, now + first))
    }

    /// Whether this is the timer that was set last, which is then over.
    pub fn is_due(&mut self, due: MonoTime) -> bool {
        self.due.take_if(|set| *set == due).is_some()
    }

    /// When to look again, and the time without progress if an event is due.
    pub fn look(&mut self, now: MonoTime) -> (MonoTime, Option<Duration>) {
        let still = now.since(self.moved);
        let tells = still >= self.after;
        let next = if tells {
            self.after = (self.after * 2).min(QUIET_MAX);
            now + self.after
        } else {
            self.moved + self.after
        };
        self.due = Some(next);
        (next, tells.then_some(still))
    }
}

impl Graph {
    /// Starts the check.
    pub(crate) fn start_progress_check(&mut self, id: u64) {
        self.stop_progress_check(id);
        let (now, after) = (self.ctx.now, self.ctx.limits.quiet);
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        stack.progress_check = ProgressCheck { moved: now, after, due: Some(now + after) };
        self.ctx.timers.set(now + after, TimerKey::ProgressCheck(id));
    }

    pub(crate) fn stop_progress_check(&mut self, id: u64) {
        if let Some(due) = self.stacks.get_mut(&id).and_then(|stack| stack.progress_check.due.take()) {
            self.ctx.timers.clear(due, TimerKey::ProgressCheck(id));
        }
    }
}

impl Traversals {
    /// The timer of the check: writes the event if the stack has made no progress.
    pub(crate) fn progress_check_due(&mut self, id: u64, due: MonoTime) {
        let now = self.jobs.graph.ctx.now;
        let Some(stack) = self.jobs.graph.stacks.get_mut(&id) else { return };
        if !stack.progress_check.is_due(due) {
            return;
        }
        if stack.status != Status::InProgress {
            return;
        }
        let (next, still) = stack.progress_check.look(now);
        self.jobs.graph.ctx.timers.set(next, TimerKey::ProgressCheck(id));
        if let Some(still) = still
            && let Some(waiting) = self.what_is_waited_for(id)
        {
            self.jobs.graph.note(id, format!("no progress for {} s: {waiting}", still.as_secs()));
        }
    }
}
