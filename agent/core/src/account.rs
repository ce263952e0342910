//! Tells the controller how all jobs stand: it times our silence about a job, not the job.
//!
//! ```text
//!   greeting ─▶ all jobs, also none          a job, JOBS_EVERY later ─▶ all jobs ─▶ again, while there are any
//! ```
//!
//! What ended is told by its report.

use muster_shared::model::{JOBS_EVERY, JOBS_TOLD_MAX, JobState, Stage, Up};
use muster_shared::{MonoTime, ResourceId};

use crate::agent::Agent;
use crate::face::Effect;
use crate::ledger::Accepted;

/// When all jobs are told next; none while there are none.
#[derive(Debug, Default)]
pub(crate) struct Account(Option<MonoTime>);

impl Agent {
    pub(crate) fn account_timeout(&self) -> Option<(MonoTime, &'static str)> {
        self.account.0.filter(|_| self.session.is_open()).map(|at| (at, "tell how jobs stand"))
    }

    /// Somebody listens who may know nothing.
    pub(crate) fn account_greeted(&mut self) {
        self.tell_jobs();
    }

    /// Tells of all jobs if it is time.
    pub(crate) fn account(&mut self) {
        match self.account.0 {
            _ if self.runs.is_empty() => self.account.0 = None,
            None => self.account.0 = Some(self.now + JOBS_EVERY),
            Some(at) if self.now >= at && self.session.is_open() => self.tell_jobs(),
            Some(_) => {}
        }
    }

    fn tell_jobs(&mut self) {
        self.account.0 = Some(self.now + JOBS_EVERY);
        let states: Vec<JobState> = self.runs.keys().flat_map(|resource| self.states(*resource)).collect();
        let mut pages: Vec<Vec<JobState>> = states.chunks(JOBS_TOLD_MAX).map(<[JobState]>::to_vec).collect();
        if pages.is_empty() {
            pages.push(Vec::new());
        }
        self.effects.extend(pages.into_iter().map(|page| Effect::Send(Up::Jobs(page))));
    }

    /// The job that may run, and the one that follows it.
    fn states(&self, resource: ResourceId) -> Vec<JobState> {
        let Some(entry) = self.ledger.get(resource).filter(|_| !resource.is_local()) else {
            return Vec::new();
        };
        let state = |accepted: &Accepted, stage| JobState { key: accepted.job.key(), stage };
        let current =
            entry.current.as_ref().map(|accepted| state(accepted, self.told_stage(resource, accepted)));
        let behind = Some(resource);
        let next = entry.next.as_ref().map(|accepted| state(accepted, Stage::Waiting { behind }));
        current.into_iter().chain(next).collect()
    }

    fn told_stage(&self, resource: ResourceId, accepted: &Accepted) -> Stage {
        let Some(run) = self.runs.get(&resource) else { return Stage::Waiting { behind: None } };
        if run.is_fetching() {
            return Stage::Fetching;
        }
        if run.has_its_turn() {
            return Stage::Running;
        }
        let behind = self.lanes.running_in(accepted.job.spec.lane());
        Stage::Waiting { behind: behind.filter(|other| !other.is_local()) }
    }
}
