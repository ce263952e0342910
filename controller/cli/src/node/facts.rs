//! `muster node facts`, as tables.
//!
//! Absent: the names of facts in selectors and templates (`controller/template/src/fact.rs`).

use muster_api::node::{DiskView, FactsView, LinkFactsView, NeighbourView};
use serde_json::Value;

use crate::failure::Failure;
use crate::output::{Column, cell, fields, key, object, read, table, word};

const DISKS: [Column<DiskView>; 4] = [
    ("DISK", |disk| cell(&disk.name)),
    ("SIZE", |disk| cell(&disk.size)),
    ("MODEL", |disk| cell(&disk.model)),
    ("ROTATIONAL", |disk| cell(&disk.rotational)),
];

const LINKS: [Column<LinkFactsView>; 14] = [
    ("LINK", |link| cell(&link.name)),
    ("KIND", |link| cell(&link.kind)),
    ("MASTER", |link| cell(&link.master)),
    ("LOWER", |link| cell(&link.lower)),
    ("DRIVER", |link| cell(&link.driver)),
    ("PCI", |link| cell(&link.pci_address)),
    ("UP", |link| cell(&link.up)),
    ("CARRIER", |link| cell(&link.carrier)),
    ("SPEED", |link| cell(&link.speed)),
    ("MTU", |link| cell(&link.mtu)),
    ("MAC", |link| cell(&link.mac)),
    ("ADDRESSES", |link| cell(&link.addresses)),
    ("RX", |link| cell(&link.rx)),
    ("TX", |link| cell(&link.tx)),
];

/// The neighbour at the other end of each link.
const NEIGHBOURS: [Column<(String, NeighbourView)>; 7] = [
    ("LINK", |(link, _)| word(link)),
    ("NEIGHBOUR", |(_, neighbour)| cell(&neighbour.system_name)),
    ("PORT", |(_, neighbour)| cell(&neighbour.port_id)),
    ("DESCRIPTION", |(_, neighbour)| cell(&neighbour.port_description)),
    ("VLAN", |(_, neighbour)| cell(&neighbour.vlan)),
    ("CHASSIS", |(_, neighbour)| cell(&neighbour.chassis_id)),
    ("MANAGEMENT", |(_, neighbour)| cell(&neighbour.management_addresses)),
];

/// The first keys of facts, in addition to those of templates.
const FACTS: [&str; 12] = [
    key!(FactsView.name),
    key!(FactsView.told_at),
    key!(FactsView.age),
    "hostname",
    "os",
    "kernel",
    "architecture",
    "cpus",
    "cpu_model",
    "memory",
    key!(FactsView.booted_at),
    "agent_version",
];

/// Single facts, then what there are several of.
pub fn shown(answer: &Value) -> Result<String, Failure> {
    let FactsView { disks, links, .. } = read(answer)?;
    let mut own = object(answer);
    own.remove(key!(FactsView.disks));
    own.remove(key!(FactsView.links));
    let neighbours: Vec<(String, NeighbourView)> = links
        .iter()
        .flat_map(|link| link.neighbours.iter().map(|neighbour| (link.name.clone(), neighbour.clone())))
        .collect();
    Ok(fields(&FACTS, &own)
        + &section(&DISKS, &disks)
        + &section(&LINKS, &links)
        + &section(&NEIGHBOURS, &neighbours))
}

/// A table after a blank line, where there are rows.
fn section<T>(columns: &[Column<T>], rows: &[T]) -> String {
    if rows.is_empty() { String::new() } else { format!("\n{}", table(columns, rows)) }
}
