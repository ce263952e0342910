//! A node and its agent, which runs jobs when the test says so.

use std::collections::{BTreeMap, VecDeque};

use muster_shared::model::flow::{FlowAsk, FlowDown};
use muster_shared::model::{
    Action, Content, DEPLOY_STATUS_CODE, DEPLOY_STDOUT, Down, FailOn, Job, LedgerEntry, Observed, Outcome,
    Report, ReportKey, Spec, Stray, Up,
};
use muster_shared::{Attempt, ResourceId};

use super::flow_host::FlowHost;

#[derive(Default)]
pub struct Host {
    pub connection: Option<u64>,
    /// The agent reads only the oldest version of the wire format.
    pub is_old: bool,
    /// The number of requests to describe strays, and for the ledger.
    pub described: usize,
    pub ledgers: usize,
    /// The number of requests to move to another site.
    pub moves: usize,
    /// The number of requests for a survey.
    pub surveys: usize,
    /// A thing that is gone before the agent is asked to describe it.
    pub forgets: Option<ResourceId>,
    /// How much its agent reads, if not all that this build does.
    pub reads: Option<u32>,
    /// The last welcome's [`Welcome::reads`](muster_shared::model::Welcome::reads).
    pub controller_reads: u32,
    pub queue: VecDeque<Job>,
    /// Jobs that have started.
    pub running: Vec<Job>,
    pub things: BTreeMap<ResourceId, (Spec, LedgerEntry)>,
    pub foreign: Vec<Spec>,
    /// By path: the resource that wrote the file last, and its content.
    pub files: BTreeMap<String, (ResourceId, Content)>,
    /// The outcome of the newest job of each resource, to be reported again.
    pub outcomes: BTreeMap<ResourceId, Report>,
    pub asked_for_facts: usize,
    pub flows: FlowHost,
}

/// Attributes that a run reports: each output with the config in it, `hostname` as it is, and the
/// exit code. Empty if nothing runs.
fn told(job: &Job) -> Observed {
    let Spec::Deployment(deployment) = &job.spec else { return Observed::default() };
    let Some(step) = deployment.step(job.action) else { return Observed::default() };
    let Content::Inline(config) = &step.config else { return Observed::default() };
    let config = String::from_utf8_lossy(config);
    let outputs = deployment.outputs.iter();
    let outputs = outputs.map(|output| {
        let value = match &*output.name {
            "hostname" => deployment.inputs["deploy_server_id"].clone(),
            name => format!("{name} of {config}"),
        };
        (output.name.clone(), value)
    });
    let own = [(DEPLOY_STATUS_CODE, "0".to_owned()), (DEPLOY_STDOUT, config.to_string())];
    let own = own.map(|(name, value)| (name.to_owned(), value));
    Observed { attributes: outputs.chain(own).collect() }
}

impl Host {
    pub(super) fn take(&mut self, message: Down) -> Vec<Up> {
        match message {
            Down::Flow(FlowDown::Ask { ask: FlowAsk::Trace(_), .. }) if self.is_old => {
                panic!("an older agent does not read it")
            }
            Down::Flow(message) => self.flows.take(message),
            Down::Chunk { digest, offset, bytes } => self.flows.chunk(digest, offset, &bytes),
            Down::Welcome(_) => {
                let mut ups: Vec<Up> = self.take_other(message).into_iter().collect();
                ups.extend(self.flows.greeting());
                ups
            }
            other => self.take_other(other).into_iter().collect(),
        }
    }

