//! A network document in os-net-config's format, parsed and checked.
//!
//! A [`NetworkDocument`] that exists is valid: names fit the kernel, addresses and routes parse, nothing is
//! named twice. Each object keeps its path (`network_config[0].members[1]`) for later errors.
//!
//! Absent on purpose: unsupported features. Every object type and option of os-net-config is known by name
//! (`network/support.rs`); unsupported ones are refused by that name, never ignored. The host checks whether a
//! link exists (`agent/host/src/net/wanted.rs`).

mod alias;
mod bond;
mod check;
mod dhcp;
mod dns;
mod error;
mod ethtool;
mod layer3;
mod mapping;
mod ovs;
mod parse;
mod rule;
mod schema;
pub mod support;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use bond::BondOptions;
pub use dhcp::Dhcp;
pub use dns::{Dns, MAX_DNS_SERVERS};
pub use error::{NetworkError, Problem};
pub use ethtool::EthtoolSetting;
pub use mapping::NicMapping;
pub use ovs::{OvsPlace, OvsSetting, OvsTable, OvsValue};
pub use rule::{Rule, RuleAction};

/// The most objects and members of one document. A server has tens; the bound rejects a bad template
/// before planning.
pub const MAX_OBJECTS: usize = 4_096;
/// The most addresses of one document.
pub const MAX_ADDRESSES: usize = 16_384;
/// The most routes of one document. The kernel allows far more, but a report about them must still
/// be readable.
pub const MAX_ROUTES: usize = 65_536;
/// The most policy rules of one document: the kernel evaluates them one after the other, for every packet.
pub const MAX_RULES: usize = 4_096;
/// The most objects of `fallback_config`, as in os-net-config: it is for regaining access, not for a
/// second network.
pub const MAX_FALLBACK: usize = 2;
/// The most bytes of one document as JSON text: 65,536 routes need about 8 MiB.
pub const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;
/// The kernel's IFNAMSIZ without the closing zero.
pub const MAX_LINK_NAME: usize = 15;
/// A port of Open vSwitch without an interface of the kernel.
pub const MAX_PORT_NAME: usize = 64;
/// The kernel's loopback interface, which no document makes, takes down or removes.
pub const LOOPBACK: &str = "lo";
/// The kernel's main routing table.
pub const MAIN_TABLE: u32 = 254;

/// The name of a network interface, as the kernel takes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LinkName(String);

impl LinkName {
    /// Checks `name` against the kernel's rules and leaves out the kernel's own `lo`.
    pub fn new(name: &str) -> Result<Self, String> {
        let refuse = |why: &str| Err(format!("'{}' cannot name an interface: {why}", error::clip(name)));
        if name.is_empty() {
            return refuse("it is empty");
        }
        if name.len() > MAX_LINK_NAME {
            return refuse("the kernel takes at most 15 bytes");
        }
        if !name.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'/' | b':' | b'%')) {
            return refuse("letters, digits and . _ - are taken");
        }
        if matches!(name, "." | ".." | "all" | "default") {
            return refuse("the kernel keeps that name for itself");
        }
        if name == LOOPBACK {
            return refuse("the loopback interface is the kernel's own");
        }
        Ok(Self(name.to_owned()))
    }

    /// The name of a port of Open vSwitch that may have no kernel interface: it may be longer.
    pub fn of_port(name: &str) -> Result<Self, String> {
        let graphic = name.bytes().all(|b| b.is_ascii_graphic() && b != b'/');
        if name.is_empty() || name.len() > MAX_PORT_NAME || !graphic {
            return Err(format!(
                "'{}' cannot name a port: 1 to {MAX_PORT_NAME} letters, digits and . _ - are taken",
                error::clip(name)
            ));
        }
        Ok(Self(name.to_owned()))
    }

    /// The same, and `lo`: in a policy rule it means packets that this host itself sends, and an interface of that
    /// name has addresses.
    pub fn or_loopback(name: &str) -> Result<Self, String> {
        if name == LOOPBACK { Ok(Self(name.to_owned())) } else { Self::new(name) }
    }

    /// Whether it is the kernel's own loopback interface.
    pub fn is_loopback(&self) -> bool {
        self.0 == LOOPBACK
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A whole `network_config`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkDocument {
    /// The top-level objects, in the document's order.
    pub objects: Vec<Object>,
    /// `dns_servers` and `domain` of all objects; `None` if no object has any.
    pub dns: Option<Dns>,
    /// `fallback_config`: the last resort if neither this document nor the state before it can be in force.
    /// If absent, `minimum_config`.
    pub fallback: Option<Vec<Object>>,
    /// `route_table` of all sections.
    pub tables: Vec<RouteTable>,
    /// `remove_config`: what goes.
    pub removals: Vec<Removal>,
}

/// A name for a routing table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteTable {
    pub path: String,
    /// The name in routes, rules and `ip route`.
    pub name: String,
    /// The kernel's number.
    pub id: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    pub path: String,
    /// The interface, bridge or port.
    pub name: LinkName,
    /// `remove_type`
    pub kind: String,
}

