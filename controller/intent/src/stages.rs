//! Stages from the installed to the wanted rules, such that packets are neither lost nor sent in circles.
//!
//! ```text
//!   1. put new rules that get no packets yet ─▶ 2. change rules, from the last device back ─▶ 3. remove old rules
//! ```
//!
//! If an old and a new rule of a port take the same packets, as with another priority, they change
//! together like a changed treatment: in one write. A stage starts once the stage before is on all
//! its devices. If the changes cannot make a circle in any order, and none of their entries has an
//! open write, they are one stage. Otherwise packets that meet a changed rule meet only changed
//! rules from there on. New rules wait for those too if packets would reach the new rules at once.
//!
//! Absent: the writes of a stage, and what follows if one fails (`manager/move_rules.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::model::flow::{Action, Criterion, Entry, Field, Instruction, Output, Port, Rule};

use crate::topology::{DeviceNo, PortNo, Topology};

/// A step on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Put the entry, over one with its identity.
    Put(DeviceNo, Entry),
    /// Remove the entry.
    Remove(DeviceNo, Entry),
}

impl Step {
    /// The device and the identity of the entry.
    pub(crate) fn place(&self) -> (DeviceNo, Identity<'_>) {
        let (Self::Put(device, entry) | Self::Remove(device, entry)) = self;
        (*device, identity(entry))
    }
}

/// The part of an entry that identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Identity<'e> {
    Rule(u8, u16, &'e [Criterion]),
    Group(u32),
    Meter(u32),
}

/// Entries by device and identity.
type Entries<'e> = BTreeMap<(DeviceNo, Identity<'e>), &'e Entry>;

pub(crate) fn identity(entry: &Entry) -> Identity<'_> {
    match entry {
        Entry::Rule(rule) => Identity::Rule(rule.table, rule.priority, &rule.selector),
        Entry::Group(group) => Identity::Group(group.number),
        Entry::Meter(meter) => Identity::Meter(meter.number),
    }
}

fn by_identity(entries: &[(DeviceNo, Entry)]) -> Entries<'_> {
    entries.iter().map(|(device, entry)| ((*device, identity(entry)), entry)).collect()
}

