//! Facts between version 1 and the model, with their bounds. Decides what is left out of facts that are too
//! many (`fit_facts`).
//!
//! Absent: when facts are sent (`agent/core/src/facts.rs`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::convert::at_most;
use super::{WireError, v1};
use crate::model::{Counters, DiskFacts, Facts, LinkFacts, NeighbourFacts, OsFacts, PciFacts};

/// Bytes of [`Facts`] on the wire: the controller keeps them in memory, for 10,000 nodes.
pub const FACTS_MAX: usize = 64 * 1024;
/// Texts of a server, interface names among them.
const TEXT_MAX: usize = 256;
/// The most addresses reported of one link: a link with more is the address pool of a router or a cluster.
const ADDRESSES_MAX: usize = 32;
/// The most neighbours reported of one link: a cable has two ends, and devices in between may forward a
/// few more.
pub const NEIGHBOURS_MAX: usize = 8;
/// The most management addresses of a neighbour.
const MANAGEMENT_MAX: usize = 4;
/// The most disks reported, for a server with a shelf of them.
const DISKS_MAX: usize = 64;

/// Cuts facts to every bound: first the last links, while their number stays; then neighbours, of which each
/// link keeps its first as long as there is room.
pub fn fit_facts(facts: &mut Facts) {
    let Facts { hostname, kernel, os, architecture, cpu_model, agent_version, .. } = facts;
    let texts = [hostname, kernel, &mut os.id, &mut os.version, &mut os.name, architecture, cpu_model];
    texts.into_iter().chain([agent_version]).for_each(cut);
    facts.disks.truncate(DISKS_MAX);
    for disk in &mut facts.disks {
        cut(&mut disk.name);
        cut(&mut disk.model);
    }
    let mut room = FACTS_MAX.saturating_sub(head_weight(facts));
    let mut all_neighbours = Vec::new();
    let mut fits = 0;
    for link in &mut facts.links {
        cut(&mut link.name);
        cut(&mut link.kind);
        cut(&mut link.driver);
        [&mut link.master, &mut link.lower].into_iter().flatten().for_each(cut);
        link.pci.iter_mut().for_each(|pci| cut(&mut pci.address));
        link.addresses.truncate(ADDRESSES_MAX);
        let neighbours = std::mem::take(&mut link.neighbours);
        let size = weight(link);
        if size > room {
            break;
        }
        room -= size;
        fits += 1;
        all_neighbours.push(neighbours.into_iter().take(NEIGHBOURS_MAX));
    }
    facts.links.truncate(fits);
    for _ in 0..NEIGHBOURS_MAX {
        for (link, neighbours) in facts.links.iter_mut().zip(&mut all_neighbours) {
            let Some(mut neighbour) = neighbours.next() else { continue };
            fit_neighbour(&mut neighbour);
            let size = neighbour_weight(&neighbour);
            if size <= room {
                room -= size;
                link.neighbours.push(neighbour);
            }
        }
    }
}

fn fit_neighbour(neighbour: &mut NeighbourFacts) {
    let NeighbourFacts { chassis_id, port_id, port_description, system_name, system_description, .. } =
        neighbour;
    let optional = [port_description, system_name, system_description].into_iter().flatten();
    [chassis_id, port_id].into_iter().chain(optional).for_each(cut);
    neighbour.management.truncate(MANAGEMENT_MAX);
}

/// Bytes of all but the links on the wire, at most.
fn head_weight(facts: &Facts) -> usize {
    // Numbers and the lengths of texts and lists.
    const FIXED: usize = 128;
    let Facts { hostname, kernel, os, architecture, cpu_model, agent_version, .. } = facts;
    let texts = [hostname, kernel, &os.id, &os.version, &os.name, architecture, cpu_model, agent_version];
    let disks = facts.disks.iter().map(|disk| 16 + disk.name.len() + disk.model.len());
    FIXED + texts.map(String::len).iter().sum::<usize>() + disks.sum::<usize>()
}

/// Bytes of a link on the wire, at most.
fn weight(link: &LinkFacts) -> usize {
    // Lengths of texts, two MAC addresses, an MTU, flags, speed, duplex, PCI ids, and eight counters of up to
    // ten bytes.
    const FIXED: usize = 160;
    let pci = link.pci.as_ref().map_or(0, |pci| pci.address.len());
    let others = [&link.master, &link.lower].into_iter().flatten().map(String::len).sum::<usize>();
    let own =
        link.name.len() + link.kind.len() + link.driver.len() + pci + others + 18 * link.addresses.len();
    FIXED + own + link.neighbours.iter().map(neighbour_weight).sum::<usize>()
}

