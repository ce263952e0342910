//! State that few rows have: hooks, a pause, causes of failures, drift events, a breaker, notes.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_shared::{MonoTime, StackName};
use muster_template::{DriftPolicy, Hook};

use crate::drift::breaker::Breaker;
use crate::drift::drift_report::DriftEvent;
use crate::row::Row;
use crate::row::notes::Notes;
use crate::traversal::signal::StoredSignal;
use crate::traversal::waiting_rows::Pause;

/// Causes kept of one job: the newest.
const CAUSES_MAX: usize = 20;

/// State that few rows have. It is allocated apart, because there may be a million rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RowDetails {
    /// The type that operators see, if it is not the kind's name.
    pub type_name: Option<Arc<str>>,
    pub external_id: Option<Box<str>>,
    pub lost_from: Option<StackName>,
    pub unhealthy: bool,
    pub hook: Option<Hook>,
    /// When the row began to wait at the hook.
    pub hook_since: Option<MonoTime>,
    pub hooks_cleared: u8,
    pub causes: Vec<Box<str>>,
    pub pause: Option<Pause>,
    pub drift_event: Option<DriftEvent>,
    pub drift_policy: Option<DriftPolicy>,
    pub breaker: Option<Breaker>,
    /// See [`Notes`].
    pub notes: Option<Notes>,
}

static NO_DETAILS: RowDetails = RowDetails {
    type_name: None,
    external_id: None,
    lost_from: None,
    unhealthy: false,
    hook: None,
    hook_since: None,
    hooks_cleared: 0,
    causes: Vec::new(),
    pause: None,
    drift_event: None,
    drift_policy: None,
    breaker: None,
    notes: None,
};

impl Row {
    pub fn details(&self) -> &RowDetails {
        self.details.as_deref().unwrap_or(&NO_DETAILS)
    }

    pub(super) fn details_mut(&mut self) -> &mut RowDetails {
        self.0.details.get_or_insert_default()
    }

    fn known_details(&mut self) -> Option<&mut RowDetails> {
        self.0.details.as_deref_mut()
    }

    /// The row waits at a hook.
    pub fn stop_at(&mut self, hook: Hook, now: MonoTime) {
        let details = self.details_mut();
        (details.hook, details.hook_since) = (Some(hook), Some(now));
    }

    /// Ends the wait at a hook. Returns whether the row waited.
    pub fn leave_hook(&mut self) -> bool {
        self.known_details().is_some_and(|details| details.hook.take().is_some())
    }

    /// Marks hooks as cleared or due, by the bits of [`RowDetails::hooks_cleared`].
    pub fn add_hooks(&mut self, bits: u8) {
        self.details_mut().hooks_cleared |= bits;
    }

    /// Drops the bits of all other hooks.
    pub fn keep_hooks(&mut self, bits: u8) {
        if let Some(details) = self.known_details() {
            details.hooks_cleared &= bits;
        }
    }

    pub fn set_pause(&mut self, pause: Pause) {
        self.details_mut().pause = Some(pause);
    }

    pub fn end_pause(&mut self) -> Option<Pause> {
        self.known_details()?.pause.take()
    }

    /// Adds the cause of a failed attempt.
    pub fn add_cause(&mut self, reason: &str) {
        let causes = &mut self.details_mut().causes;
        if causes.len() >= CAUSES_MAX {
            causes.remove(0);
        }
        causes.push(reason.into());
    }

    pub fn clear_causes(&mut self) {
        if let Some(details) = self.known_details() {
            details.causes.clear();
        }
    }

    /// Drift events to write. `None`: the row never drifted.
    pub fn drift_event_mut(&mut self) -> Option<&mut DriftEvent> {
        self.known_details()?.drift_event.as_mut()
    }

    pub fn drift_event_or_new(&mut self) -> &mut DriftEvent {
        self.details_mut().drift_event.get_or_insert_default()
    }

    pub fn breaker_mut(&mut self) -> Option<&mut Breaker> {
        self.known_details()?.breaker.as_mut()
    }

    pub fn breaker_or_new(&mut self, now: MonoTime) -> &mut Breaker {
        self.details_mut().breaker.get_or_insert_with(|| Breaker::new(now))
    }

    pub fn forget_breaker(&mut self) -> Option<Breaker> {
        self.known_details()?.breaker.take()
    }

    /// Replaces the notes. Returns whether they differ.
    pub fn set_notes(&mut self, notes: Option<Notes>) -> bool {
        if self.details().notes == notes {
            return false;
        }
        self.details_mut().notes = notes;
        true
    }

    pub fn notes_mut(&mut self) -> Option<&mut Notes> {
        self.known_details()?.notes.as_mut()
    }

    /// Adds a signal to a handle.
    pub fn add_signal(&mut self, id: String, signal: StoredSignal) {
        match &mut self.details_mut().notes {
            Some(Notes::Signals(signals)) => drop(signals.insert(id, signal)),
            notes => *notes = Some(Notes::Signals(BTreeMap::from([(id, signal)]))),
        }
    }
}
