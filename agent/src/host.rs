//! Executes one job on this host: dispatches by resource type to the code that implements it. Tells of each
//! failure whether a further attempt can help.
//!
//! Absent: when that attempt comes (`controller/engine/src/job/next_attempt.rs`), and how a type changes the server
//! (`agent/host/src/types.rs`).

mod deployment;
mod hostname;
mod look;
mod owners;
mod survey;
mod undo;

use std::collections::BTreeSet;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;

use muster_agent_core::{Before, Entry, Found, Retry, RunError};
use muster_host::documents::Documents;
use muster_host::facts::Server;
use muster_host::files::{FileBefore, FileDifference, FileError, Source};
use muster_host::hostname::ServerName;
use muster_host::net::network_managers::NetworkManagerError;
use muster_host::net::{NetError, Network, Snapshot};
use muster_host::resource::{AnyResource, Applied, ChangedMeanwhile, Fault, RecordFault};
use muster_host::run::Runner;
use muster_host::types::{Tools, Way};
use muster_shared::ResourceId;
use muster_shared::model::network::{NetworkDocument, NicMapping};
use muster_shared::model::{
    Action, Content, Dummy, FailOn, File, Job, NetworkConfig, Observed, OnDelete, Spec,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use deployment::tried_again;
use hostname::name_failed;
pub use look::PrintCache;
pub use owners::Owners;
use undo::Undo;

use crate::settings::HookDirectories;

pub struct Host {
    /// Links, addresses, routes, bridges.
    pub network: Network,
    /// The host name.
    pub name: ServerName,
    /// Commands that outlive the agent.
    pub runs: Runner,
    /// The folders of the programs of deployments' groups.
    pub hooks: HookDirectories,
    /// The documents of deployments without a command.
    pub documents: Documents,
    /// The agent's own directory.
    pub state: PathBuf,
    /// The tools that make resources of most types.
    pub tools: Tools,
    /// The server's facts and neighbours.
    pub server: Server,
    /// The directory of fetched contents.
    pub contents: PathBuf,
    /// Fingerprints of files from when their resources were as desired.
    pub seen: PrintCache,
    /// The owner of each file.
    pub owners: Owners,
}

/// A job that was run.
pub struct Ran {
    /// The state as read back.
    pub observed: Observed,
    /// The record of the state before Muster to keep from now on, if it changed.
    pub before: Option<Before>,
    /// The state was changed.
    pub touched: bool,
}

/// A job that was not applied.
#[derive(Debug)]
pub struct NotRun {
    pub error: RunError,
    /// The host may have been changed.
    pub touched: bool,
}

impl From<RunError> for NotRun {
    fn from(error: RunError) -> Self {
        Self { error, touched: false }
    }
}

impl Host {
    /// Drops copies of former contents, and records of runs, that no entry needs any more.
    ///
    /// # Errors
    /// Some may remain.
    pub fn sweep<'a>(&self, entries: impl Iterator<Item = &'a Entry>) -> io::Result<()> {
        let entries: Vec<&Entry> = entries.collect();
        self.sweep_deployments(&entries)?;
        let mut needed = Vec::new();
        for entry in entries {
            // An entry without a record has no copies either.
            let Some(before) = entry.before().filter(|before| !before.written().is_empty()) else {
                continue;
            };
            let jobs = [&entry.current, &entry.next].into_iter().flatten().map(|accepted| &accepted.job.spec);
            match entry.applied.iter().map(|applied| &applied.spec).chain(jobs).next() {
                Some(Spec::File(_)) => {
                    needed.extend(FileBefore::decode(before.written()).and_then(|b| b.aside()))
                }
                Some(_) => {}
                // A failed job left a record that cannot be read: its copies are unknown, and must stay.
                None => return Ok(()),
            }
        }
        self.tools.files.keep_only(&needed)
    }

    /// The state before `spec` is applied; records that are `known` already take precedence. `own`: a state
    /// that is already as `spec` wants was made by Muster.
    ///
    /// # Errors
    /// Nothing was changed.
    pub async fn capture(
        &self,
        resource: ResourceId,
        spec: &Spec,
        known: Vec<Before>,
        own: bool,
    ) -> Result<Before, RunError> {
        match Way::of(spec) {
            Way::Resource(resource) => {
                let known = known.first().map(Before::written);
                resource.observe(&self.tools, known).await.map(Before::new).map_err(not_done)
            }
            Way::Dummy(_) | Way::Deployment(_) => Ok(Before::new(Vec::new())),
            Way::File(file) => {
                self.owners.claim(&self.tools.files, resource, file)?;
                if let Some(known) = known.into_iter().next() {
                    return Ok(known);
                }
                let there = self.tools.files.capture(file).await.map_err(file_failed)?;
                let ours = own && there.content() == Some(file.content.digest());
                Ok(Before::new(if ours { FileBefore::Absent } else { there }.encode()))
            }
            Way::Network(config) => {
                let (document, mapping) = parsed(config)?;
                let mut before = Snapshot::default();
                for known in known {
                    before.merge(snapshot(&known)?);
                }
                let taken = self.network.snapshot(&document, &mapping, Some(before)).await;
                encoded(&taken.map_err(network_failed)?)
            }
            Way::Hostname(_) => self.capture_name(known).await,
        }
    }

    /// The present state of all that a job may touch, for [`Host::restore`].
    ///
    /// # Errors
    /// The state cannot be read; nothing was changed.
    pub async fn guard(
        &self,
        job: &Job,
        before: Option<Before>,
        theirs: &[Before],
    ) -> Result<Before, RunError> {
        match Way::of(&job.spec) {
            Way::Network(config) => {
                let before = known(before, theirs, job.action)?;
                let (document, mapping) = match job.action {
                    Action::Delete => (NetworkDocument::default(), NicMapping::default()),
                    _ => parsed(config)?,
                };
                let undo = self.network.undo(&document, &mapping, &before).await;
                encoded(&Undo::Network(undo.map_err(network_failed)?))
            }
            Way::Hostname(_) => encoded(&Undo::Hostname(self.name.observe().await.map_err(name_failed)?)),
            Way::Dummy(_) | Way::File(_) | Way::Deployment(_) | Way::Resource(_) => {
                Ok(Before::new(Vec::new()))
            }
        }
    }

    /// Restores the state that [`Host::guard`] has read.
    ///
    /// # Errors
    /// The state was not fully restored.
    pub async fn restore(&self, undo: &Before) -> Result<(), String> {
        match Undo::decode(undo).map_err(|error| error.reason)? {
            Undo::Network(undo) => {
                let restored = self.network.restore(&undo).await;
                let warnings = restored.map_err(|error| muster_host::net::chain(&error))?;
                warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                Ok(())
            }
            Undo::Hostname(undo) => self.name.reach(&undo).await.map_err(|error| error.to_string()),
        }
    }

    /// Restores the network to the recorded last good state. The host name comes from its file, and needs
    /// nothing here.
    ///
    /// # Errors
    /// The state was not reached.
    pub async fn apply_at_boot(&self, spec: &Spec, before: Option<&Before>) -> Result<(), String> {
        let Spec::Network(config) = spec else { return Ok(()) };
        let (document, mapping) = parsed(config).map_err(|error| error.reason)?;
        let before = before.map(snapshot).transpose().map_err(|error| error.reason)?.unwrap_or_default();
        let applied = self.network.apply(&document, &mapping, &before).await;
        let applied = applied.map_err(|error| muster_host::net::chain(&error))?;
        applied.steps.iter().for_each(|step| tracing::info!("{step}"));
        applied.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        Ok(())
    }

    /// Applies the document's fallback, the last resort.
    ///
    /// # Errors
    /// The document has no fallback, or the fallback fails too.
    pub async fn fallback(&self, spec: &Spec) -> Result<(), String> {
        let Spec::Network(config) = spec else { return Err("there is no fallback for it".into()) };
        let (document, mapping) = parsed(config).map_err(|error| error.reason)?;
        let done = self.network.apply_fallback(&document, &mapping).await;
        let steps = done.map_err(|error| muster_host::net::chain(&error))?;
        steps.iter().for_each(|step| tracing::info!("{step}"));
        Ok(())
    }

    /// Applies the job and reads the state back. A delete leaves alone the state recorded in `theirs`, which
    /// other resources own again.
    ///
    /// # Errors
    /// The desired state was not reached.
    pub async fn run(&self, job: &Job, before: Option<Before>, theirs: Vec<Before>) -> Result<Ran, NotRun> {
        let observed = match Way::of(&job.spec) {
            Way::Resource(resource) => return Ok(self.resource(job, resource, before).await?),
            Way::Dummy(dummy) => dummy_run(dummy, job.action).await?,
            Way::File(file) => self.file(job.resource, job.action, file, before).await?,
            Way::Network(config) => {
                let before = known(before, &theirs, job.action)?;
                return self.network(job.action, config, before).await;
            }
            Way::Hostname(hostname) => return self.hostname(job.action, hostname, before).await,
            Way::Deployment(deployment) => self.deployment(job, deployment).await?,
        };
        Ok(Ran { observed, before: None, touched: true })
    }

    /// Compares the host with `spec` and changes nothing. A dummy equals its ledger entry.
    ///
    /// # Errors
    /// The state cannot be read.
    pub async fn check(
        &self,
        resource: ResourceId,
        spec: &Spec,
        applied: Option<&Spec>,
        before: Option<Before>,
    ) -> Result<Found, RunError> {
        match Way::of(spec) {
            Way::Resource(resource) => {
                let found = resource.check(&self.tools).await.map_err(not_done)?;
                Ok(compared(found.is_empty(), false, found.join(", ")))
            }
            Way::Dummy(dummy) => Ok(dummy_check(dummy, applied)),
            Way::File(file) => {
                let found = self.tools.files.check(file).await.map_err(file_failed)?;
                let reasons: Vec<String> = found.iter().map(ToString::to_string).collect();
                let reason = format!("{}: {}", file.path, reasons.join(", "));
                Ok(compared(found.is_empty(), found.contains(&FileDifference::Missing), reason))
            }
            Way::Network(config) => {
                let (document, mapping) = parsed(config)?;
                let before = before.as_ref().map(snapshot).transpose()?.unwrap_or_default();
                let found = self.network.check(&document, &mapping, &before).await.map_err(network_failed)?;
                Ok(compared(found.is_empty(), false, muster_host::net::listed(&found)))
            }
            Way::Deployment(deployment) => self.check_deployment(resource, deployment, applied).await,
            Way::Hostname(hostname) => {
                let found = self.name.check(&hostname.hostname).await.map_err(name_failed)?;
                Ok(compared(found.is_empty(), false, found.join(", ")))
            }
        }
    }

    /// As [`Host::check`], but whatever applying the state would change is a difference: a document's links lose
    /// what it does not list.
    ///
    /// # Errors
    /// The state cannot be read.
    pub async fn would_change(
        &self,
        resource: ResourceId,
        spec: &Spec,
        applied: Option<&Spec>,
        before: Option<Before>,
    ) -> Result<Found, RunError> {
        let Spec::Network(config) = spec else { return self.check(resource, spec, applied, before).await };
        let (document, mapping) = parsed(config)?;
        let before = before.as_ref().map(snapshot).transpose()?;
        let changes = self.network.changes(&document, &mapping, before).await.map_err(network_failed)?;
        Ok(compared(changes.is_empty(), false, changes.join("; ")))
    }

    async fn resource(
        &self,
        job: &Job,
        resource: &dyn AnyResource,
        before: Option<Before>,
    ) -> Result<Ran, RunError> {
        let run = deployment::run_id(job.key());
        let before = before.as_ref().map(Before::written);
        if job.action == Action::Delete {
            resource.restore(&self.tools, run, before).await.map_err(not_done)?;
            return Ok(Ran { observed: Observed::default(), before: None, touched: true });
        }
        let applied = match job.action {
            Action::Adopt => resource.adopt(&self.tools, run, before).await,
            _ => resource.apply(&self.tools, run, before).await,
        };
        let applied = applied.map_err(not_done)?;
        let Applied { before, attributes, warnings } = applied;
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        Ok(Ran { observed: Observed { attributes }, before: before.map(Before::new), touched: true })
    }

    async fn file(
        &self,
        resource: ResourceId,
        action: Action,
        file: &File,
        before: Option<Before>,
    ) -> Result<Observed, RunError> {
        if action == Action::Delete {
            let before = match before {
                None => FileBefore::Absent,
                Some(before) => FileBefore::decode(before.written()).ok_or_else(damaged)?,
            };
            self.tools.files.restore(resource, file, &before).await.map_err(file_failed)?;
            return Ok(Observed::default());
        }
        self.owners.claim(&self.tools.files, resource, file)?;
        let attributes = [("path".to_owned(), file.path.clone())].into_iter().collect();
        if action == Action::Adopt {
            let found = self.tools.files.check(file).await.map_err(file_failed)?;
            return match found.first() {
                None => Ok(Observed { attributes }),
                Some(differs) => Err(failed(&ChangedMeanwhile(format!("{}: {differs}", file.path)), true)),
            };
        }
        let fetched;
        let source = match &file.content {
            Content::Inline(bytes) => Source::Bytes(bytes),
            Content::Stored { digest, .. } => {
                fetched = self.contents.join(digest.to_string());
                Source::File(&fetched)
            }
        };
        self.tools.files.apply(resource, file, source).await.map_err(file_failed)?;
        Ok(Observed { attributes })
    }

    async fn network(&self, action: Action, config: &NetworkConfig, before: Snapshot) -> Result<Ran, NotRun> {
        if action == Action::Delete {
            let mut touched = false;
            if config.on_delete == OnDelete::Restore {
                touched = self.network.differs_from(&before).await.map_err(network_failed)?;
                let warnings = self.network.restore(&before).await.map_err(network_not_run)?;
                warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
            }
            return Ok(Ran { observed: Observed::default(), before: None, touched });
        }
        let (document, mapping) = parsed(config)?;
        let applied = self.network.apply(&document, &mapping, &before).await.map_err(network_not_run)?;
        applied.steps.iter().for_each(|step| tracing::info!("{step}"));
        applied.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let touched = !applied.steps.is_empty() || applied.told;
        Ok(Ran { observed: Observed::default(), before: Some(encoded(&applied.before)?), touched })
    }
}

