//! The target state of every link in question: the document's for the links it names, and the earlier state
//! for links that only an older document named. A restore is the target without a document.
//!
//! Absent: the target that confirms `net apply` (`agent/src/net/confirm_target.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use muster_shared::model::network::{
    BondOptions, Dhcp, Dns, LinkName, NetworkDocument, Object, ObjectKind, OvsPlace, OvsTable, Rule,
};
use serde_json::{Value, json};

use ports::{in_database, is_hwaddr};

use super::dhcp::ClientSettings;
use super::plan::{conflict, is_made};
use super::resolver::Resolver;
use super::snapshot::Snapshot;
use super::state::{
    Address, Attach, Link, OvsBridge, OvsPort, PROTOCOL_MUSTER, PROTOCOL_STATIC, Route, State,
};

mod ports;
mod put_back;

/// A place and the problem there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// A path such as `network_config[0].addresses[0]`.
    pub path: String,
    /// The wanted and the present value.
    pub text: String,
}

/// The links in question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Links by name.
    pub links: BTreeMap<String, Wanted>,
    /// Policy rules, with the recorded origin and the place in the document.
    pub rules: BTreeMap<Rule, (u8, String)>,
    /// Policy rules to remove.
    pub rules_gone: Vec<Rule>,
    /// Ports of Open vSwitch without a link of the kernel, by name; nothing: it goes.
    pub ports: BTreeMap<String, Option<PortTarget>>,
    /// Single settings in Open vSwitch's database and where they are written; nothing: the default.
    pub settings: BTreeMap<OvsPlace, (Option<Value>, String)>,
    /// Names of routing tables and where they are written; nothing: it goes.
    pub tables: BTreeMap<String, (Option<u32>, String)>,
    /// Ethtool settings by link and name, with the place in the document.
    pub ethtool: BTreeMap<(String, String), (u32, String)>,
    /// Objects that the document removes, whatever their origin: the kind that the document gives, and the
    /// place in it.
    pub removed: BTreeMap<String, (String, String)>,
    /// The resolver's settings; nothing: as they are.
    pub resolver: Option<WantedResolver>,
    /// Obstacles on other links are removed.
    pub takes_over: bool,
    /// Objects that the document needs and the host lacks: applying is refused, a plan shows them.
    pub missing: Vec<Difference>,
    /// Parts that cannot be restored, and why.
    pub warnings: Vec<String>,
    /// The document has its own name servers.
    pub has_dns: bool,
}

/// The target of the resolver's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedResolver {
    Document(Dns),
    /// The earlier settings.
    Before(Resolver),
}

/// The target of one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    Absent,
    /// The link exists in this state.
    Present(Box<LinkTarget>),
}

/// A link as it shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTarget {
    /// The place in the document, or `before`.
    pub path: String,
    pub origin: Origin,
    pub kind: LinkKind,
    /// A link that Muster made in its place may be removed.
    pub may_replace: bool,
    /// The link's bridge or bond.
    pub attach: Attach,
    /// The earlier port of Open vSwitch, if a restore needs it.
    pub port: Option<OvsPort>,
    /// Administratively up. Nothing: as it is.
    pub up: Option<bool>,
    /// Nothing: as it is.
    pub mtu: Option<u32>,
    /// The MAC address of a Linux bridge or bond. Nothing: as it is.
    pub mac: Option<String>,
    /// Exactly these.
    pub addresses: Vec<Address>,
    /// Exactly these static ones.
    pub routes: Vec<Route>,
    /// A client leases further addresses for the link.
    pub dhcp: Option<ClientSettings>,
}

impl LinkTarget {
    /// Whether the wanted address exists but will expire, and is not one of the `leased` ones that a
    /// client renews.
    pub(super) fn runs_out(&self, address: &Address, leased: &BTreeSet<IpAddr>, now: &Link) -> bool {
        let ip = address.net.addr();
        let renewed = leased.contains(&ip) && self.dhcp.as_ref().is_some_and(|told| told.leases(ip));
        let ends = || now.addresses.iter().any(|there| there == address && address.outlives(there));
        self.origin != Origin::Beside && !renewed && ends()
    }
}

