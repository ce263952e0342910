//! Records the present state and the owner of claims on disk before a job changes anything.
//!
//! Absent: who owns a claim afterwards (`ledger/holding.rs`), and the state that a guarded change may touch
//! (`confirm.rs`).

use muster_shared::model::{Action, ReportKey, Spec};

use super::phase::Phase;
use super::{Jobs, Turn};
use crate::face::{Effect, RunError};
use crate::ledger::{Accepted, After, Before};

impl Jobs {
    /// Asks for the state before Muster, unless it is known for all of the job's claims.
    pub(super) fn capture(&mut self, key: ReportKey, turn: &mut Turn) {
        let Some(entry) = self.ledger.get(key.resource) else { return };
        let Some(Accepted { job, .. }) = &entry.current else { return };
        let claims = job.spec.claims();
        let deadline = turn.now + job.timeout;
        if let (Spec::Dummy(_), false) = (&job.spec, entry.exists()) {
            // There is nothing to read, but the disk must say that the job may have started.
            self.set_phase(key.resource, Phase::Capturing { deadline });
            return self.captured(key, Ok(Before::new(Vec::new())), turn);
        }
        let is_known = entry.exists() && claims.iter().all(|claim| entry.claims().contains(claim));
        if is_known && !self.ledger.is_taken(key.resource) {
            return self.run(key, turn);
        }
        let known = self.ledger.known(key.resource, &claims);
        let own = job.action == Action::Update && !entry.exists() && known.is_empty();
        turn.effects.push(Effect::Capture { key, spec: job.spec.clone(), known, own });
        self.set_phase(key.resource, Phase::Capturing { deadline });
    }

    /// The answer to [`Effect::Capture`].
    pub(crate) fn captured(&mut self, key: ReportKey, before: Result<Before, RunError>, turn: &mut Turn) {
        let Some(job) = self.current(key, |phase| matches!(phase, Phase::Capturing { .. })).cloned() else {
            return;
        };
        let before = match before {
            Ok(before) => before,
            Err(error) => return self.end(key, error.into(), turn),
        };
        let holding = self.ledger.taken_over(key.resource, before, &job.spec.claims());
        if job.spec.confirm_within().is_some() {
            return self.guard(&job, Some(holding), turn);
        }
        let was = self.ledger.edit(key.resource, |entry| {
            let was = entry.clone();
            entry.holding = Some(holding);
            was
        });
        self.set_phase(key.resource, Phase::Recording);
        let after = After::Captured { key, was: Box::new(was) };
        self.ledger.write(key.resource, after, turn.effects);
    }
}