/// An object of the document, or a member of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The path in the document, such as `network_config[0].members[1]`.
    pub path: String,
    /// The link's name; for a VLAN `vlan<ID>`, as in os-net-config.
    pub name: LinkName,
    pub kind: ObjectKind,
    /// `ip_netmask` of `addresses`, host bits kept.
    pub addresses: Vec<IpNet>,
    /// `routes`.
    pub routes: Vec<Route>,
    /// `rules`.
    pub rules: Vec<Rule>,
    /// `dns_servers`.
    pub dns_servers: Vec<IpAddr>,
    /// `domain`.
    pub domains: Vec<String>,
    /// `use_dhcp` and `use_dhcpv6`: the link leases addresses in addition to those listed.
    pub dhcp: Option<Dhcp>,
    /// `mtu`; without it the link keeps its MTU.
    pub mtu: Option<u32>,
    /// `ovs_options`, `ovs_extra` and `ovs_fail_mode`.
    pub settings: Vec<OvsSetting>,
    /// `ethtool_opts`
    pub ethtool: Vec<EthtoolSetting>,
    /// The VLAN of a port of Open vSwitch that is no `vlan`.
    pub tag: Option<u16>,
}

/// The object types of this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// `interface`: a link that exists already.
    Interface {
        /// For a bridge's member: the bridge takes this interface's MAC address.
        primary: bool,
    },
    /// `linux_bridge`.
    LinuxBridge {
        /// Interfaces and VLANs.
        members: Vec<Object>,
    },
    /// `ovs_bridge`.
    OvsBridge {
        /// Interfaces, VLANs, bonds, tunnels, patches.
        members: Vec<Object>,
    },
    /// `ovs_bond`: a port with several interfaces.
    OvsBond { members: Vec<Object> },
    /// `ovs_patch_port`: a way to another bridge of Open vSwitch.
    OvsPatch {
        /// The bridge it belongs to.
        bridge: LinkName,
        peer: LinkName,
    },
    /// `ovs_tunnel`
    OvsTunnel {
        /// `vxlan` or `gre`.
        tunnel: String,
    },
    /// `linux_bond`, and `team`, which is made as a bond.
    LinuxBond {
        members: Vec<Object>,
        /// Exactly these, and the kernel's own choice for all others.
        options: BondOptions,
    },
    /// `linux_tap`
    LinuxTap,
    /// `vlan`: within an `ovs_bridge` an internal port with that tag, elsewhere an 802.1Q link on `device`.
    Vlan {
        /// 1 to 4094.
        id: u16,
        /// The link that carries the VLAN; always present outside of an `ovs_bridge`.
        device: Option<LinkName>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// `ip_netmask` or `destination`; `default: true` is 0.0.0.0/0 or ::/0. No host bits.
    pub destination: IpNet,
    /// `next_hop` or `nexthop`.
    pub next_hop: IpAddr,
    /// `table`; the main table if absent.
    pub table: u32,
    /// `metric`; the kernel's default if absent.
    pub metric: Option<u32>,
    /// The preferred source address.
    pub source: Option<IpAddr>,
    /// The next hop is treated as being on the link.
    pub onlink: bool,
}

impl Route {
    /// The metric in the kernel: without a given one it takes 0 for IPv4 and 1024 for IPv6.
    pub fn kernel_metric(&self) -> u32 {
        match (self.metric.unwrap_or(0), self.destination) {
            (0, IpNet::V6(_)) => 1_024,
            (metric, _) => metric,
        }
    }
}

impl NetworkDocument {
    /// Parses a list of objects or `{"network_config": [...], "fallback_config": [...]}`.
    pub fn parse(document: &Value) -> Result<Self, NetworkError> {
        parse::document(document)
    }

    /// Checks a list of objects against os-net-config's own schema, and returns the first fault.
    /// [`NetworkDocument::parse`] checks which parts are supported.
    pub fn check_schema(objects: &[Value]) -> Result<(), NetworkError> {
        schema::section("network_config", objects)
    }

    /// Parses JSON text, see [`NetworkDocument::parse`].
    pub fn from_json(text: &str) -> Result<Self, NetworkError> {
        if text.len() > MAX_DOCUMENT_BYTES {
            return Err(NetworkError::invalid(
                "network_config",
                format!("larger than {MAX_DOCUMENT_BYTES} bytes"),
            ));
        }
        let value: Value = serde_json::from_str(text)
            .map_err(|error| NetworkError::invalid("network_config", format!("not JSON: {error}")))?;
        Self::parse(&value)
    }

    /// Every object, members after their bridge, in the document's order.
    pub fn all(&self) -> impl Iterator<Item = &Object> {
        all(&self.objects)
    }

    /// The links of the kernel that the document decides about. Aliases are unresolved
    /// until [`NetworkDocument::with_names`].
    pub fn link_names(&self) -> impl Iterator<Item = &LinkName> {
        self.all().filter(|object| !object.is_port_only()).map(|object| &object.name)
    }

