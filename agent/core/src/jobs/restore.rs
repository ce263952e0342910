//! Restores the state before a change: at once, again later, by the document's fallback, or after a restart.
//!
//! Absent: when to undo a change (`confirm.rs`), and how the host does it (`agent/host/src/net/restore.rs`).

use std::time::Duration;

use muster_shared::model::{Action, Job, Lane, Outcome, ReportKey};
use muster_shared::{MonoTime, ResourceId};

use super::confirm::{Guard, Stage};
use super::phase::{PROGRESS_FIRST, Phase};
use super::{Jobs, Turn};
use crate::face::Effect;
use crate::ledger::Undo;

/// The host answers in seconds; a host that hangs is asked again.
const RESTORE_WITHIN: Duration = Duration::from_secs(60);
/// Attempts in a row before the document's fallback, and before the job is over: about 15 s of them.
const RESTORE_TRIES: u32 = 5;
const RESTORE_AGAIN_FIRST: Duration = Duration::from_secs(1);
/// The pause between later tries, without end: an obstacle may go away, such as a switch that restarts.
const RESTORE_AGAIN: Duration = Duration::from_secs(30);

/// The progress of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// The host works on the restore and must answer by `until`.
    Running { fallback: bool, until: MonoTime },
    /// The next try begins at `until`.
    Waits { until: MonoTime },
}

impl Jobs {
    /// A change that can cut the node off is under way, or being undone, of the network or of flow rules.
    pub(super) fn is_guarding(&self, turn: &Turn) -> bool {
        self.guard.is_some() || turn.flows_guard
    }

    /// Whether the current job's change may have started before a restart without being kept.
    pub(super) fn is_half_done(&self, resource: ResourceId) -> bool {
        let Some(entry) = self.ledger.get(resource) else { return false };
        let undo = entry.undo.as_ref().map(|undo| undo.key);
        undo.is_some() && undo == entry.current.as_ref().map(|accepted| accepted.job.key())
    }

    /// First restores what a change that began before a restart may have touched.
    pub(super) fn recover_undo(&mut self, turn: &Turn) {
        self.restore_at =
            self.ledger.iter().filter(|entry| entry.undo.is_some()).map(|e| (e.resource, turn.now)).collect();
    }

    /// The reason why the resource must be restored before its job may begin: afterwards the record
    /// would be lost, or the restore would overwrite what the job makes. A newer change of the same
    /// resource is undone to the same state.
    pub(super) fn must_be_put_back(&self, resource: ResourceId) -> Option<String> {
        let job = &self.ledger.current(resource)?.job;
        let changes = job.action != Action::Check && job.spec.confirm_within().is_some();
        let undone = self.ledger.iter().filter(|entry| changes && entry.undo.is_some()).map(|e| e.resource);
        let mut undone = undone.filter(|&other| other != resource || job.action == Action::Retain);
        let again = RESTORE_AGAIN.as_secs();
        undone.next().map(|other| {
            format!(
                "an earlier change of {other} could not be restored yet: it is tried again every {again} s, and a newer \
                 document of that resource replaces it"
            )
        })
    }

    /// Begins the next restore that is due, once no change is under way.
    pub(crate) fn begin_restoring(&mut self, turn: &mut Turn) {
        if self.is_guarding(turn) || self.lanes.is_busy(Lane::Network) || turn.is_stopping {
            return;
        }
        let (ledger, now) = (&self.ledger, turn.now);
        self.restore_at.retain(|resource, _| ledger.get(*resource).is_some_and(|entry| entry.undo.is_some()));
        let due = self.restore_at.iter().find(|(_, at)| **at <= now).map(|(resource, _)| *resource);
        if let Some(resource) = due {
            self.restore_at.remove(&resource);
            let why = "the agent ended before the change was confirmed (a crash, a stop or a reboot)";
            self.restore(resource, why.into(), turn);
        }
    }

    pub(super) fn restore(&mut self, resource: ResourceId, why: String, turn: &mut Turn) {
        let last = Attempt::Running { fallback: false, until: turn.now + RESTORE_WITHIN };
        let stage = Stage::Restoring { why, tries: 0, last };
        self.guard = Some(Guard { resource, stage, progress: turn.now + PROGRESS_FIRST });
        self.put_back(resource, turn);
    }

    fn put_back(&mut self, resource: ResourceId, turn: &mut Turn) {
        if let Some(Undo { key, state, .. }) = self.ledger.get(resource).and_then(|entry| entry.undo.clone())
        {
            turn.effects.push(Effect::Restore { key, undo: state });
        }
    }

