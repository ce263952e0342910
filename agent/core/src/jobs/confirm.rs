//! Commit-confirm: the agent keeps a change that can cut the node off only if it reaches the controller over
//! a new connection.
//!
//! ```text
//!            host read it          on disk           applied                  the right answer
//!   Reading ─────────────▶ Recording ─────▶ Applying ────────▶ Confirming ──────────────────────▶ Keeping ─on disk─▶ kept
//!      │ failed               │ refused        │ failed, late      │ late                            │ refused
//!      ▼                      ▼                ▼                   ▼                                 ▼
//!   not begun              not begun       Restoring ◀─────────────┴─────────────────────────────────┘
//!                                              │ back, or fallback ─▶ FAILED; else again from time to time
//! ```
//!
//! **Invariants.** The state of all that a change may touch is on disk, as [`Undo`], before the first
//! step. The undo record goes in the same write that keeps the change, or once the old state is restored.
//! So a crash at any point leads to a restore. The agent alone decides: an answer after the deadline, or
//! to another challenge, changes nothing. Only one guarded change is under way at a time, and none during
//! a restore.
//!
//! Absent: which types can cut the node off (`confirm_within`, `shared/src/model/types.rs`), how long the agent tries
//! (`CONFIRM_TIMEOUT`, `shared/src/property.rs`), the restore and what a crash leads to (`restore.rs`), a reboot
//! (`agent/core/src/boot.rs`), the host's reading, and the driver's choice of a connection.

use std::time::Duration;

use muster_shared::model::{Job, Lane, Observed, Outcome, Progress, ReportKey, Up};
use muster_shared::{MonoTime, ResourceId};

use super::phase::{PROGRESS_EVERY, PROGRESS_FIRST, Phase};
use super::restore::Attempt;
use super::{Jobs, Turn};
use crate::challenge::{Challenge, STOPPED};
use crate::face::{Effect, RunError};
use crate::ledger::{After, Before, Entry, Holding, Ledger, Undo};

/// The change under way, or its restore.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) resource: ResourceId,
    pub(super) stage: Stage,
    pub(super) progress: MonoTime,
}

#[derive(Debug)]
pub(super) enum Stage {
    Reading {
        deadline: MonoTime,
        captured: Option<Holding>,
    },
    /// `again`: a change before this one left something that could not be restored yet. So this change must
    /// be confirmed or undone, even if it changes nothing itself.
    Recording {
        challenge: Vec<u8>,
        again: bool,
    },
    Applying {
        deadline: MonoTime,
        challenge: Vec<u8>,
        again: bool,
    },
    Confirming(Box<Confirming>),
    Keeping {
        held: Box<Entry>,
    },
    Restoring {
        why: String,
        tries: u32,
        last: Attempt,
    },
}

#[derive(Debug)]
pub(super) struct Confirming {
    challenge: Challenge,
    observed: Observed,
    before: Option<Before>,
}

impl Guard {
    fn timeout(&self) -> Option<(MonoTime, &'static str)> {
        match &self.stage {
            Stage::Reading { deadline, .. } => Some((*deadline, "reading what a job may touch")),
            Stage::Recording { .. } | Stage::Keeping { .. } => None,
            Stage::Applying { deadline, .. } => Some((*deadline, "deadline of a change")),
            Stage::Confirming(confirming) => confirming.challenge.timeouts().min_by_key(|(at, _)| *at),
            Stage::Restoring { last: Attempt::Running { until, .. } | Attempt::Waits { until }, .. } => {
                Some((*until, "restoring"))
            }
        }
    }
}

impl Jobs {
    /// The job whose change it is.
    fn guard_key(&self) -> Option<ReportKey> {
        let guard = self.guard.as_ref()?;
        self.ledger.current(guard.resource).map(|accepted| accepted.job.key())
    }

    /// A change waits for the controller.
    pub(crate) fn is_confirming(&self) -> bool {
        matches!(self.guard, Some(Guard { stage: Stage::Confirming(_), .. }))
    }

