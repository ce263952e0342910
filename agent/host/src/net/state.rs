//! The host's state: links, addresses, routes, and the bridges of Open vSwitch.
//!
//! Left out on purpose: objects that Muster's changes cannot destroy for good (the kernel's own routes,
//! which come with their addresses), and objects that others add again (routes of routing daemons, temporary
//! IPv6 addresses).

mod layer3;
mod ovs;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_shared::model::network::{BondOptions, OvsPlace, OvsTable, Rule};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::dhcp::Leases;
use super::resolver::Resolver;

pub use layer3::{
    Address, Attribute, Broadcast, Ends, Hop, PROTOCOL_BOOT, PROTOCOL_DHCP, PROTOCOL_KERNEL, PROTOCOL_MUSTER,
    PROTOCOL_RA, PROTOCOL_STATIC, Route, RouteKey,
};
pub use ovs::{Columns, Ovs, OvsBridge, OvsInterface, OvsPort};

/// The host's network as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// Links by name.
    pub links: BTreeMap<String, Link>,
    /// The bridges of Open vSwitch; `None` if its database cannot be reached.
    pub ovs: Option<Ovs>,
    /// Policy rules that a document could express, with the `RTPROT_` number of their origin.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<Rule, u8>,
    pub resolver: Resolver,
    /// Active NICs, of which the first is `nic1`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nics: Vec<String>,
    /// Names of routing tables.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, u32>,
    /// The ethtool settings of the links that were queried, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ethtool: BTreeMap<String, BTreeMap<String, u32>>,
    /// Links that lease addresses.
    pub dhcp: Leases,
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
    /// The card's own, where it has another now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permanent_mac: Option<String>,
    /// The MTU in bytes.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// The name of the link it belongs to.
    pub master: Option<String>,
    /// The name of the link it runs over, of an 802.1Q link and the like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Present on an 802.1Q link.
    pub vlan: Option<VlanLink>,
    /// The link carries Muster's mark, which distinguishes Muster's tap devices from those of a switch.
    #[serde(skip_serializing_if = "is_false")]
    pub ours: bool,
    /// The link is a tap device that persists while nobody has it open.
    #[serde(skip_serializing_if = "is_false")]
    pub tap: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bond: Option<BondOptions>,
    /// In the kernel's order, which matters.
    pub addresses: Vec<Address>,
    /// Unicast routes through this link; a route with several next hops is listed at the link of the first.
    /// Snapshots share the routes, since there may be very many.
    pub routes: Arc<Vec<Route>>,
}

/// The properties of an 802.1Q link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VlanLink {
    /// The link that carries it.
    pub device: String,
    pub id: u16,
}

/// The bridge or bond that a link is a member of.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Attach {
    #[default]
    None,
    /// A Linux bridge, a bond, or a VRF.
    Linux(String),
    /// A bridge of Open vSwitch, with a VLAN tag or without.
    Ovs(String, Option<u16>),
    /// A port with several interfaces of a bridge of Open vSwitch.
    OvsBond(String, String),
}

impl State {
    /// The bridge or bond of `link`. A bridge's own local port has none.
    pub fn attachment(&self, link: &str) -> Attach {
        if let Some((bridge, port)) = self.ovs_port(link) {
            return match self.ovs.as_ref().and_then(|ovs| ovs.port_name_of(link)) {
                Some(name) if name != link || port.interfaces.len() > 1 => {
                    Attach::OvsBond(bridge.to_owned(), name.to_owned())
                }
                _ => Attach::Ovs(bridge.to_owned(), port.tag),
            };
        }
        match self.master(link) {
            Some((name, master)) if matches!(master.kind.as_str(), "bridge" | "bond" | "team" | "vrf") => {
                Attach::Linux(name.to_owned())
            }
            _ => Attach::None,
        }
    }

    /// The bridge and port of Open vSwitch that hold `link`, if it is not the bridge itself.
    pub fn ovs_port(&self, link: &str) -> Option<(&str, &OvsPort)> {
        self.ovs.as_ref()?.port_of(link).filter(|(bridge, _)| *bridge != link)
    }

