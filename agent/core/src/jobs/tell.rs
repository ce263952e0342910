//! Reports the state of all jobs: the controller limits the agent's silence about a job, not the
//! job's duration.
//!
//! ```text
//!   greeting ─▶ all jobs, also none          a job, JOBS_EVERY later ─▶ all jobs ─▶ again, while there are any
//! ```
//!
//! Jobs that ended have a report of their own.
//!
//! Absent: the progress of a running job (`run.rs`), and when the controller takes a silent agent's job for
//! lost (`controller/engine/src/job/deadline.rs`).

use muster_shared::model::{JOBS_EVERY, JOBS_TOLD_MAX, JobState, Stage, Up};
use muster_shared::{MonoTime, ResourceId};

use super::Jobs;
use crate::effects::Effects;
use crate::ledger::{Accepted, Entry, Ledger};

/// Entries in one page of the ledger: 28 bytes each, well within a packet. The wire format takes at
/// most these.
const LEDGER_PAGE: usize = 4096;

/// When to report all jobs next; `None` while there are none.
#[derive(Debug, Default)]
pub(crate) struct Account(Option<MonoTime>);

impl Account {
    pub(crate) fn timeout(&self) -> Option<(MonoTime, &'static str)> {
        self.0.map(|at| (at, "tell how jobs stand"))
    }

    /// Reports all jobs if this is due and the controller listens.
    pub(crate) fn tell_if_due(&mut self, now: MonoTime, is_heard: bool, jobs: &Jobs, effects: &mut Effects) {
        match self.0 {
            _ if jobs.runs.is_empty() => self.0 = None,
            None => self.0 = Some(now + JOBS_EVERY),
            Some(at) if now >= at && is_heard => self.tell(now, jobs, effects),
            Some(_) => {}
        }
    }

    /// Reports all jobs; an empty list is reported too.
    pub(crate) fn tell(&mut self, now: MonoTime, jobs: &Jobs, effects: &mut Effects) {
        self.0 = Some(now + JOBS_EVERY);
        let states: Vec<JobState> = jobs.runs.keys().flat_map(|resource| jobs.states(*resource)).collect();
        if states.is_empty() {
            return effects.send(Up::Jobs(states));
        }
        states.chunks(JOBS_TOLD_MAX).for_each(|page| effects.send(Up::Jobs(page.to_vec())));
    }
}

/// Reports the ledger's list, where the controller's list differs.
pub(crate) fn tell_ledger(ledger: &Ledger, effects: &mut Effects) {
    let entries: Vec<_> = ledger.iter().filter_map(Entry::listed).collect();
    let mut pages = entries.chunks(LEDGER_PAGE).peekable();
    if pages.peek().is_none() {
        effects.send(Up::Ledger { entries: Vec::new(), last: true });
    }
    while let Some(page) = pages.next() {
        effects.send(Up::Ledger { entries: page.to_vec(), last: pages.peek().is_none() });
    }
}

impl Jobs {
    /// The states of the job that may run, and of the one that follows.
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
