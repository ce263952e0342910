//! Graph nodes that wait for time to pass, or for signals, without a job: known to the store with how long they have
//! waited, so that a restart of the controller neither begins the time anew nor forgets it.
//!
//! ```text
//!   visited ─▶ waits ── enough signals ──────────▶ made
//!                ├───── FAILURE, or the time is over ─▶ failed
//!                └───── something else is wanted ─▶ failed until it is visited again
//! ```

use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::Action;

use crate::engine::{Engine, Todo};
use crate::record::{PackedSpec, Status};
use crate::resource::{Row, Slot};
use crate::timer::TimerKey;

/// After a restart at least so long is waited still: who could not reach the controller meanwhile tries again.
const RESTART_GRACE: Duration = Duration::from_secs(30);

/// A row that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    /// How long it had waited before the controller was started.
    pub earlier: Duration,
    /// Since when it has in this run.
    pub since: MonoTime,
    /// When it does no more; none: it was loaded, and is not taken up yet.
    pub due: Option<MonoTime>,
}

impl Pause {
    pub fn waited(&self, now: MonoTime) -> Duration {
        self.earlier + now.since(self.since)
    }
}

impl Row {
    /// It waits without a job.
    pub fn pauses(&self) -> bool {
        self.rare().pause.is_some_and(|pause| pause.due.is_some())
    }

    /// It was loaded as one that waits, for this.
    pub fn pauses_still(&self, spec: &PackedSpec) -> bool {
        self.rare().pause.is_some_and(|pause| pause.due.is_none()) && self.spec.as_ref() == Some(spec)
    }
}

impl Engine {
    /// It is in progress until so long a time is over. `still`: it waited when the controller ended.
    pub(crate) fn pause(&mut self, slot: Slot, action: Action, time: Duration, still: bool) {
        let now = self.now;
        let row = &mut self.rows[slot];
        let earlier = row.rare().pause.filter(|_| still).map_or(Duration::ZERO, |pause| pause.earlier);
        let least = if still { RESTART_GRACE.min(time) } else { Duration::ZERO };
        let due = now + time.saturating_sub(earlier).max(least);
        row.rare_mut().pause = Some(Pause { earlier, since: now, due: Some(due) });
        (row.action, row.status) = (Some(action), Some(Status::InProgress));
        let stack = row.stack;
        self.timers.set(due, TimerKey::Pause(slot));
        if let Some(stack) = self.stacks.get_mut(&stack) {
            stack.waiting.insert(slot);
        }
        self.row_changed(slot, true);
        if !still {
            self.event(stack, Some(slot));
        }
    }

    /// It waits no more.
    pub(crate) fn end_pause(&mut self, slot: Slot) -> bool {
        let row = &mut self.rows[slot];
        let Some(pause) = row.rare.as_mut().and_then(|rare| rare.pause.take()) else { return false };
        let stack = row.stack;
        if let Some(due) = pause.due {
            self.timers.clear(due, TimerKey::Pause(slot));
        }
        if let Some(stack) = self.stacks.get_mut(&stack) {
            stack.waiting.remove(&slot);
        }
        self.row_changed(slot, false);
        self.agenda.push_back(Todo::CheckEnd(stack));
        true
    }

    /// Something else is wanted of it, or nothing any more: it is as one that failed, and begins anew when it is wanted.
    pub(crate) fn break_pause(&mut self, slot: Slot) -> bool {
        if !self.end_pause(slot) {
            return false;
        }
        self.tell_taken_back(slot, self.rows[slot].action, "while it waited for signals");
        let row = &mut self.rows[slot];
        row.status = Some(Status::Failed);
        row.reason = Some("it waits for signals no more: it does again when it is wanted".into());
        true
    }

    /// It waits already for what is wanted.
    pub(crate) fn waits_for_this(&self, slot: Slot, spec: &PackedSpec) -> bool {
        let row = &self.rows[slot];
        row.pauses() && row.spec.as_ref() == Some(spec)
    }

    /// It waits for what is not wanted any more.
    pub(crate) fn break_pause_for(&mut self, slot: Slot, spec: &PackedSpec) {
        if !self.rows[slot].pauses_still(spec) {
            self.break_pause(slot);
        }
    }

    pub(crate) fn pause_due(&mut self, slot: Slot, due: MonoTime) {
        let Some(row) = self.rows.get(slot) else { return };
        if row.rare().pause.is_some_and(|pause| pause.due == Some(due)) {
            self.signals_are_late(slot);
        }
    }
}
