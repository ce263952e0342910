//! Withdraws a job that the controller no longer wants: one that has not started never does, and one that may have
//! started is interrupted where its type allows that.
//!
//! Absent: which types can be interrupted (`is_interruptible`, `shared/src/model/types.rs`), and what is withdrawn
//! (`controller/engine/src/job/withdraw.rs`).

use muster_shared::model::{Action, ContentDigest, Outcome, Report, ReportKey};
use muster_shared::{Attempt, Generation, ResourceId};

use super::phase::{Phase, Run};
use super::{Jobs, Turn};
use crate::face::Effect;
use crate::ledger::{self, Accepted, After, Ended, Entry};

impl Jobs {
    pub(crate) fn withdraw(&mut self, resource: ResourceId, generation: Generation, turn: &mut Turn) {
        let newest = self.ledger.get(resource).and_then(Entry::newest).map(|(key, _)| key);
        match newest {
            Some(newest) if newest.generation > generation => {
                let key = ReportKey { resource, generation, attempt: Attempt(0) };
                self.report(Report { key, outcome: Outcome::Superseded { by: newest.generation } }, turn);
            }
            Some(newest) if newest.generation == generation => self.withdraw_known(newest, turn),
            // The ledger remembers the withdrawal, so that the job is refused if it arrives late.
            Some(_) | None => {
                let key = ReportKey { resource, generation, attempt: Attempt(0) };
                self.record_withdrawn(key, None, turn);
            }
        }
    }

    fn withdraw_known(&mut self, key: ReportKey, turn: &mut Turn) {
        let Some(entry) = self.ledger.get(key.resource) else { return };
        let is_it =
            |accepted: &Option<Accepted>| accepted.as_ref().is_some_and(|accepted| accepted.job.key() == key);
        if is_it(&entry.next) {
            let job = self.ledger.edit(key.resource, |entry| entry.next.take());
            self.record_withdrawn(key, job.map(|accepted| ledger::digest(&accepted.job)), turn);
        } else if is_it(&entry.current) {
            if self.runs.get(&key.resource).is_some_and(Run::may_have_begun) {
                return self.interrupt(key, turn);
            }
            self.leave_queue(key.resource, None, turn);
            self.runs.remove(&key.resource);
            let job = self.ledger.edit(key.resource, |entry| entry.current.take());
            self.record_withdrawn(key, job.map(|accepted| ledger::digest(&accepted.job)), turn);
        } else if let Some(last) = &entry.last {
            let outcome = last.outcome.clone();
            // An outcome that is being written is reported once it is on disk.
            if !self.ledger.is_ending(&key) {
                self.report(Report { key, outcome }, turn);
            }
        }
    }

    fn record_withdrawn(&mut self, key: ReportKey, digest: Option<ContentDigest>, turn: &mut Turn) {
        let order = self.ledger.next_order();
        let outcome = Outcome::Withdrawn;
        let report = Report { key, outcome: outcome.clone() };
        self.ledger.edit(key.resource, |entry| entry.end(Ended { order, key, digest, outcome }));
        self.ledger.write(key.resource, After::Ended { report, held: None }, turn.effects);
    }

    /// Ends a job that may have started, if its type allows that; otherwise the job runs to its end.
    pub(super) fn interrupt(&mut self, key: ReportKey, turn: &mut Turn) {
        let Some(job) = self.current(key, |phase| !matches!(phase, Phase::Ending(_))) else { return };
        let outcome = match job.action {
            Action::Check => Outcome::Withdrawn,
            Action::Create | Action::Update | Action::Delete | Action::Adopt
                if job.spec.is_interruptible() =>
            {
                let reason = "interrupted: a cancel or a newer operation withdrew its job".into();
                Outcome::Failed { reason, permanent: false }
            }
            Action::Create | Action::Update | Action::Delete | Action::Retain | Action::Adopt => return,
        };
        if let Some(accepted) = self.ledger.current(key.resource) {
            self.lanes.withdraw(accepted.job.spec.lane(), accepted.order);
        }
        if self.current(key, |phase| matches!(phase, Phase::Running { .. })).is_some() {
            turn.effects.push(Effect::Cancel(key));
        }
        self.end(key, outcome, turn);
    }
}
