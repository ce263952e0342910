//! What was there before a document touched it, to be put back on delete.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::state::{Address, Attach, Route, State};

/// The state of the links that a document names, taken before it was first applied.
///
/// It is bounded by the document and by what those links had; store it (any serde format) before the
/// first change, or a crash forgets what to put back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// By name.
    pub links: BTreeMap<String, Before>,
    /// Some of it is in Open vSwitch: without its database nothing can be put back.
    pub uses_ovs: bool,
}

/// One link before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Before {
    /// It was not there: what the document made goes on delete.
    Absent,
    /// It was there, like this.
    Present(LinkBefore),
}

/// A link that was there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkBefore {
    /// Administratively up.
    pub up: bool,
    /// In bytes.
    pub mtu: u32,
    /// What it belonged to.
    pub attach: Attach,
    /// Without the kernel's own link-local ones.
    pub addresses: Vec<Address>,
    /// Static ones.
    pub routes: Vec<Route>,
    /// The MAC address of a Linux bridge.
    pub bridge_mac: Option<String>,
    /// `other_config:hwaddr` of a bridge of Open vSwitch.
    pub hwaddr: Option<String>,
    /// The MTU asked for, of an interface made by Open vSwitch.
    pub mtu_request: Option<u32>,
}

impl Snapshot {
    /// Adds the links of `names` that it does not hold yet, as they are now.
    pub fn extend<'a>(&mut self, names: impl Iterator<Item = &'a str>, state: &State) {
        for name in names {
            if !self.links.contains_key(name) {
                self.links.insert(name.to_owned(), before(name, state));
            }
        }
    }

    /// Forgets the links that are not in `names`.
    pub fn keep_only<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        let names: BTreeSet<&str> = names.collect();
        self.links.retain(|name, _| names.contains(name.as_str()));
    }

    /// Was that link absent?
    pub fn was_absent(&self, name: &str) -> bool {
        matches!(self.links.get(name), Some(Before::Absent))
    }

    /// The link as it was, if it was there.
    pub fn present(&self, name: &str) -> Option<&LinkBefore> {
        match self.links.get(name) {
            Some(Before::Present(before)) => Some(before),
            Some(Before::Absent) | None => None,
        }
    }
}

fn before(name: &str, state: &State) -> Before {
    let bridge = state.ovs_bridge(name);
    // A bridge of Open vSwitch may have no link while the switch is stopped; it is there all the same.
    let Some(link) = state.links.get(name) else {
        return match bridge {
            None => Before::Absent,
            Some(bridge) => {
                Before::Present(LinkBefore { hwaddr: bridge.hwaddr.clone(), ..LinkBefore::default() })
            }
        };
    };
    Before::Present(LinkBefore {
        up: link.up,
        mtu: link.mtu,
        attach: state.attachment(name),
        addresses: link.addresses.iter().filter(|address| !address.is_link_local()).copied().collect(),
        routes: link.routes.iter().filter(|route| route.is_static()).copied().collect(),
        bridge_mac: link.mac.clone().filter(|_| link.kind == "bridge"),
        hwaddr: bridge.and_then(|bridge| bridge.hwaddr.clone()),
        mtu_request: state.ovs_interface(name).and_then(|interface| interface.mtu_request),
    })
}
