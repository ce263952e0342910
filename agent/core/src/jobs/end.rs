//! The end of a job: the agent records its outcome, reports it, and begins the jobs that wait for it.
//!
//! Absent: whether a failed job is tried again. The controller decides that (`controller/engine/src/row/outcome.rs`),
//! by what the host said of the failure (`agent/src/host.rs`).

use muster_shared::ResourceId;
use muster_shared::model::{Action, Outcome, Report, ReportKey};
use muster_shared::wire::REASON_MAX;

use super::phase::Phase;
use super::{Jobs, Turn};
use crate::ledger::{self, After, Applied, Ended, Entry, stored};

impl Jobs {
    /// Records the outcome of the current job; the report follows once the record is on disk.
    pub(super) fn end(&mut self, key: ReportKey, mut outcome: Outcome, turn: &mut Turn) {
        let resource = key.resource;
        if let Outcome::Failed { reason, .. } | Outcome::NoRoom { reason } | Outcome::Differs { reason, .. } =
            &mut outcome
        {
            reason.truncate(reason.floor_char_boundary(REASON_MAX));
        }
        let action = self.ledger.current(resource).map(|accepted| accepted.job.action);
        let lets_go = matches!(outcome, Outcome::Done(_))
            && action.is_some_and(|action| matches!(action, Action::Delete | Action::Retain));
        let held = self.ledger.get(resource).filter(|_| lets_go).cloned().map(Box::new);
        let goes = self.ledger.ended_with(resource);
        self.set_phase(resource, Phase::Ending(key));
        let content = self.ledger.edit(resource, |entry| {
            let accepted = entry.current.take_if(|accepted| accepted.job.key() == key)?;
            let job = &accepted.job;
            match (&outcome, job.action) {
                (Outcome::Done(_), Action::Create | Action::Update | Action::Adopt) => {
                    let spec = ledger::without_content(&job.spec);
                    if let Some(holding) = &mut entry.holding {
                        // Claims given up on the way are restored and belong to no resource again.
                        holding.claims = spec.claims();
                        holding.claims.sort();
                        holding.claims.dedup();
                    }
                    entry.applied = Some(Applied { generation: key.generation, spec });
                }
                (Outcome::Done(_), Action::Delete | Action::Retain) => {
                    (entry.applied, entry.holding) = (None, None);
                    // Claims gone with an earlier holding are recorded as gone on disk: see `is_held_up`.
                    entry.gone = goes;
                }
                (Outcome::Done(_), Action::Check) => {}
                // Recorded before a crash, and somebody has changed it since.
                (Outcome::Differs { .. }, Action::Adopt) if entry.applied.is_none() => entry.holding = None,
                (
                    Outcome::Failed { .. }
                    | Outcome::NoRoom { .. }
                    | Outcome::Withdrawn
                    | Outcome::Superseded { .. }
                    | Outcome::Differs { .. },
                    _,
                ) => {}
            }
            let digest = Some(ledger::digest(job));
            entry.end(Ended { order: accepted.order, key, digest, outcome: outcome.clone() });
            stored(job)
        });
        if let Some((digest, _)) = content {
            let comes_again =
                matches!(outcome, Outcome::NoRoom { .. } | Outcome::Failed { permanent: false, .. });
            if comes_again && !turn.disk.is_full() {
                turn.fetch.keep(resource, digest, turn.now, turn.effects);
            } else {
                turn.fetch.release(resource, digest, turn.now, turn.effects);
            }
        }
        let after = After::Ended { report: Report { key, outcome }, held };
        self.ledger.write(resource, after, turn.effects);
    }

    /// The outcome is on disk, or was refused. Returns the resource whose next job may be admitted.
    pub(super) fn ended(
        &mut self,
        mut report: Report,
        held: Option<Box<Entry>>,
        failed: Option<String>,
        turn: &mut Turn,
    ) -> Option<ResourceId> {
        let key = report.key;
        let is_refused = failed.is_some();
        if !is_refused {
            self.ledger.drop_ended_with(key.resource, turn.effects);
        }
        if let Some(reason) = failed {
            turn.effects.warn(format!("cannot record a job's outcome: {reason}"));
            // A failure stays a failure, and a permanently refused job must not be retried.
            if !matches!(report.outcome, Outcome::Failed { .. } | Outcome::NoRoom { .. }) {
                report.outcome = turn.disk.failed(&reason);
            }
            let outcome = report.outcome.clone();
            self.ledger.edit(key.resource, |entry| {
                let stored = entry.unacknowledged.iter_mut().filter(|stored| stored.key == key);
                stored.for_each(|stored| stored.outcome = outcome.clone());
                if let Some(last) = entry.last.as_mut().filter(|last| last.key == key) {
                    last.outcome = outcome;
                }
                if let Some(held) = held {
                    // Matches the disk: a retained resource stays owned until the next request, and a removal
                    // is repeated.
                    (entry.applied, entry.holding, entry.gone) = (held.applied, held.holding, held.gone);
                }
            });
        }
        turn.watches.ended(turn.now, &report, &self.ledger);
        turn.connection.report(report, turn.effects);
        let next = if self.runs.get(&key.resource).is_some_and(|run| run.phase == Phase::Ending(key)) {
            self.lanes.release(key.resource);
            self.runs.remove(&key.resource);
            self.promote(key.resource)
        } else {
            None
        };
        match next {
            // The disk still holds the ended job, which would run again after a crash: it must not, once a
            // later job has run.
            Some(next) if is_refused => self.ledger.accept_again(next, turn.effects),
            Some(next) if !self.ledger.is_accepting(next) => return Some(key.resource),
            None if is_refused => self.ledger.write_through(key.resource, turn.effects),
            Some(_) | None => {}
        }
        None
    }
}