    /// Begins the guard of a job. All other records of the job are on disk, except the state before Muster
    /// if it was just `captured`.
    pub(super) fn guard(&mut self, job: &Job, captured: Option<Holding>, turn: &mut Turn) {
        let (key, resource) = (job.key(), job.resource);
        // The disk may hold an outdated undo record. A restore from it after a crash must not overwrite
        // this change.
        if self.ledger.has_refused() {
            self.ledger.write_refused(turn.effects);
            return self.end(key, turn.disk.failed("an older record was refused and is written again"), turn);
        }
        self.set_phase(resource, Phase::Guarded);
        let (known, theirs) = self.ledger.known_to(job);
        let before = captured.as_ref().map(|captured| captured.before.clone()).or(known);
        let stage = Stage::Reading { deadline: turn.now + job.timeout, captured };
        // Progress is due at once: after the change the controller may be unreachable for a while.
        self.guard = Some(Guard { resource, stage, progress: turn.now });
        turn.effects.push(Effect::Guard { job: Box::new(job.clone()), before, theirs });
    }

    /// The answer to [`Effect::Guard`].
    pub(crate) fn guarded(
        &mut self,
        key: ReportKey,
        undo: Result<Before, RunError>,
        challenge: Vec<u8>,
        turn: &mut Turn,
    ) {
        let Some(Stage::Reading { captured, .. }) = self.stage(key) else { return };
        let captured = captured.take();
        match undo {
            Ok(state) => {
                let again = self.ledger.get(key.resource).is_some_and(|entry| entry.undo.is_some());
                self.set_stage(Stage::Recording { challenge, again });
                let was = self.ledger.edit(key.resource, |entry| {
                    let was = entry.clone();
                    let new = Undo { key, state, holding: was.holding.clone() };
                    // Undoing this change must also restore the state that an earlier change left unrestored.
                    entry.undo = Some(entry.undo.take().map_or(new, |old| Undo { key, ..old }));
                    if captured.is_some() {
                        entry.holding = captured;
                    }
                    was
                });
                let after = After::Guarded { key, was: Box::new(was) };
                self.ledger.write(key.resource, after, turn.effects);
            }
            Err(error) => {
                self.guard = None;
                self.end(key, error.into(), turn);
            }
        }
    }

    /// The undo record is on disk: the change begins.
    pub(super) fn guard_written(&mut self, key: ReportKey, was: Entry, turn: &mut Turn) {
        if self.ledger.has_undo_on_disk_but(key.resource) {
            // After a crash, that record's restore would overwrite this change.
            let reason = "what was restored of another resource is not recorded yet";
            return self.not_recorded(key, was, reason, turn);
        }
        let Some(Stage::Recording { challenge, again }) = self.stage(key) else { return };
        let (challenge, again) = (std::mem::take(challenge), *again);
        let Some(job) = self.current(key, |phase| phase == Phase::Guarded).cloned() else { return };
        if turn.is_stopping {
            // As after a crash, the agent restores the state at its next start.
            self.guard = None;
            return;
        }
        self.set_stage(Stage::Applying { deadline: turn.now + window(&job), challenge, again });
        let (before, theirs) = self.ledger.known_to(&job);
        turn.effects.push(Effect::Run { job: Box::new(job), before, theirs });
    }

    /// Nothing was touched. The captured state is right but would not survive a restart: the next attempt
    /// reads it again.
    pub(super) fn not_recorded(&mut self, key: ReportKey, was: Entry, reason: &str, turn: &mut Turn) {
        if self.current(key, |phase| phase == Phase::Recording).is_some() || self.leaves_guard(key) {
            self.ledger.edit(key.resource, |entry| (entry.holding, entry.undo) = (was.holding, was.undo));
            self.end(key, turn.disk.failed(reason), turn);
        }
    }

    /// Whether the disk refused this job's undo record: nothing was touched.
    pub(super) fn leaves_guard(&mut self, key: ReportKey) -> bool {
        let is_it = matches!(self.stage(key), Some(Stage::Recording { .. }));
        self.guard.take_if(|_| is_it).is_some()
    }

