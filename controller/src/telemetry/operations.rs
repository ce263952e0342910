//! The spans of operations and their jobs, derived from what the driver sees: requests and answers, durable changes,
//! messages to nodes and their reports. Nothing decides by them, and what is not known leaves a gap.
//!
//! ```text
//!   request ─▶ operation, until its stack is COMPLETE or FAILED
//!                 └▶ job, one for each attempt: queued ─▶ sent ─▶ running ─▶ settling ─▶ reported
//! ```
//!
//! A job outside of an operation, such as a correction, is a trace of its own. So is a job of an operation that an earlier
//! start of the controller began.
//!
//! Absent: spans of flow tables and intents, which have no jobs of their own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use muster_engine::cause::Cause;
use muster_engine::record::{Change, Status, action_str};
use muster_engine::view::JobView;
use muster_engine::{Answer, Refusal};
use muster_shared::model::{Job, JobState, Outcome, Progress, Report, ReportKey, Stage, Up};
use muster_shared::{NodeId, ResourceId, StackName};

use super::Telemetry;
use super::span::{Kind, Span, TraceContext, Value};

/// Operations that are followed at a time. Each is a few hundred bytes.
const OPERATIONS_MAX: usize = 1000;
/// Jobs that are followed at a time, as many as one stack has in flight; 300 bytes each, so 6 MB.
const JOBS_MAX: usize = 20_000;
/// Events of a job: each happens once.
const EVENTS: usize = 5;

/// A part of a commit, for when it is durable.
#[derive(Debug)]
pub enum Note {
    Row { stack: u64, resource: Arc<str>, thing: ResourceId, action: &'static str, status: &'static str },
    Stack { id: u64, name: StackName, action: &'static str, status: Status, traversal: u64 },
    Gone { id: u64, traversal: u64 },
}

/// Operations and jobs under way.
#[derive(Debug)]
pub struct Operations {
    telemetry: Telemetry,
    /// Requests that are not answered, by the driver's number.
    asked: BTreeMap<u64, TraceContext>,
    /// By stack.
    open: BTreeMap<u64, Operation>,
    /// The stack with the operation of each job; `None`: the job is of no operation.
    jobs: BTreeMap<ResourceId, (Option<u64>, OpenJob)>,
}

#[derive(Debug)]
struct Operation {
    context: TraceContext,
    parent: TraceContext,
    name: Arc<str>,
    action: &'static str,
    traversal: u64,
    revision: u32,
    begin: SystemTime,
}

#[derive(Debug)]
struct OpenJob {
    context: TraceContext,
    parent: Option<TraceContext>,
    stack: Option<Arc<str>>,
    resource: Arc<str>,
    action: &'static str,
    cause: Option<Cause>,
    begin: SystemTime,
    /// The node and the key, once the job was sent.
    sent: Option<(NodeId, ReportKey)>,
    events: Vec<(&'static str, SystemTime)>,
}

impl Note {
    pub fn of(change: &Change) -> Option<Self> {
        match change {
            Change::Event(event) => {
                let (resource, thing) = event.resource.clone()?;
                Some(Self::Row {
                    stack: event.stack,
                    resource,
                    thing,
                    action: event.action,
                    status: event.status,
                })
            }
            Change::Stack(stack) => Some(Self::Stack {
                id: stack.id,
                name: stack.name.clone(),
                action: stack.action.as_str(),
                status: stack.status,
                traversal: stack.traversal,
            }),
            Change::StackRemoved { id, traversal, .. } => Some(Self::Gone { id: *id, traversal: *traversal }),
            _ => None,
        }
    }
}

impl Operations {
    /// `None`: there are no traces.
    pub fn new(telemetry: &Telemetry) -> Option<Self> {
        telemetry.is_on().then(|| Self {
            telemetry: telemetry.clone(),
            asked: BTreeMap::new(),
            open: BTreeMap::new(),
            jobs: BTreeMap::new(),
        })
    }

    /// A request was taken up. As many wait as the driver lets wait.
    pub fn asked(&mut self, id: u64, context: TraceContext) {
        self.asked.insert(id, context);
    }

    /// Forgets the open requests: each was answered with an error.
    pub fn give_up(&mut self) {
        self.asked.clear();
    }

    /// A request is answered: an operation has its span from here on.
    pub fn answered(&mut self, id: u64, answer: &Result<Answer, Refusal>, at: SystemTime) {
        let Some(parent) = self.asked.remove(&id) else { return };
        let Ok(Answer::Stack { name, id, traversal, revision, .. }) = answer else { return };
        self.begin(*id, parent, Arc::from(name.as_str()), (*traversal, *revision), at);
    }

