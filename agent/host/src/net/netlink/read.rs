//! Reading the kernel's links, addresses and routes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use futures_util::TryStreamExt;
use ipnet::IpNet;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage};
use rtnetlink::packet_route::link::{InfoData, InfoVlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteProtocol, RouteType,
};

use super::super::state::{Address, Link, Route, VlanLink};
use super::{Netlink, NetlinkError, REQUEST_TIMEOUT, Result};

/// Links of a host. Container hosts have thousands.
const MAX_LINKS: usize = 65_536;
/// Addresses, or static routes, of a host. A routing daemon's routes do not count.
const MAX_ENTRIES: usize = 262_144;

impl Netlink {
    /// All links with their addresses and static routes.
    pub async fn links(&mut self) -> Result<BTreeMap<String, Link>> {
        let read = async {
            let mut names = BTreeMap::new();
            let mut links = self.read_links(&mut names).await?;
            self.read_addresses(&names, &mut links).await?;
            self.read_routes(AddressFamily::Inet, &names, &mut links).await?;
            self.read_routes(AddressFamily::Inet6, &names, &mut links).await?;
            Ok(links)
        };
        tokio::time::timeout(REQUEST_TIMEOUT, read).await.map_err(|_| NetlinkError::Timeout)?
    }

    async fn read_links(&mut self, names: &mut BTreeMap<u32, String>) -> Result<BTreeMap<String, Link>> {
        let mut messages = Vec::new();
        let mut answers = Box::pin(self.handle.link().get().execute());
        while let Some(message) = answers.try_next().await? {
            bounded(messages.len(), MAX_LINKS, "links")?;
            if let Some(name) = link_name(&message) {
                names.insert(message.header.index, name);
                messages.push(message);
            }
        }
        let link =
            |message: &LinkMessage| Some((names.get(&message.header.index)?.clone(), link(message, names)));
        Ok(messages.iter().filter_map(link).collect())
    }

    async fn read_addresses(
        &mut self,
        names: &BTreeMap<u32, String>,
        links: &mut BTreeMap<String, Link>,
    ) -> Result<()> {
        let mut answers = Box::pin(self.handle.address().get().execute());
        let mut count = 0;
        while let Some(message) = answers.try_next().await? {
            let link = names.get(&message.header.index).and_then(|name| links.get_mut(name));
            if let (Some(link), Some(address)) = (link, address(&message)) {
                bounded(count, MAX_ENTRIES, "addresses")?;
                count += 1;
                link.addresses.push(address);
            }
        }
        Ok(())
    }

    async fn read_routes(
        &mut self,
        family: AddressFamily,
        names: &BTreeMap<u32, String>,
        links: &mut BTreeMap<String, Link>,
    ) -> Result<()> {
        let mut request = RouteMessage::default();
        request.header.address_family = family;
        let mut answers = Box::pin(self.handle.route().get(request).execute());
        let mut count = 0;
        while let Some(message) = answers.try_next().await? {
            let Some((index, route)) = route(&message) else { continue };
            if let Some(link) = names.get(&index).and_then(|name| links.get_mut(name)) {
                bounded(count, MAX_ENTRIES, "static routes")?;
                count += 1;
                link.routes.push(route);
            }
        }
        Ok(())
    }
}

fn bounded(count: usize, most: usize, what: &str) -> Result<()> {
    match count < most {
        true => Ok(()),
        false => Err(NetlinkError::Answer(format!("this host has more than {most} {what}"))),
    }
}

pub(super) fn link_name(message: &LinkMessage) -> Option<String> {
    message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    })
}

