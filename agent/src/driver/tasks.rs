//! Work that runs beside the loop: a task for each step of a job, and what becomes of its result.
//!
//! `runs.rs` tells which task of a job still counts.

use std::sync::Arc;

use muster_agent_core::{Before, ContentState, Found, Input, Looked, Retry, RunError};
use muster_agent_link::join::EnrolError;
use muster_agent_link::{Identity, tls};
use muster_shared::model::{Action, CHALLENGE_BYTES, ContentDigest, Facts, Job, ReportKey, Spec, Survey};
use tokio::task::Id;

use super::Driver;
use crate::host::{NotRun, Ran};

/// The result of a task of the driver.
pub(super) enum Done {
    Captured { key: ReportKey, before: Result<Before, RunError> },
    Guarded { key: ReportKey, undo: Result<Before, RunError> },
    Ran { key: ReportKey, ran: Result<Ran, NotRun> },
    Restored { key: ReportKey, result: Result<(), String> },
    Checked { key: ReportKey, found: Result<Found, RunError> },
    Verified { digest: ContentDigest, state: Result<ContentState, RunError> },
    Looked { number: u64, looked: Vec<Looked> },
    Gathered(Result<Box<Facts>, String>),
    Surveyed(Survey),
    Renewed(Box<Result<Identity, EnrolError>>),
    Joined { number: u64, joined: Box<Result<Identity, String>> },
}

impl Driver {
    pub(super) fn capture(&mut self, key: ReportKey, spec: Spec, known: Vec<Before>, own: bool) {
        let host = Arc::clone(&self.host);
        let known = self.known_locally(key, known);
        let capture = async move {
            let before = match known {
                Ok(known) => host.capture(key.resource, &spec, known, own).await,
                Err(error) => Err(error),
            };
            Done::Captured { key, before }
        };
        self.runs.begin(key, self.tasks.spawn_local(capture));
    }

    pub(super) fn guard(&mut self, job: Box<Job>, before: Option<Before>, theirs: Vec<Before>) {
        let (key, host) = (job.key(), Arc::clone(&self.host));
        let guard = async move { Done::Guarded { key, undo: host.guard(&job, before, &theirs).await } };
        self.runs.begin(key, self.tasks.spawn_local(guard));
    }

    pub(super) fn begin(&mut self, job: Job, before: Option<Before>, theirs: Vec<Before>) {
        let key = job.key();
        tracing::info!(
            resource = %job.resource, generation = %job.generation, attempt = job.attempt.0,
            action = ?job.action, "job"
        );
        if matches!(job.spec, Spec::Deployment(_)) {
            self.commands.insert(key);
        }
        let host = Arc::clone(&self.host);
        let run = self.tasks.spawn_local(async move {
            let ran = host.run(&job, before, theirs).await;
            Done::Ran { key, ran }
        });
        self.runs.begin(key, run);
    }

    pub(super) fn restore(&mut self, key: ReportKey, undo: Before) {
        tracing::warn!(resource = %key.resource, generation = %key.generation, "restoring");
        let host = Arc::clone(&self.host);
        let restore = async move { Done::Restored { key, result: host.restore(&undo).await } };
        self.runs.begin(key, self.tasks.spawn_local(restore));
    }

    pub(super) fn fallback(&mut self, key: ReportKey, spec: Spec) {
        let host = Arc::clone(&self.host);
        let fallback = async move { Done::Restored { key, result: host.fallback(&spec).await } };
        self.runs.begin(key, self.tasks.spawn_local(fallback));
    }

    pub(super) fn check(&mut self, job: Box<Job>, applied: Option<Spec>, before: Option<Before>) {
        let (key, host) = (job.key(), Arc::clone(&self.host));
        tracing::info!(resource = %job.resource, generation = %job.generation, action = ?job.action, "compare");
        let check = async move {
            let Job { resource, spec, action, .. } = &*job;
            let found = match action {
                Action::Adopt => host.would_change(*resource, spec, applied.as_ref(), before).await,
                Action::Create | Action::Update | Action::Delete | Action::Check | Action::Retain => {
                    host.check(*resource, spec, applied.as_ref(), before).await
                }
            };
            Done::Checked { key, found }
        };
        self.runs.begin(key, self.tasks.spawn_local(check));
    }

    /// Passes the result of a task to the machine, if it still counts.
    pub(super) fn done(&mut self, task: Id, done: Done) {
        muster_host::sys::give_back_memory();
        match done {
            Done::Captured { key, before } => {
                if self.runs.ended(key, task) {
                    self.inbox.push_back(Input::Captured { key, before });
                }
            }
            Done::Guarded { key, undo } => {
                if self.runs.ended(key, task) {
                    let (undo, challenge) = match challenge() {
                        Ok(challenge) => (undo, challenge),
                        Err(error) => (Err(error), Vec::new()),
                    };
                    self.inbox.push_back(Input::Guarded { key, undo, challenge });
                }
            }
            Done::Restored { key, result } => {
                if self.runs.ended(key, task) {
                    self.locals.restored(key, &result);
                    self.inbox.push_back(Input::Restored { key, result });
                }
            }
            Done::Ran { key, ran } => {
                if self.runs.ended(key, task) {
                    self.ran(key, ran);
                }
            }
            Done::Checked { key, found } => {
                if self.runs.ended(key, task) {
                    self.inbox.push_back(Input::Checked { key, found });
                }
            }
            Done::Verified { digest, state } => self.inbox.push_back(Input::Content { digest, state }),
            Done::Looked { number, looked } => self.inbox.push_back(Input::Looked { number, looked }),
            Done::Gathered(facts) => self.inbox.push_back(Input::Gathered(facts)),
            Done::Surveyed(survey) => self.inbox.push_back(Input::Surveyed(survey)),
            Done::Renewed(renewed) => self.renewed(*renewed),
            Done::Joined { number, joined } => self.joined(number, *joined),
        }
    }

    fn ran(&mut self, key: ReportKey, ran: Result<Ran, NotRun>) {
        let (outcome, before, touched) = match ran {
            Ok(ran) => (Ok(ran.observed), ran.before, ran.touched),
            Err(NotRun { error, touched }) => {
                let reason = if self.commands.contains(&key) {
                    // The following lines were written by a command, and may be secret.
                    error.reason.lines().next().unwrap_or_default()
                } else {
                    &error.reason
                };
                let why = crate::log::unquoted(reason);
                tracing::warn!(resource = %key.resource, generation = %key.generation, "{why}");
                (Err(error), None, touched)
            }
        };
        self.locals.ran(key, touched);
        self.inbox.push_back(Input::Ran { key, outcome, before, touched });
    }
}

fn challenge() -> Result<Vec<u8>, RunError> {
    let random = tls::random::<CHALLENGE_BYTES>();
    let failed =
        |error: rustls::Error| RunError { reason: format!("no random bytes: {error}"), retry: Retry::Later };
    random.map(|bytes| bytes.to_vec()).map_err(failed)
}
