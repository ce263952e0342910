//! The host's network in real namespaces with a real Open vSwitch. Needs root.
#![allow(clippy::unwrap_used, reason = "these are tests, also outside of their functions")]

mod conformance;
mod crash;
mod dhcp;
mod document;
mod ethtool;
mod facts;
mod hints;
mod json_schema;
mod lldp;
mod options;
mod ovs;
mod plain;
mod ports;
mod schema;
mod server;
mod switch;
mod topology;
mod undo;

use muster_host::net::{Snapshot, State};
use muster_shared::model::network::{NetworkDocument, NicMapping};
use serde_json::Value;

/// A document that parses.
fn document(value: Value) -> NetworkDocument {
    NetworkDocument::parse(&value).unwrap()
}

fn no_mapping() -> NicMapping {
    NicMapping::default()
}

fn mapping(alias: &str, link: &str) -> NicMapping {
    NicMapping::new([(alias.to_owned(), link.to_owned())].into()).unwrap()
}

/// The host without what changes by itself: link-local addresses come a moment after a link is up.
fn settled(mut state: State) -> State {
    for link in state.links.values_mut() {
        link.addresses.retain(|address| !address.is_link_local());
        link.addresses.sort();
        std::sync::Arc::make_mut(&mut link.routes).sort();
    }
    state
}

/// Through JSON, as an agent would keep it.
fn kept(snapshot: Snapshot) -> Snapshot {
    serde_json::from_str(&serde_json::to_string(&snapshot).unwrap()).unwrap()
}