/// The steps from `old` to `new`, stage by stage. Empty if they are the same. `perhaps` has entries
/// that devices may have for open writes, instead of the `old` entry or of none. Open writes of
/// entries in `new` have ended when the first stage starts.
pub fn stages(
    topology: &Topology,
    old: &[(DeviceNo, Entry)],
    perhaps: &[(DeviceNo, Entry)],
    new: &[(DeviceNo, Entry)],
) -> Vec<Vec<Step>> {
    let (old, also, new) = (by_identity(old), by_identity(perhaps), by_identity(new));
    let is_there = |at: &(DeviceNo, Identity<'_>)| old.contains_key(at) || also.contains_key(at);
    let comes: Vec<Placed<'_>> =
        new.iter().filter(|(at, _)| !is_there(at)).map(|(at, entry)| (at.0, *entry)).collect();
    let goes: Vec<Placed<'_>> =
        old.iter().filter(|(at, _)| !new.contains_key(at)).map(|(at, entry)| (at.0, *entry)).collect();
    let all: Vec<Placed<'_>> = new.iter().map(|(at, entry)| (at.0, *entry)).collect();
    let swapped = swaps(topology, &goes, &all);
    let put = |(device, entry): &Placed<'_>| Step::Put(*device, (*entry).clone());
    let remove = |(device, entry): &Placed<'_>| Step::Remove(*device, (*entry).clone());
    let is_alone = |it: &&Placed<'_>| !swapped.contains(&std::ptr::from_ref(it.1));
    let mut added: Vec<Placed<'_>> = comes.iter().filter(is_alone).copied().collect();
    let removed: Vec<Step> = goes.iter().filter(is_alone).map(remove).collect();
    let others = new.iter().filter(|(at, entry)| is_there(at) && old.get(at) != Some(*entry));
    let stays = new.iter().filter(|(at, entry)| old.get(at).is_some_and(|before| before == *entry));
    let stays = stays.map(|(at, entry)| (at.0, *entry));
    let mut changed: Vec<(Placed<'_>, Step)> = others
        .map(|(at, entry)| (at.0, *entry))
        .chain(comes.iter().filter(|it| !is_alone(it)).copied())
        // An unchanged rule that gets no packets while an old one takes them changes with that one.
        .chain(stays.filter(|it| !is_alone(&it)))
        .map(|it| (it, put(&it)))
        .chain(goes.iter().filter(|it| !is_alone(it)).map(|it| (*it, remove(it))))
        .collect();

    // A single port has its rules of before or of after: there is no state in between.
    let ports: BTreeSet<Option<PortNo>> =
        changed.iter().map(|((device, entry), _)| ingress(topology, *device, entry)).collect();
    let before = old.iter().map(|(at, entry)| (at.0, *entry));
    let before = before.chain(perhaps.iter().map(|(at, entry)| (*at, entry)));
    let mixed = ports.len() > 1 || (!changed.is_empty() && leads_to(topology, before.clone(), &added));
    let (onwards, unheard) = match mixed {
        true => {
            let unheard = Unheard::of(topology, before.clone(), &all);
            (Onwards::of(topology, all.iter().copied(), &Unheard::default()), unheard)
        }
        false => (Onwards(BTreeMap::new()), Unheard::default()),
    };
    // A device that answers late does so for later writes, too.
    let is_late = |((device, entry), _): &(Placed<'_>, Step)| also.contains_key(&(*device, identity(entry)));
    let is_ordered = mixed
        && (changed.iter().any(is_late)
            || unheard.is_vast()
            || leads_round(&[&Onwards::of(topology, before.clone(), &unheard), &onwards]));
    let comes_to_new = || {
        unheard.is_vast()
            || leads_round(&[&Onwards::of(topology, before.chain(added.iter().copied()), &unheard)])
    };
    if is_ordered && comes_to_new() {
        // Packets reach the new rules already, over rules of an earlier move.
        changed.extend(std::mem::take(&mut added).into_iter().map(|it| (it, put(&it))));
    }
    let mut stages = vec![added.iter().map(put).collect()];
    if is_ordered {
        let mut by_distance: BTreeMap<usize, Vec<Step>> = BTreeMap::new();
        for ((device, entry), step) in changed {
            by_distance.entry(onwards.distance(topology, device, entry)).or_default().push(step);
        }
        stages.extend(by_distance.into_values());
    } else {
        stages.push(changed.into_iter().map(|(_, step)| step).collect());
    }
    stages.push(removed);
    stages.retain(|stage| !stage.is_empty());
    stages
}

/// An entry and its device.
type Placed<'e> = (DeviceNo, &'e Entry);

/// New and old rules of one port for the same packets. Neither may be on the device alone,
/// whichever has the higher priority.
fn swaps(topology: &Topology, goes: &[Placed<'_>], comes: &[Placed<'_>]) -> BTreeSet<*const Entry> {
    let mut by_port: BTreeMap<PortNo, Vec<Placed<'_>>> = BTreeMap::new();
    for it in goes {
        if let Some(port) = ingress(topology, it.0, it.1) {
            by_port.entry(port).or_default().push(*it);
        }
    }
    let mut swapped = BTreeSet::new();
    for new in comes {
        let Some(port) = ingress(topology, new.0, new.1) else { continue };
        let old = by_port.get(&port).into_iter().flatten().filter(|old| overlap(old.1, new.1));
        let old: Vec<*const Entry> = old.map(|(_, entry)| std::ptr::from_ref(*entry)).collect();
        if !old.is_empty() {
            swapped.insert(std::ptr::from_ref(new.1));
            swapped.extend(old);
        }
    }
    swapped
}

/// Whether the entry takes packets of another one among these.
pub(crate) fn takes_packets_of(
    topology: &Topology,
    device: DeviceNo,
    entry: &Entry,
    others: &[(DeviceNo, Entry)],
) -> bool {
    let Some(port) = ingress(topology, device, entry) else { return false };
    let mut here = others.iter().filter(|(of, _)| *of == device);
    here.any(|(_, other)| {
        identity(other) != identity(entry)
            && ingress(topology, device, other) == Some(port)
            && overlap(entry, other)
    })
}

/// Whether a packet may match both rules of one port. The check for a VLAN tag in the selector
/// comes first.
fn overlap(one: &Entry, other: &Entry) -> bool {
    let (Entry::Rule(one), Entry::Rule(other)) = (one, other) else { return false };
    let asks = |criterion: &Criterion, asked: Field| matches!(criterion, Criterion::Field { field, .. } if *field == asked);
    let is_tagged = |rule: &Rule| rule.selector.iter().any(|criterion| asks(criterion, Field::VlanVid));
    if is_tagged(one) != is_tagged(other) {
        return false;
    }
    let differ = |criterion: &Criterion| {
        let Criterion::Field { field, value, mask } = criterion else { return false };
        other.selector.iter().any(|criterion| match criterion {
            Criterion::Field { field: same, value: its, mask: its_mask } if same == field => {
                let both = mask.unwrap_or(u128::MAX) & its_mask.unwrap_or(u128::MAX);
                value & both != its & both
            }
            Criterion::Field { .. } | Criterion::InPort(_) => false,
        })
    };
    !one.selector.iter().any(differ)
}

/// Pairs of ports that the search for a ring follows one by one.
const UNHEARD_MAX: usize = 100_000;

/// Ports of old rules whose cable no agent has reported since the controller started: the agent is
/// away, or the cable is cut. Each of these ports may lead to each of the others.
#[derive(Default)]
struct Unheard {
    out: BTreeSet<PortNo>,
    into: BTreeSet<PortNo>,
}

impl Unheard {
    /// Ports of `new` are left out: they have known cables or are ends, because the new path was
    /// found over them.
    fn of<'e>(topology: &Topology, before: impl Iterator<Item = Placed<'e>>, new: &[Placed<'_>]) -> Self {
        let has_cable = |port: &PortNo| {
            !topology.links_out_of(*port).is_empty() || !topology.links_into(*port).is_empty()
        };
        let mut found = Self::default();
        for (device, entry) in before {
            found.out.extend(outputs(topology, device, entry).filter(|port| !has_cable(port)));
            found.into.extend(ingress(topology, device, entry).filter(|port| !has_cable(port)));
        }
        for (device, entry) in new {
            for port in outputs(topology, *device, entry) {
                found.out.remove(&port);
            }
            if let Some(port) = ingress(topology, *device, entry) {
                found.into.remove(&port);
            }
        }
        found
    }

    /// Following so many pairs of ports takes too long. The caller assumes that packets go round.
    fn is_vast(&self) -> bool {
        self.out.len() * self.into.len() > UNHEARD_MAX
    }

    /// Ports where packets that leave by this port may come in.
    fn may_lead_to<'u>(&'u self, topology: &'u Topology, port: PortNo) -> impl Iterator<Item = PortNo> + 'u {
        let into = if self.out.contains(&port) { Some(&self.into) } else { None };
        let into = into.into_iter().flatten().copied();
        into.filter(move |far| topology.device_of(*far) != topology.device_of(port))
    }
}

/// For each port, the ports where its packets come in next.
struct Onwards(BTreeMap<PortNo, BTreeSet<PortNo>>);

impl Onwards {
    /// Includes all entries that may be installed.
    fn of<'e>(
        topology: &Topology,
        entries: impl Iterator<Item = Placed<'e>> + Clone,
        unheard: &Unheard,
    ) -> Self {
        let onto = |device, entry: &'e Entry| {
            let unheard = |port| unheard.may_lead_to(topology, port);
            onto(topology, device, entry).chain(outputs(topology, device, entry).flat_map(unheard))
        };
        let mut of_groups: BTreeMap<(DeviceNo, u32), Vec<PortNo>> = BTreeMap::new();
        for (device, entry) in entries.clone() {
            if let Entry::Group(group) = entry {
                of_groups.entry((device, group.number)).or_default().extend(onto(device, entry));
            }
        }
        let mut next: BTreeMap<PortNo, BTreeSet<PortNo>> = BTreeMap::new();
        for (device, entry) in entries {
            let Some(port) = ingress(topology, device, entry) else { continue };
            let next = next.entry(port).or_default();
            next.extend(onto(device, entry));
            next.extend(groups(entry).filter_map(|number| of_groups.get(&(device, number))).flatten());
        }
        Self(next)
    }

    /// Number of devices that packets pass after this entry, on the longest path. For a group it
    /// counts as for a rule that sends packets to it. Only called if there is no circle.
    fn distance(&self, topology: &Topology, device: DeviceNo, entry: &Entry) -> usize {
        let (mut reached, mut passed): (BTreeSet<PortNo>, _) = match ingress(topology, device, entry) {
            Some(port) => ([port].into(), 0),
            None => {
                let on: BTreeSet<PortNo> = onto(topology, device, entry).collect();
                let passed = usize::from(!on.is_empty());
                (on, passed)
            }
        };
        // At most as many rounds as there are ports.
        while passed <= self.0.len() {
            let next: BTreeSet<PortNo> =
                reached.iter().filter_map(|port| self.0.get(port)).flatten().copied().collect();
            if next.is_empty() {
                break;
            }
            reached = next;
            passed += 1;
        }
        passed
    }
}