async fn dummy_run(dummy: &Dummy, action: Action) -> Result<Observed, RunError> {
    tokio::time::sleep(Duration::from_millis(dummy.milliseconds)).await;
    if dummy.fail == Some(FailOn::Any) || dummy.fail == Some(FailOn::Action(action)) {
        return Err(RunError { reason: "told to fail".into(), retry: Retry::Later });
    }
    Ok(match action {
        Action::Create | Action::Update | Action::Adopt => Observed { attributes: dummy.values.clone() },
        Action::Delete | Action::Check | Action::Retain => Observed::default(),
    })
}

fn dummy_check(dummy: &Dummy, applied: Option<&Spec>) -> Found {
    let Some(Spec::Dummy(kept)) = applied else {
        return compared(false, true, "nothing of it is kept here".into());
    };
    let keys: BTreeSet<&str> = dummy.values.keys().chain(kept.values.keys()).map(String::as_str).collect();
    let differ: Vec<&str> =
        keys.into_iter().filter(|key| dummy.values.get(*key) != kept.values.get(*key)).collect();
    compared(differ.is_empty(), false, format!("other values are kept of {}", differ.join(", ")))
}

fn compared(equal: bool, missing: bool, reason: String) -> Found {
    if equal { Found::AsDesired } else { Found::Differs { missing, reason } }
}

