//! Reading the kernel's links, addresses and routes.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;
use muster_shared::mac;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage};
use rtnetlink::packet_route::link::{
    InfoData, InfoVlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, VlanProtocol,
};
use rtnetlink::packet_route::route::RouteMessage;
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};

use super::super::state::{Address, Broadcast, Ends, Link, PROTOCOL_KERNEL, VlanLink};
use super::dump::{Dump, whole};
use super::{Netlink, NetlinkError, Result, bond, route, tap};

/// Links of a host. Container hosts have thousands.
pub(super) const MAX_LINKS: usize = 65_536;
/// Addresses, or static routes, of a host. A routing daemon's routes do not count.
const MAX_ENTRIES: usize = 262_144;

impl Netlink {
    /// The links with their addresses and configured routes.
    pub async fn links(&mut self) -> Result<BTreeMap<String, Link>> {
        whole(async |dump| {
            let mut names = BTreeMap::new();
            let mut links = read_links(dump, &mut names).await?;
            read_addresses(dump, &names, &mut links).await?;
            read_routes(dump, AddressFamily::Inet, &names, &mut links).await?;
            read_routes(dump, AddressFamily::Inet6, &names, &mut links).await?;
            // Routes arrive one by one, and half of the capacity would stay unused.
            links.values_mut().for_each(|link| Arc::make_mut(&mut link.routes).shrink_to_fit());
            Ok(links)
        })
        .await
    }
}

async fn read_links(dump: &mut Dump, names: &mut BTreeMap<u32, String>) -> Result<BTreeMap<String, Link>> {
    let mut read = Vec::new();
    let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
    dump.read(request, |message| {
        let RouteNetlinkMessage::NewLink(message) = message else { return Ok(()) };
        bounded(read.len(), MAX_LINKS, "links")?;
        if let Some(name) = link_name(&message) {
            names.insert(message.header.index, name);
            read.push(link(&message));
        }
        Ok(())
    })
    .await?;
    let name = |index: Option<u32>| names.get(&index?).cloned();
    let named = read.into_iter().filter_map(|ReadLink { mut link, master, parent, vlan_id, primary }| {
        link.master = name(master);
        link.parent = name(parent);
        if let Some(bond) = &mut link.bond {
            bond.primary = bond::named(name(primary).as_ref());
        }
        link.vlan = link.parent.clone().zip(vlan_id).map(|(device, id)| VlanLink { device, id });
        Some((names.get(&link.index)?.clone(), link))
    });
    Ok(named.collect())
}

async fn read_addresses(
    dump: &mut Dump,
    names: &BTreeMap<u32, String>,
    links: &mut BTreeMap<String, Link>,
) -> Result<()> {
    let mut count = 0;
    let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
    dump.read(request, |message| {
        let RouteNetlinkMessage::NewAddress(message) = message else { return Ok(()) };
        let link = names.get(&message.header.index).and_then(|name| links.get_mut(name));
        if let (Some(link), Some(address)) = (link, address(&message)) {
            bounded(count, MAX_ENTRIES, "addresses")?;
            count += 1;
            link.addresses.push(address);
        }
        Ok(())
    })
    .await
}

async fn read_routes(
    dump: &mut Dump,
    family: AddressFamily,
    names: &BTreeMap<u32, String>,
    links: &mut BTreeMap<String, Link>,
) -> Result<()> {
    let mut request = RouteMessage::default();
    request.header.address_family = family;
    let mut count = 0;
    dump.read(RouteNetlinkMessage::GetRoute(request), |message| {
        let RouteNetlinkMessage::NewRoute(message) = message else { return Ok(()) };
        let Some((index, route)) = route::parse(&message, names) else { return Ok(()) };
        let Some(link) = names.get(&index).and_then(|name| links.get_mut(name)) else { return Ok(()) };
        // The kernel makes its own routes along with their addresses. A route in place of one, for an address
        // without such a route, must be restored.
        let stands_in = |address: &Address| address.noprefixroute && address.net.trunc() == route.destination;
        if route.protocol == PROTOCOL_KERNEL && !link.addresses.iter().any(stands_in) {
            return Ok(());
        }
        bounded(count, MAX_ENTRIES, "static routes")?;
        count += 1;
        Arc::make_mut(&mut link.routes).push(route);
        Ok(())
    })
    .await
}

