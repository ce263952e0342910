//! **Strays**: resources without a row in a controller's store that was restored from a backup. The agent
//! describes them, and deletes one by the state in its own ledger.
//!
//! Absent: which resources are strays (`controller/engine/src/node/ledger_compare.rs`), and whether one is deleted
//! (`controller/engine/src/restored/decide.rs`).

use muster_shared::ResourceId;
use muster_shared::model::{
    Action, DESCRIBED_MAX, Job, Observed, Outcome, Report, ReportKey, Spec, Stray, Up,
};

use super::{Jobs, Turn};
use crate::ledger::Entry;

impl Jobs {
    /// Describes these resources from the ledger. Resources that the ledger does not list are left out.
    pub(crate) fn describe(&mut self, resources: &[ResourceId], turn: &mut Turn) {
        let known = |resource: &ResourceId| {
            let entry = self.ledger.get(*resource)?;
            let listed = entry.listed()?;
            Some(Stray::new(listed.resource, listed.generation, &entry.applied.as_ref()?.spec))
        };
        let strays = resources.iter().take(DESCRIBED_MAX).filter_map(known).collect();
        turn.effects.send(Up::Described(strays));
    }

    /// Deletes a stray, as a job with its desired state would.
    pub(crate) fn remove(&mut self, key: ReportKey, turn: &mut Turn) {
        if self.ledger.is_about_to_tell(key) {
            return;
        }
        let entry = self.ledger.get(key.resource);
        let newest = entry.and_then(Entry::newest).map(|(newest, _)| newest);
        let Some(spec) = entry.and_then(spec) else {
            let outcome = match newest {
                Some(newest) if newest.generation > key.generation => {
                    Outcome::Superseded { by: newest.generation }
                }
                // The node has nothing of the resource.
                Some(_) | None => Outcome::Done(Observed::default()),
            };
            return turn.connection.report(Report { key, outcome }, turn.effects);
        };
        let ReportKey { resource, generation, attempt } = key;
        let timeout = Job::time_for(&spec);
        let job = Job { resource, generation, attempt, action: Action::Delete, timeout, spec };
        let Some(newest) = newest.filter(|newest| newest.generation == generation) else {
            return self.job(job, turn);
        };
        // Each generation has one removal, though a job that ended meanwhile may have left another state.
        let last = entry.and_then(|entry| entry.last.as_ref()).filter(|last| last.key == newest);
        let outcome = last.map(|last| last.outcome.clone());
        match outcome {
            Some(Outcome::Withdrawn) => {
                turn.connection.report(Report { key, outcome: Outcome::Withdrawn }, turn.effects)
            }
            _ if newest.attempt < attempt && turn.connection.is_only_heard() => self.job(job, turn),
            _ if newest.attempt < attempt => self.accept(job, turn),
            Some(outcome) if newest.attempt == attempt => {
                turn.connection.report(Report { key, outcome }, turn.effects)
            }
            Some(_) | None => {}
        }
    }
}

/// The desired state for deleting a stray: that of the deletion if it is under way, otherwise the state made
/// last or being made.
fn spec(entry: &Entry) -> Option<Spec> {
    let jobs = [&entry.next, &entry.current].into_iter().flatten().map(|accepted| &accepted.job);
    let job = jobs.clone().find(|job| job.action == Action::Delete).or_else(|| {
        let mut applying = jobs.filter(|job| job.action.applies());
        applying.next()
    });
    let applied = entry.applied.as_ref().map(|applied| &applied.spec);
    job.map(|job| &job.spec).or(applied).cloned()
}