    fn begin(
        &mut self,
        id: u64,
        parent: TraceContext,
        name: Arc<str>,
        (traversal, revision): (u64, u32),
        at: SystemTime,
    ) {
        self.end(id, "superseded", at);
        if self.open.len() >= OPERATIONS_MAX {
            return self.telemetry.dropped(1);
        }
        let Some(context) = self.telemetry.context(Some(&parent)) else { return };
        let begun = Operation { context, parent, name, action: "DELETE", traversal, revision, begin: at };
        self.open.insert(id, begun);
    }

    /// A commit is durable.
    pub fn durable(&mut self, notes: Vec<Note>, at: SystemTime) {
        let (mut ends, mut gone) = (Vec::new(), Vec::new());
        for note in notes {
            match note {
                Note::Stack { id, name, action, status, traversal } => {
                    self.stack(id, &name, action, traversal, at);
                    if status != Status::InProgress {
                        ends.push((id, status.as_str()));
                    }
                }
                Note::Row { stack, resource, thing, action, status } => {
                    if status == Status::InProgress.as_str() {
                        self.queued(stack, resource, thing, action, at);
                    } else if status == Status::Complete.as_str() {
                        self.end_job(thing, "complete", false, at);
                    } else if status == Status::Failed.as_str() {
                        self.end_job(thing, "failed", true, at);
                    }
                }
                Note::Gone { id, traversal } => gone.push((id, traversal)),
            }
        }
        for (id, status) in ends {
            self.end(id, status, at);
        }
        for (id, traversal) in gone {
            if self.open.get(&id).is_some_and(|open| open.traversal == traversal) {
                self.end(id, Status::Complete.as_str(), at);
            }
        }
    }

    /// A stack as it is now. Another traversal than its operation's follows from it, such as a rollback after a failure.
    fn stack(&mut self, id: u64, name: &StackName, action: &'static str, traversal: u64, at: SystemTime) {
        let Some(open) = self.open.get_mut(&id) else { return };
        if open.traversal < traversal {
            let parent = open.parent;
            self.end(id, Status::Failed.as_str(), at);
            self.begin(id, parent, Arc::from(name.as_str()), (traversal, 0), at);
        }
        if let Some(open) = self.open.get_mut(&id) {
            open.action = action;
        }
    }

    /// A row of an operation is in progress: its job waits.
    fn queued(
        &mut self,
        stack: u64,
        resource: Arc<str>,
        thing: ResourceId,
        action: &'static str,
        at: SystemTime,
    ) {
        let Some(open) = self.open.get(&stack) else { return };
        let (parent, name) = (open.context, Arc::clone(&open.name));
        if self.jobs.contains_key(&thing) {
            return;
        }
        self.open_job(thing, Some(stack), Some(parent), |context| OpenJob {
            context,
            parent: Some(parent),
            stack: Some(name),
            resource,
            action,
            cause: None,
            begin: at,
            sent: None,
            events: vec![("queued", at)],
        });
    }

    fn open_job(
        &mut self,
        thing: ResourceId,
        operation: Option<u64>,
        parent: Option<TraceContext>,
        job: impl FnOnce(TraceContext) -> OpenJob,
    ) {
        if self.jobs.len() >= JOBS_MAX {
            return self.telemetry.dropped(1);
        }
        if let Some(context) = self.telemetry.context(parent.as_ref()) {
            self.jobs.insert(thing, (operation, job(context)));
        }
    }

    /// A job leaves for its node.
    pub fn sent(&mut self, node: &NodeId, job: &Job, view: &JobView, at: SystemTime) {
        let is_sent = self.jobs.get(&job.resource).is_some_and(|(_, open)| {
            // The same again, over a new connection.
            open.sent.as_ref().is_some_and(|sent| *sent != (node.clone(), job.key()))
        });
        if is_sent {
            self.end_job(job.resource, "superseded", false, at);
        }
        let operation = matches!(view.cause, Cause::Traversal | Cause::Check)
            .then(|| self.open.get(&view.stack))
            .flatten()
            .map(|open| open.context);
        if !self.jobs.contains_key(&job.resource) {
            let stack = view.stack_name.as_ref().map(|name| Arc::from(name.as_str()));
            self.open_job(job.resource, operation.map(|_| view.stack), operation, |context| OpenJob {
                context,
                parent: operation,
                stack,
                resource: Arc::clone(&view.resource),
                action: action_str(Some(job.action)),
                cause: None,
                begin: at,
                sent: None,
                events: Vec::with_capacity(EVENTS),
            });
        }
        let Some((_, open)) = self.jobs.get_mut(&job.resource) else { return };
        open.action = action_str(Some(job.action));
        open.cause = Some(view.cause);
        if open.sent.is_none() {
            open.sent = Some((node.clone(), job.key()));
            open.events.push(("sent", at));
        }
    }

