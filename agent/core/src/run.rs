//! From an accepted job to its recorded outcome.
//!
//! ```text
//!   Accepting ─Written─▶ Fetching ─▶ Queued ─turn─▶ Capturing ─▶ Recording ─Written─▶ Running ─▶ Ending
//!        └──────────────────────────────▲ (both are left out where they are not needed) ▲
//!                                       └────────────── after a restart                └ delete
//! ```

use std::time::Duration;

use muster_shared::model::{Action, Claim, Job, Lane, Observed, Outcome, Progress, Report, ReportKey, Up};
use muster_shared::wire::REASON_MAX;
use muster_shared::{MonoTime, ResourceId};

use crate::agent::Agent;
use crate::face::{Effect, RunError};
use crate::ledger::{self, Accepted, After, Applied, Before, Ended, Entry, Order};
use crate::receive::stored;

/// A job that takes longer than this says so, and again from time to time.
pub(crate) const PROGRESS_FIRST: Duration = Duration::from_secs(1);
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// Where an entry's current job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Accepting,
    Fetching,
    Queued,
    /// Ends with a failure if nobody knows by the deadline what is there: nobody but the agent counts this time.
    Capturing {
        deadline: MonoTime,
    },
    Recording,
    Running {
        deadline: MonoTime,
        progress: MonoTime,
    },
    /// See `confirm.rs`.
    Guarded,
    Ending(ReportKey),
}

/// A current job under way.
#[derive(Clone, Debug)]
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
        self.recovered || self.has_its_turn()
    }

    /// It is not waiting any more.
    pub(crate) fn has_its_turn(&self) -> bool {
        match self.phase {
            Phase::Accepting | Phase::Fetching | Phase::Queued => false,
            Phase::Capturing { .. }
            | Phase::Recording
            | Phase::Running { .. }
            | Phase::Guarded
            | Phase::Ending(_) => true,
        }
    }

    /// Its content is on its way.
    pub(crate) fn is_fetching(&self) -> bool {
        self.phase == Phase::Fetching
    }
}

impl Agent {
    /// After a restart: what was accepted and has not ended is run again.
    pub(crate) fn recover(&mut self) {
        let ended: Vec<ResourceId> = self.ledger.iter().map(|entry| entry.resource).collect();
        ended.into_iter().for_each(|resource| self.ledger.went(resource, &mut self.effects));
        let accepted: Vec<(ReportKey, bool)> = self
            .ledger
            .iter()
            .filter_map(|entry| Some((entry, &entry.current.as_ref()?.job)))
            // A check leaves nothing behind.
            .map(|(entry, job)| (job.key(), entry.exists() && job.action != Action::Check))
            .collect();
        self.recover_undo();
        for (key, recovered) in accepted {
            let resource = key.resource;
            if self.is_half_done(resource) {
                self.runs.insert(resource, Run { phase: Phase::Guarded, recovered });
                continue;
            }
            self.runs.insert(resource, Run { phase: Phase::Accepting, recovered });
            if resource.is_local() {
                let reason = "the agent was started anew before the change began".into();
                self.end(key, Outcome::Failed { reason, permanent: true });
            } else {
                self.admit(resource);
            }
        }
        let following = |entry: &&Entry| entry.current.is_none() && entry.next.is_some();
        let following: Vec<_> = self.ledger.iter().filter(following).map(|e| e.resource).collect();
        for resource in following {
            self.promote(resource);
            self.admit(resource);
        }
    }

    /// The job `key` if it is its entry's current one and stands in this phase.
    pub(crate) fn current(&self, key: ReportKey, phase: impl FnOnce(Phase) -> bool) -> Option<&Job> {
        let run = self.runs.get(&key.resource).filter(|run| phase(run.phase))?;
        debug_assert!(self.ledger.get(key.resource).is_some(), "{run:?} has an entry");
        let job = &self.ledger.current(key.resource)?.job;
        (job.key() == key).then_some(job)
    }

    pub(crate) fn phase(&mut self, resource: ResourceId) -> Option<&mut Phase> {
        self.runs.get_mut(&resource).map(|run| &mut run.phase)
    }