/// A port of Open vSwitch without a link of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortTarget {
    /// The place in the document, or `before`.
    pub path: String,
    pub bridge: String,
    /// The interfaces and their types; the rest where it is made.
    pub row: OvsPort,
    /// A port that Muster made in its place may be removed.
    pub may_replace: bool,
}

/// The origin of a link's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The document: settings that it does not decide about stay.
    Document,
    /// The state before, restored exactly.
    Before,
    /// The state before, of a link that no document names: lost parts are added, later additions stay.
    Beside,
}

/// The kind of a link, with the properties needed to make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// Made by others.
    Existing,
    LinuxBridge,
    Vlan {
        /// The link that carries the VLAN.
        device: String,
        id: u16,
    },
    /// A bond with exactly these options, and the kernel's choice for all others.
    Bond(BondOptions),
    Tap,
    /// A bridge of Open vSwitch with its local port.
    OvsBridge {
        /// `hwaddr` is restored exactly, the rest only if the bridge is made; includes the ports that come
        /// back with it.
        row: Box<OvsBridge>,
        /// The requested MTU, set exactly.
        mtu_request: Option<u32>,
    },
    /// An internal port of Open vSwitch.
    OvsInternal {
        /// The MTU asked for, exactly.
        mtu_request: Option<u32>,
    },
}

impl Target {
    /// The target of the document (aliases replaced) and the state before.
    pub fn new(
        document: &NetworkDocument,
        before: &Snapshot,
        state: &State,
        datapath_type: Option<&str>,
    ) -> Self {
        let mut target = Self { has_dns: document.dns.is_some(), ..Self::default() };
        for removal in &document.removals {
            let entry = (removal.kind.clone(), removal.path.clone());
            target.removed.insert(removal.name.to_string(), entry);
        }
        for object in &document.objects {
            target.add_all(object, Attach::None, before, state, datapath_type);
        }
        target.inherit_mtu(document);
        for object in document.all() {
            for setting in &object.settings {
                if !is_hwaddr(&setting.place) {
                    let entry = (in_database(&setting.value), setting.path.clone());
                    target.settings.insert(setting.place.clone(), entry);
                }
            }
        }
        for table in &document.tables {
            target.tables.insert(table.name.clone(), (Some(table.id), table.path.clone()));
        }
        for object in document.all() {
            target.set_ethtool(object, state);
        }
        target.remove(document, state);
        for object in document.all() {
            for (index, rule) in object.rules.iter().enumerate() {
                let path = format!("{}.rules[{index}]", object.path);
                target.rules.insert(rule.clone(), (PROTOCOL_MUSTER, path));
            }
        }
        target.resolver = document.dns.clone().map(WantedResolver::Document);
        target.put_back(before, state);
        target.keep_beside(state);
        if document.dns.is_none() && document.leases() {
            // The lease determines the resolver.
            target.resolver = None;
        }
        for object in document.all() {
            target.look_for(object, state);
        }
        target
    }

