//! A network document in the format of systemd-networkd, NetworkManager or ifupdown: for a server
//! that Muster leaves, or that must come up without it.
//!
//! Pure. Settings that the format cannot express are left out and listed, so that the rest of the server
//! comes up. Open vSwitch restores its bridges and ports from its own database: only the links on top of them
//! are written.
//!
//! Absent: which documents are exported, and the files (`agent/src/net/export.rs`).

mod ifupdown;
mod network_manager;
mod networkd;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use muster_shared::model::network::{BondOptions, LinkName, NetworkDocument, Object, ObjectKind};
use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Networkd,
    /// NetworkManager, by keyfiles.
    NetworkManager,
    /// ifupdown, and ifupdown2.
    Ifupdown,
}

/// A file: its path below the root, and its content.
type File = (String, String);

/// A document in their words.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Paths below the root, with the content of each file.
    pub files: Vec<(String, String)>,
    /// Settings that are in none of the files.
    pub missing: Vec<NotExportable>,
    /// Links that a file configures: managers need not leave them alone any more.
    pub written: Vec<LinkName>,
    /// Links of the document that no file configures.
    pub unwritten: Vec<LinkName>,
}

/// A setting that the format cannot express.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{path}: {what} cannot be written for {for_whom}")]
pub struct NotExportable {
    path: String,
    what: String,
    for_whom: &'static str,
}

const HEAD: &str = "# Written by 'muster-agent net export' from a network document.\n";

impl Format {
    /// The files, with as much of the document as the format can express.
    pub fn export(self, document: &NetworkDocument) -> Exported {
        let above = UpperLinks::of(document);
        let mut missing = Vec::new();
        let (files, unwritten) = match self {
            Self::Networkd => (networkd::files(document, &above, &mut missing), Vec::new()),
            Self::NetworkManager => network_manager::keyfiles(document, &above, &mut missing),
            Self::Ifupdown => ifupdown::stanzas(document, &above, &mut missing),
        };
        for object in document.all().filter(|object| !object.ethtool.is_empty()) {
            let words: Vec<&str> = object.ethtool.iter().map(|setting| setting.written.as_str()).collect();
            missing.push(self.lacks(object, &format!("ethtool_opts ({})", words.join(", "))));
        }
        let written = document.link_names().filter(|link| !unwritten.contains(link)).cloned().collect();
        Exported { files, missing, written, unwritten }
    }

    fn lacks(self, object: &Object, what: &str) -> NotExportable {
        let for_whom = match self {
            Self::Networkd => "systemd-networkd",
            Self::NetworkManager => "NetworkManager",
            Self::Ifupdown => "ifupdown",
        };
        NotExportable { path: object.path.clone(), what: what.to_owned(), for_whom }
    }
}

/// The links on top of each link.
#[derive(Default)]
struct UpperLinks<'a> {
    /// Member → its Linux bridge.
    bridge: BTreeMap<&'a LinkName, &'a LinkName>,
    /// Member → its bond, and whether the bond prefers this member.
    bond: BTreeMap<&'a LinkName, (&'a LinkName, bool)>,
    /// Members of Open vSwitch's bridges and bonds.
    switched: Vec<&'a LinkName>,
    /// 802.1Q links by what carries them.
    vlans: BTreeMap<&'a LinkName, Vec<&'a LinkName>>,
}

impl<'a> UpperLinks<'a> {
    fn of(document: &'a NetworkDocument) -> Self {
        let mut above = Self::default();
        for object in document.all() {
            match &object.kind {
                ObjectKind::LinuxBridge { members } => {
                    above.bridge.extend(members.iter().map(|member| (&member.name, &object.name)));
                }
                ObjectKind::OvsBridge { members } | ObjectKind::OvsBond { members } => {
                    above.switched.extend(members.iter().map(|member| &member.name))
                }
                ObjectKind::LinuxBond { members, options } => {
                    let is_primary = |member: &Object| options.primary.as_ref() == Some(&member.name);
                    let bond = |member: &'a Object| (&member.name, (&object.name, is_primary(member)));
                    above.bond.extend(members.iter().map(bond));
                }
                _ => {}
            }
        }
        for object in document.all() {
            if let ObjectKind::Vlan { device: Some(device), .. } = &object.kind
                && !above.switched.contains(&&object.name)
            {
                above.vlans.entry(device).or_default().push(&object.name);
            }
        }
        above
    }
}

/// A bond's options in the kernel's words, without its primary member.
fn words(options: &BondOptions) -> Vec<(String, String)> {
    let said = options.describe();
    let pairs = said.split_ascii_whitespace().filter_map(|word| word.split_once('='));
    let pairs = pairs.filter(|(option, _)| *option != "primary");
    pairs.map(|(option, value)| (option.to_owned(), value.to_owned())).collect()
}

fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more).expect("text takes all that is written");
}

#[cfg(test)]
mod tests;