fn parsed(config: &NetworkConfig) -> Result<(NetworkDocument, NicMapping), RunError> {
    let document = NetworkDocument::from_json(&config.document).map_err(|e| network_failed(e.into()))?;
    let mapping = NicMapping::new(config.mapping.clone()).map_err(|e| network_failed(e.into()))?;
    Ok((document, mapping))
}

fn snapshot(before: &Before) -> Result<Snapshot, RunError> {
    decoded(before)
}

/// The known state before Muster; for a delete without the parts that others own again.
fn known(before: Option<Before>, theirs: &[Before], action: Action) -> Result<Snapshot, RunError> {
    let before = before.as_ref().map(snapshot).transpose()?.unwrap_or_default();
    if action == Action::Delete { without(before, theirs) } else { Ok(before) }
}

/// The state to restore, without the links in the records of others.
fn without(mut before: Snapshot, theirs: &[Before]) -> Result<Snapshot, RunError> {
    for theirs in theirs {
        before.leave_to(&snapshot(theirs)?);
    }
    Ok(before)
}

/// Encodes a value for the ledger.
///
/// # Errors
/// The value is too large.
pub fn encoded(what: &impl Serialize) -> Result<Before, RunError> {
    let bytes = muster_host::packed::pack(what);
    bytes.map(Before::new).map_err(|error| RunError { reason: error.to_string(), retry: Retry::Never })
}

