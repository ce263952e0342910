//! `net apply`: a document given by an operator on this server, kept only if the operator's target
//! is reached.
//!
//! The former state is on disk before the first change, in `<state-dir>/net-local`, and is dropped by the
//! record that keeps the change. The next `net apply` or boot restores a state that it finds there.
//!
//! Absent: what counts as reached (`net/confirm_target.rs`), and a document that a running agent gets
//! (`agent/core/src/jobs/local_document.rs`).

use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use muster_agent_core::Entry;
use muster_host::net::{Applied, NetError, Network, Snapshot, chain};
use muster_shared::ResourceId;
use muster_shared::model::network::{NetworkDocument, NicMapping};
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, timeout_at};

use super::confirm_target::Target;
use crate::record::{self, Read};
use crate::state_dir::StateDir;

/// The file in the state directory.
const FILE: &str = "net-local";
/// The most attempts of a restore, at growing intervals: about 15 s in all.
const RESTORE_TRIES: u32 = 5;
/// The time without a target: the agent's default time to confirm.
const APPLY_WITHIN: Duration = Duration::from_secs(120);

/// The record of local use, on disk.
#[derive(Default, Serialize, Deserialize)]
pub struct Local {
    /// The state before Muster.
    pub before: Option<Vec<u8>>,
    /// The last document kept, as JSON.
    pub document: Option<String>,
    /// The undo record of a change that is not kept yet.
    pub undo: Option<Vec<u8>>,
    /// The document's mapping of names: alias → name or MAC address.
    pub mapping: BTreeMap<String, String>,
    /// The number of the preceding document in the agent's ledger; see [`Local::counts`].
    pub after: u64,
}

/// A document to apply.
#[derive(Debug)]
pub struct LocalDocument {
    pub document: NetworkDocument,
    /// The document as JSON.
    pub text: String,
    /// Alias → name or MAC address.
    pub mapping: BTreeMap<String, String>,
}

/// A change failed, and neither the former state nor the document's fallback is in force.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RestoreFailed(String);

/// The confirmation of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirm {
    pub target: Target,
    /// The time limit, counted from the first change.
    pub within: Duration,
}

impl Local {
    /// The document's mapping of names.
    ///
    /// # Errors
    /// The record is of another version.
    pub fn nics(&self) -> anyhow::Result<NicMapping> {
        Ok(NicMapping::new(self.mapping.clone())?)
    }

    /// Nothing, if there was no local use.
    ///
    /// # Errors
    /// The record is damaged, or cannot be read.
    pub fn read(state_dir: &Path) -> anyhow::Result<Self> {
        let path = state_dir.join(FILE);
        match record::read(&path)? {
            Read::Whole(local) => Ok(local),
            Read::Absent => Ok(Self::default()),
            Read::Corrupt => {
                bail!("{}: damaged: remove it, and what was there before is forgotten", path.display())
            }
        }
    }

    fn write(&self, state: &StateDir) -> anyhow::Result<()> {
        let path = state.path().join(FILE);
        let written = record::write(&path, self).and_then(|()| record::sync_directory(state.path()));
        written.with_context(|| path.display().to_string())
    }

    /// The state before Muster.
    ///
    /// # Errors
    /// The record is damaged.
    pub fn snapshot(&self) -> anyhow::Result<Option<Snapshot>> {
        Ok(self.before.as_deref().map(serde_json::from_slice).transpose()?)
    }

    /// The state before Muster, from this record or an agent's.
    ///
    /// # Errors
    /// A record is damaged.
    pub fn known(&self, ledger: &[Entry]) -> anyhow::Result<Option<Snapshot>> {
        let is_taken = |entry: &Entry| ledger.iter().any(|other| other.is_over(entry));
        let of_agent = handed_over(ledger).filter(|entry| !is_taken(entry) && !self.counts(ledger));
        match of_agent.and_then(Entry::before) {
            None => self.snapshot(),
            Some(before) => {
                let snapshot = muster_host::packed::unpack(before.written());
                Ok(Some(snapshot.context("the record of what was there before Muster is damaged")?))
            }
        }
    }

