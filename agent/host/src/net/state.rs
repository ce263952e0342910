//! What the host has: links, addresses, routes, and the bridges of Open vSwitch.
//!
//! Left out on purpose: what neither a document nor Muster decides about (routes of the kernel and of routing
//! daemons, IPv6 addresses with a lifetime, multipath routes).

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// `RTPROT_BOOT`: added by hand.
pub const PROTOCOL_BOOT: u8 = 3;
/// `RTPROT_STATIC`: added by configuration; Muster's own routes carry it.
pub const PROTOCOL_STATIC: u8 = 4;

/// The host's network as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// By name.
    pub links: BTreeMap<String, Link>,
    /// The bridges of Open vSwitch by name; nothing if its database cannot be reached.
    pub ovs: Option<BTreeMap<String, OvsBridge>>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    /// The kernel's number for it.
    pub index: u32,
    /// The kernel's kind, such as `bridge` or `veth`; empty for hardware.
    pub kind: String,
    /// Lower case, with colons.
    pub mac: Option<String>,
    /// In bytes.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// The name of the link it belongs to.
    pub master: Option<String>,
    /// Of an 802.1Q link.
    pub vlan: Option<VlanLink>,
    /// In the kernel's order.
    pub addresses: Vec<Address>,
    /// Unicast routes with one next hop through this link.
    pub routes: Vec<Route>,
}

/// What makes a link an 802.1Q link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VlanLink {
    /// The link that carries it.
    pub device: String,
    /// The VLAN's id.
    pub id: u16,
}

/// An address of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Address {
    /// Address and prefix length.
    pub net: IpNet,
    /// The other end of a point-to-point link.
    #[serde(default)]
    pub peer: Option<IpAddr>,
    /// Without a route to its network.
    #[serde(default)]
    pub noprefixroute: bool,
}

/// A route through a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Route {
    /// No host bits.
    pub destination: IpNet,
    /// The next hop; without one the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// The routing table.
    pub table: u32,
    /// The kernel's value: 1024 is IPv6's default.
    pub metric: u32,
    /// Who added it, an `RTPROT_` number.
    pub protocol: u8,
    /// An `RT_SCOPE_` number.
    #[serde(default)]
    pub scope: u8,
    /// The preferred source address.
    #[serde(default)]
    pub source: Option<IpAddr>,
    /// The next hop counts as on the link.
    #[serde(default)]
    pub onlink: bool,
}

/// What the kernel keeps one route for: destination, table, metric.
pub type RouteKey = (IpNet, u32, u32);

/// A bridge of Open vSwitch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OvsBridge {
    /// By name, the bridge's own local port among them.
    pub ports: BTreeMap<String, OvsPort>,
    /// `other_config:hwaddr`
    pub hwaddr: Option<String>,
    /// Empty: the kernel's.
    pub datapath_type: String,
    /// It carries Muster's mark.
    pub ours: bool,
}

/// A port of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OvsPort {
    /// Its VLAN.
    pub tag: Option<u16>,
    /// It carries Muster's mark.
    pub ours: bool,
    /// One by the port's own name; more in a bond.
    pub interfaces: BTreeMap<String, OvsInterface>,
}

/// An interface of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OvsInterface {
    /// Made by Open vSwitch.
    pub internal: bool,
    /// The MTU asked for.
    pub mtu_request: Option<u32>,
    /// Why the switch cannot use it.
    pub error: Option<String>,
}

/// What a link belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Attach {
    /// Nothing.
    #[default]
    None,
    /// A Linux bridge.
    Linux(String),
    /// A bridge of Open vSwitch, with a VLAN tag or without.
    Ovs(String, Option<u16>),
}

impl Address {
    /// As a document asks for it.
    pub fn plain(net: IpNet) -> Self {
        Self { net, peer: None, noprefixroute: false }
    }

