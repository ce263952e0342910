//! Rows that wait without a job, for time to pass or for signals. The store has the time waited so
//! far, so a controller restart neither starts the wait again nor forgets it.
//!
//! ```text
//!   visited ─▶ waits ── enough signals, or the time is over ─▶ made
//!      │         ├───── FAILURE, or the signals are late ─▶ failed
//!      │         └───── something else is wanted ─▶ failed until it is visited again
//!      │
//!      └─▶ waits for its batch (`pause_time`) ── the time is over ─▶ visited
//!                └───── something else is wanted ─▶ as it was
//! ```
//!
//! Absent: the pauses of a rollout (`rollout/machine.rs`), and whether enough signals have come
//! (`traversal/signal.rs`).

use std::sync::Arc;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::Action;
use muster_template::{Kind, Tree};

use crate::elapsed::Elapsed;
use crate::graph::Graph;
use crate::record::PackedSpec;
use crate::row::{Role, Row, Slot};
use crate::timer::TimerKey;
use crate::todo::Todo;
use crate::traversal::walk::Walk;

/// The least wait for signals after a restart. A sender that could not reach the controller retries
/// in that time.
pub(crate) const SIGNALS_GRACE: Duration = Duration::from_secs(30);

/// A wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    pub began: Elapsed,
    /// When the wait ends. `None`: the row was loaded and its wait is not taken up yet.
    pub due: Option<MonoTime>,
    /// The row waits for its batch and has not started.
    pub of_batch: bool,
}

impl Pause {
    pub fn waited(&self, now: MonoTime) -> Duration {
        self.began.so_far(now)
    }
}

impl Row {
    /// Whether the row waits without a job.
    pub fn pauses(&self) -> bool {
        self.details().pause.is_some_and(|pause| pause.due.is_some())
    }

    /// Whether the row waits for signals.
    pub fn awaits_signals(&self) -> bool {
        self.kind == Kind::WaitCondition
            && self.details().pause.is_some_and(|pause| pause.due.is_some() && !pause.of_batch)
    }

    /// Whether the store says that the row waits, with this spec, and the wait is not taken up yet.
    pub fn pauses_still(&self, spec: &PackedSpec) -> bool {
        let loaded = self.details().pause.is_some_and(|pause| pause.due.is_none() && !pause.of_batch);
        loaded && self.spec() == Some(spec)
    }
}

impl Graph {
    /// Starts a wait of `time`. With `still`, the row waited before the controller stopped: the
    /// time so far counts, and the wait lasts at least `still` from now.
    pub(crate) fn pause(&mut self, slot: Slot, action: Action, time: Duration, still: Option<Duration>) {
        let now = self.ctx.now;
        let row = &mut self.rows[slot];
        let kept = row.details().pause.filter(|_| still.is_some()).map(|pause| pause.began);
        let began = kept.unwrap_or(Elapsed::starting(now));
        let least = still.unwrap_or_default().min(time);
        let due = began.reaches(time).max(now + least);
        row.wait(action);
        let stack = row.stack;
        self.set_pause(slot, Pause { began, due: Some(due), of_batch: false });
        self.row_changed(slot, true);
        if still.is_none() {
            self.event(stack, Some(slot));
        }
    }

    fn set_pause(&mut self, slot: Slot, pause: Pause) {
        let row = &mut self.rows[slot];
        row.set_pause(pause);
        if let Some(due) = pause.due {
            self.ctx.timers.set(due, TimerKey::Pause(slot));
        }
        if let Some(stack) = self.stacks.get_mut(&row.stack) {
            stack.waiting.insert(slot);
        }
        self.row_changed(slot, false);
    }

    /// Holds a row with something to do until its batch starts. Returns whether the row is held.
    pub(crate) fn hold_for_batch(&mut self, slot: Slot, tree: &Tree) -> bool {
        let row = &self.rows[slot];
        let pause = row.details().pause;
        // A wait of the row's own began before. A row that stands for others does nothing itself.
        if row.task().is_some() || row.kind.is_whole() || pause.is_some_and(|pause| !pause.of_batch) {
            return false;
        }
        let now = self.ctx.now;
        let due = self.batch_due(slot, tree).filter(|due| *due > now);
        if due.is_some() && pause.is_some_and(|pause| pause.due == due) {
            return true;
        }
        self.end_pause(slot);
        let began = pause.map_or(Elapsed::starting(now), |pause| pause.began);
        if due.is_some() {
            self.set_pause(slot, Pause { began, due, of_batch: true });
        }
        due.is_some()
    }

