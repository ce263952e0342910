//! `net export`: writes Muster's network as files of systemd-networkd, NetworkManager or ifupdown.
//!
//! The files are printed, or written below a folder. The drop-ins there that made managers leave links alone
//! are removed, except those of links that are in no file. No manager is told now, so the network stays
//! unchanged until the next boot. Settings that cannot be expressed are listed in the end, and are an error.
//!
//! Absent: what each format can express (`agent/host/src/net/export.rs`).

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use muster_agent_core::Entry;
use muster_host::net::export::Format;
use muster_host::net::network_managers::NetworkManagers;
use muster_host::net::{Network, chain};
use muster_shared::model::Spec;
use muster_shared::model::network::{LinkName, NetworkDocument, NicMapping};

use super::local::Local;
use crate::state_dir::StateDir;

/// The source and destination of an export.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Export {
    /// A document; all that is in force otherwise.
    pub document: Option<PathBuf>,
    /// The format; by default that of the server's own manager.
    pub format: Option<Format>,
    /// A folder in place of `/`; without one, the files are printed.
    pub into: Option<PathBuf>,
}

/// # Errors
/// The documents in force are unknown, a file cannot be written, or the format cannot express everything: the
/// rest is written.
pub async fn export(network: &Network, export: &Export, state_dir: &Path) -> anyhow::Result<()> {
    let root = export.into.as_deref().unwrap_or(Path::new("/"));
    let Some(format) = export.format.or_else(|| here(root)) else {
        println!("nothing is written: neither systemd-networkd, NetworkManager nor ifupdown is here");
        return Ok(());
    };
    let documents = match &export.document {
        Some(file) => vec![(super::document(file)?.0, NicMapping::default())],
        None => in_force(state_dir).await?,
    };
    let macs = network.observe().await.map_err(|error| anyhow::anyhow!(chain(&error)))?.macs();
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let (mut written, mut unwritten) = (Vec::new(), Vec::new());
    let mut missing = Vec::new();
    for (document, mapping) in documents {
        let document = document.with_names(&mapping.resolve(&macs)?)?;
        let exported = format.export(&document);
        missing.extend(exported.missing);
        written.extend(exported.written);
        unwritten.extend(exported.unwritten);
        for (path, text) in exported.files {
            let whole = files.entry(path).or_default();
            if !whole.is_empty() {
                whole.push('\n');
            }
            whole.push_str(&text);
        }
    }
    for (path, text) in &files {
        match &export.into {
            None => println!("# /{path}\n{text}"),
            Some(root) => {
                write(&root.join(path), text)?;
                println!("{}", root.join(path).display());
            }
        }
    }
    if export.into.is_some()
        && let Some(neighbours) =
            NetworkManagers::new(export.into.clone().filter(|into| into != Path::new("/")))
    {
        neighbours.forget(written.iter().map(LinkName::as_str))?;
    }
    if missing.is_empty() {
        return Ok(());
    }
    missing.iter().for_each(|missing| eprintln!("{missing}"));
    if unwritten.is_empty() {
        bail!("the rest is written");
    }
    let links: Vec<&str> = unwritten.iter().map(LinkName::as_str).collect();
    let links = links.join(", ");
    bail!(
        "the rest is written; no file is for {links}: who was told to leave them alone still does, also at boot"
    )
}

/// The manager that configures links at boot where Muster does not.
fn here(root: &Path) -> Option<Format> {
    // The unit runs, or starts at boot. These are links whose targets may be missing.
    let is_here = |unit: &str| {
        let runs = root.join(format!("run/systemd/units/invocation:{unit}")).symlink_metadata().is_ok();
        let wanted = root.join(format!("etc/systemd/system/multi-user.target.wants/{unit}"));
        // A masked unit does not start, even if others require it.
        let is_masked = |folder: &str| {
            root.join(folder).join(unit).read_link().is_ok_and(|to| to == Path::new("/dev/null"))
        };
        let masked = ["etc/systemd/system", "run/systemd/system"].into_iter().any(is_masked);
        runs || (wanted.symlink_metadata().is_ok() && !masked)
    };
    if is_here("systemd-networkd.service") {
        return Some(Format::Networkd);
    }
    if is_here("NetworkManager.service") {
        return Some(Format::NetworkManager);
    }
    ["sbin/ifup", "usr/sbin/ifup"].iter().any(|ifup| root.join(ifup).exists()).then_some(Format::Ifupdown)
}

/// The documents of this server, each with its mapping of names.
async fn in_force(state_dir: &Path) -> anyhow::Result<Vec<(NetworkDocument, NicMapping)>> {
    if !state_dir.exists() {
        return Ok(Vec::new());
    }
    let state: StateDir = super::open_idle(state_dir).await?;
    let ledger = state.ledger()?;
    documents(&ledger, &Local::read(state.path())?)
}

/// The documents in force, by what the agent and 'net apply' have recorded; each with its mapping of names.
///
/// # Errors
/// A document or its mapping cannot be read.
pub fn documents(ledger: &[Entry], local: &Local) -> anyhow::Result<Vec<(NetworkDocument, NicMapping)>> {
    let is_newest = local.document.is_some() && local.counts(ledger);
    let mut found = Vec::new();
    for entry in ledger {
        let is_taken = ledger.iter().any(|other| other.is_over(entry));
        if is_taken || (entry.resource.is_local() && is_newest) {
            continue;
        }
        if let Some(Spec::Network(config)) = entry.applied.as_ref().map(|applied| &applied.spec) {
            let document = NetworkDocument::from_json(&config.document);
            found.push((document?, NicMapping::new(config.mapping.clone())?));
        }
    }
    if let Some(document) = local.document.as_deref().filter(|_| is_newest) {
        found.push((NetworkDocument::from_json(document)?, local.nics()?));
    }
    Ok(found)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let shown = || path.display().to_string();
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(shown)?;
    }
    // NetworkManager ignores files that others may read.
    let mode = if path.extension().is_some_and(|suffix| suffix == "nmconnection") { 0o600 } else { 0o644 };
    let mut options = fs::OpenOptions::new();
    let mut file =
        options.write(true).create(true).truncate(true).mode(mode).open(path).with_context(shown)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).with_context(shown)
}

/// `--format`
///
/// # Errors
/// There is no such format.
pub fn format(text: &str) -> anyhow::Result<Option<Format>> {
    Ok(match text {
        "auto" => None,
        "networkd" => Some(Format::Networkd),
        "networkmanager" => Some(Format::NetworkManager),
        "ifupdown" => Some(Format::Ifupdown),
        other => {
            bail!("--format '{}': want networkd, networkmanager, ifupdown or auto", other.escape_default())
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn who_is_masked_is_not_here() {
        let root = tempfile::tempdir().unwrap();
        let units = root.path().join("etc/systemd/system");
        fs::create_dir_all(units.join("multi-user.target.wants")).unwrap();
        assert_eq!(here(root.path()), None);
        let unit = "NetworkManager.service";
        symlink("/lib/systemd/system/x", units.join("multi-user.target.wants").join(unit)).unwrap();
        assert_eq!(here(root.path()), Some(Format::NetworkManager));
        symlink("/dev/null", units.join(unit)).unwrap();
        assert_eq!(here(root.path()), None);
        let running = root.path().join("run/systemd/units");
        fs::create_dir_all(&running).unwrap();
        symlink("x", running.join(format!("invocation:{unit}"))).unwrap();
        assert_eq!(here(root.path()), Some(Format::NetworkManager));
    }
}
