//! The state before a document touched it, for a restore.
//!
//! The type has two uses. The state before Muster is extended when a document first names a link, and
//! restored on delete, link by link. An undo is taken right before one change and restores all that the
//! change may touch, including side effects such as the loss of routes over a removed address.
//!
//! Absent: the restore (`restore.rs`), and the ledger's record (`agent/core/src/ledger/holding.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_shared::model::network::{BondOptions, EthtoolSetting, LinkName, NetworkDocument, OvsPlace, Rule};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::dhcp::ClientSettings;
use super::ethtool::{is_of_link, to_put_back};
use super::resolver::Resolver;
use super::state::{Address, Attach, OvsBridge, OvsPort, Route, State, VlanLink};

/// The state of links, taken before a change.
///
/// The size is bounded by the host's own links and routes. Store it (any serde format) before the first
/// change, or a crash loses it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Links to restore exactly, by name.
    pub links: BTreeMap<String, Before>,
    /// Links that no document names and that a change may still affect: lost parts are added again, later
    /// additions stay. Only an undo has them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub beside: BTreeMap<String, LinkBefore>,
    /// Policy rules that documents name: the origin of each, or `None` if it did not exist.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<Rule, Option<u8>>,
    /// Ports of Open vSwitch without a link of the kernel (bonds, tunnels, patches) that documents name:
    /// place and content, or `None` if the port did not exist.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ports: BTreeMap<String, Option<PortBefore>>,
    /// Single settings in Open vSwitch's database that documents make, as they were; nothing for the default.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<OvsPlace, Option<Value>>,
    /// The earlier ethtool settings of links, where documents set them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ethtool: BTreeMap<String, BTreeMap<String, u32>>,
    /// The earlier numbers of routing table names that documents define.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, Option<u32>>,
    /// The resolver's settings, once a document had any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolver: Option<Resolver>,
    /// Links that the server's network managers were told to leave alone. Those of `links` that are not here
    /// are returned to the managers.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub left_alone: BTreeSet<String>,
    /// Parts of the state are in Open vSwitch: without its database nothing can be restored.
    pub uses_ovs: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Before {
    /// The link did not exist: a restore removes it.
    Absent,
    /// The link existed in this state.
    Present(Box<LinkBefore>),
}

/// A port of Open vSwitch that existed before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortBefore {
    pub bridge: String,
    pub port: OvsPort,
}

/// A link that existed before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkBefore {
    /// The kind, from which the link can be made again.
    pub kind: KindBefore,
    /// Administratively up.
    pub up: bool,
    /// The MTU in bytes.
    pub mtu: u32,
    /// The link's bridge or bond.
    pub attach: Attach,
    /// The port of Open vSwitch, if the link was its only interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<OvsPort>,
    /// The addresses, without the link-local one that the kernel makes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    #[serde(skip_serializing_if = "has_none")]
    pub routes: Arc<Vec<Route>>,
    /// The MAC address of a Linux bridge, or of a bond that gives it to its members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_mac: Option<String>,
    /// The settings of our DHCP client for the link. The leased addresses are among the addresses, and so
    /// return at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dhcp: Option<ClientSettings>,
}

/// The kind of an earlier link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum KindBefore {
    /// Made by others: hardware, or a kind of link that Muster does not make. Cannot be made again.
    #[default]
    Existing,
    LinuxBridge,
    Vlan(VlanLink),
    /// A bond of the kernel.
    Bond(BondOptions),
    /// A tap device that stays.
    Tap,
    /// A bridge of Open vSwitch, with those ports that would vanish with it and are recorded nowhere
    /// else here.
    OvsBridge(OvsBridge),
    /// An internal port of Open vSwitch.
    OvsInternal,
}

impl Snapshot {
    /// Adds the present state of what `document` decides about, as far as the snapshot lacks it.
    pub(super) fn extend_by(&mut self, document: &NetworkDocument, state: &State) {
        self.extend(document.link_names().map(LinkName::as_str), state);
        for rule in document.all().flat_map(|object| &object.rules) {
            self.rules.entry(rule.clone()).or_insert_with(|| state.rules.get(rule).copied());
        }
        for object in document.all().filter(|object| object.is_port_only()) {
            self.extend_port(object.name.as_str(), state);
        }
        for setting in document.all().flat_map(|object| &object.settings) {
            let place = &setting.place;
            self.settings.entry(place.clone()).or_insert_with(|| state.setting(place));
        }
        for (link, setting) in ethtool(document) {
            let now = state.ethtool.get(link).into_iter().flat_map(to_put_back);
            for (name, value) in now.filter(|(name, _)| touches(setting, name)) {
                self.ethtool.entry(link.to_owned()).or_default().entry(name.clone()).or_insert(*value);
            }
        }
        for table in &document.tables {
            self.tables.entry(table.name.clone()).or_insert_with(|| state.tables.get(&table.name).copied());
        }
        let removed = document.removals.iter().map(|removal| removal.name.as_str());
        let (ports, links): (Vec<&str>, Vec<&str>) = removed.partition(|name| is_port_only(name, state));
        ports.into_iter().for_each(|name| self.extend_port(name, state));
        for name in links {
            let is_new = !self.links.contains_key(name);
            self.extend(std::iter::once(name), state);
            // All of the bridge's ports vanish with it, whatever their origin.
            if let (true, Some(bridge)) = (is_new, state.ovs_bridge(name))
                && let Some(Before::Present(link)) = self.links.get_mut(name)
            {
                link.kind = KindBefore::OvsBridge(bridge.clone());
            }
        }
        if document.dns.is_some() || document.leases() {
            self.resolver.get_or_insert_with(|| state.resolver.clone());
        }
    }