    /// The answer to [`Effect::Run`] of a guarded job; `touched`: something was changed.
    pub(super) fn guarded_ran(
        &mut self,
        key: ReportKey,
        outcome: Result<Observed, RunError>,
        before: Option<Before>,
        touched: bool,
        turn: &mut Turn,
    ) {
        let Some(Stage::Applying { deadline, challenge, again }) = self.stage(key) else { return };
        let (deadline, challenge, again) = (*deadline, std::mem::take(challenge), *again);
        let touched = touched || again;
        match outcome {
            Err(error) if touched => self.restore(key.resource, error.reason, turn),
            Err(error) => {
                self.guard = None;
                self.undo_entry(key.resource);
                self.end(key, error.into(), turn);
            }
            Ok(observed) if touched => {
                self.set_stage(Stage::Confirming(Box::new(Confirming {
                    challenge: Challenge::new(challenge, deadline),
                    observed,
                    before,
                })));
                if let Some(guard) = &mut self.guard {
                    guard.progress = turn.now + PROGRESS_FIRST;
                }
                let why = "to confirm a change over a new connection";
                turn.connection.reconnect(turn.now, why, turn.fetch, turn.effects);
            }
            Ok(observed) => self.keep(key, observed, before, turn),
        }
    }

    /// The agent has reached the controller on a connection made since the change.
    pub(crate) fn reached(&mut self, now: MonoTime) {
        if let Some(Guard { stage: Stage::Confirming(confirming), .. }) = &mut self.guard {
            confirming.challenge.reached(now);
        }
    }

    /// The connection is lost, or an attempt to connect failed.
    pub(crate) fn disconnected(&mut self, reason: &str) {
        if let Some(Guard { stage: Stage::Confirming(confirming), .. }) = &mut self.guard {
            confirming.challenge.lost(reason.to_owned());
        }
    }

    /// [`Down::Answer`]
    pub(crate) fn answer(&mut self, key: ReportKey, bytes: &[u8], turn: &mut Turn) {
        let now = turn.now;
        if let Some(Stage::Confirming(confirming)) = self.stage(key)
            && confirming.challenge.is_answered_by(now, bytes)
        {
            let (observed, before) = (std::mem::take(&mut confirming.observed), confirming.before.take());
            self.keep(key, observed, before, turn);
        }
    }

    fn keep(&mut self, key: ReportKey, observed: Observed, before: Option<Before>, turn: &mut Turn) {
        let resource = key.resource;
        let Some(held) = self.ledger.get(resource).cloned().map(Box::new) else { return };
        self.set_stage(Stage::Keeping { held });
        self.drop_undo(resource);
        self.ledger.keep_before(resource, before);
        self.end(key, Outcome::Done(observed), turn);
    }

    /// Whether the write of this outcome records a change as kept.
    pub(super) fn is_keeping(&self, key: ReportKey) -> bool {
        let guard = self.guard.as_ref().filter(|guard| guard.resource == key.resource);
        guard.is_some_and(|guard| matches!(guard.stage, Stage::Keeping { .. }))
    }

    /// The outcome of the guarded change is on disk.
    pub(super) fn kept(&mut self) {
        self.guard = None;
    }

    /// The disk has refused the outcome of the guarded change: the change is undone before any report.
    pub(super) fn not_kept(&mut self, key: ReportKey, reason: &str, turn: &mut Turn) {
        let Some(Guard { stage: Stage::Keeping { held }, .. }) = &self.guard else { return };
        let held = held.clone();
        // Later changes to the entry stay.
        self.ledger.edit(key.resource, |entry| {
            (entry.holding, entry.gone) = (held.holding, held.gone);
            (entry.undo, entry.applied, entry.current) = (held.undo, held.applied, held.current);
            entry.unacknowledged.retain(|report| report.key != key);
            if entry.last.as_ref().is_some_and(|last| last.key == key) {
                entry.last = held.last;
            }
        });
        self.set_phase(key.resource, Phase::Guarded);
        self.restore(
            key.resource,
            format!("cannot write on the node's disk that the change is kept: {reason}"),
            turn,
        );
    }

