//! What was there before a document touched it, to be put back.
//!
//! There are two uses of one type. What was there before Muster is extended when a document first names a link and
//! put back on delete, link by link. An undo is taken right before one change and puts back all that the change may
//! touch: also what it takes along, such as routes over an address that leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_shared::model::network::{LinkName, NetworkDocument, Rule};
use serde::{Deserialize, Serialize};

use super::resolver::Resolver;
use super::state::{Address, Attach, OvsBridge, OvsPort, Route, State, VlanLink};

/// The state of links, taken before a change.
///
/// It is bounded by the host's own links and routes; store it (any serde format) before the first change, or a
/// crash forgets what to put back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// By name: put back exactly.
    pub links: BTreeMap<String, Before>,
    /// Links that no document names and that a change may still rob of something: what is gone is added again,
    /// what came since stays. Only an undo has them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub beside: BTreeMap<String, LinkBefore>,
    /// Policy rules that documents name: who had added them, or nothing where they were not there.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<Rule, Option<u8>>,
    /// The resolver's settings, once a document had any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolver: Option<Resolver>,
    /// Some of it is in Open vSwitch: without its database nothing can be put back.
    pub uses_ovs: bool,
}

/// One link before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Before {
    /// It was not there: what the document made goes.
    Absent,
    /// It was there, like this.
    Present(Box<LinkBefore>),
}

/// A link that was there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkBefore {
    /// What it was, so that it can be made again.
    pub kind: KindBefore,
    /// Administratively up.
    pub up: bool,
    /// In bytes.
    pub mtu: u32,
    /// What it belonged to.
    pub attach: Attach,
    /// Its port of Open vSwitch, if it was one's only interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<OvsPort>,
    /// Without the link-local one that the kernel makes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    /// Configured ones.
    #[serde(skip_serializing_if = "has_none")]
    pub routes: Arc<Vec<Route>>,
    /// The MAC address of a Linux bridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bridge_mac: Option<String>,
}

/// What a link was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum KindBefore {
    /// Made by somebody else: hardware, or a kind of link that Muster does not make. Gone, it stays gone.
    #[default]
    Existing,
    /// A Linux bridge.
    LinuxBridge,
    /// An 802.1Q link.
    Vlan(VlanLink),
    /// A bridge of Open vSwitch. Its ports are those that would go with it and stand nowhere else here.
    OvsBridge(OvsBridge),
    /// An internal port of Open vSwitch.
    OvsInternal,
}

impl Snapshot {
    /// Adds what `document` decides about and it does not hold yet, as it is now.
    pub(super) fn extend_by(&mut self, document: &NetworkDocument, state: &State) {
        self.extend(document.link_names().map(LinkName::as_str), state);
        for rule in document.all().flat_map(|object| &object.rules) {
            self.rules.entry(rule.clone()).or_insert_with(|| state.rules.get(rule).copied());
        }
        if document.dns.is_some() {
            self.resolver.get_or_insert_with(|| state.resolver.clone());
        }
    }

    /// Adds the links of `names` that it does not hold yet, as they are now.
    pub fn extend<'a>(&mut self, names: impl Iterator<Item = &'a str>, state: &State) {
        for name in names {
            if !self.links.contains_key(name) {
                let before = link(name, state).map_or(Before::Absent, |link| Before::Present(Box::new(link)));
                self.links.insert(name.to_owned(), before);
            }
        }
        self.uses_ovs |= self.holds_ovs();
    }

    /// Was any of it in Open vSwitch?
    pub(super) fn holds_ovs(&self) -> bool {
        let of_links = self.links.values().filter_map(|before| match before {
            Before::Present(before) => Some(before.as_ref()),
            Before::Absent => None,
        });
        let in_ovs = |link: &LinkBefore| {
            matches!(link.kind, KindBefore::OvsBridge(_)) || matches!(link.attach, Attach::Ovs(..))
        };
        of_links.chain(self.beside.values()).any(in_ovs)
    }

    /// Takes what `other` holds of links that it does not hold yet.
    pub fn merge(&mut self, other: Snapshot) {
        self.uses_ovs |= other.uses_ovs;
        for (link, was) in other.links {
            self.links.entry(link).or_insert(was);
        }
        for (rule, was) in other.rules {
            self.rules.entry(rule).or_insert(was);
        }
        self.resolver = self.resolver.take().or(other.resolver);
    }

    /// Forgets what `other` holds: it is put back from there.
    pub fn leave_to(&mut self, other: &Snapshot) {
        self.links.retain(|link, _| !other.links.contains_key(link));
        self.rules.retain(|rule, _| !other.rules.contains_key(rule));
        self.resolver.take_if(|_| other.resolver.is_some());
    }

    /// Forgets what `document` does not decide about.
    pub(super) fn keep_only(&mut self, document: &NetworkDocument) {
        let names: BTreeSet<&str> = document.link_names().map(LinkName::as_str).collect();
        self.links.retain(|name, _| names.contains(name.as_str()));
        let rules: BTreeSet<&Rule> = document.all().flat_map(|object| &object.rules).collect();
        self.rules.retain(|rule, _| rules.contains(rule));
        self.resolver.take_if(|_| document.dns.is_none());
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

    /// All that applying `document` over `before` may touch, as it is now.
    pub(super) fn undo_of(document: &NetworkDocument, before: &Self, state: &State) -> Self {
        let mut undo = Self::default();
        undo.extend_by(document, state);
        undo.extend(before.links.keys().map(String::as_str), state);
        undo.rules.extend(before.rules.keys().map(|rule| (rule.clone(), state.rules.get(rule).copied())));
        if before.resolver.is_some() {
            undo.resolver = Some(state.resolver.clone());
        }
        undo.beside = undo.beside(state);
        undo.uses_ovs |= before.uses_ovs || undo.holds_ovs();
        undo
    }

    /// What a change of its links takes along of others.
    fn beside(&self, state: &State) -> BTreeMap<String, LinkBefore> {
        let names: BTreeSet<&str> = self.links.keys().map(String::as_str).collect();
        let mut beside = BTreeMap::new();
        let mut open: Vec<&str> = names.iter().copied().collect();
        let mut touched = names;
        // Who stands on a touched link, who is in a touched bridge, and so on.
        let mut above: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, link) in &state.links {
            for below in link.master.iter().chain(&link.parent) {
                above.entry(below).or_default().push(name);
            }
            if let Some((bridge, _)) = state.ovs_port(name) {
                above.entry(bridge).or_default().push(name);
            }
        }
        while let Some(link) = open.pop() {
            let above = above.get(link).into_iter().flatten().copied();
            open.extend(above.filter(|name| touched.insert(name)));
        }
        let addresses =
            touched.iter().filter_map(|name| state.links.get(*name)).flat_map(|link| &link.addresses);
        let sources: BTreeSet<_> = addresses.map(|address| address.net.addr()).collect();
        for (name, link) in &state.links {
            let goes_along = touched.contains(name.as_str())
                || link.routes.iter().any(|route| {
                    route.source.is_some_and(|source| sources.contains(&source))
                        || route.hops.iter().any(|hop| touched.contains(hop.link.as_str()))
                });
            if goes_along && !self.links.contains_key(name) {
                beside.extend(self::link(name, state).map(|before| (name.clone(), before)));
            }
        }
        beside
    }
}

