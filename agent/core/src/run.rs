//! From an accepted job to its recorded outcome.
//!
//! ```text
//!   Accepting ─Written─▶ Fetching ─▶ Queued ─turn─▶ HandingOver ─Written─▶ Capturing ─▶ Recording ─Written─▶ Running ─▶ Ending
//!        └──────────────────────────────▲  (any of these three is left out where it is not needed)  ▲
//!                                       └────────────── after a restart                             └ delete
//! ```
//!
//! **Taking over.** A resource that claims what another one made takes over what that one knows of the time
//! before Muster; the other's end then leaves the thing alone. If the new owner goes without ever having
//! been applied, it gives the thing back.

use std::time::Duration;

use muster_shared::model::{Action, Claim, Job, Observed, Outcome, Progress, Report, ReportKey, Up};
use muster_shared::{MonoTime, ResourceId};

use crate::agent::{After, Agent};
use crate::face::{Effect, RunError};
use crate::ledger::{self, Applied, Before, Ended, Entry};
use crate::receive::stored;

/// A job that takes longer than this says so, and again from time to time.
const PROGRESS_FIRST: Duration = Duration::from_secs(1);
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// Where an entry's current job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Accepting,
    Fetching,
    Queued,
    HandingOver { left: usize },
    Capturing,
    Recording,
    Running { deadline: MonoTime, progress: MonoTime },
    Ending(ReportKey),
}

/// A current job under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    phase: Phase,
    /// It was accepted before a restart and may have been running then.
    recovered: bool,
}

impl Run {
    pub(crate) fn new(phase: Phase) -> Self {
        Self { phase, recovered: false }
    }

    /// Its job is being recorded.
    pub(crate) fn is_accepting(&self) -> bool {
        self.phase == Phase::Accepting
    }

    /// Too late to replace or withdraw it.
    pub(crate) fn may_have_begun(&self) -> bool {
        self.recovered
            || match self.phase {
                Phase::Accepting | Phase::Fetching | Phase::Queued => false,
                Phase::HandingOver { .. }
                | Phase::Capturing
                | Phase::Recording
                | Phase::Running { .. }
                | Phase::Ending(_) => true,
            }
    }
}

impl Agent {
    /// After a restart: what was accepted and has not ended is run again.
    pub(crate) fn recover(&mut self) {
        let accepted: Vec<(ResourceId, bool)> = self
            .ledger
            .iter()
            .filter(|entry| entry.current.is_some())
            .map(|entry| (entry.resource, entry.exists()))
            .collect();
        for (resource, recovered) in accepted {
            self.runs.insert(resource, Run { phase: Phase::Accepting, recovered });
            self.admit(resource);
        }
        let following = |entry: &&Entry| entry.current.is_none() && entry.next.is_some();
        let following: Vec<_> = self.ledger.iter().filter(following).map(|e| e.resource).collect();
        following.into_iter().for_each(|resource| self.promote(resource));
    }

    /// The job `key` if it is its entry's current one and stands in this phase.
    fn current(&self, key: ReportKey, phase: impl FnOnce(Phase) -> bool) -> Option<&Job> {
        let run = self.runs.get(&key.resource).filter(|run| phase(run.phase))?;
        debug_assert!(self.ledger.get(key.resource).is_some(), "{run:?} has an entry");
        let job = &self.ledger.get(key.resource)?.current.as_ref()?.job;
        (job.key() == key).then_some(job)
    }

    fn set_phase(&mut self, resource: ResourceId, phase: Phase) {
        if let Some(run) = self.runs.get_mut(&resource) {
            run.phase = phase;
        }
    }

    /// The record is on disk.
    pub(crate) fn accepted(&mut self, key: ReportKey) {
        if self.current(key, |phase| phase == Phase::Accepting).is_some() {
            self.admit(key.resource);
        }
    }

    /// To its lane, by way of its content.
    fn admit(&mut self, resource: ResourceId) {
        let Some(accepted) = self.ledger.get(resource).and_then(|entry| entry.current.as_ref()) else {
            return;
        };
        let key = accepted.job.key();
        let Some((digest, size)) = stored(&accepted.job) else { return self.enqueue(resource) };
        match self.fetch.want(resource, digest, size) {
            Ok(true) => self.enqueue(resource),
            Ok(false) => {
                self.set_phase(resource, Phase::Fetching);
                self.fetch.pump(self.now, &mut self.effects);
            }
            Err(reason) => self.end(key, Outcome::Failed { reason, permanent: false }),
        }
    }