/// Whether installed rules send packets to a port without a rule yet. The intent is then halfway
/// between two paths.
fn leads_to<'e>(
    topology: &Topology,
    mut before: impl Iterator<Item = Placed<'e>>,
    added: &[Placed<'_>],
) -> bool {
    let ports: BTreeSet<PortNo> =
        added.iter().filter_map(|(device, entry)| ingress(topology, *device, entry)).collect();
    let is_there = |(device, entry)| onto(topology, device, entry).any(|port| ports.contains(&port));
    !ports.is_empty() && before.any(is_there)
}

/// The actions of an entry.
pub(crate) fn actions(entry: &Entry) -> impl Iterator<Item = &Action> {
    let (rule, group) = match entry {
        Entry::Rule(rule) => (Some(rule), None),
        Entry::Group(group) => (None, Some(group)),
        Entry::Meter(_) => (None, None),
    };
    let own = rule.into_iter().flat_map(|rule| &rule.treatment).filter_map(|instruction| match instruction {
        Instruction::Do(action) => Some(action),
        Instruction::WriteActions(_)
        | Instruction::ClearActions
        | Instruction::GotoTable(_)
        | Instruction::Meter(_)
        | Instruction::WriteMetadata { .. } => None,
    });
    own.chain(group.into_iter().flat_map(|group| &group.buckets).flat_map(|bucket| &bucket.treatment))
}