    pub(crate) fn set_phase(&mut self, resource: ResourceId, phase: Phase) {
        if let Some(at) = self.phase(resource) {
            *at = phase;
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
        let Some(accepted) = self.ledger.current(resource) else { return };
        let (key, order) = (accepted.job.key(), accepted.order);
        let Some((digest, size)) = stored(&accepted.job) else { return self.enqueue(resource) };
        match self.fetch.want(resource, order, digest, size) {
            Ok(true) => self.enqueue(resource),
            Ok(false) => {
                self.set_phase(resource, Phase::Fetching);
                self.fetch.pump(self.now, &mut self.effects);
            }
            Err(reason) => self.end(key, Outcome::Failed { reason, permanent: true }),
        }
    }

    fn enqueue(&mut self, resource: ResourceId) {
        if let Some(accepted) = self.ledger.current(resource) {
            self.lanes.enqueue(accepted.job.spec.lane(), accepted.order, resource);
            self.set_phase(resource, Phase::Queued);
        }
    }

    fn is_fetching(&self, resource: ResourceId) -> bool {
        self.runs.get(&resource).is_some_and(Run::is_fetching)
    }

    pub(crate) fn fetched(&mut self, resource: ResourceId) {
        if self.is_fetching(resource) {
            self.enqueue(resource);
        }
    }

    pub(crate) fn not_fetched(&mut self, resource: ResourceId, error: &RunError) {
        let key = self.ledger.current(resource).map(|accepted| accepted.job.key());
        if let (Some(key), true) = (key, self.is_fetching(resource)) {
            self.end(key, error.clone().into());
        }
    }

    /// Begins what has its turn.
    pub(crate) fn begin_all(&mut self) {
        while let Some(resource) = self.next_in_lane() {
            let Some(Accepted { job, .. }) = self.ledger.current(resource) else {
                self.lanes.release(resource);
                continue;
            };
            let (key, action) = (job.key(), job.action);
            if let Some(reason) = self.must_be_put_back(resource) {
                self.end(key, Outcome::Failed { reason, permanent: false });
                continue;
            }
            match action {
                Action::Create | Action::Update => self.capture(key),
                Action::Delete | Action::Retain if self.ledger.is_held_up(resource, &mut self.effects) => {
                    self.end(
                        key,
                        self.disk.failed(
                            "an older record of what this resource claims was refused and is written again",
                        ),
                    );
                }
                Action::Delete => self.begin_delete(key),
                Action::Check => self.check(key),
                // Nothing is changed, and what others held under it is gone with it as after a delete.
                Action::Retain => self.end(key, Outcome::Done(Observed::default())),
            }
        }
    }

    /// No change begins while another one may still be undone, and none before an older one that claims the same and
    /// waits for its content: the older one would take the thing over from it.
    fn next_in_lane(&mut self) -> Option<ResourceId> {
        if self.is_stopping {
            return None;
        }
        let held = self.is_guarding().then_some(Lane::Network);
        let current = |resource| self.ledger.current(resource);
        // With those that wait for them: what overtakes these overtakes the first as well.
        let mut awaited: Vec<(Order, Vec<Claim>)> = self
            .fetch
            .awaiting()
            .filter_map(current)
            .map(|accepted| (accepted.order, accepted.job.spec.claims()))
            .collect();
        self.lanes.next(held, |order, resource| {
            let Some(job) = current(resource).map(|accepted| &accepted.job).filter(|_| !awaited.is_empty())
            else {
                return false;
            };
            let claims = job.spec.claims();
            let waits = job.action.applies()
                && awaited
                    .iter()
                    .any(|(older, held)| *older < order && claims.iter().any(|c| held.contains(c)));
            if waits {
                awaited.push((order, claims));
            }
            waits
        })
    }

    fn begin_delete(&mut self, key: ReportKey) {
        let is_half_done = self.ledger.get(key.resource).is_some_and(|entry| entry.undo.is_some());
        if self.ledger.leaves_alone(key.resource) && !is_half_done {
            self.end(key, Outcome::Done(Observed::default()));
        } else {
            self.run(key);
        }
    }

    /// Everything it needs is on disk.
    pub(crate) fn run(&mut self, key: ReportKey) {
        let Some(job) = self.current(key, |phase| !matches!(phase, Phase::Ending(_))).cloned() else {
            return;
        };
        if job.spec.confirm_within().is_some() {
            return self.guard(&job, None);
        }
        self.set_running(&job);
        self.host_begins(job);
    }

    pub(crate) fn host_begins(&mut self, job: Job) {
        let (before, theirs) = self.known_to(&job);
        self.effects.push(Effect::Run { job: Box::new(job), before, theirs });
    }

    /// What was there before Muster as the job is to know it, and as those know it that have back what the job's
    /// resource took over.
    pub(crate) fn known_to(&self, job: &Job) -> (Option<Before>, Vec<Before>) {
        let before = self.ledger.get(job.resource).and_then(|entry| entry.before().cloned());
        let theirs =
            if job.action == Action::Delete { self.ledger.have_back(job.resource) } else { Vec::new() };
        (before, theirs.into_iter().filter_map(|entry| entry.before().cloned()).collect())
    }

    pub(crate) fn set_running(&mut self, job: &Job) {
        let (deadline, progress) = (self.now + job.timeout, self.now + PROGRESS_FIRST);
        self.set_phase(job.resource, Phase::Running { deadline, progress });
    }

    /// The answer to [`Effect::Run`].
    pub(crate) fn ran(
        &mut self,
        key: ReportKey,
        outcome: Result<Observed, RunError>,
        before: Option<Before>,
        touched: bool,
    ) {
        if self.current(key, |phase| phase == Phase::Guarded).is_some() {
            return self.guarded_ran(key, outcome, before, touched);
        }
        if self.current(key, |phase| matches!(phase, Phase::Running { .. })).is_some() {
            self.keep_before(key.resource, before);
            self.end(
                key,
                match outcome {
                    Ok(observed) => Outcome::Done(observed),
                    Err(error) => error.into(),
                },
            );
        }
    }

    /// The host says what is to be kept of the time before Muster, where that changed.
    pub(crate) fn keep_before(&mut self, resource: ResourceId, before: Option<Before>) {
        if let Some(before) = before {
            let keep = |entry: &mut Entry| entry.holding.as_mut().map(|holding| holding.before = before);
            self.ledger.edit(resource, keep);
        }
    }

    /// Records the outcome of the current job; it is reported once that is on disk.
    pub(crate) fn end(&mut self, key: ReportKey, mut outcome: Outcome) {
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
        let goes = self.ledger.goes_with(resource);
        self.set_phase(resource, Phase::Ending(key));
        let content = self.ledger.edit(resource, |entry| {
            let accepted = entry.current.take_if(|accepted| accepted.job.key() == key)?;
            let job = &accepted.job;
            match (&outcome, job.action) {
                (Outcome::Done(_), Action::Create | Action::Update) => {
                    let spec = ledger::without_content(&job.spec);
                    if let Some(holding) = &mut entry.holding {
                        // What was given up on the way has been put back and is nobody's again.
                        holding.claims = spec.claims();
                        holding.claims.sort();
                        holding.claims.dedup();
                    }
                    entry.applied = Some(Applied { generation: key.generation, spec });
                }
                (Outcome::Done(_), Action::Delete | Action::Retain) => {
                    (entry.applied, entry.holding) = (None, None);
                    // What went with an earlier holding is on disk as gone: see `is_held_up`.
                    entry.gone = goes;
                }
                (Outcome::Done(_), Action::Check) => {}
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
            let (now, effects) = (self.now, &mut self.effects);
            let comes_again =
                matches!(outcome, Outcome::NoRoom { .. } | Outcome::Failed { permanent: false, .. });
            if comes_again && !self.disk.is_full() {
                self.fetch.keep(resource, digest, now, effects);
            } else {
                self.fetch.release(resource, digest, now, effects);
            }
        }
        let after = After::Ended { report: Report { key, outcome }, held };
        self.ledger.write(resource, after, &mut self.effects);
    }

    /// The outcome is on disk, or cannot be; what follows it begins.
    pub(crate) fn ended(&mut self, mut report: Report, held: Option<Box<Entry>>, failed: Option<String>) {
        let key = report.key;
        if failed.is_some() && self.is_keeping(key) && self.ledger.is_written_again(&report) {
            return;
        }
        if self.kept(key, failed.as_deref()) {
            return;
        }
        let is_refused = failed.is_some();
        if !is_refused {
            self.ledger.went(key.resource, &mut self.effects);
        }
        if let Some(reason) = failed {
            self.effects.warn(format!("cannot record a job's outcome: {reason}"));
            // A failure is one either way, and what was refused for good is not to be tried again.
            if !matches!(report.outcome, Outcome::Failed { .. } | Outcome::NoRoom { .. }) {
                report.outcome = self.disk.failed(&reason);
            }
            let outcome = report.outcome.clone();
            self.ledger.edit(key.resource, |entry| {
                let stored = entry.unacknowledged.iter_mut().filter(|stored| stored.key == key);
                stored.for_each(|stored| stored.outcome = outcome.clone());
                if let Some(last) = entry.last.as_mut().filter(|last| last.key == key) {
                    last.outcome = outcome;
                }
                if let Some(held) = held {
                    // As it is on disk: what it retains stays its own, to be asked for again, and a removal is repeated.
                    (entry.applied, entry.holding, entry.gone) = (held.applied, held.holding, held.gone);
                }
            });
        }
        self.watches.ended(self.now, &report, &self.ledger);
        self.connection.report(report, &mut self.effects);
        let next = if self.runs.get(&key.resource).is_some_and(|run| run.phase == Phase::Ending(key)) {
            self.lanes.release(key.resource);
            self.runs.remove(&key.resource);
            self.promote(key.resource)
        } else {
            None
        };
        match next {
            // On disk is still the job that has ended, and runs again after a crash: never once a later one has run.
            Some(next) if is_refused => self.ledger.accept_again(next, &mut self.effects),
            Some(next) if !self.ledger.is_accepting(next) => self.admit(key.resource),
            None if is_refused => self.ledger.write_through(key.resource, &mut self.effects),
            Some(_) | None => {}
        }
    }

    /// The job that follows becomes the current one.
    fn promote(&mut self, resource: ResourceId) -> Option<ReportKey> {
        let next = self.ledger.edit(resource, |entry| {
            entry.current = entry.next.take();
            entry.current.as_ref().map(|accepted| accepted.job.key())
        });
        if next.is_some() {
            self.runs.insert(resource, Run::new(Phase::Accepting));
        }
        next
    }

    pub(crate) fn run_timeout(&self) -> Option<(MonoTime, &'static str)> {
        self.running()
            .flat_map(|(_, deadline, progress)| {
                let progress = progress.filter(|_| self.connection.is_open()).map(|at| (at, "progress"));
                [Some((deadline, "deadline of a job")), progress]
            })
            .flatten()
            .min_by_key(|(at, _)| *at)
    }

    /// What has its turn, with its deadline, and when progress is told of what runs.
    fn running(&self) -> impl Iterator<Item = (ResourceId, MonoTime, Option<MonoTime>)> {
        self.lanes.running().filter_map(|resource| match self.runs.get(&resource)?.phase {
            Phase::Running { deadline, progress } => Some((resource, deadline, Some(progress))),
            Phase::Capturing { deadline } => Some((resource, deadline, None)),
            Phase::Accepting
            | Phase::Fetching
            | Phase::Queued
            | Phase::Recording
            | Phase::Guarded
            | Phase::Ending(_) => None,
        })
    }

    pub(crate) fn run_timeouts(&mut self) {
        let running: Vec<_> = self.running().collect();
        for (resource, deadline, progress) in running {
            let Some(Accepted { job, .. }) = self.ledger.current(resource) else { continue };
            let (key, timeout) = (job.key(), job.timeout);
            if self.now >= deadline {
                self.effects.push(Effect::Cancel(key));
                let reason = format!("timed out after {} s", timeout.as_secs_f64());
                self.end(key, Outcome::Failed { reason, permanent: false });
            } else if progress.is_some_and(|progress| self.now >= progress) {
                let next = self.now + PROGRESS_EVERY;
                self.set_phase(resource, Phase::Running { deadline, progress: next });
                if self.connection.is_open() {
                    self.effects.send(Up::Progress(Progress { key, settling: false }));
                }
            }
        }
    }
}