    /// Adds a document's object and its members.
    fn add_all(
        &mut self,
        object: &Object,
        attach: Attach,
        before: &Snapshot,
        state: &State,
        datapath_type: Option<&str>,
    ) {
        let name = object.name.to_string();
        match (&object.kind, &attach) {
            (ObjectKind::OvsPatch { bridge, peer }, _) => {
                self.add_port(object, bridge.to_string(), Some("patch"), before);
                let place = OvsPlace {
                    table: OvsTable::Interface,
                    record: name.clone(),
                    column: "options".to_owned(),
                    key: Some("peer".to_owned()),
                };
                self.settings.insert(place, (Some(json!(peer.as_str())), format!("{}.peer", object.path)));
            }
            (ObjectKind::OvsTunnel { tunnel }, Attach::Ovs(bridge, _)) => {
                self.add_port(object, bridge.clone(), Some(tunnel), before);
            }
            (ObjectKind::OvsBond { .. }, Attach::Ovs(bridge, _)) => {
                self.add_port(object, bridge.clone(), None, before);
            }
            _ => self.add(object, attach.clone(), before, state, datapath_type),
        }
        for member in object.members() {
            let attach = match (&object.kind, &attach, &member.kind) {
                (ObjectKind::OvsBridge { .. }, _, ObjectKind::Vlan { id, .. }) => {
                    Attach::Ovs(name.clone(), Some(*id))
                }
                (ObjectKind::OvsBridge { .. }, ..) => Attach::Ovs(name.clone(), member.tag),
                (ObjectKind::OvsBond { .. }, Attach::Ovs(bridge, _), _) => {
                    Attach::OvsBond(bridge.clone(), name.clone())
                }
                _ => Attach::Linux(name.clone()),
            };
            self.add_all(member, attach, before, state, datapath_type);
        }
    }

    fn add(
        &mut self,
        object: &Object,
        attach: Attach,
        before: &Snapshot,
        state: &State,
        datapath_type: Option<&str>,
    ) {
        let name = object.name.to_string();
        let was = before.present(&name);
        let mtu_request = object.mtu.or(was.and_then(|was| was.mtu_request(&name)));
        let hwaddr = object.settings.iter().find(|setting| is_hwaddr(&setting.place));
        let primary = hwaddr.map(|hwaddr| hwaddr.value.to_string()).or_else(|| primary_mac(object, state));
        let kind = match &object.kind {
            ObjectKind::LinuxBond { options, .. } => LinkKind::Bond(options.clone()),
            ObjectKind::LinuxTap => LinkKind::Tap,
            // The other objects are no links and were added separately.
            ObjectKind::Interface { .. }
            | ObjectKind::OvsBond { .. }
            | ObjectKind::OvsPatch { .. }
            | ObjectKind::OvsTunnel { .. } => LinkKind::Existing,
            ObjectKind::LinuxBridge { .. } => LinkKind::LinuxBridge,
            ObjectKind::OvsBridge { .. } => LinkKind::OvsBridge {
                row: Box::new(OvsBridge {
                    datapath_type: datapath_type.unwrap_or_default().to_owned(),
                    hwaddr: primary.clone().or_else(|| was.and_then(|was| was.hwaddr())),
                    ours: true,
                    ..OvsBridge::default()
                }),
                mtu_request,
            },
            ObjectKind::Vlan { .. } if matches!(attach, Attach::Ovs(..)) => {
                LinkKind::OvsInternal { mtu_request }
            }
            ObjectKind::Vlan { id, device } => LinkKind::Vlan {
                device: device.as_ref().map(ToString::to_string).unwrap_or_default(),
                id: *id,
            },
        };
        let mac = match &kind {
            LinkKind::LinuxBridge => primary.or_else(|| was.and_then(|was| was.made_mac.clone())),
            LinkKind::Bond(options) if options.has_one_mac() => {
                // An existing bond that stays keeps its `fail_over_mac`.
                let now = state.links.get(&name).and_then(|link| link.bond.as_ref());
                let follows = now.is_some_and(|now| !now.has_one_mac());
                let stays = follows && conflict(&name, &kind, state).is_none();
                bond_mac(object, state).filter(|_| !stays)
            }
            _ => None,
        };
        let mtu = match kind {
            LinkKind::OvsBridge { .. } | LinkKind::OvsInternal { .. } => mtu_request,
            // The bond sets its member's MTU.
            _ if self.is_bond(&attach) => object.mtu,
            _ => object.mtu.or(was.map(|was| was.mtu).filter(|mtu| *mtu != 0)),
        };
        let wanted = LinkTarget {
            path: object.path.clone(),
            origin: Origin::Document,
            may_replace: before.was_absent(&name) || self.removed.contains_key(&name),
            attach,
            port: None,
            up: Some(true),
            mtu,
            mac,
            addresses: object.addresses.iter().copied().map(Address::plain).collect(),
            routes: object.routes.iter().map(wanted_route).collect(),
            dhcp: object.dhcp.as_ref().and_then(|dhcp| state.dhcp.told(dhcp, !self.has_dns)),
            kind,
        };
        self.links.insert(name, Wanted::Present(Box::new(wanted)));
    }