    /// The kernel makes and keeps these itself.
    pub fn is_link_local(&self) -> bool {
        matches!(self.net.addr(), IpAddr::V6(address) if address.is_unicast_link_local())
    }
}

impl Route {
    /// What the kernel keeps one route for.
    pub fn key(&self) -> RouteKey {
        (self.destination, self.table, self.metric)
    }

    /// The same way for a packet, whoever added it.
    pub fn same(&self, other: &Route) -> bool {
        (self.key(), self.gateway, self.source, self.onlink)
            == (other.key(), other.gateway, other.source, other.onlink)
    }

    /// Added by hand or by configuration: what a document decides about.
    pub fn is_static(&self) -> bool {
        matches!(self.protocol, PROTOCOL_BOOT | PROTOCOL_STATIC)
    }
}

impl State {
    /// What `link` belongs to. A bridge's own local port belongs to nothing.
    pub fn attachment(&self, link: &str) -> Attach {
        if let Some((bridge, port)) = self.ovs_port(link) {
            return Attach::Ovs(bridge.to_owned(), port.tag);
        }
        match self.master(link) {
            Some((name, master)) if master.kind == "bridge" => Attach::Linux(name.to_owned()),
            _ => Attach::None,
        }
    }

    /// The bridge and port of Open vSwitch that hold `link`, if it is not the bridge itself.
    pub fn ovs_port(&self, link: &str) -> Option<(&str, &OvsPort)> {
        let bridges = self.ovs.as_ref()?;
        bridges.iter().filter(|(name, _)| *name != link).find_map(|(name, bridge)| {
            let port = bridge.ports.values().find(|port| port.interfaces.contains_key(link))?;
            Some((name.as_str(), port))
        })
    }

    /// The bridge of Open vSwitch by that name.
    pub fn ovs_bridge(&self, name: &str) -> Option<&OvsBridge> {
        self.ovs.as_ref()?.get(name)
    }

    /// The interface of Open vSwitch by that name.
    pub fn ovs_interface(&self, name: &str) -> Option<&OvsInterface> {
        let ports =
            self.ovs.iter().flat_map(|bridges| bridges.values()).flat_map(|bridge| bridge.ports.values());
        ports.into_iter().find_map(|port| port.interfaces.get(name))
    }

    /// The kernel's master of `link`.
    pub fn master(&self, link: &str) -> Option<(&str, &Link)> {
        let name = self.links.get(link)?.master.as_deref()?;
        self.links.get(name).map(|master| (name, master))
    }

    /// Name → MAC address, for a nic mapping. Empty for what has its address from another link: a bridge, a
    /// VLAN and a bond carry that of a member, and so two links would answer to one address.
    pub fn macs(&self) -> BTreeMap<String, String> {
        let borrowed = |name: &str, link: &Link| {
            let kinds = ["bond", "bridge", "ipvlan", "macvlan", "openvswitch", "team", "tun", "vlan"];
            kinds.contains(&link.kind.as_str())
                || self.ovs_interface(name).is_some_and(|interface| interface.internal)
        };
        let own = |(name, link): (&String, &Link)| {
            let mac = link.mac.clone().filter(|_| !borrowed(name, link));
            (name.clone(), mac.unwrap_or_default())
        };
        self.links.iter().map(own).collect()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.peer {
            None => write!(f, "{}", self.net),
            Some(peer) => write!(f, "{} peer {peer}", self.net),
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.destination.prefix_len() {
            0 => f.write_str("default")?,
            _ => write!(f, "{}", self.destination)?,
        }
        if let Some(gateway) = self.gateway {
            write!(f, " via {gateway}")?;
        }
        if self.table != muster_shared::model::network::MAIN_TABLE {
            write!(f, " table {}", self.table)?;
        }
        let usual = if self.destination.addr().is_ipv4() { 0 } else { 1_024 };
        if self.metric != usual {
            write!(f, " metric {}", self.metric)?;
        }
        Ok(())
    }
}
