//! Graph nodes that wait for time to pass, or for signals, without a job: known to the store with how long they have
//! waited, so that a restart of the controller neither begins the time anew nor forgets it.
//!
//! ```text
//!   visited ─▶ waits ── enough signals, or as long as it was to ─▶ made
//!      │         ├───── FAILURE, or the signals are late ─▶ failed
//!      │         └───── something else is wanted ─▶ failed until it is visited again
//!      │
//!      └─▶ waits for its batch (`pause_time`) ── the time is over ─▶ visited
//!                └───── something else is wanted ─▶ as it was
//! ```

use std::sync::Arc;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::Action;
use muster_template::{Kind, Tree};

use crate::graph::Graph;
use crate::record::PackedSpec;
use crate::row::{Role, Row, Slot};
use crate::stack::Walk;
use crate::timer::TimerKey;
use crate::todo::Todo;

/// After a restart at least so long is waited still for signals: who could not reach the controller meanwhile tries
/// again.
pub(crate) const SIGNALS_GRACE: Duration = Duration::from_secs(30);

/// A row that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    /// How long it had waited before the controller was started.
    pub earlier: Duration,
    /// Since when it has in this run.
    pub since: MonoTime,
    /// When it does no more; none: it was loaded, and is not taken up yet.
    pub due: Option<MonoTime>,
    /// It has not begun: its batch is yet to.
    pub of_batch: bool,
}

impl Pause {
    pub fn waited(&self, now: MonoTime) -> Duration {
        self.earlier + now.since(self.since)
    }
}

impl Row {
    /// It waits without a job.
    pub fn pauses(&self) -> bool {
        self.details().pause.is_some_and(|pause| pause.due.is_some())
    }

    /// It waits for signals.
    pub fn awaits_signals(&self) -> bool {
        self.kind == Kind::WaitCondition
            && self.details().pause.is_some_and(|pause| pause.due.is_some() && !pause.of_batch)
    }

    /// It was loaded as one that waits, for this.
    pub fn pauses_still(&self, spec: &PackedSpec) -> bool {
        let loaded = self.details().pause.is_some_and(|pause| pause.due.is_none() && !pause.of_batch);
        loaded && self.spec.as_ref() == Some(spec)
    }
}

impl Graph {
    /// It is in progress until so long a time is over. `still`: it waited when the controller ended, and does for `least`
    /// from now on.
    pub(crate) fn pause(&mut self, slot: Slot, action: Action, time: Duration, still: Option<Duration>) {
        let now = self.ctx.now;
        let row = &mut self.rows[slot];
        let earlier =
            row.details().pause.filter(|_| still.is_some()).map_or(Duration::ZERO, |pause| pause.earlier);
        let least = still.unwrap_or_default().min(time);
        let due = now + time.saturating_sub(earlier).max(least);
        row.wait(action);
        let stack = row.stack;
        self.set_pause(slot, Pause { earlier, since: now, due: Some(due), of_batch: false });
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

    /// Whether a row that has something to do is to wait, for its batch begins some time after the one before.
    pub(crate) fn waits_for_batch(&mut self, slot: Slot, tree: &Tree) -> bool {
        let row = &self.rows[slot];
        let pause = row.details().pause;
        // What it waits for itself began before. What stands for others does nothing.
        if row.work.is_some() || row.kind.is_whole() || pause.is_some_and(|pause| !pause.of_batch) {
            return false;
        }
        let now = self.ctx.now;
        let due = self.batch_due(slot, tree).filter(|due| *due > now);
        if due.is_some() && pause.is_some_and(|pause| pause.due == due) {
            return true;
        }
        self.end_pause(slot);
        let earlier = pause.map_or(Duration::ZERO, |pause| pause.waited(now));
        if due.is_some() {
            self.set_pause(slot, Pause { earlier, since: now, due, of_batch: true });
        }
        due.is_some()
    }

    /// The stack has had its time before the batch of a row began: in this operation it does not any more.
    pub(crate) fn comes_too_late(&self, row: &Row) -> bool {
        let late = self.stacks.get(&row.stack).filter(|stack| stack.timed_out);
        let walk = late.and_then(|stack| stack.walk.as_ref());
        let has_not_begun = row.role == Role::Forward && !row.ready && row.work.is_none();
        // One that is to take another's place has begun with that.
        let begun = row.details().pause.is_some_and(|pause| !pause.of_batch) || row.replaces.is_some();
        let follows = |walk: &Walk| walk.tree.follows_a_batch(row.index as usize);
        has_not_begun && !begun && !row.failed && walk.is_some_and(follows)
    }

    /// When the batch of a row begins: the first of it that is visited finds the one before done.
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

    /// It waits no more.
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

    /// The batch is yet to begin.
    pub(crate) fn is_before_batch(&self, slot: Slot) -> bool {
        self.rows[slot].details().pause.is_some_and(|pause| pause.of_batch)
    }

    /// Something else is wanted of it, or nothing any more: it is as one that failed, and begins anew when it is wanted.
    /// What has not begun is as it was.
    pub(crate) fn break_pause(&mut self, slot: Slot) -> bool {
        let of_batch = self.is_before_batch(slot);
        if !self.end_pause(slot) || of_batch {
            return of_batch;
        }
        let row = &self.rows[slot];
        let signals = if row.kind == Kind::WaitCondition { " for signals" } else { "" };
        self.tell_taken_back(slot, row.action, &format!("while it waited{signals}"));
        let row = &mut self.rows[slot];
        row.fail_as_it_is(&format!("it waits{signals} no more: it does again when it is wanted"));
        true
    }

    /// It waits already for what is wanted.
    pub(crate) fn waits_for_this(&self, slot: Slot, spec: &PackedSpec) -> bool {
        let row = &self.rows[slot];
        row.pauses() && !row.is_going() && row.spec.as_ref() == Some(spec)
    }

    /// It waits for what is not wanted any more.
    pub(crate) fn break_pause_for(&mut self, slot: Slot, spec: &PackedSpec) {
        if !self.rows[slot].pauses_still(spec) {
            self.break_pause(slot);
        }
    }
}
