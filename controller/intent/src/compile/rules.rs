//! Makes the rules of a path: what each device matches, its outputs, VLAN labels, and rules that
//! keep LLDP from being forwarded.
//!
//! Absent: the order in which rules change (`stages.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::model::flow::{Action, Criterion, Entry, Field, Instruction, Output, Port, Rule};

use crate::intent::Intent;
use crate::topology::{DeviceNo, PortNo, Topology};

/// The first table that packets enter.
const TABLE: u8 = 0;
/// EtherType of a VLAN tag.
const VLAN: u16 = 0x8100;
/// The bits of the VLAN id.
const VLAN_IDS: u128 = 0x0fff;
/// The bit that says that there is a tag.
const TAGGED: u128 = 0x1000;

/// Outputs for packets of one port: unchanged to the ports of links (`on`), and treated to end
/// ports (`out`).
#[derive(Debug, Default)]
pub(super) struct Fork {
    pub on: BTreeSet<PortNo>,
    pub out: BTreeSet<PortNo>,
}

/// Forks by ingress port.
pub(super) type Forks = BTreeMap<PortNo, Fork>;

/// A rule for each ingress port.
pub(super) fn of_forks(topology: &Topology, intent: &Intent, forks: &Forks) -> Vec<(DeviceNo, Entry)> {
    let rule = |(port, fork): (&PortNo, &Fork)| {
        // Unchanged packets leave first; the treatment and the end ports follow.
        let mut actions: Vec<Action> = fork.on.iter().map(|port| output(topology, *port)).collect();
        if !fork.out.is_empty() {
            actions.extend(intent.treatment.iter().cloned());
            actions.extend(fork.out.iter().map(|port| output(topology, *port)));
        }
        (topology.device_of(*port), entry(topology, intent, *port, intent.selector.clone(), actions))
    };
    forks.iter().map(rule).collect()
}

/// A rule for packets of a port.
pub(super) fn entry(
    topology: &Topology,
    intent: &Intent,
    port: PortNo,
    mut selector: Vec<Criterion>,
    actions: Vec<Action>,
) -> Entry {
    selector.push(Criterion::InPort(topology.port_of_rule(port)));
    selector.sort();
    let treatment = actions.into_iter().map(Instruction::Do).collect();
    let priority = intent.priority;
    Entry::Rule(Rule { table: TABLE, priority, selector, treatment, idle_timeout: 0, hard_timeout: 0 })
}

/// Output by a port.
pub(super) fn output(topology: &Topology, port: PortNo) -> Action {
    Action::Output(Output::Port(topology.port_of_rule(port)))
}

/// Adds a tag with the label, then output by a port of the path.
pub(super) fn tagged(topology: &Topology, port: PortNo, label: u16) -> Vec<Action> {
    let value = TAGGED | u128::from(label);
    let tag = Action::Set { field: Field::VlanVid, value, mask: None };
    vec![Action::PushVlan(VLAN), tag, output(topology, port)]
}

/// Matches packets with this label.
pub(super) fn labelled(label: u16) -> Criterion {
    Criterion::Field { field: Field::VlanVid, value: TAGGED | u128::from(label), mask: None }
}

/// The VLAN id that a selector asks for.
pub(crate) fn vlan(selector: &[Criterion]) -> Option<u16> {
    selector.iter().find_map(|criterion| match criterion {
        Criterion::Field { field: Field::VlanVid, value, mask } => vlan_id(*value, *mask),
        Criterion::Field { .. } | Criterion::InPort(_) => None,
    })
}

/// The VLAN id that an action sets.
pub(crate) fn vlan_set(action: &Action) -> Option<u16> {
    let Action::Set { field: Field::VlanVid, value, mask } = action else { return None };
    vlan_id(*value, *mask)
}

fn vlan_id(value: u128, mask: Option<u128>) -> Option<u16> {
    let is_one = value & TAGGED != 0 && mask.is_none_or(|mask| mask & VLAN_IDS == VLAN_IDS);
    u16::try_from(value & VLAN_IDS).ok().filter(|_| is_one)
}

/// The port as rules name it.
pub(super) fn port(topology: &Topology, port: PortNo) -> Port {
    topology.port_of_rule(port)
}

/// EtherType of LLDP, and the group address that no bridge forwards.
const LLDP: u128 = 0x88cc;
const NEAREST_BRIDGE: u128 = 0x0180_c200_000e;

/// A rule that takes any frame of its port would forward LLDP, and the next port would hear two
/// neighbours. A rule above it drops LLDP. It is told from others by the rule that it is above.
pub(super) fn keeping_lldp(entries: &[(DeviceNo, Entry)]) -> Vec<(DeviceNo, Entry)> {
    let keeper = |(device, entry): &(DeviceNo, Entry)| {
        let Entry::Rule(rule) = entry else { return None };
        if !takes_lldp(&rule.selector) {
            return None;
        }
        let added = [Field::EthDst, Field::EthType];
        let other = |criterion: &&Criterion| !matches!(criterion, Criterion::Field { field, .. } if added.contains(field));
        let mut selector: Vec<Criterion> = rule.selector.iter().filter(other).cloned().collect();
        let field = |field, value| Criterion::Field { field, value, mask: None };
        selector.extend([field(Field::EthDst, NEAREST_BRIDGE), field(Field::EthType, LLDP)]);
        selector.sort();
        let priority = rule.priority.saturating_add(1);
        Some((*device, Entry::Rule(Rule { priority, selector, treatment: Vec::new(), ..rule.clone() })))
    };
    entries.iter().filter_map(keeper).collect()
}

/// Whether the selector takes LLDP frames, which have no VLAN tag.
pub(crate) fn takes_lldp(selector: &[Criterion]) -> bool {
    selector.iter().all(|criterion| match criterion {
        Criterion::Field { field: Field::EthType, value, .. } => *value == LLDP,
        Criterion::Field { field: Field::EthDst, value, mask } => {
            NEAREST_BRIDGE & mask.unwrap_or(u128::MAX) == *value
        }
        Criterion::Field { field: Field::VlanVid, value, .. } => value & TAGGED == 0,
        Criterion::InPort(_) | Criterion::Field { .. } => true,
    })
}