    fn extend_port(&mut self, name: &str, state: &State) {
        self.ports.entry(name.to_owned()).or_insert_with(|| port(name, state));
    }

    /// Adds the present state of the links of `names` that the snapshot lacks.
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
            matches!(link.kind, KindBefore::OvsBridge(_))
                || matches!(link.attach, Attach::Ovs(..) | Attach::OvsBond(..))
        };
        of_links.chain(self.beside.values()).any(in_ovs)
            || !self.ports.is_empty()
            || self.settings.values().any(Option::is_some)
    }

    /// Takes those links of `other` that the snapshot lacks.
    pub fn merge(&mut self, other: Snapshot) {
        self.uses_ovs |= other.uses_ovs;
        for (link, was) in other.links {
            self.links.entry(link).or_insert(was);
        }
        for (rule, was) in other.rules {
            self.rules.entry(rule).or_insert(was);
        }
        for (port, was) in other.ports {
            self.ports.entry(port).or_insert(was);
        }
        for (place, was) in other.settings {
            self.settings.entry(place).or_insert(was);
        }
        for (table, was) in other.tables {
            self.tables.entry(table).or_insert(was);
        }
        for (link, settings) in other.ethtool {
            let of_link = self.ethtool.entry(link).or_default();
            for (key, was) in settings {
                of_link.entry(key).or_insert(was);
            }
        }
        self.resolver = self.resolver.take().or(other.resolver);
    }

    /// Drops all that `other` holds: it is restored from there.
    pub fn leave_to(&mut self, other: &Snapshot) {
        self.links.retain(|link, _| !other.links.contains_key(link));
        self.rules.retain(|rule, _| !other.rules.contains_key(rule));
        self.ports.retain(|port, _| !other.ports.contains_key(port));
        self.settings.retain(|place, _| !other.settings.contains_key(place));
        self.tables.retain(|table, _| !other.tables.contains_key(table));
        self.keep_ethtool(|link, key| {
            !other.ethtool.get(link).is_some_and(|settings| settings.contains_key(key))
        });
        self.resolver.take_if(|_| other.resolver.is_some());
    }

    /// Forgets what `document` does not decide about.
    pub(super) fn keep_only(&mut self, document: &NetworkDocument) {
        let removed = document.removals.iter().map(|removal| &removal.name);
        let names: BTreeSet<&str> =
            document.link_names().chain(removed.clone()).map(LinkName::as_str).collect();
        let ports = document.all().filter(|object| object.is_port_only()).map(|object| &object.name);
        let ports: BTreeSet<&str> = ports.chain(removed).map(LinkName::as_str).collect();
        self.ports.retain(|name, _| ports.contains(name.as_str()));
        let places: BTreeSet<&OvsPlace> =
            document.all().flat_map(|object| &object.settings).map(|setting| &setting.place).collect();
        self.settings.retain(|place, _| places.contains(place));
        self.tables.retain(|name, _| document.tables.iter().any(|table| table.name == *name));
        self.links.retain(|name, _| names.contains(name.as_str()));
        let is_named = |link: &str, name: &str| {
            ethtool(document).any(|(of, setting)| of == link && touches(setting, name))
        };
        self.keep_ethtool(is_named);
        let rules: BTreeSet<&Rule> = document.all().flat_map(|object| &object.rules).collect();
        self.rules.retain(|rule, _| rules.contains(rule));
        self.resolver.take_if(|_| document.dns.is_none() && !document.leases());
    }

    fn keep_ethtool(&mut self, is_kept: impl Fn(&str, &str) -> bool) {
        for (link, settings) in &mut self.ethtool {
            settings.retain(|key, _| is_kept(link, key));
        }
        self.ethtool.retain(|_, settings| !settings.is_empty());
    }

    /// Was that link absent?
    pub fn was_absent(&self, name: &str) -> bool {
        matches!(self.links.get(name), Some(Before::Absent))
    }

    /// The link's earlier state, if it existed.
    pub fn present(&self, name: &str) -> Option<&LinkBefore> {
        match self.links.get(name) {
            Some(Before::Present(before)) => Some(before),
            Some(Before::Absent) | None => None,
        }
    }

    /// The present state of all that applying `document` over `before` may touch.
    pub(super) fn undo_of(document: &NetworkDocument, before: &Self, state: &State) -> Self {
        let mut undo = Self::default();
        undo.extend_by(document, state);
        undo.extend(before.links.keys().map(String::as_str), state);
        undo.rules.extend(before.rules.keys().map(|rule| (rule.clone(), state.rules.get(rule).copied())));
        undo.settings.extend(before.settings.keys().map(|place| (place.clone(), state.setting(place))));
        undo.tables.extend(before.tables.keys().map(|name| (name.clone(), state.tables.get(name).copied())));
        undo.ports.extend(before.ports.keys().map(|name| (name.clone(), port(name, state))));
        for (link, settings) in &before.ethtool {
            let now = state.ethtool.get(link).into_iter().flat_map(to_put_back);
            let changes = |key: &String| {
                settings.contains_key(key) || (is_of_link(key) && settings.keys().any(|key| is_of_link(key)))
            };
            let of_link = undo.ethtool.entry(link.clone()).or_default();
            of_link.extend(now.filter(|(key, _)| changes(key)).map(|(key, now)| (key.clone(), *now)));
        }
        undo.bonds_of_its_links(state);
        if before.resolver.is_some() {
            undo.resolver = Some(state.resolver.clone());
        }
        undo.beside = undo.beside(state);
        undo.uses_ovs |= before.uses_ovs || undo.holds_ovs();
        undo
    }

    /// Adds the bonds of Open vSwitch that lose members, since such a bond is taken apart.
    fn bonds_of_its_links(&mut self, state: &State) {
        let bond_of = |name: &String| match state.attachment(name) {
            Attach::OvsBond(_, bond) => Some(bond),
            _ => None,
        };
        let bonds: Vec<String> = self.links.keys().filter_map(bond_of).collect();
        bonds.iter().for_each(|bond| self.extend_port(bond, state));
    }

    /// The parts of other links that a change of these links affects.
    fn beside(&self, state: &State) -> BTreeMap<String, LinkBefore> {
        let names: BTreeSet<&str> = self.links.keys().map(String::as_str).collect();
        let mut beside = BTreeMap::new();
        let mut open: Vec<&str> = names.iter().copied().collect();
        let mut touched = names;
        // Links on top of a touched link, members of a touched bridge, and so on.
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

/// Whether the setting can change the one named `name`.
fn touches(setting: &EthtoolSetting, name: &str) -> bool {
    setting.names(name) || (is_of_link(&setting.name) && is_of_link(name))
}

/// Each setting of ethtool with its link.
fn ethtool(document: &NetworkDocument) -> impl Iterator<Item = (&str, &EthtoolSetting)> {
    document.all().flat_map(|object| object.ethtool.iter().map(|setting| (object.name.as_str(), setting)))
}

fn has_none(routes: &Arc<Vec<Route>>) -> bool {
    routes.is_empty()
}

/// Whether the name exists only in Open vSwitch, without a link of the kernel.
fn is_port_only(name: &str, state: &State) -> bool {
    !state.links.contains_key(name) && state.ovs_bridge(name).is_none() && port(name, state).is_some()
}

/// Nothing if it is not there.
fn port(name: &str, state: &State) -> Option<PortBefore> {
    let (bridge, port) = state.ovs.as_ref()?.port(name)?;
    Some(PortBefore { bridge: bridge.to_owned(), port: port.clone() })
}

/// Nothing if it is not there.
pub(super) fn link(name: &str, state: &State) -> Option<LinkBefore> {
    let bridge = state.ovs_bridge(name);
    let none = super::state::Link::default();
    // A bridge of Open vSwitch may have no link while the switch is stopped, but it still exists.
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
        (None, _, "bond", _) => KindBefore::Bond(link.bond.clone().unwrap_or_default()),
        (None, _, "tun", _) if link.tap && link.ours => KindBefore::Tap,
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
        made_mac: link.mac.clone().filter(|_| match &kind {
            KindBefore::LinuxBridge => true,
            KindBefore::Bond(options) => options.has_one_mac(),
            _ => false,
        }),
        dhcp: state.dhcp.links.get(name).map(|lease| lease.told.clone()),
        kind,
    })
}

/// Bridges of others are never deleted, so only their local port is recorded.
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
    fn a_snapshot_reads_back_from_disk_and_a_damaged_one_does_not() {
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