pub(super) fn bounded(count: usize, most: usize, what: &str) -> Result<()> {
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

/// A link without the names of other links, which may arrive later.
struct ReadLink {
    link: Link,
    master: Option<u32>,
    parent: Option<u32>,
    vlan_id: Option<u16>,
    /// The member that a bond prefers.
    primary: Option<u32>,
}

fn link(message: &LinkMessage) -> ReadLink {
    let mut link = Link {
        index: message.header.index,
        up: message.header.flags.contains(LinkFlags::Up),
        ..Link::default()
    };
    let (mut master, mut parent, mut vlan_id, mut primary, mut elsewhere) = (None, None, None, None, false);
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Address(octets) if octets.len() == 6 => link.mac = Some(mac::text(octets)),
            LinkAttribute::PermAddress(octets) if octets.len() == 6 => {
                link.permanent_mac = Some(mac::text(octets))
            }
            LinkAttribute::Controller(index) => master = Some(*index),
            LinkAttribute::Link(index) => parent = Some(*index),
            LinkAttribute::IfAlias(alias) => link.ours = alias == tap::MARK,
            LinkAttribute::LinkNetNsId(_) => elsewhere = true,
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    match info {
                        LinkInfo::Kind(kind) => link.kind = kind.to_string(),
                        LinkInfo::Data(InfoData::Vlan(infos)) => {
                            // Muster makes no 802.1ad links.
                            let other = |info: &InfoVlan| matches!(info, InfoVlan::Protocol(it) if *it != VlanProtocol::Ieee8021Q);
                            let id = infos.iter().find_map(|info| match info {
                                InfoVlan::Id(id) => Some(*id),
                                _ => None,
                            });
                            vlan_id = id.filter(|_| !infos.iter().any(other));
                        }
                        LinkInfo::Data(InfoData::Bond(infos)) => {
                            let (options, preferred) = bond::read(infos);
                            link.bond = Some(options);
                            primary = preferred;
                        }
                        LinkInfo::Data(InfoData::Tun(infos)) => link.tap = tap::is_tap(infos),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    link.permanent_mac.take_if(|own| link.mac.as_ref() == Some(own));
    // A link number of another namespace means nothing here.
    let parent = parent.filter(|_| !elsewhere);
    ReadLink { link, master, parent, vlan_id, primary }
}

/// An address, unless it is a temporary one that the kernel derives from another.
fn address(message: &AddressMessage) -> Option<Address> {
    let header = &message.header;
    let (mut local, mut other, mut flags, mut metric) = (None, None, AddressFlags::empty(), 0);
    let mut broadcast = Broadcast::default();
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(address) => local = Some(*address),
            AddressAttribute::Address(address) => other = Some(*address),
            AddressAttribute::Flags(found) => flags = *found,
            AddressAttribute::RoutePriority(found) => metric = *found,
            AddressAttribute::Broadcast(found) => broadcast = Broadcast(Some(*found)),
            _ => {}
        }
    }
    let address = local.or(other)?;
    // For the kernel, an address without a lifetime is permanent.
    let ends = !header.flags.contains(AddressHeaderFlags::Permanent);
    let given = address.is_ipv6() && ends;
    // For IPv6, this flag marks a temporary address.
    if given && flags.contains(AddressFlags::Secondary) {
        return None;
    }
    let net = IpNet::new(address, header.prefix_len).ok()?;
    Some(Address {
        net,
        peer: other.filter(|other| *other != address),
        noprefixroute: flags.contains(AddressFlags::Noprefixroute),
        given,
        ends: Ends(address.is_ipv4() && ends),
        scope: if address.is_ipv4() { header.scope.into() } else { 0 },
        metric,
        broadcast,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vlan_is_one_of_802_1q() {
        for (protocol, id) in [
            (Some(VlanProtocol::Ieee8021Q), Some(7)),
            (None, Some(7)),
            (Some(VlanProtocol::Ieee8021Ad), None),
        ] {
            let infos = [InfoVlan::Id(7)].into_iter().chain(protocol.map(InfoVlan::Protocol)).collect();
            let mut message = LinkMessage::default();
            message.attributes = vec![LinkAttribute::LinkInfo(vec![LinkInfo::Data(InfoData::Vlan(infos))])];
            assert_eq!(link(&message).vlan_id, id, "{protocol:?}");
        }
    }
}