fn has_none(routes: &Arc<Vec<Route>>) -> bool {
    routes.is_empty()
}

/// Nothing if it is not there.
fn link(name: &str, state: &State) -> Option<LinkBefore> {
    let bridge = state.ovs_bridge(name);
    let none = super::state::Link::default();
    // A bridge of Open vSwitch may have no link while the switch is stopped; it is there all the same.
    let link = match state.links.get(name) {
        None if bridge.is_none() => return None,
        link => link.unwrap_or(&none),
    };
    let port = state.ovs_port(name).map(|(_, port)| port).filter(|port| port.interfaces.len() == 1);
    let kind = match (bridge, port, link.kind.as_str(), &link.vlan) {
        (Some(bridge), ..) => KindBefore::OvsBridge(with_its_ports(name, bridge)),
        (None, Some(port), ..) if port.is_internal() => KindBefore::OvsInternal,
        (None, _, "bridge", _) => KindBefore::LinuxBridge,
        (None, _, _, Some(vlan)) => KindBefore::Vlan(vlan.clone()),
        _ => KindBefore::Existing,
    };
    let kept = |address: &&Address| !address.is_of_mac(link.mac.as_deref());
    Some(LinkBefore {
        up: link.up,
        mtu: link.mtu,
        attach: state.attachment(name),
        port: port.cloned(),
        addresses: link.addresses.iter().filter(kept).copied().collect(),
        routes: Arc::clone(&link.routes),
        bridge_mac: link.mac.clone().filter(|_| kind == KindBefore::LinuxBridge),
        kind,
    })
}

/// Others' bridges are never deleted, so of their ports only the local one is of interest.
fn with_its_ports(name: &str, bridge: &OvsBridge) -> OvsBridge {
    let mut bridge = bridge.clone();
    if !bridge.ours {
        bridge.ports.retain(|port, _| port == name);
    }
    bridge
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::{pack, unpack};

    #[test]
    fn a_snapshot_is_the_same_from_disk_and_small_and_what_is_damaged_is_none() {
        let route = |number: u32| Route {
            destination: format!("10.{}.{}.0/24", number / 256, number % 256).parse().unwrap(),
            gateway: Some("192.0.2.1".parse().unwrap()),
            table: 254,
            metric: 0,
            protocol: 3,
            scope: 0,
            source: None,
            onlink: false,
            tos: 0,
            hops: Vec::new(),
            attributes: vec![(8, vec![1, 2, 3])],
        };
        let routes: Arc<Vec<_>> = Arc::new((0..10_000).map(route).collect());
        let bridge = OvsBridge {
            columns: [("fail_mode".to_owned(), serde_json::json!("secure"))].into(),
            ..OvsBridge::default()
        };
        let kind = KindBefore::OvsBridge(bridge);
        let link = LinkBefore { routes, kind, ..LinkBefore::default() };
        let links =
            [("br0".to_owned(), Before::Present(Box::new(link))), ("gone".to_owned(), Before::Absent)];
        let rules = [("from 10.0.0.0/8 lookup 7".parse().unwrap(), Some(4))].into();
        let snapshot = Snapshot { links: links.into(), rules, uses_ovs: true, ..Snapshot::default() };
        let bytes = pack(&snapshot).unwrap();
        assert!(bytes.len() < 300_000, "{} bytes", bytes.len());
        assert_eq!(unpack(&bytes), Some(snapshot));
        assert_eq!(unpack::<Snapshot>(&bytes[..bytes.len() / 2]), None);
        assert_eq!(unpack::<Snapshot>(&[]), None);
        assert_eq!(unpack::<Snapshot>(b"{}"), None);
    }
}
