//! A server in memory, with its disk: what a simulated agent's machine works on.
//!
//! Absent: networks, services, flow tables. A job for one of these fails for good and says so.

use std::collections::{BTreeMap, BTreeSet};

use muster_agent_core::{
    Before, ContentState, ContentStep, Effect, FlowEffect, FlowInput, Found, Input, Looked, Retry, RunError,
};
use muster_shared::ResourceId;
use muster_shared::model::{Action, ContentDigest, FailOn, Job, Observed, Spec};

/// See the module's head.
#[derive(Debug, Default)]
pub struct Server {
    things: BTreeMap<ResourceId, Spec>,
    watched: BTreeSet<ResourceId>,
    contents: BTreeMap<ContentDigest, Vec<u8>>,
}

impl Server {
    /// Executes an effect, and returns the machine's next input, if one follows. What is about the connection, and when jobs
    /// run, is the caller's.
    pub fn take(&mut self, effect: Effect) -> Option<Input> {
        let answer = match effect {
            // The disk is memory, and keeps everything.
            Effect::Write { write, .. } | Effect::WriteEpoch { write, .. } => Input::Written(write),
            Effect::Capture { key, .. } => Input::Captured { key, before: Ok(Before::new(Vec::new())) },
            Effect::Guard { job, .. } => {
                Input::Guarded { key: job.key(), undo: Err(not_simulated()), challenge: Vec::new() }
            }
            Effect::Restore { key, .. } | Effect::Fallback { key, .. } => {
                Input::Restored { key, result: Err(not_simulated().reason) }
            }
            Effect::Check { job, .. } => {
                Input::Checked { key: job.key(), found: Ok(self.found(job.resource, &job.spec)) }
            }
            Effect::Look { number, looks } => {
                let looked = looks.into_iter().map(|look| Looked {
                    resource: look.resource,
                    generation: look.generation,
                    found: Ok(self.found(look.resource, &look.spec)),
                });
                Input::Looked { number, looked: looked.collect() }
            }
            Effect::Watch { resource, spec: Some(_) } => {
                self.watched.insert(resource);
                return None;
            }
            Effect::Watch { resource, spec: None } => {
                self.watched.remove(&resource);
                return None;
            }
            Effect::FindRoom => Input::Room(Ok(())),
            Effect::Gather => Input::Gathered(Ok(Box::default())),
            Effect::Survey { .. } => Input::Surveyed(muster_shared::model::Survey::default()),
            Effect::Content { digest, step } => {
                let state = self.content(digest, step);
                return state.map(|state| Input::Content { digest, state: Ok(state) });
            }
            Effect::KeepContents(kept) => {
                self.contents.retain(|digest, _| kept.contains(digest));
                return None;
            }
            Effect::Flow { device, effect: FlowEffect::Watch } => {
                Input::Flow { device, input: FlowInput::Gone { reason: not_simulated().reason } }
            }
            Effect::Join { number, .. } => Input::Joined { number, joined: Err(not_simulated().reason) },
            Effect::ChangeSite { .. } => Input::SiteChanged(Err(not_simulated().reason)),
            Effect::Flow { .. }
            | Effect::Remove(_)
            | Effect::LocalEnded(_)
            | Effect::Warn(_)
            | Effect::Connect
            | Effect::Disconnect { .. }
            | Effect::Send(_)
            | Effect::Run { .. }
            | Effect::Cancel(_) => return None,
        };
        Some(answer)
    }

    /// Changes a thing by hand. Returns the resource, and the hint that its watch gives.
    pub fn drift(&mut self) -> Option<(ResourceId, Option<Input>)> {
        let (resource, spec) = self.things.iter_mut().next()?;
        match spec {
            Spec::Dummy(dummy) => dummy.values.insert("changed".into(), "by somebody else".into()),
            Spec::File(file) => {
                file.mode ^= 0o111;
                None
            }
            _ => return None,
        };
        let is_watched = self.watched.contains(resource);
        Some((*resource, is_watched.then(|| Input::Changed(BTreeSet::from([*resource])))))
    }

    /// Runs a job to its end.
    ///
    /// # Errors
    /// The job is told to fail, or for something that is not simulated.
    pub fn apply(&mut self, job: &Job) -> Result<Observed, RunError> {
        let fail = match &job.spec {
            Spec::Dummy(dummy) => dummy.fail,
            Spec::File(_) => None,
            _ => return Err(not_simulated()),
        };
        if fail.is_some_and(|fail| fail == FailOn::Any || fail == FailOn::Action(job.action)) {
            return Err(RunError { reason: "told to fail".into(), retry: Retry::Later });
        }
        if matches!(job.action, Action::Delete | Action::Retain) {
            self.things.remove(&job.resource);
            return Ok(Observed::default());
        }
        self.things.insert(job.resource, job.spec.clone());
        let attributes = match &job.spec {
            Spec::Dummy(dummy) => dummy.values.clone(),
            _ => BTreeMap::new(),
        };
        Ok(Observed { attributes })
    }

    fn found(&self, resource: ResourceId, spec: &Spec) -> Found {
        let there = self.things.get(&resource);
        let is_equal = match (there, spec) {
            (Some(Spec::Dummy(there)), Spec::Dummy(wanted)) => there.values == wanted.values,
            // The content may be named by its digest in one and be in the other.
            (Some(Spec::File(there)), Spec::File(wanted)) => {
                (&there.path, there.mode) == (&wanted.path, wanted.mode)
            }
            _ => false,
        };
        if is_equal {
            Found::AsDesired
        } else {
            Found::Differs { missing: there.is_none(), reason: "somebody changed it".into() }
        }
    }

    fn content(&mut self, digest: ContentDigest, step: ContentStep) -> Option<ContentState> {
        let bytes = self.contents.entry(digest).or_default();
        match step {
            ContentStep::Find => {}
            ContentStep::Append { bytes: more, .. } => bytes.extend(more),
            ContentStep::Verify if ContentDigest::of(bytes) == digest => return Some(ContentState::Verified),
            ContentStep::Verify => {
                self.contents.remove(&digest);
                return Some(ContentState::Corrupt);
            }
            ContentStep::Drop => {
                self.contents.remove(&digest);
                return None;
            }
        }
        Some(ContentState::Have(bytes.len() as u64))
    }
}

fn not_simulated() -> RunError {
    RunError { reason: "a simulated server has dummies and files alone".into(), retry: Retry::Never }
}