    fn enqueue(&mut self, resource: ResourceId) {
        if let Some(accepted) = self.ledger.get(resource).and_then(|entry| entry.current.as_ref()) {
            self.lanes.enqueue(accepted.job.spec.lane(), accepted.order, resource);
            self.set_phase(resource, Phase::Queued);
        }
    }

    fn is_fetching(&self, resource: ResourceId) -> bool {
        self.runs.get(&resource).is_some_and(|run| run.phase == Phase::Fetching)
    }

    pub(crate) fn fetched(&mut self, resource: ResourceId) {
        if self.is_fetching(resource) {
            self.enqueue(resource);
        }
    }

    pub(crate) fn not_fetched(&mut self, resource: ResourceId, reason: &str) {
        let key = self.ledger.get(resource).and_then(|e| e.current.as_ref()).map(|a| a.job.key());
        if let (Some(key), true) = (key, self.is_fetching(resource)) {
            self.end(key, Outcome::Failed { reason: reason.to_owned(), permanent: false });
        }
    }

    /// Begins what has its turn.
    pub(crate) fn begin_all(&mut self) {
        while let Some(resource) = self.lanes.next() {
            let job = self.ledger.get(resource).and_then(|entry| entry.current.as_ref()).map(|a| &a.job);
            let (key, action, claims) = match job {
                Some(job) => (job.key(), job.action, job.spec.claims()),
                None => {
                    self.lanes.release(resource);
                    continue;
                }
            };
            match action {
                Action::Create | Action::Update => self.take_over(key, &claims),
                Action::Delete => self.begin_delete(key),
            }
        }
    }

    fn begin_delete(&mut self, key: ReportKey) {
        let nothing = Outcome::Done(Observed::default());
        let Some(entry) = self.ledger.get(key.resource) else { return };
        if !entry.exists() || entry.handed_over.is_some() {
            return self.end(key, nothing);
        }
        let givers = self.givers(key.resource);
        if entry.applied.is_none() && !givers.is_empty() {
            for giver in givers {
                self.ledger.edit(giver, |entry| entry.handed_over = None);
                self.write(giver, After::Nothing(giver));
            }
            return self.end(key, nothing);
        }
        self.run(key);
    }

    /// Resources that handed over to this one.
    fn givers(&self, resource: ResourceId) -> Vec<ResourceId> {
        let Some(entry) = self.ledger.get(resource) else { return Vec::new() };
        let mut givers = self.ledger.held_by_others(&entry.claims, resource);
        givers.retain(|&giver| self.ledger.get(giver).is_some_and(|g| g.handed_over == Some(resource)));
        givers
    }

    fn take_over(&mut self, key: ReportKey, claims: &[Claim]) {
        let resource = key.resource;
        let mut others = self.ledger.held_by_others(claims, resource);
        others.retain(|&other| self.ledger.get(other).is_some_and(|entry| entry.handed_over.is_none()));
        self.set_phase(resource, Phase::HandingOver { left: others.len() });
        for &other in &others {
            self.ledger.edit(other, |entry| entry.handed_over = Some(resource));
            self.write(other, After::HandedOver { other, to: key });
        }
        if others.is_empty() {
            self.capture(key);
        }
    }

    /// One of the others' records is on disk.
    pub(crate) fn handed_over(&mut self, key: ReportKey) {
        let Some(run) = self.runs.get_mut(&key.resource) else { return };
        if let Phase::HandingOver { left } = &mut run.phase {
            *left -= 1;
            if *left == 0 {
                self.capture(key);
            }
        }
    }

    pub(crate) fn not_handed_over(&mut self, other: ResourceId, key: ReportKey, reason: &str) {
        self.ledger.edit(other, |entry| entry.handed_over.take_if(|to| *to == key.resource));
        if self.current(key, |phase| matches!(phase, Phase::HandingOver { .. })).is_some() {
            self.end(key, disk_failed(reason));
        }
    }