fn link(message: &LinkMessage, names: &BTreeMap<u32, String>) -> Link {
    let mut link = Link {
        index: message.header.index,
        up: message.header.flags.contains(LinkFlags::Up),
        ..Link::default()
    };
    let (mut parent, mut vlan_id) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Address(octets) if octets.len() == 6 => link.mac = Some(mac(octets)),
            LinkAttribute::Controller(index) => link.master = names.get(index).cloned(),
            LinkAttribute::Link(index) => parent = names.get(index).cloned(),
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    match info {
                        LinkInfo::Kind(kind) => link.kind = kind.to_string(),
                        LinkInfo::Data(InfoData::Vlan(infos)) => {
                            vlan_id = infos.iter().find_map(|info| match info {
                                InfoVlan::Id(id) => Some(*id),
                                _ => None,
                            });
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    link.vlan = parent.zip(vlan_id).map(|(device, id)| VlanLink { device, id });
    link
}

fn mac(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(":")
}

/// An address, unless it is one of IPv6 with a lifetime: routers give and take those.
fn address(message: &AddressMessage) -> Option<Address> {
    let (mut local, mut other, mut noprefixroute) = (None, None, false);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(address) => local = Some(*address),
            AddressAttribute::Address(address) => other = Some(*address),
            AddressAttribute::Flags(flags) => noprefixroute = flags.contains(AddressFlags::Noprefixroute),
            _ => {}
        }
    }
    let address = local.or(other)?;
    if address.is_ipv6() && !message.header.flags.contains(AddressHeaderFlags::Permanent) {
        return None;
    }
    let net = IpNet::new(address, message.header.prefix_len).ok()?;
    Some(Address { net, peer: other.filter(|other| *other != address), noprefixroute })
}

/// What a route says.
pub(super) struct RouteFacts {
    /// One per next hop.
    pub links: Vec<u32>,
    pub destination: Option<IpAddr>,
    pub gateway: Option<IpAddr>,
    pub source: Option<IpAddr>,
    pub table: u32,
    pub metric: u32,
    /// It has more than this version could put back.
    pub special: bool,
}

pub(super) fn route_facts(message: &RouteMessage) -> RouteFacts {
    let mut facts = RouteFacts {
        links: Vec::new(),
        destination: None,
        gateway: None,
        source: None,
        table: u32::from(message.header.table),
        metric: 0,
        special: false,
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Oif(index) => facts.links.push(*index),
            RouteAttribute::MultiPath(hops) => {
                facts.links.extend(hops.iter().map(|hop| hop.interface_index));
                facts.special = true;
            }
            RouteAttribute::Destination(address) => facts.destination = ip(address),
            RouteAttribute::Gateway(address) => facts.gateway = ip(address),
            RouteAttribute::PrefSource(address) => facts.source = ip(address),
            RouteAttribute::Table(table) => facts.table = *table,
            RouteAttribute::Priority(metric) => facts.metric = *metric,
            RouteAttribute::Via(_) | RouteAttribute::Encap(_) | RouteAttribute::NhId(_) => {
                facts.special = true
            }
            _ => {}
        }
    }
    facts
}

/// A unicast route with one next hop that somebody configured: not the kernel's, not a routing daemon's.
fn route(message: &RouteMessage) -> Option<(u32, Route)> {
    let header = &message.header;
    let configured = matches!(
        header.protocol,
        RouteProtocol::Boot | RouteProtocol::Static | RouteProtocol::Dhcp | RouteProtocol::Ra
    );
    if header.kind != RouteType::Unicast || !configured || header.flags.contains(RouteFlags::Cloned) {
        return None;
    }
    let facts = route_facts(message);
    let (&[link], false) = (facts.links.as_slice(), facts.special) else { return None };
    let any: IpAddr = match header.address_family {
        AddressFamily::Inet => [0; 4].into(),
        _ => [0; 16].into(),
    };
    let destination = IpNet::new(facts.destination.unwrap_or(any), header.destination_prefix_length).ok()?;
    let route = Route {
        destination,
        gateway: facts.gateway,
        table: facts.table,
        metric: facts.metric,
        protocol: header.protocol.into(),
        scope: header.scope.into(),
        source: facts.source,
        onlink: header.flags.contains(RouteFlags::Onlink),
    };
    Some((link, route))
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}
