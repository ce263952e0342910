//! The records of the agent's state directory, read without its lock: a running agent may be writing.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use muster_agent_link::Identity;
use muster_host::net::uses_ovs;
use muster_shared::finding::Finding;
use muster_shared::model::flow::Bridge;
use muster_shared::model::network::{NetworkDocument, NicMapping};

use super::switch::Need;
use super::{identity, state_directory};
use crate::net::export::documents;
use crate::net::local::Local;
use crate::state_dir::{StateError, entries_unlocked, identity_unlocked};

/// Whether this server belongs to a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    No,
    Yes,
    /// The record cannot be read.
    Unknown,
}

/// The records on disk.
pub struct Recorded {
    pub identity: Result<Option<Identity>, StateError>,
    /// Network documents in force, each with its mapping of names.
    pub documents: Vec<(NetworkDocument, NicMapping)>,
    pub needs_switch: Need,
    /// There is a flow table of nftables.
    pub uses_filter: bool,
    /// The process that holds the lock.
    pub holder: Option<u32>,
    /// The findings of the state directory itself.
    pub findings: Vec<Finding>,
}

impl Recorded {
    /// Reads all of it; blocks while the disk does.
    pub fn read(state_dir: &Path) -> Self {
        let (holder, findings) = state_directory::look(state_dir);
        let entries = entries_unlocked(state_dir);
        let local = Local::read(state_dir).unwrap_or_default();
        // The agent itself reports a record that cannot be read.
        let documents = documents(&entries, &local).unwrap_or_default();
        let tables = tables(&state_dir.join("flows"));
        let needs_switch = match tables.iter().any(|table| !table.is_nftables()) {
            _ if documents.iter().any(|(document, _)| uses_ovs(document)) => Need::Document,
            true => Need::FlowTable,
            false => Need::None,
        };
        Self {
            identity: identity_unlocked(state_dir),
            documents,
            needs_switch,
            uses_filter: tables.iter().any(Bridge::is_nftables),
            holder,
            findings,
        }
    }

    pub fn joined(&self) -> Joined {
        match &self.identity {
            Ok(Some(_)) => Joined::Yes,
            Ok(None) => Joined::No,
            Err(_) => Joined::Unknown,
        }
    }

    /// The node as far as its check needs it.
    pub fn identity_facts(&self) -> identity::Facts {
        match &self.identity {
            Ok(None) => identity::Facts::Absent,
            Ok(Some(node)) => identity::Facts::of(node),
            Err(StateError::Damaged { path } | StateError::Locked { path }) => {
                identity::Facts::Damaged(path.clone())
            }
            Err(StateError::Io { path, source }) if source.kind() == ErrorKind::PermissionDenied => {
                identity::Facts::Denied(path.clone())
            }
            Err(error @ StateError::Io { path, .. }) => {
                identity::Facts::Unread { path: path.clone(), why: error.to_string() }
            }
        }
    }
}

/// The devices that have a log of their flow table.
fn tables(folder: &Path) -> BTreeSet<Bridge> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
