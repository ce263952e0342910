//! Addresses and routes.

use std::cmp::Ordering;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use muster_shared::mac;
use muster_shared::model::network::MAIN_TABLE;
use serde::{Deserialize, Serialize};

/// `RTPROT_KERNEL`: the kernel's own, or one that a network manager adds in its place.
pub const PROTOCOL_KERNEL: u8 = 2;
/// `RTPROT_BOOT`: added by hand.
pub const PROTOCOL_BOOT: u8 = 3;
/// `RTPROT_STATIC`: added by configuration; Muster's own routes carry it.
pub const PROTOCOL_STATIC: u8 = 4;
/// `RTPROT_RA`: out of a router's advertisement.
pub const PROTOCOL_RA: u8 = 9;
/// `RTPROT_DHCP`: added with a lease.
pub const PROTOCOL_DHCP: u8 = 16;
/// The mark of policy rules that Muster adds; no other program is known to use it.
pub const PROTOCOL_MUSTER: u8 = 77;

/// An address of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Address {
    /// Address and prefix length.
    pub net: IpNet,
    /// The other end of a point-to-point link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<IpAddr>,
    /// The address has no route to its network.
    #[serde(default, skip_serializing_if = "is_false")]
    pub noprefixroute: bool,
    /// For IPv6, with a lifetime: a router or DHCP server gave the address and renews it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub given: bool,
    /// For IPv4 only.
    #[serde(default, skip_serializing_if = "Ends::is_never")]
    pub ends: Ends,
    /// For IPv4, an `RT_SCOPE_` number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub scope: u8,
    /// The metric of the route to the address's network; 0 is the kernel's own choice.
    #[serde(default, skip_serializing_if = "is_zero_metric")]
    pub metric: u32,
    /// For IPv4 only.
    #[serde(default, skip_serializing_if = "Broadcast::is_none")]
    pub broadcast: Broadcast,
}

/// The kernel removes the address at the end of its lifetime unless a DHCP client renews it. The lifetime
/// does not distinguish two addresses, see [`Address::outlives`]. A restored address stays for good; the
/// client's next renewal sets its real lifetime.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Ends(pub bool);

impl Ends {
    fn is_never(&self) -> bool {
        !self.0
    }
}

impl PartialEq for Ends {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Ends {}

impl PartialOrd for Ends {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ends {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

/// The broadcast address that goes with an address. A restore sets it as before. It does not distinguish two
/// addresses: an address is not made again for the sake of its broadcast address.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Broadcast(pub Option<Ipv4Addr>);

impl Broadcast {
    /// The usual broadcast address of the network.
    fn of(net: IpNet) -> Self {
        match net {
            IpNet::V4(net) if net.prefix_len() < 31 => Self(Some(net.broadcast())),
            IpNet::V4(_) | IpNet::V6(_) => Self(None),
        }
    }

    fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

impl PartialEq for Broadcast {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Broadcast {}

impl PartialOrd for Broadcast {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Broadcast {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

/// A route through a link, or through several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Route {
    /// Has no host bits.
    pub destination: IpNet,
    /// The next hop; `None` if the destination is on the link.
    pub gateway: Option<IpAddr>,
    pub table: u32,
    /// The kernel's value: 1024 is IPv6's default.
    pub metric: u32,
    /// The protocol that added the route, an `RTPROT_` number.
    pub protocol: u8,
    /// An `RT_SCOPE_` number.
    #[serde(default)]
    pub scope: u8,
    /// The preferred source address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// The next hop is treated as being on the link.
    #[serde(default, skip_serializing_if = "is_false")]
    pub onlink: bool,
    /// For IPv4: the type of service of matching packets.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tos: u8,
    /// The next hops, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<Hop>,
    /// Further attributes (metrics, encapsulation, preference), as the kernel gave them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<Attribute>,
}

/// A next hop among several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Hop {
    pub link: String,
    /// The next hop; `None` if the destination is on the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
    /// The weight as the kernel counts: one less than in `ip route`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub weight: u8,
    /// The gateway is treated as being on the link.
    #[serde(default, skip_serializing_if = "is_false")]
    pub onlink: bool,
}

/// A netlink attribute: its number and its bytes.
pub type Attribute = (u16, Vec<u8>);

/// The key by which the kernel keeps one route: destination, table, metric, type of service.
pub type RouteKey = (IpNet, u32, u32, u8);

impl Address {
    /// The form of an address in a document.
    pub fn plain(net: IpNet) -> Self {
        Self {
            net,
            peer: None,
            noprefixroute: false,
            given: false,
            ends: Ends(false),
            scope: 0,
            metric: 0,
            broadcast: Broadcast::of(net),
        }
    }

    /// The wanted address must stay, but the present one will expire.
    pub fn outlives(&self, there: &Self) -> bool {
        there.ends.0 && !self.ends.0
    }

    /// Whether the address is valid on its own link alone; the kernel makes one for every link.
    pub fn is_link_local(&self) -> bool {
        matches!(self.net.addr(), IpAddr::V6(address) if address.is_unicast_link_local())
    }

    /// Whether the kernel itself, or the system at boot, gives it: an address of the link alone, or one of the host alone.
    pub fn is_kernels_own(&self) -> bool {
        self.is_link_local() || self.net.addr().is_loopback()
    }

    /// The link-local address that the kernel makes of the link's MAC address.
    pub fn is_of_mac(&self, mac: Option<&str>) -> bool {
        let Some([a, b, c, d, e, f]) = mac.and_then(mac::parse) else { return false };
        let word = |high: u8, low: u8| u16::from_be_bytes([high, low]);
        let made = Ipv6Addr::new(0xfe80, 0, 0, 0, word(a ^ 2, b), word(c, 0xff), word(0xfe, d), word(e, f));
        self.net.addr() == IpAddr::V6(made)
    }
}

impl Route {
    /// The key by which the kernel keeps one route.
    pub fn key(&self) -> RouteKey {
        (self.destination, self.table, self.metric, self.tos)
    }

    /// Whether both routes treat packets alike, whatever their origin.
    pub fn same(&self, other: &Route) -> bool {
        (self.key(), self.gateway, self.source, self.onlink, &self.hops, &self.attributes)
            == (other.key(), other.gateway, other.source, other.onlink, &other.hops, &other.attributes)
    }

    /// Added by hand or by configuration: what a document decides about.
    pub fn is_static(&self) -> bool {
        matches!(self.protocol, PROTOCOL_BOOT | PROTOCOL_STATIC)
    }

    /// Sorts routes so that those needed to reach other gateways come first.
    pub fn depth(&self) -> (bool, std::cmp::Reverse<u8>) {
        let over = self.gateway.is_some() || self.hops.iter().any(|hop| hop.gateway.is_some());
        (over, std::cmp::Reverse(self.destination.prefix_len()))
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &u8) -> bool {
    *value == 0
}

fn is_zero_metric(value: &u32) -> bool {
    *value == 0
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
        for (index, hop) in self.hops.iter().enumerate() {
            f.write_str(if index == 0 { " over " } else { " and " })?;
            hop.gateway.iter().try_for_each(|gateway| write!(f, "{gateway} "))?;
            write!(f, "dev {}", hop.link)?;
        }
        if self.table != MAIN_TABLE {
            write!(f, " table {}", self.table)?;
        }
        let usual = if self.destination.addr().is_ipv4() { 0 } else { 1_024 };
        if self.metric != usual {
            write!(f, " metric {}", self.metric)?;
        }
        if self.tos != 0 {
            write!(f, " tos {:#x}", self.tos)?;
        }
        Ok(())
    }
}
