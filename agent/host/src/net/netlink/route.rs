//! A route as the kernel writes it, and back.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use rtnetlink::packet_core::{DefaultNla, Nla};
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteNextHop, RouteNextHopFlags, RoutePreference,
    RouteProtocol, RouteType,
};

use super::super::state::{Attribute, Hop, PROTOCOL_RA, Route};

/// The lifetime of a restored route from a router's advertisement, in seconds: the usual lifetime that
/// routers announce (RFC 4861, AdvDefaultLifetime). The next advertisement brings the kernel's own.
const ADVERTISED_LIFETIME: u32 = 1_800;

/// A configured unicast route, with the number of its (first) link; `None` for routes of routing daemons.
pub(super) fn parse(message: &RouteMessage, names: &BTreeMap<u32, String>) -> Option<(u32, Route)> {
    let header = &message.header;
    let configured = matches!(
        header.protocol,
        RouteProtocol::Kernel
            | RouteProtocol::Boot
            | RouteProtocol::Static
            | RouteProtocol::Dhcp
            | RouteProtocol::Ra
    );
    if header.kind != RouteType::Unicast || !configured || header.flags.contains(RouteFlags::Cloned) {
        return None;
    }
    let any: IpAddr = match header.address_family {
        AddressFamily::Inet => [0; 4].into(),
        _ => [0; 16].into(),
    };
    let (mut link, mut destination) = (None, any);
    let mut route = Route {
        destination: IpNet::new(any, 0).ok()?,
        gateway: None,
        table: u32::from(header.table),
        metric: 0,
        protocol: header.protocol.into(),
        scope: header.scope.into(),
        source: None,
        onlink: header.flags.contains(RouteFlags::Onlink),
        tos: header.tos,
        hops: Vec::new(),
        attributes: Vec::new(),
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Oif(index) => link = Some(*index),
            RouteAttribute::MultiPath(hops) => {
                link = hops.first().map(|hop| hop.interface_index);
                route.hops = hops.iter().map(|it| hop(it, names)).collect::<Option<_>>()?;
            }
            RouteAttribute::Destination(address) => destination = ip(address)?,
            RouteAttribute::Gateway(address) => route.gateway = ip(address),
            RouteAttribute::PrefSource(address) => route.source = ip(address),
            RouteAttribute::Table(table) => route.table = *table,
            RouteAttribute::Priority(metric) => route.metric = *metric,
            RouteAttribute::Preference(RoutePreference::Medium) => {}
            RouteAttribute::Metrics(_)
            | RouteAttribute::Via(_)
            | RouteAttribute::Encap(_)
            | RouteAttribute::EncapType(_)
            | RouteAttribute::Preference(_)
            | RouteAttribute::Realm(_) => route.attributes.push(raw(attribute)),
            _ => {}
        }
    }
    route.destination = IpNet::new(destination, header.destination_prefix_length).ok()?;
    Some((link?, route))
}

/// `None` for a hop with properties that could not be restored.
fn hop(hop: &RouteNextHop, names: &BTreeMap<u32, String>) -> Option<Hop> {
    let mut gateway = None;
    for attribute in &hop.attributes {
        match attribute {
            RouteAttribute::Gateway(address) => gateway = ip(address),
            RouteAttribute::Via(_) | RouteAttribute::Encap(_) | RouteAttribute::EncapType(_) => return None,
            _ => {}
        }
    }
    let link = names.get(&hop.interface_index)?.clone();
    Some(Hop { link, gateway, weight: hop.hops, onlink: hop.flags.contains(RouteNextHopFlags::Onlink) })
}

fn raw(attribute: &RouteAttribute) -> Attribute {
    let mut value = vec![0; attribute.value_len()];
    attribute.emit_value(&mut value);
    (attribute.kind(), value)
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

/// `links`: the number of the route's link, then those of its hops.
pub(super) fn message(links: &[u32], route: &Route) -> RouteMessage {
    let mut message = RouteMessage::default();
    let is_v4 = route.destination.addr().is_ipv4();
    let header = &mut message.header;
    header.address_family = if is_v4 { AddressFamily::Inet } else { AddressFamily::Inet6 };
    header.destination_prefix_length = route.destination.prefix_len();
    header.protocol = route.protocol.into();
    header.scope = route.scope.into();
    header.kind = RouteType::Unicast;
    header.tos = route.tos;
    // Tables above 255 are only in the attribute.
    header.table = u8::try_from(route.table).unwrap_or(0);
    if route.onlink {
        header.flags = RouteFlags::Onlink;
    }
    let attributes = &mut message.attributes;
    attributes.push(RouteAttribute::Table(route.table));
    attributes.push(RouteAttribute::Priority(route.metric));
    if route.destination.prefix_len() > 0 {
        attributes.push(RouteAttribute::Destination(RouteAddress::from(route.destination.addr())));
    }
    if route.hops.is_empty() {
        attributes.extend(links.first().map(|link| RouteAttribute::Oif(*link)));
    } else {
        let hops = route.hops.iter().zip(links.iter().skip(1));
        attributes.push(RouteAttribute::MultiPath(hops.map(|(hop, link)| next_hop(hop, *link)).collect()));
    }
    attributes.extend(route.gateway.map(|gateway| RouteAttribute::Gateway(RouteAddress::from(gateway))));
    attributes.extend(route.source.map(|source| RouteAttribute::PrefSource(RouteAddress::from(source))));
    if route.protocol == PROTOCOL_RA && !is_v4 {
        attributes.push(RouteAttribute::Expires(ADVERTISED_LIFETIME));
    }
    let other = |(kind, value): &Attribute| RouteAttribute::Other(DefaultNla::new(*kind, value.clone()));
    attributes.extend(route.attributes.iter().map(other));
    message
}

fn next_hop(hop: &Hop, link: u32) -> RouteNextHop {
    let mut next = RouteNextHop::default();
    next.interface_index = link;
    next.hops = hop.weight;
    if hop.onlink {
        next.flags = RouteNextHopFlags::Onlink;
    }
    next.attributes =
        hop.gateway.map(|gateway| RouteAttribute::Gateway(RouteAddress::from(gateway))).into_iter().collect();
    next
}