    /// The answer to [`Effect::Restore`] and [`Effect::Fallback`].
    pub(crate) fn restored(&mut self, key: ReportKey, result: Result<(), String>, turn: &mut Turn) {
        let Some(Guard { resource, stage: Stage::Restoring { why, tries, last }, .. }) = &mut self.guard
        else {
            return;
        };
        let Attempt::Running { fallback, .. } = *last else { return };
        let undo = self.ledger.get(*resource).and_then(|entry| entry.undo.as_ref());
        if undo.is_none_or(|undo| undo.key != key) {
            return;
        }
        let (resource, why) = (*resource, why.clone());
        let reason = match result {
            Ok(()) => return self.back_in_force(key, resource, fallback, &why, turn),
            Err(reason) => reason,
        };
        *tries += 1;
        let (tries, now) = (*tries, turn.now);
        if tries < RESTORE_TRIES {
            *last = Attempt::Waits { until: now + RESTORE_AGAIN_FIRST * 2u32.pow(tries - 1) };
            return turn
                .effects
                .warn(format!("cannot restore what was there before, will try again: {reason}"));
        }
        let spec = self.undone_job(resource).map(|job| job.spec.clone());
        match spec {
            Some(spec) if !fallback => {
                if let Some(Guard { stage: Stage::Restoring { last, .. }, .. }) = &mut self.guard {
                    *last = Attempt::Running { fallback: true, until: now + RESTORE_WITHIN };
                }
                turn.effects.warn(format!("cannot restore what was there before, falling back: {reason}"));
                turn.effects.push(Effect::Fallback { key, spec });
            }
            Some(_) | None => self.not_back_yet(key, resource, &why, &reason, turn),
        }
    }

    /// The job whose change must be undone, unless that job has ended.
    fn undone_job(&self, resource: ResourceId) -> Option<&Job> {
        let entry = self.ledger.get(resource)?;
        let key = entry.undo.as_ref()?.key;
        self.current(key, |phase| phase == Phase::Guarded)
    }

    fn back_in_force(
        &mut self,
        key: ReportKey,
        resource: ResourceId,
        is_fallback: bool,
        why: &str,
        turn: &mut Turn,
    ) {
        let has_job = self.undone_job(resource).is_some();
        self.guard = None;
        if is_fallback {
            self.drop_undo(resource);
        } else {
            self.undo_entry(resource);
        }
        turn.connection.hurry(turn.now);
        turn.connection.reconnect(turn.now, "the network was restored", turn.fetch, turn.effects);
        match has_job {
            // A further try by the agent alone could cut the server off again.
            true => {
                let how = if is_fallback {
                    "what was there before cannot be restored, the fallback_config is in force"
                } else {
                    "what was there before has been restored"
                };
                self.end(key, Outcome::Failed { reason: format!("{why}; {how}"), permanent: true }, turn);
            }
            // The change's job ended before.
            false => self.ledger.write_through(resource, turn.effects),
        }
    }

    fn not_back_yet(
        &mut self,
        key: ReportKey,
        resource: ResourceId,
        why: &str,
        reason: &str,
        turn: &mut Turn,
    ) {
        let has_job = self.undone_job(resource).is_some();
        self.guard = None;
        self.restore_at.insert(resource, turn.now + RESTORE_AGAIN);
        turn.effects.warn(format!("cannot restore what was there before: {reason}"));
        if has_job {
            let again = RESTORE_AGAIN.as_secs();
            let reason = format!(
                "{why}; what was there before cannot be restored: {reason}; it is tried again every {again} s"
            );
            self.end(key, Outcome::Failed { reason, permanent: true }, turn);
        }
    }

    /// The resource, and those it took over from, own again what they owned before the change.
    pub(super) fn undo_entry(&mut self, resource: ResourceId) {
        self.ledger.edit(resource, |entry| {
            if let Some(undo) = entry.undo.take() {
                entry.holding = undo.holding;
            }
        });
    }

    pub(super) fn drop_undo(&mut self, resource: ResourceId) {
        self.ledger.edit(resource, |entry| entry.undo = None);
    }

    pub(super) fn restoring_timeouts(&mut self, last: Attempt, turn: &mut Turn) {
        let Some(Guard { resource, stage: Stage::Restoring { last: at, .. }, .. }) = &mut self.guard else {
            return;
        };
        let (resource, now) = (*resource, turn.now);
        let Some(key) = self.ledger.get(resource).and_then(|e| e.undo.as_ref()).map(|undo| undo.key) else {
            return;
        };
        match last {
            Attempt::Running { until, .. } if now >= until => {
                turn.effects.push(Effect::Cancel(key));
                let reason = format!("no answer within {} s", RESTORE_WITHIN.as_secs());
                self.restored(key, Err(reason), turn);
            }
            Attempt::Waits { until } if now >= until => {
                *at = Attempt::Running { fallback: false, until: now + RESTORE_WITHIN };
                self.put_back(resource, turn);
            }
            Attempt::Running { .. } | Attempt::Waits { .. } => {}
        }
    }
}