    /// The link itself, if it is an 802.1Q link, and the 802.1Q links below it.
    pub(super) fn vlans_under<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a LinkTarget> {
        // The kernel stacks eight; in a document two VLANs may carry each other.
        const MOST: usize = 8;
        let of = |name: &str| match self.links.get(name) {
            Some(Wanted::Present(wanted)) => Some(wanted.as_ref()),
            _ => None,
        };
        let next = move |wanted: &&'a LinkTarget| match &wanted.kind {
            LinkKind::Vlan { device, .. } => of(device),
            _ => None,
        };
        let vlans = std::iter::successors(of(name), next);
        vlans.take_while(|wanted| matches!(wanted.kind, LinkKind::Vlan { .. })).take(MOST)
    }

    /// Sets the MTU of an 802.1Q link as the kernel does for a new one: the link inherits the document's MTU
    /// of the link below, unless the document gives one or the link had another.
    fn inherit_mtu(&mut self, document: &NetworkDocument) {
        let said = document.all().filter_map(|object| Some((object.name.as_str(), object.mtu?)));
        let said: BTreeMap<&str, u32> = said.collect();
        let of = |name: &String| said.get(name.as_str()).copied();
        let carriers = |name: &str| {
            let devices = self.vlans_under(name).filter_map(|vlan| match &vlan.kind {
                LinkKind::Vlan { device, .. } => Some(device),
                _ => None,
            });
            devices.map(of).find(Option::is_some).flatten()
        };
        let inherited: Vec<(String, u32)> = self
            .present()
            .filter(|(_, wanted)| wanted.mtu.is_none() && matches!(wanted.kind, LinkKind::Vlan { .. }))
            .filter_map(|(name, _)| Some((name.to_owned(), carriers(name)?)))
            .collect();
        for (name, mtu) in inherited {
            if let Some(Wanted::Present(wanted)) = self.links.get_mut(&name) {
                wanted.mtu = Some(mtu);
            }
        }
    }

    fn is_present(&self, name: &str) -> bool {
        matches!(self.links.get(name), Some(Wanted::Present(_)))
    }

    fn is_bond(&self, attach: &Attach) -> bool {
        let Attach::Linux(name) = attach else { return false };
        matches!(self.links.get(name), Some(Wanted::Present(it)) if matches!(it.kind, LinkKind::Bond(_)))
    }

    /// Sets the setting under those of its names that the link has.
    fn set_ethtool(&mut self, object: &Object, state: &State) {
        let name = object.name.to_string();
        let Some(has) = state.ethtool.get(&name) else { return };
        let path = format!("{}.ethtool_opts", object.path);
        for setting in &object.ethtool {
            let mut names: Vec<&String> = has.keys().filter(|name| setting.names(name)).collect();
            if names.is_empty() && setting.name.starts_with("link/") {
                // The kernel reports no speed while there is no carrier.
                names.push(&setting.name);
            }
            if names.is_empty() {
                let text = format!("{name} has no '{}' that can be set", setting.written);
                self.missing.push(Difference { path: path.clone(), text });
            }
            for key in names {
                self.ethtool.insert((name.clone(), key.clone()), (setting.value, path.clone()));
            }
        }
    }

    /// Notes what the document needs and the host lacks.
    fn look_for(&mut self, object: &Object, state: &State) {
        let lacks = |name: &str| !state.links.contains_key(name);
        let no_bridge = |bridge: &str| {
            state.ovs_bridge(bridge).is_none()
                && !matches!(self.links.get(bridge), Some(Wanted::Present(it)) if matches!(it.kind, LinkKind::OvsBridge { .. }))
        };
        if let Some(dhcp) = &object.dhcp
            && state.dhcp.told(dhcp, false).is_none()
        {
            let text = match dhcp.arguments.is_empty() {
                true => {
                    "there is no DHCP client on this host; start systemd-networkd, or install dhcpcd or dhclient"
                }
                false => "dhclient_args are dhclient's, and there is no dhclient on this host",
            };
            let path = format!("{}.{}", object.path, Dhcp::option(!dhcp.v4));
            self.missing.push(Difference { path, text: text.to_owned() });
        }
        let missing = match &object.kind {
            ObjectKind::OvsPatch { bridge, .. } if no_bridge(bridge.as_str()) => {
                let text = format!("there is no bridge {bridge} in Open vSwitch");
                Some((format!("{}.bridge_name", object.path), text))
            }
            ObjectKind::Interface { .. } if lacks(object.name.as_str()) => {
                Some((object.path.clone(), no_link(object.name.as_str(), state)))
            }
            ObjectKind::Vlan { device: Some(device), .. }
                if lacks(device.as_str()) && !self.is_present(device.as_str()) =>
            {
                Some((format!("{}.device", object.path), no_link(device.as_str(), state)))
            }
            ObjectKind::Vlan { device: Some(device), .. }
                if is_made(device.as_str(), state)
                    && self.links.get(device.as_str()) == Some(&Wanted::Absent) =>
            {
                let text = format!("{device} goes, for the document has it no longer; name it there as well");
                Some((format!("{}.device", object.path), text))
            }
            ObjectKind::OvsBridge { .. } if state.ovs.is_none() => {
                let text =
                    "Open vSwitch's database cannot be reached; is openvswitch-switch installed and running?";
                Some((object.path.clone(), text.to_owned()))
            }
            _ => None,
        };
        self.missing.extend(missing.map(|(path, text)| Difference { path, text }));
    }
}

