//! A simulated node: takes jobs, runs those it is told to run, and answers.
//!
//! Only `Muster::Dummy` is real to it; its things live in memory. It has no ledger: what the agent makes of
//! lost and repeated messages is for the real agent core.

use std::collections::{BTreeMap, VecDeque};

use muster_shared::model::{
    Action, Down, Dummy, FailOn, Job, Observed, Outcome, Report, ReportKey, Spec, Up,
};
use muster_shared::{Attempt, Generation, ResourceId};

/// The values of a dummy. The type is small, for there may be a hundred thousand of them.
pub type Values = Box<[(String, String)]>;

/// The fate of a running job that is withdrawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Withdrawn {
    /// The job ends by itself, and its outcome counts.
    #[default]
    RunsOn,
    /// The job is interrupted before it changed anything.
    StopsBefore,
    /// The job is interrupted when it has made all its changes.
    StopsAfter,
}

#[derive(Debug, Default)]
pub struct SimNode {
    queue: VecDeque<Job>,
    running: Option<Job>,
    withdrawn: Withdrawn,
    /// Things that exist on the node.
    pub things: BTreeMap<ResourceId, Values>,
}

impl SimNode {
    /// With nothing on it.
    pub fn new(withdrawn: Withdrawn) -> Self {
        Self { withdrawn, ..Self::default() }
    }

    /// Takes a message; what it answers at once comes back.
    pub fn receive(&mut self, message: Down) -> Option<Up> {
        match message {
            Down::Job(job) => {
                let runs = self.running.as_ref().is_some_and(|running| running.key() == job.key());
                if !runs {
                    self.queue.retain(|old| old.resource != job.resource);
                    self.queue.push_back(job);
                }
                None
            }
            Down::Withdraw { resource, generation } => self.withdraw(resource, generation),
            Down::Welcome(_)
            | Down::Acknowledge(_)
            | Down::Chunk { .. }
            | Down::Answer { .. }
            | Down::AskFacts
            | Down::AskDrift
            | Down::Describe(_)
            | Down::Remove(_)
            | Down::Controllers(_)
            | Down::Move(_)
            | Down::Survey
            | Down::Flow(_) => None,
        }
    }

    /// Jobs that have not started.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Whether a job has started and not ended.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Begins the job that waits at this place in the order they came in; none if there is none, or one runs.
    pub fn start(&mut self, at: usize) -> Option<ReportKey> {
        if self.running.is_some() {
            return None;
        }
        self.running = self.queue.remove(at);
        self.running.as_ref().map(Job::key)
    }

    /// Ends the job that runs.
    pub fn finish(&mut self) -> Option<Up> {
        let job = self.running.take()?;
        let key = job.key();
        Some(Up::Report(Report { key, outcome: self.apply(job) }))
    }

    /// Ends the job that runs with a failure, whether or not it did what it was to do. One that failed twice is
    /// let succeed, and so has not failed for good.
    pub fn fail(&mut self, done: bool) -> Option<Up> {
        let job = self.running.take_if(|job| job.attempt < Attempt(2))?;
        let key = job.key();
        if done {
            self.apply(job);
        }
        let reason = "once in a while".to_owned();
        Some(Up::Report(Report { key, outcome: Outcome::Failed { reason, permanent: false } }))
    }

    /// Runs the job that waits longest to its end.
    pub fn run_one(&mut self) -> Option<Up> {
        self.start(0);
        self.finish()
    }

    fn withdraw(&mut self, resource: ResourceId, generation: Generation) -> Option<Up> {
        let is = |job: &Job| (job.resource, job.generation) == (resource, generation);
        if let Some(job) = self.running.take_if(|job| is(job) && self.withdrawn != Withdrawn::RunsOn) {
            let key = job.key();
            if self.withdrawn == Withdrawn::StopsAfter {
                self.apply(job);
            }
            let reason = "interrupted: a cancel or a newer operation withdrew its job".to_owned();
            return Some(Up::Report(Report { key, outcome: Outcome::Failed { reason, permanent: false } }));
        }
        let before = self.queue.len();
        self.queue.retain(|job| !is(job));
        let key = ReportKey { resource, generation, attempt: Attempt(0) };
        (self.queue.len() < before).then_some(Up::Report(Report { key, outcome: Outcome::Withdrawn }))
    }

    fn apply(&mut self, job: Job) -> Outcome {
        let Spec::Dummy(Dummy { values, fail, .. }) = job.spec else {
            return Outcome::Failed { reason: "not simulated".into(), permanent: true };
        };
        if fail == Some(FailOn::Any) || fail == Some(FailOn::Action(job.action)) {
            return Outcome::Failed { reason: "told to fail".into(), permanent: false };
        }
        match job.action {
            Action::Create | Action::Update => {
                self.things.insert(job.resource, values.clone().into_iter().collect());
                Outcome::Done(Observed { attributes: values })
            }
            // Nothing is on this node before its first job.
            Action::Adopt => Outcome::Differs { missing: true, reason: "nothing is here".into() },
            Action::Delete | Action::Retain => {
                self.things.remove(&job.resource);
                Outcome::Done(Observed::default())
            }
            Action::Check => {
                let wanted: Values = values.into_iter().collect();
                match self.things.get(&job.resource) {
                    Some(kept) if *kept == wanted => Outcome::Done(Observed::default()),
                    kept => Outcome::Differs { missing: kept.is_none(), reason: "other values".into() },
                }
            }
        }
    }
}
