//! A simulated node: takes jobs in the order they were sent, runs one when told to, and answers.
//!
//! Only `Muster::Dummy` is real to it; its things live in memory.

use std::collections::{BTreeMap, VecDeque};

use muster_shared::model::{
    Action, Down, Dummy, FailOn, Job, Observed, Outcome, Report, ReportKey, Spec, Up,
};
use muster_shared::{Attempt, ResourceId};

/// Of one dummy; small, for there may be a hundred thousand.
pub type Values = Box<[(String, String)]>;

/// One simulated server.
#[derive(Debug, Default)]
pub struct SimNode {
    queue: VecDeque<Job>,
    /// What exists on it.
    pub things: BTreeMap<ResourceId, Values>,
}

impl SimNode {
    /// Takes a message; what it answers at once comes back.
    pub fn receive(&mut self, message: Down) -> Option<Up> {
        match message {
            Down::Job(job) => {
                self.queue.retain(|old| old.resource != job.resource);
                self.queue.push_back(job);
                None
            }
            Down::Withdraw { resource, generation } => {
                let before = self.queue.len();
                self.queue.retain(|job| (job.resource, job.generation) != (resource, generation));
                let key = ReportKey { resource, generation, attempt: Attempt(0) };
                (self.queue.len() < before).then_some(Up::Report(Report { key, outcome: Outcome::Withdrawn }))
            }
            Down::Welcome(_) | Down::Acknowledge(_) | Down::Chunk { .. } => None,
        }
    }

    /// Runs the job that waits longest to its end.
    pub fn run_one(&mut self) -> Option<Up> {
        let job = self.queue.pop_front()?;
        let key = job.key();
        Some(Up::Report(Report { key, outcome: self.apply(job) }))
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
            Action::Delete => {
                self.things.remove(&job.resource);
                Outcome::Done(Observed::default())
            }
        }
    }
}