    /// Asks what is there, unless that is known of all the job claims.
    fn capture(&mut self, key: ReportKey) {
        let Some(entry) = self.ledger.get(key.resource) else { return };
        let Some(job) = entry.current.as_ref().map(|accepted| &accepted.job) else { return };
        let claims = job.spec.claims();
        let is_known = claims.iter().all(|claim| entry.claims.contains(claim));
        if is_known && entry.handed_over.is_none() {
            return self.run(key);
        }
        let others = self.ledger.held_by_others(&claims, key.resource);
        let others = others.iter().filter_map(|&other| self.ledger.get(other)?.before.clone());
        let known: Vec<Before> = entry.before.clone().into_iter().chain(others).collect();
        self.effects.push_back(Effect::Capture { key, spec: job.spec.clone(), known });
        self.set_phase(key.resource, Phase::Capturing);
    }

    /// The answer to [`Effect::Capture`].
    pub(crate) fn captured(&mut self, key: ReportKey, before: Result<Before, RunError>) {
        let Some(job) = self.current(key, |phase| phase == Phase::Capturing) else { return };
        let claims = job.spec.claims();
        match before {
            Ok(before) => {
                self.ledger.edit(key.resource, |entry| {
                    entry.before = Some(before);
                    entry.claims.extend(claims);
                    entry.claims.sort();
                    entry.claims.dedup();
                    entry.handed_over = None;
                });
                self.set_phase(key.resource, Phase::Recording);
                self.write(key.resource, After::Captured(key));
            }
            Err(RunError { reason, permanent }) => self.end(key, Outcome::Failed { reason, permanent }),
        }
    }

    pub(crate) fn not_captured(&mut self, key: ReportKey, reason: &str) {
        if self.current(key, |phase| phase == Phase::Recording).is_some() {
            // Nothing was touched. What was read is right, but would not survive: read it again next time.
            self.ledger.edit(key.resource, |entry| {
                if entry.applied.is_none() {
                    entry.before = None;
                }
                entry.claims =
                    entry.applied.as_ref().map(|applied| applied.spec.claims()).unwrap_or_default();
            });
            self.end(key, disk_failed(reason));
        }
    }

    /// Everything it needs is on disk.
    pub(crate) fn run(&mut self, key: ReportKey) {
        let Some(job) = self.current(key, |phase| !matches!(phase, Phase::Ending(_))).cloned() else {
            return;
        };
        let Some(entry) = self.ledger.get(key.resource) else { return };
        let before = entry.before.clone();
        let previous = entry.applied.as_ref().map(|applied| applied.spec.clone());
        let (deadline, progress) = (self.now + job.timeout, self.now + PROGRESS_FIRST);
        self.effects.push_back(Effect::Run { job: Box::new(job), before, previous });
        self.set_phase(key.resource, Phase::Running { deadline, progress });
    }

    /// The answer to [`Effect::Run`].
    pub(crate) fn ran(
        &mut self,
        key: ReportKey,
        outcome: Result<Observed, RunError>,
        before: Option<Before>,
    ) {
        if self.current(key, |phase| matches!(phase, Phase::Running { .. })).is_some() {
            if before.is_some() {
                self.ledger.edit(key.resource, |entry| entry.before = before);
            }
            self.end(
                key,
                match outcome {
                    Ok(observed) => Outcome::Done(observed),
                    Err(RunError { reason, permanent }) => Outcome::Failed { reason, permanent },
                },
            );
        }
    }