    /// The bridge of Open vSwitch by that name.
    pub fn ovs_bridge(&self, name: &str) -> Option<&OvsBridge> {
        self.ovs.as_ref()?.get(name)
    }

    /// The interface of Open vSwitch by that name.
    pub fn ovs_interface(&self, name: &str) -> Option<&OvsInterface> {
        self.ovs.as_ref()?.port_of(name)?.1.interfaces.get(name)
    }

    /// The given links, and the links on top of them, which the kernel removes with them.
    pub fn with_what_they_carry<'a>(&'a self, links: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
        let mut carried: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, link) in self.links.iter().filter(|(_, link)| GO_ALONG.contains(&link.kind.as_str())) {
            if let Some(parent) = &link.parent {
                carried.entry(parent).or_default().push(name);
            }
        }
        let mut open: Vec<&str> = links.collect();
        let mut all: BTreeSet<&str> = open.iter().copied().collect();
        while let Some(link) = open.pop() {
            let carried = carried.get(link).into_iter().flatten().copied();
            let ports = self.ovs_bridge(link).into_iter().flat_map(|bridge| bridge.ports.values());
            let internal = ports.filter(|port| port.is_internal()).flat_map(|port| port.interfaces.keys());
            open.extend(carried.chain(internal.map(String::as_str)).filter(|name| all.insert(name)));
        }
        all
    }

    /// The present value of a setting in Open vSwitch's database; `None` if it has its default, or if there
    /// is no such row.
    pub fn setting(&self, place: &OvsPlace) -> Option<Value> {
        let columns = match place.table {
            // The tag of a port stands beside its columns, for it decides about the port.
            OvsTable::Port if place.column == "tag" => {
                return self.ovs.as_ref()?.port(&place.record)?.1.tag.map(Value::from);
            }
            OvsTable::Bridge => {
                let bridge = self.ovs_bridge(&place.record)?;
                &bridge.columns
            }
            OvsTable::Port => &self.ovs.as_ref()?.port(&place.record)?.1.columns,
            OvsTable::Interface => &self.ovs_interface(&place.record)?.columns,
        };
        let value = columns.get(&place.column)?;
        match &place.key {
            None => Some(value.clone()),
            Some(key) => {
                let pairs = value.get(1)?.as_array()?;
                pairs.iter().find(|pair| pair[0] == **key).map(|pair| pair[1].clone())
            }
        }
    }

    /// The kernel's master of `link`.
    pub fn master(&self, link: &str) -> Option<(&str, &Link)> {
        let name = self.links.get(link)?.master.as_deref()?;
        self.links.get(name).map(|master| (name, master))
    }

    /// A link's MAC address. For a bond's member, which uses the bond's, the address that it has outside
    /// the bond.
    pub fn own_mac(&self, link: &str) -> Option<&String> {
        let is_member = self.master(link).is_some_and(|(_, master)| master.kind == "bond");
        let link = self.links.get(link)?;
        link.permanent_mac.as_ref().filter(|_| is_member).or(link.mac.as_ref())
    }

    /// Name → MAC address, for a NIC mapping. Leaves out links whose address comes from another one: a
    /// bridge, a VLAN or a bond carries that of a member, so that two links would match one address.
    pub fn macs(&self) -> BTreeMap<String, String> {
        let borrowed = |name: &str, link: &Link| {
            let kinds = ["bond", "bridge", "ipvlan", "macvlan", "openvswitch", "team", "tun", "vlan"];
            kinds.contains(&link.kind.as_str())
                || self.ovs_interface(name).is_some_and(|interface| interface.internal)
        };
        let own = |(name, link): (&String, &Link)| {
            let mac = self.own_mac(name).filter(|_| !borrowed(name, link)).cloned();
            (name.clone(), mac.unwrap_or_default())
        };
        self.links.iter().map(own).collect()
    }
}

/// Kinds of links that vanish with the link below them.
const GO_ALONG: [&str; 7] = ["ipvlan", "ipvtap", "macsec", "macvlan", "macvtap", "vlan", "vxlan"];

fn is_false(value: &bool) -> bool {
    !value
}
