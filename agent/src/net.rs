//! `muster-agent net`: the network part alone, without a controller.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use muster_host::net::{Network, Snapshot};
use muster_shared::model::network::{NetworkDocument, NicMapping};
use serde_json::Value;

use crate::WrongInput;
use crate::record::{self, Read};
use crate::yaml;

/// A document with 65,536 routes needs half of it.
const FILE_MAX: u64 = 32 * 1024 * 1024;

/// Prints the network as it is.
///
/// # Errors
/// It cannot be read.
pub async fn show(network: &Network) -> anyhow::Result<()> {
    println!("{:#}", network.show().await?);
    Ok(())
}

/// Prints what [`apply`] would do. An absent interface is a warning.
///
/// # Errors
/// The document is wrong, or something is in the way.
pub async fn plan(network: &Network, file: &Path, state_dir: &Path) -> anyhow::Result<()> {
    let document = document(file)?;
    let plan = network.plan_text(&document, &NicMapping::default(), read_before(state_dir)?).await?;
    plan.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    plan.lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// Applies, and keeps what was there before in the state directory.
///
/// # Errors
/// The document is wrong, something is in the way, or a step failed.
pub async fn apply(network: &Network, file: &Path, state_dir: &Path) -> anyhow::Result<()> {
    let document = document(file)?;
    let mapping = NicMapping::default();
    let before = network.snapshot(&document, &mapping, read_before(state_dir)?).await?;
    write_before(state_dir, &before)?;
    let undo = network.undo(&document, &mapping, &before).await?;
    let applied = network.apply_or_restore(&document, &mapping, &before, &undo).await?;
    write_before(state_dir, &applied.before)?;
    applied.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    applied.steps.iter().for_each(|step| println!("{step}"));
    Ok(())
}

/// # Errors
/// [`WrongInput`]: nothing was done.
fn document(file: &Path) -> anyhow::Result<NetworkDocument> {
    read_document(file).map_err(|error| WrongInput(format!("{error:#}")).into())
}

fn read_document(file: &Path) -> anyhow::Result<NetworkDocument> {
    let shown = file.display();
    let size = fs::metadata(file).with_context(|| shown.to_string())?.len();
    if size > FILE_MAX {
        bail!("{shown}: {size} bytes are over the limit of {FILE_MAX}");
    }
    let text = fs::read_to_string(file).with_context(|| shown.to_string())?;
    let value: Value = yaml::parse(&text).map_err(|error| anyhow::anyhow!("{shown}:{error}"))?;
    NetworkDocument::parse(value.get("network_config").unwrap_or(&value)).with_context(|| shown.to_string())
}

fn read_before(state_dir: &Path) -> anyhow::Result<Option<Snapshot>> {
    let path = state_dir.join("net-before");
    match record::read::<Vec<u8>>(&path)? {
        Read::Whole(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Read::Absent => Ok(None),
        Read::Corrupt => {
            bail!("{}: damaged: remove it, and what was there before is forgotten", path.display())
        }
    }
}

fn write_before(state_dir: &Path, before: &Snapshot) -> anyhow::Result<()> {
    fs::create_dir_all(state_dir).with_context(|| state_dir.display().to_string())?;
    record::write(&state_dir.join("net-before"), &serde_json::to_vec(before)?)?;
    record::sync_directory(state_dir)?;
    Ok(())
}