    /// A node says something.
    pub fn heard(&mut self, node: &NodeId, message: &Up, at: SystemTime) {
        match message {
            Up::Progress(Progress { key, settling }) => {
                self.happens(node, *key, if *settling { "settling" } else { "running" }, at);
            }
            Up::Jobs(states) => {
                for JobState { key, stage } in states {
                    if *stage == Stage::Running {
                        self.happens(node, *key, "running", at);
                    }
                }
            }
            Up::Report(Report { key, outcome }) if self.job_of(node, *key).is_some() => {
                self.happens(node, *key, "reported", at);
                let (outcome, is_failed) = named(outcome);
                self.end_job(key.resource, outcome, is_failed, at);
            }
            _ => {}
        }
    }

    /// The job that was sent to this node under this key.
    fn job_of(&mut self, node: &NodeId, key: ReportKey) -> Option<&mut OpenJob> {
        let (_, open) = self.jobs.get_mut(&key.resource)?;
        let is_it = open.sent.as_ref().is_some_and(|(to, sent)| to == node && *sent == key);
        is_it.then_some(open)
    }

    fn happens(&mut self, node: &NodeId, key: ReportKey, what: &'static str, at: SystemTime) {
        let Some(open) = self.job_of(node, key) else { return };
        if open.events.iter().all(|(event, _)| *event != what) {
            open.events.push((what, at));
        }
    }

    fn end_job(&mut self, thing: ResourceId, outcome: &'static str, is_failed: bool, at: SystemTime) {
        if let Some((_, job)) = self.jobs.remove(&thing) {
            self.telemetry.ended(job.span(outcome, is_failed, at));
        }
    }

    /// The operation of a stack has ended, and so have the jobs of which nothing was heard.
    fn end(&mut self, id: u64, outcome: &'static str, at: SystemTime) {
        let Some(operation) = self.open.remove(&id) else { return };
        let of_it = |_: &ResourceId, (of, _): &mut (Option<u64>, OpenJob)| *of == Some(id);
        let left: Vec<_> = self.jobs.extract_if(.., of_it).collect();
        for (_, (_, job)) in left {
            self.telemetry.ended(job.span("left", false, at));
        }
        self.telemetry.ended(operation.span(outcome, at));
    }
}

impl Operation {
    fn span(self, outcome: &'static str, end: SystemTime) -> Span {
        Span {
            context: self.context,
            parent: Some(self.parent),
            kind: Kind::Internal,
            name: format!("stack {}", self.action),
            begin: self.begin,
            end,
            attributes: vec![
                ("muster.stack", Value::Text(self.name)),
                ("muster.action", Value::Word(self.action)),
                ("muster.traversal", Value::Number(self.traversal)),
                ("muster.revision", Value::Number(self.revision.into())),
                ("muster.outcome", Value::Word(outcome)),
            ],
            events: Vec::new(),
            is_failed: outcome == Status::Failed.as_str(),
        }
    }
}

impl OpenJob {
    fn span(self, outcome: &'static str, is_failed: bool, end: SystemTime) -> Span {
        let mut attributes = Vec::with_capacity(8);
        attributes.extend(self.stack.map(|stack| ("muster.stack", Value::Text(stack))));
        attributes.push(("muster.resource", Value::Text(self.resource)));
        attributes.push(("muster.action", Value::Word(self.action)));
        if let Some((node, key)) = self.sent {
            attributes.push(("muster.node", Value::Text(Arc::from(node.as_str()))));
            attributes.push(("muster.attempt", Value::Number(key.attempt.0.into())));
        }
        attributes.extend(self.cause.map(|cause| ("muster.cause", Value::Word(cause.as_str()))));
        attributes.push(("muster.outcome", Value::Word(outcome)));
        Span {
            context: self.context,
            parent: self.parent,
            kind: Kind::Client,
            name: format!("job {}", self.action),
            begin: self.begin,
            end,
            attributes,
            events: self.events,
            is_failed,
        }
    }
}

/// The outcome of a report without its reason, and whether that is a failure.
fn named(outcome: &Outcome) -> (&'static str, bool) {
    match outcome {
        Outcome::Done(_) => ("done", false),
        Outcome::Failed { .. } => ("failed", true),
        Outcome::Withdrawn => ("withdrawn", false),
        Outcome::Superseded { .. } => ("superseded", false),
        Outcome::Differs { .. } => ("differs", false),
        Outcome::NoRoom { .. } => ("no_room", true),
    }
}

#[cfg(test)]
mod tests;
