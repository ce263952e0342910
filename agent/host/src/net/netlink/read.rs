//! Reading the kernel's links, addresses and routes.

use std::collections::BTreeMap;

use futures_util::TryStreamExt;
use ipnet::IpNet;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage};
use rtnetlink::packet_route::link::{InfoData, InfoVlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use rtnetlink::packet_route::route::RouteMessage;

use super::super::state::{Address, Broadcast, Link, PROTOCOL_KERNEL, VlanLink};
use super::{Netlink, NetlinkError, Result, route, within_all};

/// Links of a host. Container hosts have thousands.
pub(super) const MAX_LINKS: usize = 65_536;
/// Addresses, or static routes, of a host. A routing daemon's routes do not count.
const MAX_ENTRIES: usize = 262_144;

impl Netlink {
    /// All links with their addresses and configured routes.
    pub async fn links(&mut self) -> Result<BTreeMap<String, Link>> {
        within_all(async {
            let mut names = BTreeMap::new();
            let mut links = self.read_links(&mut names).await?;
            self.read_addresses(&names, &mut links).await?;
            self.read_routes(AddressFamily::Inet, &names, &mut links).await?;
            self.read_routes(AddressFamily::Inet6, &names, &mut links).await?;
            Ok(links)
        })
        .await
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
            let Some((index, route)) = route::parse(&message, names) else { continue };
            let Some(link) = names.get(&index).and_then(|name| links.get_mut(name)) else { continue };
            // The kernel makes its own with the address; what stands in for one, somebody else must make again.
            let stands_in =
                |address: &Address| address.noprefixroute && address.net.trunc() == route.destination;
            if route.protocol == PROTOCOL_KERNEL && !link.addresses.iter().any(stands_in) {
                continue;
            }
            bounded(count, MAX_ENTRIES, "static routes")?;
            count += 1;
            link.routes.push(route);
        }
        Ok(())
    }
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

fn link(message: &LinkMessage, names: &BTreeMap<u32, String>) -> Link {
    let mut link = Link {
        index: message.header.index,
        up: message.header.flags.contains(LinkFlags::Up),
        ..Link::default()
    };
    let (mut parent, mut vlan_id, mut elsewhere) = (None, None, false);
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Address(octets) if octets.len() == 6 => link.mac = Some(mac(octets)),
            LinkAttribute::Controller(index) => link.master = names.get(index).cloned(),
            LinkAttribute::Link(index) => parent = names.get(index).cloned(),
            LinkAttribute::LinkNetNsId(_) => elsewhere = true,
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
    // A number of another namespace says nothing here.
    let parent = parent.filter(|_| !elsewhere);
    link.vlan = parent.clone().zip(vlan_id).map(|(device, id)| VlanLink { device, id });
    link.parent = parent;
    link
}

fn mac(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(":")
}

/// An address, unless it is one that the kernel makes of another, for a while.
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
    let given = address.is_ipv6() && !header.flags.contains(AddressHeaderFlags::Permanent);
    // Of IPv6, this flag marks a temporary address.
    if given && flags.contains(AddressFlags::Secondary) {
        return None;
    }
    let net = IpNet::new(address, header.prefix_len).ok()?;
    Some(Address {
        net,
        peer: other.filter(|other| *other != address),
        noprefixroute: flags.contains(AddressFlags::Noprefixroute),
        given,
        scope: if address.is_ipv4() { header.scope.into() } else { 0 },
        metric,
        broadcast,
    })
}