    /// The agent must end: unconfirmed changes are undone.
    pub(crate) fn stop_guarding(&mut self, turn: &mut Turn) {
        let Some(guard) = &self.guard else { return };
        let (resource, key) = (guard.resource, self.guard_key());
        match &guard.stage {
            Stage::Reading { .. } => self.guard = None,
            Stage::Applying { .. } => {
                turn.effects.extend(key.map(Effect::Cancel));
                self.restore(resource, STOPPED.into(), turn);
            }
            Stage::Confirming(_) => self.restore(resource, STOPPED.into(), turn),
            Stage::Recording { .. } | Stage::Keeping { .. } | Stage::Restoring { .. } => {}
        }
    }

    /// When to look again.
    pub(crate) fn guard_timeout(&self, is_open: bool, may_begin: bool) -> Option<(MonoTime, &'static str)> {
        let Some(guard) = &self.guard else {
            let is_free = may_begin && !self.lanes.is_busy(Lane::Network);
            let due = self.restore_at.values().min().filter(|_| is_free);
            return due.map(|at| (*at, "restoring again"));
        };
        let progress = is_open.then_some((guard.progress, "progress"));
        guard.timeout().into_iter().chain(progress).min_by_key(|(at, _)| *at)
    }

    pub(crate) fn guard_timeouts(&mut self, turn: &mut Turn) {
        let now = turn.now;
        let Some(guard) = &mut self.guard else { return };
        if now >= guard.progress {
            guard.progress = now + PROGRESS_EVERY;
            self.guard_progress(turn);
        }
        let Some(guard) = &mut self.guard else { return };
        let resource = guard.resource;
        match &mut guard.stage {
            Stage::Reading { deadline, .. } if now >= *deadline => self.reading_timed_out(turn),
            Stage::Applying { deadline, .. } if now >= *deadline => {
                turn.effects.extend(self.guard_key().map(Effect::Cancel));
                let within = window_of(&self.ledger, resource);
                self.restore(resource, format!("it was not applied within {within} s"), turn);
            }
            Stage::Confirming(confirming) if confirming.challenge.is_late(now) => {
                let why = confirming.challenge.why_not_reached(window_of(&self.ledger, resource));
                self.restore(resource, why, turn);
            }
            Stage::Confirming(confirming) => {
                if let Some(bytes) = confirming.challenge.due(now)
                    && let Some(key) = self.guard_key()
                {
                    turn.effects.send(Up::Challenge { key, bytes });
                }
            }
            Stage::Restoring { last, .. } => {
                let last = *last;
                self.restoring_timeouts(last, turn);
            }
            Stage::Reading { .. }
            | Stage::Recording { .. }
            | Stage::Applying { .. }
            | Stage::Keeping { .. } => {}
        }
    }

    fn reading_timed_out(&mut self, turn: &mut Turn) {
        let Some(key) = self.guard_key() else { return };
        self.guard = None;
        turn.effects.push(Effect::Cancel(key));
        let reason = "the host did not say in time what the job may touch".into();
        self.end(key, Outcome::Failed { reason, permanent: false }, turn);
    }

    fn guard_progress(&mut self, turn: &mut Turn) {
        let Some(guard) = &self.guard else { return };
        let settling = matches!(guard.stage, Stage::Confirming(_));
        let is_told = turn.connection.is_open() && !guard.resource.is_local();
        if let (Some(key), true) = (self.guard_key(), is_told) {
            turn.effects.send(Up::Progress(Progress { key, settling }));
        }
    }

    fn set_stage(&mut self, stage: Stage) {
        if let Some(guard) = &mut self.guard {
            guard.stage = stage;
        }
    }

    /// The stage, if the guard is on this very job.
    fn stage(&mut self, key: ReportKey) -> Option<&mut Stage> {
        self.current(key, |phase| phase == Phase::Guarded)?;
        let guard = self.guard.as_mut().filter(|guard| guard.resource == key.resource)?;
        Some(&mut guard.stage)
    }
}

fn window_of(ledger: &Ledger, resource: ResourceId) -> u64 {
    ledger.current(resource).map_or(Duration::ZERO, |accepted| window(&accepted.job)).as_secs()
}

/// The time for the confirmation, at least a second: a change that cannot be confirmed need not be made.
fn window(job: &Job) -> Duration {
    job.spec.confirm_within().unwrap_or_default().max(Duration::from_secs(1))
}