fn decoded<T: DeserializeOwned>(before: &Before) -> Result<T, RunError> {
    muster_host::packed::unpack(before.written()).ok_or_else(damaged)
}

fn damaged() -> RunError {
    RunError { reason: RecordFault::Damaged.to_string(), retry: Retry::Never }
}

fn not_done(fault: Box<dyn Fault>) -> RunError {
    failed(&*fault, fault.is_permanent())
}

fn file_failed(error: FileError) -> RunError {
    failed(&error, error.is_permanent())
}

/// A want of room takes precedence over whether the failure is permanent.
fn failed(error: &(dyn Error + 'static), permanent: bool) -> RunError {
    let retry = if lacks_room(error) { Retry::WhenRoom } else { Retry::unless(permanent) };
    RunError { reason: error.to_string(), retry }
}

/// Whether a disk was full, or the agent's user has reached its quota.
pub(crate) fn lacks_room(error: &(dyn Error + 'static)) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(kind, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
        || error.source().is_some_and(lacks_room)
}

fn network_not_run(error: NetError) -> NotRun {
    let touched = error.may_have_changed();
    NotRun { error: network_failed(error), touched }
}

fn network_failed(error: NetError) -> RunError {
    // The setting in ifupdown's own files stays until an operator changes it.
    let permanent = matches!(
        &error,
        NetError::Document(_)
            | NetError::Plan(_)
            | NetError::NetworkManager(NetworkManagerError::Ifupdown { .. })
    );
    RunError { reason: muster_host::net::chain(&error), retry: Retry::unless(permanent) }
}

#[cfg(test)]
mod tests;
