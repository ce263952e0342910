//! From what is installed to what is wanted, without a moment in which packets are lost or go round.
//!
//! ```text
//!   1. what is new, where no packet comes yet      2. what changes, from the last device back      3. what is no longer wanted
//! ```
//!
//! A rule that takes packets of one that goes, as with another priority, changes that port as much as another treatment does:
//! both are one write. A stage begins when the one before is on all of its devices. Where changes cannot lead round, whatever
//! is done first, and none of their places has a write on its way, they are one stage; else packets that meet a changed rule
//! meet changed rules from there on, and what is new waits for those too if it leads to them at once.

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::model::flow::{Action, Criterion, Entry, Field, Instruction, Output, Port, Rule};

use crate::topology::{DeviceNo, PortNo, Topology};

/// What is done on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is put there, over one with its identity.
    Put(DeviceNo, Entry),
    /// It is taken away.
    Remove(DeviceNo, Entry),
}

impl Step {
    /// Which entry of which device.
    pub(crate) fn place(&self) -> (DeviceNo, Identity<'_>) {
        let (Self::Put(device, entry) | Self::Remove(device, entry)) = self;
        (*device, identity(entry))
    }
}

/// What of an entry makes it the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Identity<'e> {
    Rule(u8, u16, &'e [Criterion]),
    Group(u32),
    Meter(u32),
}

/// Entries by their places.
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

/// What is to be done, stage by stage; nothing where both are the same. `perhaps`: what devices may have in the places of
/// writes that are on their way, instead of what is `old` there, or of nothing; those that put what is `new` are over when the
/// first stage begins.
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
        // One that is there, and gets no packet as long as what goes takes them, is waited for with that.
        .chain(stays.filter(|it| !is_alone(&it)))
        .map(|it| (it, put(&it)))
        .chain(goes.iter().filter(|it| !is_alone(it)).map(|it| (*it, remove(it))))
        .collect();

    // One port alone is of before or of after: there is nothing between.
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
    // A device that answers late does so late for what comes after, too.
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
        // Packets come there already, over what an earlier move has put.
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

/// What is wanted and what goes at one port for the same packets: whichever has the higher priority, neither may be there
/// alone.
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

/// Whether an entry is for packets of one of these, which is another.
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

/// Whether some packet is for both rules of one port. Tagged ones and others are told apart by the rule before.
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

/// Pairs of ports that are followed one by one.
const UNHEARD_MAX: usize = 100_000;

/// Cables between rules of before that no agent has told of since the controller started: the cable of an agent that is
/// away, or one that is cut. Each of these ports may lead to each of the others.
#[derive(Default)]
struct Unheard {
    out: BTreeSet<PortNo>,
    into: BTreeSet<PortNo>,
}

impl Unheard {
    /// The ports of `new` have known cables, or are ends: the new way was found over them.
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

    /// There are so many that packets are taken to go round: to follow all of them would take too long.
    fn is_vast(&self) -> bool {
        self.out.len() * self.into.len() > UNHEARD_MAX
    }

    /// Where packets may come in that leave by this port.
    fn may_lead_to<'u>(&'u self, topology: &'u Topology, port: PortNo) -> impl Iterator<Item = PortNo> + 'u {
        let into = if self.out.contains(&port) { Some(&self.into) } else { None };
        let into = into.into_iter().flatten().copied();
        into.filter(move |far| topology.device_of(*far) != topology.device_of(port))
    }
}

/// Which ports packets come in by next, by the port that they come in by.
struct Onwards(BTreeMap<PortNo, BTreeSet<PortNo>>);

impl Onwards {
    /// Of all that may be there.
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

    /// Devices that packets still pass after this entry, on the longest way; of a group as of a rule that hands packets to it. Only
    /// asked where nothing leads round.
    fn distance(&self, topology: &Topology, device: DeviceNo, entry: &Entry) -> usize {
        let (mut reached, mut passed): (BTreeSet<PortNo>, _) = match ingress(topology, device, entry) {
            Some(port) => ([port].into(), 0),
            None => {
                let on: BTreeSet<PortNo> = onto(topology, device, entry).collect();
                let passed = usize::from(!on.is_empty());
                (on, passed)
            }
        };
        // As many rounds as there are ports, at most.
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

/// Whether what is there sends packets to where there is nothing yet: so it is halfway from one way to another.
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

/// What an entry does with packets.
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

/// The groups that it hands packets to.
fn groups(entry: &Entry) -> impl Iterator<Item = u32> {
    actions(entry).filter_map(|action| if let Action::Group(number) = action { Some(*number) } else { None })
}

/// The ports at other devices by which packets come in that an entry itself sends out.
fn onto<'e>(topology: &'e Topology, device: DeviceNo, entry: &'e Entry) -> impl Iterator<Item = PortNo> + 'e {
    outputs(topology, device, entry).flat_map(|port| topology.may_lead_to(port))
}

/// The ports of its device by which an entry itself sends packets out.
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

/// The port whose packets a rule is for.
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

/// Whether packets could go round where some rules are of one and some of the other.
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
