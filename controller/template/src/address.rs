//! The site's own address plan, as a template states it: networks, subnets, ports, and the defaults that follow from a
//! range. As Neutron describes them, without what only a cloud has.
//!
//! Absent: which port gets which address (`controller/engine/src/address.rs`), and the properties in a template
//! (`types/neutron.rs`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// `OS::Neutron::Net`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Net {
    /// The name that subnets and ports use.
    pub name: Option<String>,
}

/// `OS::Neutron::Subnet`, with defaults from its range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    /// The name that ports use.
    pub name: Option<String>,
    /// Name or id of its network.
    pub network: String,
    pub cidr: IpNet,
    /// By default the first address.
    pub gateway: Option<IpAddr>,
    /// First and last address of each pool; by default all addresses but the gateway's. In order,
    /// without overlaps.
    pub pools: Vec<(IpAddr, IpAddr)>,
    /// Information for programs that configure hosts.
    pub dns_nameservers: Vec<IpAddr>,
    /// Destination and next hop of each route; information for programs that configure hosts.
    pub host_routes: Vec<(IpNet, IpAddr)>,
    /// Information for programs that configure hosts.
    pub enable_dhcp: bool,
}

/// `OS::Neutron::Port`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// A name for people.
    pub name: Option<String>,
    /// Name or id of its network.
    pub network: String,
    /// Empty: one address of each family that the network has.
    pub fixed_ips: Vec<FixedIp>,
    /// The value as given.
    pub mac_address: Option<String>,
    /// The value as given.
    pub device_id: Option<String>,
    /// The value as given.
    pub device_owner: Option<String>,
}

/// An address that a port must have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixedIp {
    /// Name or id; any subnet of the network that has room, if absent.
    pub subnet: Option<String>,
    /// `None`: the next free address.
    pub address: Option<IpAddr>,
}

impl Net {
    pub(crate) fn attribute(&self, name: &str, tags: &[String]) -> Option<Value> {
        match name {
            "name" => Some(json!(self.name)),
            "admin_state_up" => Some(json!(true)),
            "status" => Some(json!("ACTIVE")),
            "segments" => Some(json!([])),
            "show" => Some(shown(&["admin_state_up", "name", "status", "tags"], |name| match name {
                "tags" => Some(json!(tags)),
                name => self.attribute(name, tags),
            })),
            _ => None,
        }
    }

    pub(crate) fn properties(&self) -> Map<String, Value> {
        Map::from_iter([("name".to_owned(), json!(self.name))])
    }
}

/// The attribute `show`: a map of others, of which clouds have more.
fn shown(names: &[&str], attribute: impl Fn(&str) -> Option<Value>) -> Value {
    names.iter().map(|name| ((*name).to_owned(), attribute(name).unwrap_or_default())).collect()
}

impl Subnet {
    pub(crate) fn attribute(&self, name: &str) -> Option<Value> {
        match name {
            "network_id" => Some(json!(self.network)),
            "show" => {
                let names = ["cidr", "enable_dhcp", "gateway_ip", "ip_version", "name", "network_id"];
                Some(shown(&names, |name| self.attribute(name)))
            }
            "ip_version" => Some(json!(if matches!(self.cidr, IpNet::V4(_)) { 4 } else { 6 })),
            _ => self.properties().remove(name).filter(|_| name != "network"),
        }
    }

    pub(crate) fn properties(&self) -> Map<String, Value> {
        let pool = |(start, end): &(IpAddr, IpAddr)| json!({"start": start, "end": end});
        let route = |(destination, nexthop): &(IpNet, IpAddr)| json!({"destination": destination, "nexthop": nexthop});
        let all = json!({
            "name": self.name,
            "network": self.network,
            "cidr": self.cidr,
            "gateway_ip": self.gateway,
            "allocation_pools": self.pools.iter().map(pool).collect::<Vec<_>>(),
            "dns_nameservers": self.dns_nameservers,
            "host_routes": self.host_routes.iter().map(route).collect::<Vec<_>>(),
            "enable_dhcp": self.enable_dhcp,
        });
        if let Value::Object(all) = all { all } else { Map::new() }
    }

    /// First and last address that a host may have: without the network's own and the broadcast address,
    /// unless there are two or fewer.
    pub fn hosts(&self) -> (IpAddr, IpAddr) {
        let (least, most) = hosts(self.cidr);
        (address(self.cidr, least), address(self.cidr, most))
    }

