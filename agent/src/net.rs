//! `muster-agent net`: the network part alone, without a controller. A change by `net apply` is kept or undone
//! in `net/local.rs`.
//!
//! Absent: how a network is changed and read back (`agent/host/src/net.rs`).

pub mod boot;
pub mod confirm_target;
pub mod export;
pub mod local;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use muster_host::net::{Applied, Network};
use muster_shared::model::network::{NetworkDocument, NicMapping};
use serde_json::Value;

use crate::WrongInput;
use crate::state_dir::{StateDir, StateError};
use local::{Confirm, Local, LocalDocument};

/// A document with 65,536 routes needs half of it.
const FILE_MAX: u64 = 32 * 1024 * 1024;

/// Prints the present network.
///
/// # Errors
/// The network cannot be read.
pub async fn show(network: &Network) -> anyhow::Result<()> {
    println!("{:#}", network.show().await?);
    Ok(())
}

/// Prints what [`apply`] would do. An absent interface is a warning.
///
/// # Errors
/// The document is wrong, or something is in the way.
pub async fn plan(network: &Network, file: &Path, state_dir: &Path) -> anyhow::Result<()> {
    let (document, _) = document(file)?;
    let before = Local::read(state_dir)?.snapshot()?;
    let plan = network.plan_text(&document, &NicMapping::default(), before).await?;
    plan.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    plan.lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// Applies, and keeps the state before in the state directory.
///
/// # Errors
/// The document is wrong, an obstacle exists, a step failed, or the target of the confirmation was
/// not reached.
pub async fn apply(
    network: &Network,
    file: &Path,
    state_dir: &Path,
    confirm: Option<&Confirm>,
) -> anyhow::Result<()> {
    let (document, text) = document(file)?;
    let given = LocalDocument { document, text, mapping: BTreeMap::new() };
    let state = open_idle(state_dir).await?;
    let applied = apply_given(network, &state, &given, confirm).await?;
    applied.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    applied.steps.iter().for_each(|step| println!("{step}"));
    match confirm {
        Some(Confirm { target, .. }) if applied.changed() => println!("kept: {target} was reached"),
        None if applied.changed() => {
            eprintln!(
                "warning: whether this server can still be reached was not asked; '--confirm gateway' would have"
            );
        }
        Some(_) | None => {}
    }
    Ok(())
}

/// Applies without an agent.
///
/// # Errors
/// As [`apply`].
pub async fn apply_given(
    network: &Network,
    state: &StateDir,
    given: &LocalDocument,
    confirm: Option<&Confirm>,
) -> anyhow::Result<Applied> {
    refuse_unconfirmed(state)?;
    local::apply(network, state, given, confirm).await
}

/// The state directory, while no agent uses it.
///
/// # Errors
/// An agent uses the directory, or it cannot be opened.
pub async fn open_idle(path: &Path) -> anyhow::Result<StateDir> {
    let state = crate::open_state(path).await;
    state.map_err(|error| match error {
        StateError::Locked { .. } => {
            anyhow::anyhow!(
                "{error}: its controller configures this server's network; or stop the agent first"
            )
        }
        error => error.into(),
    })
}

/// Refuses if the agent has an unconfirmed change: its restore at the next start would overwrite this one.
fn refuse_unconfirmed(state: &StateDir) -> anyhow::Result<()> {
    match state.ledger()?.iter().find(|entry| entry.undo.is_some()) {
        None => Ok(()),
        Some(entry) => bail!(
            "the last change that the controller has made, of {}, is not confirmed and not restored yet: start the agent \
             (systemctl start muster-agent), which restores it, then try again",
            entry.resource
        ),
    }
}

/// # Errors
/// [`WrongInput`]: nothing was done.
fn document(file: &Path) -> anyhow::Result<(NetworkDocument, String)> {
    read_document(file).map_err(|error| WrongInput(format!("{error:#}")).into())
}

fn read_document(file: &Path) -> anyhow::Result<(NetworkDocument, String)> {
    let value = read_value(file)?;
    let document = NetworkDocument::parse(&value).with_context(|| file.display().to_string())?;
    Ok((document, value.to_string()))
}

/// The content of a YAML or JSON file.
///
/// # Errors
/// The file is not one.
pub fn read_value(file: &Path) -> anyhow::Result<Value> {
    let shown = file.display();
    let size = fs::metadata(file).with_context(|| shown.to_string())?.len();
    if size > FILE_MAX {
        bail!("{shown}: {size} bytes are over the limit of {FILE_MAX}");
    }
    let text = fs::read_to_string(file).with_context(|| shown.to_string())?;
    muster_yaml::parse(&text).map_err(|error| anyhow::anyhow!("{shown}:{error}"))
}

#[cfg(test)]
mod tests {
    use muster_agent_core::{Before, Entry, Undo};
    use muster_shared::ResourceId;
    use muster_shared::model::ReportKey;
    use muster_shared::{Attempt, Epoch, Generation};

    use super::*;

    #[test]
    fn nothing_is_applied_that_the_agent_would_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        let resource = ResourceId(uuid::Uuid::from_u128(1));
        let mut entry = Entry::new(resource);
        state.write_entry(&entry).unwrap();
        refuse_unconfirmed(&state).unwrap();
        let generation = Generation { epoch: Epoch(1), number: 1 };
        entry.undo = Some(Undo {
            key: ReportKey { resource, generation, attempt: Attempt(0) },
            state: Before::new(Vec::new()),
            holding: None,
        });
        state.write_entry(&entry).unwrap();
        assert!(refuse_unconfirmed(&state).unwrap_err().to_string().contains("not restored yet"));
    }
}