    /// Whether its document is the newest one given on this server: with an agent, the newest is in
    /// the ledger.
    pub fn counts(&self, ledger: &[Entry]) -> bool {
        let applied = handed_over(ledger).and_then(|entry| entry.applied.as_ref());
        applied.is_none_or(|applied| applied.generation.number <= self.after)
    }

    /// Drops the record, since an agent's ledger has the newer document.
    ///
    /// # Errors
    /// The record may come back.
    pub fn forget(state_dir: &Path) -> std::io::Result<()> {
        match std::fs::remove_file(state_dir.join(FILE)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => record::sync_directory(state_dir),
        }
    }

    /// Undoes a change that was not kept. Returns whether there was one.
    ///
    /// # Errors
    /// The undo failed, and may succeed later.
    pub async fn recover(&mut self, network: &Network, state: &StateDir) -> anyhow::Result<bool> {
        let Some(undo) = &self.undo else { return Ok(false) };
        let undo: Snapshot = serde_json::from_slice(undo)?;
        let document = self.document.as_deref().map(NetworkDocument::from_json).transpose()?;
        put_back(network, &undo, document.as_ref(), &self.nics()?).await?;
        self.undo = None;
        self.write(state)?;
        Ok(true)
    }
}

/// The document that was given to an agent.
fn handed_over(ledger: &[Entry]) -> Option<&Entry> {
    ledger.iter().find(|entry| entry.resource.is_local())
}

/// Applies the document, and keeps it if it is confirmed, or needs no confirmation.
///
/// # Errors
/// The document is wrong, a step failed, or the target was not reached. The former state was restored, or the
/// error says that this failed too.
pub async fn apply(
    network: &Network,
    state: &StateDir,
    given: &LocalDocument,
    confirm: Option<&Confirm>,
) -> anyhow::Result<Applied> {
    let document = &given.document;
    let stopped = signals()?;
    let mut local = Local::read(state.path())?;
    if local.recover(network, state).await? {
        eprintln!("warning: an earlier change was not kept: what was there before it has been restored");
    }
    let mapping = NicMapping::new(given.mapping.clone())?;
    let ledger = state.ledger()?;
    let known = local.known(&ledger)?;
    let before = network.snapshot(document, &mapping, known).await?;
    let undo = network.undo(document, &mapping, &before).await?;
    let was = (local.before.replace(serde_json::to_vec(&before)?), local.document.clone());
    let last = handed_over(&ledger).and_then(Entry::newest).map_or(0, |(key, _)| key.generation.number);
    local.undo = Some(serde_json::to_vec(&undo)?);
    local.write(state)?;
    let within = confirm.map_or(APPLY_WITHIN, |confirm| confirm.within);
    let change = change(network, document, &mapping, &before, confirm, Instant::now() + within);
    let changed = tokio::select! {
        changed = change => changed,
        () = stopped => Err("it was stopped before the change was confirmed".to_owned()),
    };
    let kept = match changed {
        Ok(applied) => {
            (local.before, local.document) =
                (Some(serde_json::to_vec(&applied.before)?), Some(given.text.clone()));
            let undo = local.undo.take();
            let after = last.max(local.after);
            let over = (
                std::mem::replace(&mut local.mapping, given.mapping.clone()),
                std::mem::replace(&mut local.after, after),
            );
            match local.write(state) {
                Ok(()) => {
                    // The local document is newer than one that an agent has applied.
                    state.remove_entry(ResourceId::LOCAL);
                    Ok(applied)
                }
                Err(error) => {
                    local.undo = undo;
                    (local.mapping, local.after) = over;
                    Err(format!("{error:#}"))
                }
            }
        }
        Err(reason) => Err(reason),
    };
    let why = match kept {
        Ok(applied) => return Ok(applied),
        Err(why) => why,
    };
    let fell_back = match put_back(network, &undo, Some(document), &mapping).await {
        Ok(fell_back) => fell_back,
        Err(error) => {
            return Err(
                RestoreFailed(format!("{why}; what was there before cannot be restored: {error:#}")).into()
            );
        }
    };
    (local.before, local.document) = was;
    local.undo = None;
    local.write(state).with_context(|| format!("{why}; what was there before has been restored"))?;
    match fell_back {
        false => bail!("{why}; what was there before has been restored"),
        true => bail!("{why}; what was there before cannot be restored, the fallback_config is in force"),
    }
}

