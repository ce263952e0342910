//! The facts of links, with their counters.

use std::collections::BTreeMap;

use ipnet::IpNet;
use muster_shared::model::{Counters, LinkFacts};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::link::{
    InfoData, InfoKind, InfoVxlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};

use super::dump::whole;
use super::read::{MAX_LINKS, bounded, link_name};
use super::{Netlink, Result};

impl Netlink {
    /// The links by their index, without the facts that only `/sys` has.
    pub async fn facts(&mut self) -> Result<BTreeMap<u32, LinkFacts>> {
        whole(async |dump| {
            let (mut links, mut ties) = (BTreeMap::new(), BTreeMap::new());
            let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
            dump.read(request, |message| {
                let RouteNetlinkMessage::NewLink(message) = message else { return Ok(()) };
                bounded(links.len(), MAX_LINKS, "links")?;
                if let Some(facts) = facts(&message) {
                    links.insert(message.header.index, facts);
                    ties.insert(message.header.index, Ties::of(&message));
                }
                Ok(())
            })
            .await?;
            name_ties(&mut links, &ties);
            let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
            dump.read(request, |message| {
                let RouteNetlinkMessage::NewAddress(message) = message else { return Ok(()) };
                if let (Some(link), Some(net)) = (links.get_mut(&message.header.index), net(&message)) {
                    link.addresses.push(net);
                }
                Ok(())
            })
            .await?;
            Ok(links)
        })
        .await
    }
}

/// Indexes of the links that a link is a member of, and lies on.
#[derive(Default)]
struct Ties {
    master: Option<u32>,
    lower: Option<u32>,
}

impl Ties {
    fn of(message: &LinkMessage) -> Self {
        let (mut ties, mut is_elsewhere) = (Self::default(), false);
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::Controller(index) => ties.master = Some(*index),
                LinkAttribute::Link(index) => ties.lower = Some(*index),
                // An index of another namespace means nothing here.
                LinkAttribute::LinkNetNsId(_) => is_elsewhere = true,
                LinkAttribute::LinkInfo(infos) => {
                    for info in infos {
                        match info {
                            // The other end of a pair is not below this one.
                            LinkInfo::Kind(InfoKind::Veth | InfoKind::Vxcan | InfoKind::Netkit) => {
                                is_elsewhere = true;
                            }
                            LinkInfo::Data(InfoData::Vxlan(infos)) => {
                                let lower = infos.iter().find_map(|info| match info {
                                    InfoVxlan::Link(index) => Some(*index),
                                    _ => None,
                                });
                                ties.lower = lower.or(ties.lower);
                            }
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        ties.lower.take_if(|_| is_elsewhere);
        ties
    }
}

fn name_ties(links: &mut BTreeMap<u32, LinkFacts>, ties: &BTreeMap<u32, Ties>) {
    for (index, Ties { master, lower }) in ties {
        let name = |other: &Option<u32>| {
            let other = other.filter(|other| other != index)?;
            Some(links.get(&other)?.name.clone())
        };
        let (master, lower) = (name(master), name(lower));
        if let Some(link) = links.get_mut(index) {
            (link.master, link.lower) = (master, lower);
        }
    }
}

pub(super) fn facts(message: &LinkMessage) -> Option<LinkFacts> {
    let mut facts = LinkFacts {
        name: link_name(message)?,
        up: message.header.flags.contains(LinkFlags::Up),
        ..LinkFacts::default()
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Mtu(mtu) => facts.mtu = *mtu,
            LinkAttribute::Address(octets) => facts.mac = octets.as_slice().try_into().ok(),
            LinkAttribute::PermAddress(octets) => facts.permanent_mac = octets.as_slice().try_into().ok(),
            LinkAttribute::Carrier(carrier) => facts.carrier = *carrier != 0,
            LinkAttribute::LinkInfo(infos) => {
                let kind = infos.iter().find_map(|info| match info {
                    LinkInfo::Kind(kind) => Some(kind.to_string()),
                    _ => None,
                });
                facts.kind = kind.unwrap_or_default();
            }
            LinkAttribute::Stats64(stats) => {
                facts.counters = Counters {
                    rx_bytes: stats.rx_bytes,
                    rx_packets: stats.rx_packets,
                    rx_errors: stats.rx_errors,
                    rx_dropped: stats.rx_dropped,
                    tx_bytes: stats.tx_bytes,
                    tx_packets: stats.tx_packets,
                    tx_errors: stats.tx_errors,
                    tx_dropped: stats.tx_dropped,
                };
            }
            _ => {}
        }
    }
    Some(facts)
}

fn net(message: &AddressMessage) -> Option<IpNet> {
    let of = |wanted: fn(&AddressAttribute) -> Option<std::net::IpAddr>| {
        message.attributes.iter().find_map(wanted)
    };
    let local = of(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    let other = of(|attribute| match attribute {
        AddressAttribute::Address(address) => Some(*address),
        _ => None,
    });
    IpNet::new(local.or(other)?, message.header.prefix_len).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(index: u32, name: &str, more: &[LinkAttribute]) -> LinkMessage {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes = [&[LinkAttribute::IfName(name.to_owned())], more].concat();
        message
    }

    #[test]
    fn ties_are_named() {
        let kind = |kind| LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind)]);
        let messages = [
            message(2, "eth0", &[LinkAttribute::Controller(3)]),
            message(3, "bond0", &[kind(InfoKind::Bond)]),
            message(
                4,
                "storage",
                &[kind(InfoKind::Vlan), LinkAttribute::Link(3), LinkAttribute::Controller(5)],
            ),
            message(5, "vrf1", &[kind(InfoKind::Vrf)]),
            message(6, "one", &[kind(InfoKind::Veth), LinkAttribute::Link(7)]),
            message(7, "two", &[kind(InfoKind::Veth), LinkAttribute::Link(6)]),
            message(11, "pair", &[kind(InfoKind::Netkit), LinkAttribute::Link(2)]),
            message(
                12,
                "overlay",
                &[LinkAttribute::LinkInfo(vec![
                    LinkInfo::Kind(InfoKind::Vxlan),
                    LinkInfo::Data(InfoData::Vxlan(vec![InfoVxlan::Link(2)])),
                ])],
            ),
            // In a container: the card below it has that index in another namespace.
            message(
                8,
                "guest",
                &[kind(InfoKind::MacVlan), LinkAttribute::Link(2), LinkAttribute::LinkNetNsId(0)],
            ),
            // The link below it went while links were read, and a tunnel lies on none.
            message(9, "late", &[kind(InfoKind::Vlan), LinkAttribute::Link(99)]),
            message(10, "tunnel", &[kind(InfoKind::IpIp), LinkAttribute::Link(0)]),
        ];
        let mut links = messages
            .iter()
            .map(|message| (message.header.index, facts(message).unwrap()))
            .collect::<BTreeMap<_, _>>();
        let ties = messages.iter().map(|message| (message.header.index, Ties::of(message))).collect();
        name_ties(&mut links, &ties);
        let tied: Vec<_> = links
            .values()
            .filter(|link| link.master.is_some() || link.lower.is_some())
            .map(|link| (&*link.name, link.master.as_deref(), link.lower.as_deref()))
            .collect();
        let wanted = [
            ("eth0", Some("bond0"), None),
            ("storage", Some("vrf1"), Some("bond0")),
            ("overlay", None, Some("eth0")),
        ];
        assert_eq!(tied, wanted);
    }
}