fn neighbour_weight(neighbour: &NeighbourFacts) -> usize {
    const FIXED: usize = 24;
    let NeighbourFacts { chassis_id, port_id, port_description, system_name, system_description, .. } =
        neighbour;
    let optional = [port_description, system_name, system_description].into_iter().flatten();
    let texts = [chassis_id, port_id].into_iter().chain(optional).map(String::len);
    FIXED + texts.sum::<usize>() + 17 * neighbour.management.len()
}

fn cut(text: &mut String) {
    text.truncate(text.floor_char_boundary(TEXT_MAX));
}

pub(super) fn facts_out(facts: &Facts) -> v1::Facts {
    v1::Facts {
        hostname: facts.hostname.clone(),
        kernel: facts.kernel.clone(),
        os: facts.os.name.clone(),
        cpus: facts.cpus,
        memory: facts.memory,
        booted_at: facts.booted_at,
        agent_version: facts.agent_version.clone(),
        links: facts.links.iter().map(link_out).collect(),
        links_total: facts.links_total,
    }
}

pub(super) fn more_out(facts: &Facts) -> v1::FactsMore {
    let disk = |disk: &DiskFacts| (disk.name.clone(), disk.size, disk.model.clone(), disk.rotational);
    let link = |link: &LinkFacts| v1::LinkMore {
        driver: link.driver.clone(),
        pci: link.pci.as_ref().map(|pci| (pci.address.clone(), pci.vendor, pci.device)),
        permanent_mac: link.permanent_mac,
        neighbours: link.neighbours.iter().map(neighbour_out).collect(),
    };
    v1::FactsMore {
        os_id: facts.os.id.clone(),
        os_version: facts.os.version.clone(),
        architecture: facts.architecture.clone(),
        cpu_model: facts.cpu_model.clone(),
        disks: facts.disks.iter().map(disk).collect(),
        links: facts.links.iter().map(link).collect(),
    }
}

/// Returns master and lower link of each link; `None` if no link has either.
pub(super) fn ties_out(facts: &Facts) -> Option<Vec<v1::LinkTies>> {
    let name = |link: &Option<String>| link.clone().unwrap_or_default();
    let ties = |link: &LinkFacts| v1::LinkTies { master: name(&link.master), lower: name(&link.lower) };
    let is_tied = |link: &LinkFacts| link.master.is_some() || link.lower.is_some();
    facts.links.iter().any(is_tied).then(|| facts.links.iter().map(ties).collect())
}

/// Fields that an older agent does not send are empty.
pub(super) fn facts_in(
    facts: v1::Facts,
    more: v1::FactsMore,
    ties: Vec<v1::LinkTies>,
) -> Result<Facts, WireError> {
    at_most("disks", more.disks.len(), DISKS_MAX)?;
    let (mut rest, mut ties) = (more.links.into_iter(), ties.into_iter());
    let links = facts
        .links
        .into_iter()
        .map(|link| link_in(link, rest.next().unwrap_or_default(), ties.next().unwrap_or_default()));
    let links: Vec<LinkFacts> = links.collect::<Result<_, _>>()?;
    if rest.next().is_some() || ties.next().is_some() {
        return Err(WireError::Bounds { field: "links of facts" });
    }
    let disk = |(name, size, model, rotational)| DiskFacts { name, size, model, rotational };
    let facts = Facts {
        hostname: facts.hostname,
        kernel: facts.kernel,
        os: OsFacts { id: more.os_id, version: more.os_version, name: facts.os },
        architecture: more.architecture,
        cpus: facts.cpus,
        cpu_model: more.cpu_model,
        memory: facts.memory,
        booted_at: facts.booted_at,
        agent_version: facts.agent_version,
        disks: more.disks.into_iter().map(disk).collect(),
        links,
        links_total: facts.links_total,
    };
    let Facts { hostname, kernel, os, architecture, cpu_model, agent_version, .. } = &facts;
    let texts = [hostname, kernel, &os.id, &os.version, &os.name, architecture, cpu_model, agent_version];
    let of_disks = facts.disks.iter().flat_map(|disk| [&disk.name, &disk.model]);
    for text in texts.into_iter().chain(of_disks) {
        at_most("a text of facts", text.len(), TEXT_MAX)?;
    }
    let size = head_weight(&facts) + facts.links.iter().map(weight).sum::<usize>();
    at_most("facts", size, FACTS_MAX)?;
    Ok(facts)
}

