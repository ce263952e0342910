//! The facts of a server, under the names that operators use in `node facts`, in selectors and in `get_node`.
//! `docs/facts.md` lists them; a test compares that list with this file.
//!
//! Absent: how an agent reads them (`agent/host/src/facts.rs`), and values that change by themselves (counters, the
//! time of the last boot). Nothing should depend on them.

use muster_shared::mac;
use muster_shared::model::{DiskFacts, Facts, LinkFacts, NeighbourFacts};
use serde_json::{Map, Value, json};

use crate::error::suggestion_or_all;

/// The first parts of all names.
pub const FACTS: [&str; 11] = [
    "agent_version",
    "architecture",
    "cpu_model",
    "cpus",
    "disks",
    "hostname",
    "kernel",
    "links",
    "links_total",
    "memory",
    "os",
];

/// Matches each item of a list.
const EACH: &str = "*";

/// The value under the first part of a name.
pub fn fact(facts: &Facts, name: &str) -> Option<Value> {
    Some(match name {
        "agent_version" => json!(facts.agent_version),
        "architecture" => json!(facts.architecture),
        "cpu_model" => json!(facts.cpu_model),
        "cpus" => json!(facts.cpus),
        "disks" => facts.disks.iter().map(disk).collect(),
        "hostname" => json!(facts.hostname),
        "kernel" => json!(facts.kernel),
        "links" => facts.links.iter().map(link).collect(),
        "links_total" => json!(facts.links_total),
        "memory" => json!(facts.memory),
        "os" => json!({"id": facts.os.id, "version": facts.os.version, "name": facts.os.name}),
        _ => return None,
    })
}

/// The facts by the first parts of their names.
pub fn facts_by_name(facts: &Facts) -> Map<String, Value> {
    FACTS.into_iter().filter_map(|name| Some((name.to_owned(), fact(facts, name)?))).collect()
}

fn disk(disk: &DiskFacts) -> Value {
    json!({"name": disk.name, "size": disk.size, "model": disk.model, "rotational": disk.rotational})
}

fn link(link: &LinkFacts) -> Value {
    let octets = |octets: [u8; 6]| mac::text(&octets);
    let pci = link.pci.as_ref();
    json!({
        "name": link.name,
        "kind": link.kind,
        "driver": link.driver,
        "pci_address": pci.map(|pci| &pci.address),
        "pci_id": pci.map(|pci| format!("{:04x}:{:04x}", pci.vendor, pci.device)),
        "mac": link.mac.map(octets),
        "permanent_mac": link.permanent_mac.map(octets),
        "mtu": link.mtu,
        "up": link.up,
        "carrier": link.carrier,
        "speed": link.speed,
        "duplex": link.full_duplex.map(|full| if full { "full" } else { "half" }),
        "master": link.master,
        "lower": link.lower,
        "addresses": link.addresses,
        "neighbours": link.neighbours.iter().map(neighbour).collect::<Value>(),
    })
}

fn neighbour(neighbour: &NeighbourFacts) -> Value {
    json!({
        "chassis_id": neighbour.chassis_id,
        "port_id": neighbour.port_id,
        "port_description": neighbour.port_description,
        "system_name": neighbour.system_name,
        "system_description": neighbour.system_description,
        "vlan": neighbour.vlan,
        "management_addresses": neighbour.management,
    })
}

/// The values under a path in a fact: keys of maps; in a list an item's `name`, its number from 0, or `*` for
/// each item. A name may have been split at its dots.
pub(crate) fn under<'v>(value: &'v Value, path: &[&str]) -> Vec<&'v Value> {
    let mut found = Vec::new();
    follow(value, path, false, &mut found);
    found
}

/// The first value under a path. In a list `*` matches no item.
pub fn fact_at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    if path.contains(&EACH) { None } else { under(value, path).first().copied() }
}

/// The most parts of a fact's name: more than any has, even for links, disks and neighbours with dots in
/// their names.
pub(crate) const PARTS_MAX: usize = 32;

fn follow<'v>(value: &'v Value, path: &[&str], any: bool, found: &mut Vec<&'v Value>) {
    match (value, path) {
        (_, []) => found.push(value),
        (Value::Object(map), [key, rest @ ..]) => {
            if let Some(value) = map.get(*key) {
                follow(value, rest, any, found);
            }
        }
        (Value::Array(items), _) => {
            for length in 1..=path.len() {
                let (name, rest) = (path[..length].join("."), &path[length..]);
                let is_meant = |index: usize, item: &Value| {
                    any || name == EACH || item["name"] == *name || name == index.to_string()
                };
                let meant = items.iter().enumerate().filter(|(index, item)| is_meant(*index, item));
                meant.for_each(|(_, item)| follow(item, rest, any, found));
            }
        }
        _ => {}
    }
}

/// Whether a server could have this fact, with a value that is no list or map if `is_valued`: the keys must
/// be known, while names of items may be any.
///
/// # Errors
/// The known names.
pub(crate) fn check(path: &[&str], is_valued: bool) -> Result<(), String> {
    let (first, rest) = path.split_first().ok_or("want the name of a fact")?;
    if path.len() > PARTS_MAX {
        return Err(format!("a fact's name has {PARTS_MAX} parts at most, not {}", path.len()));
    }
    let one = Facts {
        disks: vec![DiskFacts::default()],
        links: vec![LinkFacts {
            addresses: vec![ipnet::IpNet::V4(ipnet::Ipv4Net::default())],
            neighbours: vec![NeighbourFacts {
                management: vec![[0, 0, 0, 0].into()],
                ..NeighbourFacts::default()
            }],
            ..LinkFacts::default()
        }],
        ..Facts::default()
    };
    let Some(value) = fact(&one, first) else {
        return Err(format!("unknown fact '{first}'{}", suggestion_or_all(first, &FACTS)));
    };
    let mut found = Vec::new();
    follow(&value, rest, true, &mut found);
    if found.iter().all(|value| is_valued && (value.is_object() || value.is_array())) {
        return Err(format!(
            "a server has no fact '{}': 'muster node facts' shows what it has",
            path.join(".")
        ));
    }
    Ok(())
}
