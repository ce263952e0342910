//! Check jobs, which change nothing on the host, and the comparison that an adoption begins with.
//!
//! A check only compares; the last good state and the ownership of claims stay as they are. An adoption of what is
//! as desired goes on as a creation does; of anything else it ends here.
//!
//! Absent: the withdrawal of a check (`withdraw.rs`).

use muster_shared::model::{Action, Observed, Outcome, ReportKey};

use super::phase::Phase;
use super::{Jobs, Turn};
use crate::face::{Effect, Found, RunError};

impl Jobs {
    pub(super) fn check(&mut self, key: ReportKey, turn: &mut Turn) {
        let Some(job) = self.current(key, |phase| phase == Phase::Queued).cloned() else { return };
        if job.action == Action::Adopt
            && let Some(holder) = self.ledger.holder(key.resource, &job.spec.claims())
        {
            let reason = format!("Muster has it already, as resource {holder}");
            return self.end(key, Outcome::Differs { missing: false, reason }, turn);
        }
        let entry = self.ledger.get(key.resource);
        let applied = entry.and_then(|entry| entry.applied.as_ref()).map(|applied| applied.spec.clone());
        let before = entry.and_then(|entry| entry.before().cloned());
        self.set_running(&job, turn);
        turn.effects.push(Effect::Check { job: Box::new(job), applied, before });
    }

    /// The answer to [`Effect::Check`].
    pub(crate) fn checked(&mut self, key: ReportKey, found: Result<Found, RunError>, turn: &mut Turn) {
        let job = self.current(key, |phase| matches!(phase, Phase::Running { .. }));
        let adopts = match job.map(|job| job.action) {
            Some(Action::Check) => false,
            Some(Action::Adopt) => true,
            Some(Action::Create | Action::Update | Action::Delete | Action::Retain) | None => return,
        };
        let outcome = match found {
            Ok(Found::AsDesired) if adopts => return self.capture(key, turn),
            Ok(Found::AsDesired) => Outcome::Done(Observed::default()),
            Ok(Found::Differs { missing, reason }) => Outcome::Differs { missing, reason },
            Err(error) => error.into(),
        };
        self.end(key, outcome, turn);
    }
}