fn link_out(link: &LinkFacts) -> v1::Link {
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
        addresses: link.addresses.iter().map(|net| (octets(net.addr()), net.prefix_len())).collect(),
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

fn link_in(link: v1::Link, more: v1::LinkMore, ties: v1::LinkTies) -> Result<LinkFacts, WireError> {
    for name in [&link.name, &ties.master, &ties.lower] {
        at_most("an interface's name", name.len(), TEXT_MAX)?;
    }
    at_most("an interface's kind", link.kind.len(), TEXT_MAX)?;
    at_most("an interface's driver", more.driver.len(), TEXT_MAX)?;
    at_most("an interface's addresses", link.addresses.len(), ADDRESSES_MAX)?;
    at_most("an interface's neighbours", more.neighbours.len(), NEIGHBOURS_MAX)?;
    let pci = more.pci.map(|(address, vendor, device)| PciFacts { address, vendor, device });
    at_most("an interface's place", pci.as_ref().map_or(0, |pci| pci.address.len()), TEXT_MAX)?;
    let [rx_bytes, rx_packets, rx_errors, rx_dropped, tx_bytes, tx_packets, tx_errors, tx_dropped] =
        link.counters;
    Ok(LinkFacts {
        name: link.name,
        kind: link.kind,
        driver: more.driver,
        pci,
        mac: link.mac,
        permanent_mac: more.permanent_mac,
        mtu: link.mtu,
        up: link.up,
        carrier: link.carrier,
        speed: link.speed,
        full_duplex: link.full_duplex,
        master: Some(ties.master).filter(|name| !name.is_empty()),
        lower: Some(ties.lower).filter(|name| !name.is_empty()),
        addresses: link.addresses.into_iter().map(net_in).collect::<Result<_, _>>()?,
        neighbours: more.neighbours.into_iter().map(neighbour_in).collect::<Result<_, _>>()?,
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

fn neighbour_out(neighbour: &NeighbourFacts) -> v1::Neighbour {
    v1::Neighbour {
        chassis_id: neighbour.chassis_id.clone(),
        port_id: neighbour.port_id.clone(),
        port_description: neighbour.port_description.clone(),
        system_name: neighbour.system_name.clone(),
        system_description: neighbour.system_description.clone(),
        vlan: neighbour.vlan,
        management: neighbour.management.iter().copied().map(octets).collect(),
    }
}

fn neighbour_in(neighbour: v1::Neighbour) -> Result<NeighbourFacts, WireError> {
    let v1::Neighbour { chassis_id, port_id, port_description, system_name, system_description, .. } =
        &neighbour;
    let optional = [port_description, system_name, system_description].into_iter().flatten();
    for text in [chassis_id, port_id].into_iter().chain(optional) {
        at_most("a text of a neighbour", text.len(), TEXT_MAX)?;
    }
    at_most("a neighbour's addresses", neighbour.management.len(), MANAGEMENT_MAX)?;
    let address =
        |octets: &Vec<u8>| address_in(octets).ok_or(WireError::Bounds { field: "a neighbour's address" });
    let management = neighbour.management.iter().map(address).collect::<Result<_, _>>()?;
    Ok(NeighbourFacts {
        chassis_id: neighbour.chassis_id,
        port_id: neighbour.port_id,
        port_description: neighbour.port_description,
        system_name: neighbour.system_name,
        system_description: neighbour.system_description,
        vlan: neighbour.vlan,
        management,
    })
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn address_in(octets: &[u8]) -> Option<IpAddr> {
    match (<[u8; 4]>::try_from(octets), <[u8; 16]>::try_from(octets)) {
        (Ok(v4), _) => Some(Ipv4Addr::from(v4).into()),
        (_, Ok(v6)) => Some(Ipv6Addr::from(v6).into()),
        (Err(_), Err(_)) => None,
    }
}

fn net_in((octets, prefix): (Vec<u8>, u8)) -> Result<IpNet, WireError> {
    let net = address_in(&octets).and_then(|address| IpNet::new(address, prefix).ok());
    net.ok_or(WireError::Bounds { field: "an interface's address" })
}