    fn take_other(&mut self, message: Down) -> Option<Up> {
        match message {
            Down::Job(job) => {
                if let Some(known) = self.outcomes.get(&job.resource).filter(|known| known.key == job.key()) {
                    return Some(Up::Report(known.clone()));
                }
                if self.running.iter().any(|running| running.key() == job.key()) {
                    return None;
                }
                if let Some(queued) = self.queue.iter_mut().find(|queued| queued.resource == job.resource) {
                    *queued = job;
                } else {
                    self.queue.push_back(job);
                }
                None
            }
            Down::Withdraw { resource, generation } => {
                let is_it = |job: &Job| (job.resource, job.generation) == (resource, generation);
                self.queue.retain(|job| !is_it(job));
                if let Some(at) = self.running.iter().position(is_it) {
                    if !self.running[at].spec.is_interruptible() {
                        return None;
                    }
                    let key = self.running.remove(at).key();
                    let reason = "interrupted: a cancel or a newer operation took its job back".into();
                    let report = Report { key, outcome: Outcome::Failed { reason, permanent: false } };
                    self.outcomes.insert(resource, report.clone());
                    return Some(Up::Report(report));
                }
                let known = self.outcomes.get(&resource).filter(|known| known.key.generation == generation);
                let key = ReportKey { resource, generation, attempt: Attempt(0) };
                Some(Up::Report(known.cloned().unwrap_or(Report { key, outcome: Outcome::Withdrawn })))
            }
            Down::Welcome(welcome) => {
                self.controller_reads = welcome.reads;
                welcome.want_ledger.then(|| {
                    self.ledgers += 1;
                    let entries = self.things.values().map(|(_, entry)| *entry).collect();
                    Up::Ledger { entries, last: true }
                })
            }
            Down::Controllers(_) => panic!("the link sends it, not the engine"),
            Down::AskFacts | Down::AskDrift => {
                self.asked_for_facts += 1;
                None
            }
            Down::Describe(_) | Down::Remove(_) | Down::Move(_) | Down::Survey if self.is_old => {
                panic!("an older agent does not read it")
            }
            // The test says what becomes of it.
            Down::Move(_) => {
                self.moves += 1;
                None
            }
            Down::Survey => {
                self.surveys += 1;
                None
            }
            Down::Describe(asked) => {
                self.described += 1;
                if let Some(gone) = self.forgets.take() {
                    self.things.remove(&gone);
                }
                let known = asked.iter().filter_map(|id| self.things.get(id));
                let stray =
                    |(spec, entry): &(Spec, LedgerEntry)| Stray::new(entry.resource, entry.generation, spec);
                Some(Up::Described(known.map(stray).collect()))
            }
            Down::Remove(key) => match self.things.get(&key.resource).map(|(spec, _)| spec.clone()) {
                Some(spec) => {
                    let ReportKey { resource, generation, attempt } = key;
                    let timeout = Job::time_for(&spec);
                    let action = Action::Delete;
                    self.take_other(Down::Job(Job { resource, generation, attempt, action, timeout, spec }))
                }
                None => Some(Up::Report(Report { key, outcome: Outcome::Done(Observed::default()) })),
            },
            Down::Acknowledge(_) | Down::Chunk { .. } | Down::Answer { .. } | Down::Flow(_) => None,
        }
    }

    /// Compares a thing with the desired state. A foreign thing has no entry in the ledger.
    fn check(&self, job: &Job) -> Outcome {
        let is_there = match &job.spec {
            Spec::File(file) => self.files.get(&file.path).map(|(_, content)| *content == file.content),
            spec => self
                .things
                .get(&job.resource)
                .map(|(kept, _)| kept == spec)
                .or(self.foreign.contains(spec).then_some(true)),
        };
        match is_there {
            Some(true) => Outcome::Done(Observed::default()),
            other => Outcome::Differs { missing: other.is_none(), reason: "content".into() },
        }
    }

    pub(super) fn run(&mut self, job: Job) -> Report {
        let key = job.key();
        let fail = match &job.spec {
            Spec::Dummy(dummy) => dummy.fail,
            _ => None,
        };
        let outcome = if fail == Some(FailOn::Any) || fail == Some(FailOn::Action(job.action)) {
            Outcome::Failed { reason: "told to fail".into(), permanent: false }
        } else if job.action == Action::Check {
            self.check(&job)
        } else if let (Action::Adopt, differs @ Outcome::Differs { .. }) = (job.action, self.check(&job)) {
            differs
        } else if job.action == Action::Retain {
            self.things.remove(&job.resource);
            Outcome::Done(Observed::default())
        } else if job.action == Action::Delete {
            if let Spec::File(file) = &job.spec
                && self.files.get(&file.path).is_some_and(|(owner, _)| *owner == job.resource)
            {
                self.files.remove(&file.path);
            }
            self.things.remove(&job.resource);
            Outcome::Done(Observed::default())
        } else {
            if let Spec::File(file) = &job.spec {
                self.files.insert(file.path.clone(), (job.resource, file.content.clone()));
            }
            let entry = LedgerEntry { resource: job.resource, generation: job.generation };
            let observed = told(&job);
            self.things.insert(job.resource, (job.spec, entry));
            Outcome::Done(observed)
        };
        let report = Report { key, outcome };
        self.outcomes.insert(key.resource, report.clone());
        report
    }
}
