//! The facts of links, with their counters.

use std::collections::BTreeMap;

use ipnet::IpNet;
use muster_shared::model::{Counters, LinkFacts};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkMessage};

use super::dump::whole;
use super::read::{MAX_LINKS, bounded, link_name};
use super::{Netlink, Result};

impl Netlink {
    /// The links by their index, without the facts that only `/sys` has.
    pub async fn facts(&mut self) -> Result<BTreeMap<u32, LinkFacts>> {
        whole(async |dump| {
            let mut links = BTreeMap::new();
            let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
            dump.read(request, |message| {
                let RouteNetlinkMessage::NewLink(message) = message else { return Ok(()) };
                bounded(links.len(), MAX_LINKS, "links")?;
                links.extend(facts(&message).map(|facts| (message.header.index, facts)));
                Ok(())
            })
            .await?;
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