/// The groups that an entry sends packets to.
fn groups(entry: &Entry) -> impl Iterator<Item = u32> {
    actions(entry).filter_map(|action| if let Action::Group(number) = action { Some(*number) } else { None })
}

/// The ports of other devices where packets that an entry sends out come in.
fn onto<'e>(topology: &'e Topology, device: DeviceNo, entry: &'e Entry) -> impl Iterator<Item = PortNo> + 'e {
    outputs(topology, device, entry).flat_map(|port| topology.may_lead_to(port))
}

/// The ports of its device by which an entry sends packets out.
pub(crate) fn outputs<'e>(
    topology: &'e Topology,
    device: DeviceNo,
    entry: &'e Entry,
) -> impl Iterator<Item = PortNo> + 'e {
    actions(entry).filter_map(move |action| {
        let Action::Output(Output::Port(port)) = action else { return None };
        named(topology, device, port)
    })
}

/// The port whose packets a rule takes.
pub(crate) fn ingress(topology: &Topology, device: DeviceNo, entry: &Entry) -> Option<PortNo> {
    let Entry::Rule(rule) = entry else { return None };
    let port = rule.selector.iter().find_map(|criterion| match criterion {
        Criterion::InPort(port) => Some(port),
        Criterion::Field { .. } => None,
    })?;
    named(topology, device, port)
}

fn named(topology: &Topology, device: DeviceNo, port: &Port) -> Option<PortNo> {
    let Port::Named(name) = port else { return None };
    topology.port_on(device, name)
}

/// Whether packets could go in a circle if each rule is of either of the two.
fn leads_round(both: &[&Onwards]) -> bool {
    let mut left: BTreeMap<PortNo, BTreeSet<PortNo>> = BTreeMap::new();
    for onwards in both {
        for (port, next) in &onwards.0 {
            left.entry(*port).or_default().extend(next);
        }
    }
    loop {
        let ends: BTreeSet<PortNo> = left
            .iter()
            .filter(|(_, next)| !next.iter().any(|port| left.contains_key(port)))
            .map(|(port, _)| *port)
            .collect();
        if left.is_empty() {
            return false;
        }
        if ends.is_empty() {
            return true;
        }
        left.retain(|port, _| !ends.contains(port));
    }
}