/// Records a document for the next boot, and changes nothing now. Returns whether applying would
/// change anything.
///
/// # Errors
/// The document cannot be applied at present, or cannot be recorded.
pub async fn only_record(network: &Network, state: &StateDir, given: &LocalDocument) -> anyhow::Result<bool> {
    let mut local = Local::read(state.path())?;
    local.recover(network, state).await?;
    let mapping = NicMapping::new(given.mapping.clone())?;
    let ledger = state.ledger()?;
    let before = network.snapshot(&given.document, &mapping, local.known(&ledger)?).await?;
    let plan = network.plan_text(&given.document, &mapping, Some(before.clone())).await?;
    let last = handed_over(&ledger).and_then(Entry::newest).map_or(0, |(key, _)| key.generation.number);
    local.before = Some(serde_json::to_vec(&before)?);
    local.document = Some(given.text.clone());
    local.mapping.clone_from(&given.mapping);
    local.after = last.max(local.after);
    local.write(state)?;
    state.remove_entry(ResourceId::LOCAL);
    Ok(!plan.lines.is_empty())
}

async fn change(
    network: &Network,
    document: &NetworkDocument,
    mapping: &NicMapping,
    before: &Snapshot,
    confirm: Option<&Confirm>,
    deadline: Instant,
) -> Result<Applied, String> {
    let applying = timeout_at(deadline, network.apply(document, mapping, before)).await;
    let applied = applying.map_err(|_| "it was not applied in time".to_owned())?;
    let applied = applied.map_err(|error: NetError| chain(&error))?;
    if let Some(Confirm { target, within }) = confirm.filter(|_| applied.changed()) {
        let reached = target.reach(network, deadline).await;
        reached.map_err(|seen| {
            format!("{target} was not reached within {} s of the change: {seen}", within.as_secs())
        })?;
    }
    Ok(applied)
}

/// Returns whether the fallback was needed.
async fn put_back(
    network: &Network,
    undo: &Snapshot,
    document: Option<&NetworkDocument>,
    mapping: &NicMapping,
) -> anyhow::Result<bool> {
    let mut tries = 0;
    let error = loop {
        match network.restore(undo).await {
            Ok(warnings) => {
                warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
                return Ok(false);
            }
            Err(error) if tries + 1 == RESTORE_TRIES => break error,
            Err(_) => sleep(Duration::from_secs(1) * 2u32.pow(tries)).await,
        }
        tries += 1;
    };
    if let Some(document) = document
        && network.apply_fallback(document, mapping).await.is_ok()
    {
        return Ok(true);
    }
    Err(error.into())
}

/// SIGTERM and Ctrl-C. A lost terminal (SIGHUP) does not end the change, which may itself have cut the
/// terminal off.
fn signals() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = async { loop { if hangup.recv().await.is_none() { pending::<()>().await } } } => {}
        }
    })
}

/// Runs the change in another process of this program, and undoes it if that process is killed.
///
/// # Errors
/// The process cannot be started or waited for, or its change cannot be undone.
pub async fn watch_over(
    network: &Network,
    state_dir: &Path,
    arguments: Vec<std::ffi::OsString>,
    called: Option<&str>,
) -> anyhow::Result<u8> {
    let program = std::env::current_exe().context("cannot find this program")?;
    // The process has a group of its own: this process passes Ctrl-C on.
    let mut command = Command::new(program);
    if let Some(name) = called {
        command.arg0(name);
    }
    let mut child = command.args(arguments).process_group(0).spawn().context("cannot start")?;
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    let mut stopped = Box::pin(signals()?);
    let status = tokio::select! {
        status = child.wait() => status?,
        () = &mut stopped => {
            if let Some(id) = id {
                let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), nix::sys::signal::Signal::SIGTERM);
            }
            child.wait().await?
        }
    };
    if let Some(code) = status.code() {
        return Ok(u8::try_from(code).unwrap_or(1));
    }
    let state = crate::open_state(state_dir).await?;
    let had_begun = Local::read(state.path())?.recover(network, &state).await?;
    let back = if had_begun { "; what was there before has been restored" } else { "" };
    bail!("the process that made the change was killed{back}")
}