    /// Some of its links lease their addresses.
    pub fn leases(&self) -> bool {
        self.all().any(|object| object.dhcp.is_some())
    }

    /// The document with aliases (`nic1`, and `nic1.5` for a VLAN on it) replaced by interface names, checked
    /// again for links named twice.
    pub fn with_names(mut self, names: &BTreeMap<String, LinkName>) -> Result<Self, NetworkError> {
        for object in self.objects.iter_mut().chain(self.fallback.iter_mut().flatten()) {
            object.rename(names);
        }
        for removal in self.removals.iter_mut().filter(|removal| removal.kind == "interface") {
            rename(&mut removal.name, names);
        }
        self.check_names()?;
        Ok(self)
    }

    /// The fallback as a separate document.
    pub fn fallback(&self) -> Option<Self> {
        let objects = self.fallback.clone()?;
        let dns = dns::gather(all(&objects)).ok().flatten();
        Some(Self { objects, dns, fallback: None, tables: self.tables.clone(), removals: Vec::new() })
    }

    fn check_names(&self) -> Result<(), NetworkError> {
        check_names(&self.objects)?;
        check_names(self.fallback.as_deref().unwrap_or_default())
    }
}

fn all(objects: &[Object]) -> impl Iterator<Item = &Object> {
    let mut open: Vec<&Object> = objects.iter().rev().collect();
    std::iter::from_fn(move || {
        let object = open.pop()?;
        open.extend(object.members().iter().rev());
        Some(object)
    })
}

fn rename(name: &mut LinkName, names: &BTreeMap<String, LinkName>) {
    if let Some(real) = names.get(name.as_str()) {
        *name = real.clone();
        return;
    }
    // As in os-net-config: a VLAN's suffix stays.
    if let Some((base, suffix)) = name.as_str().split_once('.')
        && suffix.parse::<u16>().is_ok()
        && let Some(real) = names.get(base)
        && let Ok(real) = LinkName::new(&format!("{real}.{suffix}"))
    {
        *name = real;
    }
}

fn check_names(objects: &[Object]) -> Result<(), NetworkError> {
    let mut seen: BTreeMap<&LinkName, &str> = BTreeMap::new();
    for object in all(objects) {
        if let Some(first) = seen.insert(&object.name, &object.path) {
            let problem = format!("{} is configured at {first} already", object.name);
            return Err(NetworkError::invalid(&object.path, problem));
        }
    }
    Ok(())
}

impl Object {
    /// A bridge's or bond's members; empty for anything else.
    pub fn members(&self) -> &[Object] {
        use ObjectKind::{
            Interface, LinuxBond, LinuxBridge, LinuxTap, OvsBond, OvsBridge, OvsPatch, OvsTunnel, Vlan,
        };
        match &self.kind {
            LinuxBridge { members }
            | OvsBridge { members }
            | OvsBond { members }
            | LinuxBond { members, .. } => members,
            Interface { .. } | Vlan { .. } | LinuxTap | OvsPatch { .. } | OvsTunnel { .. } => &[],
        }
    }

    fn members_mut(&mut self) -> &mut [Object] {
        use ObjectKind::{
            Interface, LinuxBond, LinuxBridge, LinuxTap, OvsBond, OvsBridge, OvsPatch, OvsTunnel, Vlan,
        };
        match &mut self.kind {
            LinuxBridge { members }
            | OvsBridge { members }
            | OvsBond { members }
            | LinuxBond { members, .. } => members,
            Interface { .. } | Vlan { .. } | LinuxTap | OvsPatch { .. } | OvsTunnel { .. } => &mut [],
        }
    }

    /// The port exists only in Open vSwitch: the kernel has no interface for it.
    pub fn is_port_only(&self) -> bool {
        matches!(
            self.kind,
            ObjectKind::OvsBond { .. } | ObjectKind::OvsPatch { .. } | ObjectKind::OvsTunnel { .. }
        )
    }

    fn rename(&mut self, names: &BTreeMap<String, LinkName>) {
        let links = self.rules.iter_mut().flat_map(|rule| [&mut rule.iif, &mut rule.oif]);
        links.flatten().for_each(|link| rename(link, names));
        for setting in &mut self.settings {
            if let Some(real) = names.get(&setting.place.record) {
                setting.place.record = real.as_str().to_owned();
            }
        }
        match &mut self.kind {
            ObjectKind::Interface { .. } => rename(&mut self.name, names),
            ObjectKind::Vlan { device, .. } => device.iter_mut().for_each(|it| rename(it, names)),
            ObjectKind::LinuxBond { members, options } => {
                options.primary.iter_mut().for_each(|it| rename(it, names));
                members.iter_mut().for_each(|member| member.rename(names));
            }
            ObjectKind::LinuxBridge { members }
            | ObjectKind::OvsBridge { members }
            | ObjectKind::OvsBond { members } => {
                members.iter_mut().for_each(|member| member.rename(names));
            }
            ObjectKind::OvsPatch { .. } | ObjectKind::OvsTunnel { .. } | ObjectKind::LinuxTap => {}
        }
    }
}