    /// Whether a port may have it, in a pool or not.
    pub fn is_for_ports(&self, it: IpAddr) -> bool {
        let (least, most) = hosts(self.cidr);
        self.cidr.contains(&it) && (least..=most).contains(&number(it)) && self.gateway != Some(it)
    }

    /// Fills in the values that follow from the range, and checks the others against the range.
    ///
    /// # Errors
    /// The wrong property, and the reason.
    pub(crate) fn complete(mut self, says_gateway: bool) -> Result<Self, (&'static str, String)> {
        let cidr = self.cidr.trunc();
        if cidr != self.cidr {
            return Err(("cidr", format!("{} has bits outside its mask: want {cidr}", self.cidr)));
        }
        let (least, most) = hosts(cidr);
        if !says_gateway {
            self.gateway = Some(address(cidr, least));
        }
        if let Some(gateway) = self.gateway.filter(|gateway| !cidr.contains(gateway)) {
            return Err(("gateway_ip", format!("the gateway {gateway} is not in {cidr}")));
        }
        let gateway = self.gateway.map(number);
        let wrong = |message: String| Err(("allocation_pools", message));
        self.pools.sort();
        for (at, (start, end)) in self.pools.iter().enumerate() {
            let shown = format!("the allocation pool {start}-{end}");
            if !cidr.contains(start) || !cidr.contains(end) {
                return wrong(format!("{shown} is not in {cidr}"));
            }
            let (first, last) = (number(*start), number(*end));
            if first > last {
                return wrong(format!("{shown} ends before it begins"));
            }
            if first < least || last > most {
                return wrong(format!("{shown} has the address of {cidr} itself, or its broadcast address"));
            }
            if self.pools[..at].iter().any(|(_, before)| number(*before) >= first) {
                return wrong(format!("{shown} overlaps another pool"));
            }
            if gateway.is_some_and(|gateway| (first..=last).contains(&gateway)) {
                return wrong(format!("{shown} has the gateway in it"));
            }
        }
        if self.pools.is_empty() {
            let (below, above) = match gateway {
                Some(gateway) => ((least, gateway.saturating_sub(1)), (gateway.saturating_add(1), most)),
                None => ((least, most), (1, 0)),
            };
            let parts = [below, above].into_iter().filter(|(first, last)| first <= last && *first >= least);
            self.pools =
                parts.map(|(first, last)| (address(cidr, first), address(cidr, last.min(most)))).collect();
        }
        Ok(self)
    }
}

impl Port {
    pub(crate) fn attribute(&self, name: &str) -> Option<Value> {
        match name {
            "name" => Some(json!(self.name)),
            "mac_address" => Some(json!(self.mac_address)),
            "device_id" => Some(json!(self.device_id.as_deref().unwrap_or_default())),
            "device_owner" => Some(json!(self.device_owner.as_deref().unwrap_or_default())),
            "admin_state_up" => Some(json!(true)),
            "status" => Some(json!("ACTIVE")),
            _ => None,
        }
    }

    pub(crate) fn properties(&self) -> Map<String, Value> {
        let fixed = |wish: &FixedIp| json!({"subnet": wish.subnet, "ip_address": wish.address});
        Map::from_iter([
            ("name".to_owned(), json!(self.name)),
            ("network".to_owned(), json!(self.network)),
            ("fixed_ips".to_owned(), self.fixed_ips.iter().map(fixed).collect()),
            ("mac_address".to_owned(), json!(self.mac_address)),
            ("device_id".to_owned(), json!(self.device_id)),
            ("device_owner".to_owned(), json!(self.device_owner)),
        ])
    }
}

fn number(it: IpAddr) -> u128 {
    match it {
        IpAddr::V4(it) => it.to_bits().into(),
        IpAddr::V6(it) => it.to_bits(),
    }
}

/// The address of this number, in the range's family.
fn address(cidr: IpNet, number: u128) -> IpAddr {
    match cidr {
        IpNet::V4(_) => Ipv4Addr::from_bits(u32::try_from(number).unwrap_or(u32::MAX)).into(),
        IpNet::V6(_) => Ipv6Addr::from_bits(number).into(),
    }
}

fn hosts(cidr: IpNet) -> (u128, u128) {
    let (least, most) = (number(cidr.network()), number(cidr.broadcast()));
    match cidr {
        _ if most - least <= 1 => (least, most),
        IpNet::V4(_) => (least + 1, most - 1),
        IpNet::V6(_) => (least + 1, most),
    }
}
