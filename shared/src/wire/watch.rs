//! Drifts and facts between version 1 and the model, with their bounds.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::convert::{at_most, generation_in, generation_out, id_in, id_out};
use super::{WireError, v1};
use crate::model::{Counters, Drift, DriftState, Facts, LinkFacts};

/// Bytes of a drift's reason: a line or two for each of very many. Longer ones are cut.
pub const DRIFT_REASON_MAX: usize = 512;
/// Bytes of [`Facts`] on the wire: the controller keeps them in memory, for 10,000 nodes.
pub const FACTS_MAX: usize = 64 * 1024;
/// Texts of a server, interface names among them.
const TEXT_MAX: usize = 256;
/// Addresses told of one link: more are the address pool of a router or a cluster.
const ADDRESSES_MAX: usize = 32;

pub(super) fn drift_out(drift: &Drift) -> (v1::Id, v1::Generation, v1::DriftState, String) {
    let state = match drift.state {
        DriftState::InSync => v1::DriftState::InSync,
        DriftState::Drifted => v1::DriftState::Drifted,
        DriftState::Missing => v1::DriftState::Missing,
    };
    (id_out(drift.resource), generation_out(drift.generation), state, drift.reason.clone())
}

pub(super) fn drift_in(
    (id, generation, state, mut reason): (v1::Id, v1::Generation, v1::DriftState, String),
) -> Drift {
    reason.truncate(reason.floor_char_boundary(DRIFT_REASON_MAX));
    let state = match state {
        v1::DriftState::InSync => DriftState::InSync,
        v1::DriftState::Drifted => DriftState::Drifted,
        v1::DriftState::Missing => DriftState::Missing,
    };
    Drift { resource: id_in(id), generation: generation_in(generation), state, reason }
}

/// Cuts facts so that they keep every bound: the last links go first, their number stays.
pub fn fit_facts(facts: &mut Facts) {
    let texts = [&mut facts.hostname, &mut facts.kernel, &mut facts.os, &mut facts.agent_version];
    texts.into_iter().for_each(cut);
    let mut room = FACTS_MAX - 1024;
    let mut fits = 0;
    for link in &mut facts.links {
        cut(&mut link.name);
        cut(&mut link.kind);
        link.addresses.truncate(ADDRESSES_MAX);
        let size = weight(link);
        if size > room {
            break;
        }
        room -= size;
        fits += 1;
    }
    facts.links.truncate(fits);
}

/// Bytes of a link on the wire, at most.
fn weight(link: &LinkFacts) -> usize {
    // Two lengths, a MAC address, an MTU, flags, speed and duplex, and eight counters of up to ten bytes.
    const FIXED: usize = 128;
    FIXED + link.name.len() + link.kind.len() + 18 * link.addresses.len()
}

fn cut(text: &mut String) {
    text.truncate(text.floor_char_boundary(TEXT_MAX));
}

pub(super) fn facts_out(facts: &Facts) -> v1::Facts {
    v1::Facts {
        hostname: facts.hostname.clone(),
        kernel: facts.kernel.clone(),
        os: facts.os.clone(),
        cpus: facts.cpus,
        memory: facts.memory,
        booted_at: facts.booted_at,
        agent_version: facts.agent_version.clone(),
        links: facts.links.iter().map(link_out).collect(),
        links_total: facts.links_total,
    }
}

pub(super) fn facts_in(facts: v1::Facts) -> Result<Facts, WireError> {
    for text in [&facts.hostname, &facts.kernel, &facts.os, &facts.agent_version] {
        at_most("a text of facts", text.len(), TEXT_MAX)?;
    }
    let links: Vec<LinkFacts> = facts.links.into_iter().map(link_in).collect::<Result<_, _>>()?;
    at_most("facts", links.iter().map(weight).sum(), FACTS_MAX)?;
    Ok(Facts {
        hostname: facts.hostname,
        kernel: facts.kernel,
        os: facts.os,
        cpus: facts.cpus,
        memory: facts.memory,
        booted_at: facts.booted_at,
        agent_version: facts.agent_version,
        links,
        links_total: facts.links_total,
    })
}

fn link_out(link: &LinkFacts) -> v1::Link {
    let octets = |net: &IpNet| match net {
        IpNet::V4(net) => net.addr().octets().to_vec(),
        IpNet::V6(net) => net.addr().octets().to_vec(),
    };
    let c = &link.counters;
    v1::Link {
        name: link.name.clone(),
        kind: link.kind.clone(),
        mac: link.mac,
        mtu: link.mtu,
        up: link.up,
        carrier: link.carrier,
        speed: link.speed,
        full_duplex: link.full_duplex,
        addresses: link.addresses.iter().map(|net| (octets(net), net.prefix_len())).collect(),
        counters: [
            c.rx_bytes,
            c.rx_packets,
            c.rx_errors,
            c.rx_dropped,
            c.tx_bytes,
            c.tx_packets,
            c.tx_errors,
            c.tx_dropped,
        ],
    }
}

fn link_in(link: v1::Link) -> Result<LinkFacts, WireError> {
    at_most("an interface's name", link.name.len(), TEXT_MAX)?;
    at_most("an interface's kind", link.kind.len(), TEXT_MAX)?;
    at_most("an interface's addresses", link.addresses.len(), ADDRESSES_MAX)?;
    let [rx_bytes, rx_packets, rx_errors, rx_dropped, tx_bytes, tx_packets, tx_errors, tx_dropped] =
        link.counters;
    Ok(LinkFacts {
        name: link.name,
        kind: link.kind,
        mac: link.mac,
        mtu: link.mtu,
        up: link.up,
        carrier: link.carrier,
        speed: link.speed,
        full_duplex: link.full_duplex,
        addresses: link.addresses.into_iter().map(address_in).collect::<Result<_, _>>()?,
        counters: Counters {
            rx_bytes,
            rx_packets,
            rx_errors,
            rx_dropped,
            tx_bytes,
            tx_packets,
            tx_errors,
            tx_dropped,
        },
    })
}

fn address_in((octets, prefix): (Vec<u8>, u8)) -> Result<IpNet, WireError> {
    let wrong = WireError::Bounds { field: "an interface's address" };
    let address = match (<[u8; 4]>::try_from(&*octets), <[u8; 16]>::try_from(&*octets)) {
        (Ok(v4), _) => Ipv4Addr::from(v4).into(),
        (_, Ok(v6)) => Ipv6Addr::from(v6).into(),
        (Err(_), Err(_)) => return Err(wrong),
    };
    IpNet::new(address, prefix).map_err(|_| wrong)
}
