//! Before a job changes anything: what is there, and who held it, is on disk.
//!
//! Absent: who holds what (`holding.rs`), and what a guarded change may touch (`confirm.rs`).

use std::collections::BTreeSet;

use muster_shared::ResourceId;
use muster_shared::model::{Action, ReportKey, Spec};

use crate::agent::{After, Agent};
use crate::face::{Effect, RunError};
use crate::ledger::{Before, Entry};
use crate::run::Phase;

impl Agent {
    /// Asks what is there, unless that is known of all the job claims.
    pub(crate) fn capture(&mut self, key: ReportKey) {
        let Some(entry) = self.ledger.get(key.resource) else { return };
        let Some(job) = entry.current.as_ref().map(|accepted| &accepted.job) else { return };
        let claims = job.spec.claims();
        let deadline = self.now + job.timeout;
        if let (Spec::Dummy(_), false) = (&job.spec, entry.exists()) {
            // Nothing to ask for; that it may have begun must be on disk all the same.
            self.set_phase(key.resource, Phase::Capturing { deadline });
            return self.captured(key, Ok(Before::new(Vec::new())));
        }
        let is_known = entry.exists() && claims.iter().all(|claim| entry.claims().contains(claim));
        if is_known && !self.ledger.is_taken(key.resource) {
            return self.run(key);
        }
        let known = self.ledger.known(key.resource, &claims);
        let own = job.action == Action::Update && !entry.exists() && known.is_empty();
        self.effects.push_back(Effect::Capture { key, spec: job.spec.clone(), known, own });
        self.set_phase(key.resource, Phase::Capturing { deadline });
    }

    /// The answer to [`Effect::Capture`].
    pub(crate) fn captured(&mut self, key: ReportKey, before: Result<Before, RunError>) {
        let Some(job) = self.current(key, |phase| matches!(phase, Phase::Capturing { .. })).cloned() else {
            return;
        };
        let before = match before {
            Ok(before) => before,
            Err(error) => return self.end(key, error.into()),
        };
        let holding = self.ledger.taken_over(key.resource, before, &job.spec.claims());
        if job.spec.confirm_within().is_some() {
            return self.guard(&job, Some(holding));
        }
        let was = self.ledger.edit(key.resource, |entry| {
            let was = entry.clone();
            entry.holding = Some(holding);
            was
        });
        self.set_phase(key.resource, Phase::Recording);
        self.write(key.resource, After::Captured { key, was: Box::new(was) });
    }

    /// Nothing was touched. What was read is right, but would not survive: it is read again next time.
    pub(crate) fn not_captured(&mut self, key: ReportKey, was: Entry, reason: &str) {
        if self.current(key, |phase| phase == Phase::Recording).is_some() {
            self.ledger.edit(key.resource, |entry| entry.holding = was.holding);
            self.end(key, self.disk_failed(reason));
        }
    }

    /// Whether the disk refused to record that what this resource took over is another's again. Should it go before that
    /// is there, that one would not have gone with it after a crash.
    pub(crate) fn is_held_up(&mut self, resource: ResourceId) -> bool {
        let Some(entry) = self.ledger.get(resource) else { return false };
        let stale: Vec<ResourceId> = entry.over().filter(|other| self.stale.contains_key(other)).collect();
        stale.iter().for_each(|&other| self.write(other, After::Nothing(other)));
        !stale.is_empty()
    }

    /// Those that went with this resource and whose records may not say so.
    pub(crate) fn not_said_gone(&self, resource: ResourceId) -> BTreeSet<ResourceId> {
        let is_unsaid = |other: &ResourceId| {
            let writes = |after: &After| matches!(after, After::Nothing(resource) if resource == other);
            self.stale.contains_key(other) || self.is_on_its_way(writes)
        };
        let gone = self.ledger.get(resource).into_iter().flat_map(|entry| entry.gone.keys().copied());
        gone.filter(is_unsaid).collect()
    }

    /// The resource has ended, and its record on disk says what has gone with it.
    pub(crate) fn went(&mut self, resource: ResourceId) {
        for gone in self.ledger.end_gone(resource) {
            self.write(gone, After::Nothing(gone));
        }
    }
}
