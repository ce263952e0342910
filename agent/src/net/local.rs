//! `net apply`: a document given by an operator on this server, kept only if what the operator names is reached.
//!
//! What was there is on disk before the first change, in `<state-dir>/net-local`, and goes with the record that says
//! that the change is kept. Whoever finds it there later (the next `net apply`, the boot) puts it back.

use std::future::{Future, pending};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use muster_host::net::{Applied, NetError, Network, Snapshot, chain};
use muster_shared::model::network::{NetworkDocument, NicMapping};
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, timeout_at};

use super::target::Target;
use crate::record::{self, Read};
use crate::state_dir::StateDir;

/// In the state directory.
const FILE: &str = "net-local";
/// Attempts to put something back, at growing distance: about 15 s in all.
const RESTORE_TRIES: u32 = 5;
/// Without a target: as long as the agent waits where nothing else is said.
const APPLY_WITHIN: Duration = Duration::from_secs(120);

/// What is known of local use, on disk.
#[derive(Default, Serialize, Deserialize)]
pub struct Local {
    /// What was there before Muster.
    pub before: Option<Vec<u8>>,
    /// The last document that was kept, as JSON.
    pub document: Option<String>,
    /// A change that is not kept yet: what to put back.
    pub undo: Option<Vec<u8>>,
}

/// How a change is confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// By reaching this.
    pub target: Target,
    /// From the first change on.
    pub within: Duration,
}

impl Local {
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

    /// What was there before Muster.
    ///
    /// # Errors
    /// The record is damaged.
    pub fn snapshot(&self) -> anyhow::Result<Option<Snapshot>> {
        Ok(self.before.as_deref().map(serde_json::from_slice).transpose()?)
    }

    /// Puts back a change that was not kept; whether there was one.
    ///
    /// # Errors
    /// It could not be put back, and may be later.
    pub async fn recover(&mut self, network: &Network, state: &StateDir) -> anyhow::Result<bool> {
        let Some(undo) = &self.undo else { return Ok(false) };
        let undo: Snapshot = serde_json::from_slice(undo)?;
        let document = self.document.as_deref().map(NetworkDocument::from_json).transpose()?;
        put_back(network, &undo, document.as_ref()).await?;
        self.undo = None;
        self.write(state)?;
        Ok(true)
    }
}

/// Applies, and keeps it if it is confirmed, or if nothing is to confirm it.
///
/// # Errors
/// It is not so: the document is wrong, a step failed, or the target was not reached. What was there has been put back,
/// or the error says that this failed too.
pub async fn apply(
    network: &Network,
    state: &StateDir,
    document: &NetworkDocument,
    text: String,
    confirm: Option<&Confirm>,
) -> anyhow::Result<Applied> {
    let stopped = signals()?;
    let mut local = Local::read(state.path())?;
    if local.recover(network, state).await? {
        eprintln!("warning: an earlier change was not kept: what was there before it has been put back");
    }
    let mapping = NicMapping::default();
    let before = network.snapshot(document, &mapping, local.snapshot()?).await?;
    let undo = network.undo(document, &mapping, &before).await?;
    let was = (local.before.replace(serde_json::to_vec(&before)?), local.document.clone());
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
            (local.before, local.document) = (Some(serde_json::to_vec(&applied.before)?), Some(text));
            let undo = local.undo.take();
            match local.write(state) {
                Ok(()) => Ok(applied),
                Err(error) => {
                    local.undo = undo;
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
    let fell_back = match put_back(network, &undo, Some(document)).await {
        Ok(fell_back) => fell_back,
        Err(error) => bail!("{why}; what was there before cannot be put back: {error:#}"),
    };
    (local.before, local.document) = was;
    local.undo = None;
    local.write(state).with_context(|| format!("{why}; what was there before has been put back"))?;
    match fell_back {
        false => bail!("{why}; what was there before has been put back"),
        true => bail!("{why}; what was there before cannot be put back, the fallback_config is in force"),
    }
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

/// Whether it had to fall back.
async fn put_back(
    network: &Network,
    undo: &Snapshot,
    document: Option<&NetworkDocument>,
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
        && network.apply_fallback(document, &NicMapping::default()).await.is_ok()
    {
        return Ok(true);
    }
    Err(error.into())
}

/// SIGTERM and Ctrl-C. A terminal that is gone (SIGHUP) is no reason: it may be this very change that cut it off.
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

/// Lets another process of this program make the change, and puts back what it leaves should it be killed.
///
/// # Errors
/// It cannot be started or waited for, or what it left cannot be put back.
pub async fn watch_over(
    network: &Network,
    state_dir: &Path,
    arguments: Vec<std::ffi::OsString>,
) -> anyhow::Result<u8> {
    let program = std::env::current_exe().context("cannot find this program")?;
    // A group of its own: Ctrl-C is ours to pass on.
    let mut child = Command::new(program).args(arguments).process_group(0).spawn().context("cannot start")?;
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
    let back = if had_begun { "; what was there before has been put back" } else { "" };
    bail!("the process that made the change was killed{back}")
}