    /// Records the outcome of the current job; it is reported once that is on disk.
    fn end(&mut self, key: ReportKey, outcome: Outcome) {
        let resource = key.resource;
        self.set_phase(resource, Phase::Ending(key));
        let content = self.ledger.edit(resource, |entry| {
            let accepted = entry.current.take_if(|accepted| accepted.job.key() == key)?;
            let job = &accepted.job;
            match (&outcome, job.action) {
                (Outcome::Done(_), Action::Create | Action::Update) => {
                    let spec = ledger::without_content(&job.spec);
                    // What was given up on the way has been put back and is nobody's again.
                    entry.claims = spec.claims();
                    entry.claims.sort();
                    entry.claims.dedup();
                    entry.applied = Some(Applied { generation: key.generation, spec });
                    entry.handed_over = None;
                }
                (Outcome::Done(_), Action::Delete) => {
                    (entry.applied, entry.before, entry.handed_over) = (None, None, None);
                    entry.claims.clear();
                }
                (Outcome::Failed { .. } | Outcome::Withdrawn | Outcome::Superseded { .. }, _) => {}
            }
            let digest = Some(ledger::digest(job));
            entry.end(Ended { order: accepted.order, key, digest, outcome: outcome.clone() });
            stored(job)
        });
        if let Some((digest, _)) = content {
            self.fetch.release(resource, digest, self.now, &mut self.effects);
        }
        self.write(resource, After::Ended(Report { key, outcome }));
    }

    /// The outcome is on disk, or cannot be; what follows it begins.
    pub(crate) fn ended(&mut self, mut report: Report, failed: Option<String>) {
        let key = report.key;
        if let Some(reason) = failed {
            self.warn(format!("cannot record a job's outcome: {reason}"));
            report.outcome = disk_failed(&reason);
            let outcome = report.outcome.clone();
            self.ledger.edit(key.resource, |entry| {
                let stored = entry.unacknowledged.iter_mut().filter(|stored| stored.key == key);
                stored.for_each(|stored| stored.outcome = outcome.clone());
                if let Some(last) = entry.last.as_mut().filter(|last| last.key == key) {
                    last.outcome = outcome;
                }
            });
            self.write(key.resource, After::Nothing(key.resource));
        }
        self.report(report);
        if self.runs.get(&key.resource).is_some_and(|run| run.phase == Phase::Ending(key)) {
            self.lanes.release(key.resource);
            self.runs.remove(&key.resource);
            self.promote(key.resource);
        }
    }

    /// The job that follows becomes the current one.
    fn promote(&mut self, resource: ResourceId) {
        let next = self.ledger.edit(resource, |entry| {
            entry.current = entry.next.take();
            entry.current.as_ref().map(|accepted| accepted.job.key())
        });
        let Some(key) = next else { return };
        self.runs.insert(resource, Run::new(Phase::Accepting));
        if !self.is_accepting(key) {
            self.admit(resource);
        }
    }

    pub(crate) fn run_timeout(&self) -> Option<(MonoTime, &'static str)> {
        self.running()
            .flat_map(|(_, deadline, progress)| {
                let progress = self.session.is_open().then_some((progress, "progress"));
                [Some((deadline, "deadline of a job")), progress]
            })
            .flatten()
            .min_by_key(|(at, _)| *at)
    }

    fn running(&self) -> impl Iterator<Item = (ResourceId, MonoTime, MonoTime)> {
        self.lanes.running().filter_map(|resource| match self.runs.get(&resource)?.phase {
            Phase::Running { deadline, progress } => Some((resource, deadline, progress)),
            Phase::Accepting
            | Phase::Fetching
            | Phase::Queued
            | Phase::HandingOver { .. }
            | Phase::Capturing
            | Phase::Recording
            | Phase::Ending(_) => None,
        })
    }

    pub(crate) fn run_timeouts(&mut self) {
        let running: Vec<_> = self.running().collect();
        for (resource, deadline, progress) in running {
            let job = self.ledger.get(resource).and_then(|entry| entry.current.as_ref()).map(|a| &a.job);
            let Some((key, timeout)) = job.map(|job| (job.key(), job.timeout)) else { continue };
            if self.now >= deadline {
                self.effects.push_back(Effect::Cancel(key));
                let reason = format!("timed out after {} s", timeout.as_secs_f64());
                self.end(key, Outcome::Failed { reason, permanent: false });
            } else if self.now >= progress {
                let next = self.now + PROGRESS_EVERY;
                self.set_phase(resource, Phase::Running { deadline, progress: next });
                if self.session.is_open() {
                    self.effects.push_back(Effect::Send(Up::Progress(Progress { key, settling: false })));
                }
            }
        }
    }
}

fn disk_failed(reason: &str) -> Outcome {
    Outcome::Failed { reason: format!("cannot write on the node's disk: {reason}"), permanent: false }
}