    /// Whether the stack timed out before the row's batch started. Such a row does not start in
    /// this operation.
    pub(crate) fn comes_too_late(&self, row: &Row) -> bool {
        let late = self.stacks.get(&row.stack).filter(|stack| stack.timed_out);
        let walk = late.and_then(|stack| stack.walk.as_ref());
        let has_not_begun = row.role == Role::Forward && !row.ready && row.task().is_none();
        let waits = row.details().pause.is_some_and(|pause| !pause.of_batch);
        // A row that replaces another has started with that.
        let begun = waits || row.replaces.is_some() || row.had_begun;
        let follows = |walk: &Walk| walk.tree.follows_a_batch(row.index as usize);
        has_not_begun && !begun && !row.failed && walk.is_some_and(follows)
    }

    /// When the batch of a row starts. The first row visited of a batch sets the time: the batch
    /// before is then done.
    fn batch_due(&mut self, slot: Slot, tree: &Tree) -> Option<MonoTime> {
        let row = &self.rows[slot];
        let muster_template::Pause { batch, before, time } = tree.pause(row.index as usize)?;
        let stack = self.stacks.get_mut(&row.stack)?;
        let walk = stack.walk.as_mut()?;
        if let Some(due) = walk.batches.get(batch) {
            return Some(*due);
        }
        let touched = |member: &u32| self.rows[stack.forward[*member as usize]].role == Role::Forward;
        let earlier = match row.details().pause {
            Some(pause) => pause.waited(self.ctx.now),
            None if before.iter().any(touched) => Duration::ZERO,
            None => return None,
        };
        let due = self.ctx.now + time.saturating_sub(earlier);
        walk.batches.insert(Arc::clone(batch), due);
        Some(due)
    }

    /// Ends a wait. Returns false if the row did not wait.
    pub(crate) fn end_pause(&mut self, slot: Slot) -> bool {
        let row = &mut self.rows[slot];
        let Some(pause) = row.end_pause() else { return false };
        let stack = row.stack;
        if let Some(due) = pause.due {
            self.ctx.timers.clear(due, TimerKey::Pause(slot));
        }
        if let Some(stack) = self.stacks.get_mut(&stack) {
            stack.waiting.remove(&slot);
        }
        self.row_changed(slot, false);
        self.ctx.agenda.push_back(Todo::CheckEnd(stack));
        true
    }

    /// Whether the row waits for its batch.
    pub(crate) fn is_before_batch(&self, slot: Slot) -> bool {
        self.rows[slot].details().pause.is_some_and(|pause| pause.of_batch)
    }

    /// Breaks off a wait, because something else is wanted of the row or nothing. A row that has
    /// started fails, and starts again when it is wanted. A row before its batch stays as it was.
    /// Returns whether the row waited.
    pub(crate) fn break_pause(&mut self, slot: Slot) -> bool {
        let of_batch = self.is_before_batch(slot);
        if !self.end_pause(slot) || of_batch {
            return of_batch;
        }
        let row = &self.rows[slot];
        let signals = if row.kind == Kind::WaitCondition { " for signals" } else { "" };
        self.tell_withdrawn(slot, row.action(), &format!("while it waited{signals}"));
        let row = &mut self.rows[slot];
        row.fail_as_it_is(&format!("the wait{signals} was withdrawn; the next operation starts it again"));
        true
    }

    /// Whether the row already waits with this spec.
    pub(crate) fn waits_for_this(&self, slot: Slot, spec: &PackedSpec) -> bool {
        let row = &self.rows[slot];
        row.pauses() && !row.is_going() && row.spec() == Some(spec)
    }

    /// Breaks off a wait with another spec.
    pub(crate) fn break_pause_for(&mut self, slot: Slot, spec: &PackedSpec) {
        if !self.rows[slot].pauses_still(spec) {
            self.break_pause(slot);
        }
    }
}