/// The MAC address that a bridge or bond takes from its primary member.
fn primary_mac(bridge: &Object, state: &State) -> Option<String> {
    let is_primary = |member: &&Object| matches!(member.kind, ObjectKind::Interface { primary: true });
    let member = bridge.members().iter().find(is_primary)?;
    state.own_mac(member.name.as_str()).cloned()
}

/// A bond keeps its MAC address, even if it is made again. A new bond takes that of its primary member or
/// else, as the kernel does unless udev is faster, of its first.
fn bond_mac(bond: &Object, state: &State) -> Option<String> {
    let of = |name: &LinkName| state.own_mac(name.as_str()).cloned();
    let now = state.links.get(bond.name.as_str()).and_then(|link| link.bond.as_ref());
    let has = of(&bond.name).filter(|_| now.is_some_and(BondOptions::has_one_mac));
    has.or_else(|| primary_mac(bond, state)).or_else(|| of(&bond.members().first()?.name))
}

fn wanted_route(route: &muster_shared::model::network::Route) -> Route {
    Route {
        destination: route.destination,
        gateway: Some(route.next_hop),
        table: route.table,
        metric: route.kernel_metric(),
        protocol: PROTOCOL_STATIC,
        scope: 0,
        source: route.source,
        onlink: route.onlink,
        tos: 0,
        hops: Vec::new(),
        attributes: Vec::new(),
    }
}

fn no_link(name: &str, state: &State) -> String {
    // Enough names to recognise a typing error; a host may have thousands of links.
    const SHOWN: usize = 12;
    let mut names: Vec<&str> = state.links.keys().map(String::as_str).filter(|name| *name != "lo").collect();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let mapping = if name.starts_with("nic") {
        format!("; map the alias (mapping: {{{name}: …}})")
    } else {
        String::new()
    };
    format!("there is no interface {name} on this host, only {}{more}{mapping}", names.join(", "))
}
