//! A packet walks: from switch to switch by the rules that lie there, over cables as they are.

use std::collections::BTreeSet;

use muster_shared::model::flow::{
    Action, Criterion, Entry, Field, Group, Instruction, Output, Packed, Port, Rule,
};

use super::super::flow::Plane;
use super::super::world::World;
use super::fabric::{HOSTS, PRIORITY, cable_of};

/// Rules for packets of intents on a bridge.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The fingerprint of the rules that were read.
    print: u64,
    /// Highest first.
    rules: Vec<Rule>,
    groups: Vec<Group>,
    /// A rule drops all that comes in.
    pub is_cut: bool,
}

/// A port of a bridge, as a number and a name.
pub type Spot = (usize, Box<str>);

/// The fate of a packet.
#[derive(Debug, Default)]
pub struct Walk {
    /// Ports by which the packet is to go out, and goes no further.
    ends: BTreeSet<Spot>,
    /// Ports to hosts by which the packet went out.
    pub outs: BTreeSet<Spot>,
    /// Places where no rule was for the packet, or no cable.
    pub lost: BTreeSet<String>,
    /// The packet came to a place where it had been.
    pub round: Option<String>,
    /// The packet went out with a tag, or twice.
    pub odd: Option<String>,
}

/// A packet at a port that it came in by.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Packet {
    at: Spot,
    tags: Vec<u128>,
}

/// Nothing that packets of intents meet is larger.
const VISITS_MAX: usize = 4096;

/// Whether something lies where rules of intents do.
pub fn is_intents(packed: &Packed) -> bool {
    matches!(packed.unpack(), Entry::Rule(rule) if rule.table == 0 && is_ours(&rule))
}

fn is_ours(rule: &Rule) -> bool {
    rule.priority >= PRIORITY && rule.priority < u16::MAX
}

fn print_of(plane: Option<&Plane>) -> u64 {
    let held = plane.into_iter().flat_map(|plane| &plane.held);
    held.fold(0, |print: u64, (id, held)| {
        print.rotate_left(5).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ id.0 ^ held.number
    })
}

impl Rules {
    /// Reads them again where they changed.
    fn read(&mut self, plane: Option<&Plane>) {
        let print = print_of(plane);
        if std::mem::replace(&mut self.print, print) == print {
            return;
        }
        (self.rules, self.groups, self.is_cut) = (Vec::new(), Vec::new(), false);
        for held in plane.into_iter().flat_map(|plane| plane.held.values()) {
            self.is_cut |= held.cuts;
            match held.packed.unpack() {
                Entry::Rule(rule) if rule.table == 0 && is_ours(&rule) => self.rules.push(rule),
                Entry::Group(group) => self.groups.push(group),
                Entry::Rule(_) | Entry::Meter(_) => {}
            }
        }
        self.rules.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
    }

    /// Ports for hosts with rules for packets for an address that come in there.
    fn ingress(&self) -> impl Iterator<Item = (&'static str, u128)> + '_ {
        self.rules.iter().filter_map(|rule| {
            let (mut port, mut address) = (None, None);
            for criterion in &rule.selector {
                match criterion {
                    Criterion::InPort(Port::Named(name)) => {
                        port = HOSTS.into_iter().find(|host| *host == &**name);
                    }
                    Criterion::Field { field: Field::Ipv4Dst, value, .. } => address = Some(*value),
                    Criterion::InPort(_) | Criterion::Field { .. } => {}
                }
            }
            port.zip(address)
        })
    }

    fn find(&self, packet: &Packet, address: u128) -> Option<&Rule> {
        let matches = |criterion: &Criterion| match criterion {
            Criterion::InPort(Port::Named(name)) => **name == *packet.at.1,
            Criterion::Field { field: Field::VlanVid, value, .. } => packet.tags.last() == Some(value),
            Criterion::Field { field: Field::Ipv4Dst, value, .. } => {
                packet.tags.is_empty() && *value == address
            }
            Criterion::Field { .. } => packet.tags.is_empty(),
            Criterion::InPort(_) => false,
        };
        self.rules.iter().find(|rule| rule.selector.iter().all(matches))
    }
}

impl World {
    /// Looks at what lies on all bridges; a number that stands for that, and for the cables.
    pub(super) fn reads_planes(&mut self) -> u64 {
        let mut print = 0u64;
        for device in 0..self.network.fabric.devices.len() {
            let at = self.machine_of(device);
            let bridge = self.network.fabric.devices[device].bridge.as_str();
            let plane = at.and_then(|at| self.machines[at].host.switch.planes.get(bridge));
            let rules = &mut self.network.rules[device];
            rules.read(plane);
            print = print.rotate_left(7) ^ rules.print;
        }
        print ^ self.network.turn.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Whether a rule that cuts a server off lies somewhere.
    pub(super) fn is_dropped_somewhere(&self) -> bool {
        self.network.rules.iter().any(|rules| rules.is_cut)
    }

    /// Returns the ports by which packets come in, with their address.
    pub(super) fn ingresses(&self) -> BTreeSet<(Spot, u128)> {
        let all = self.network.rules.iter().enumerate();
        all.flat_map(|(device, rules)| rules.ingress().map(move |(port, to)| ((device, port.into()), to)))
            .collect()
    }

    /// A packet for an address comes in. What goes out at one of these ends has arrived, whatever is behind: also at the
    /// port of a cable of which nobody knew when it was asked for.
    pub(super) fn walks(&self, from: Spot, address: u128, ends: &BTreeSet<Spot>) -> Walk {
        let mut walk = Walk { ends: ends.clone(), ..Walk::default() };
        let mut visits = 0;
        self.goes_on(
            &Packet { at: from, tags: Vec::new() },
            address,
            &mut Vec::new(),
            &mut walk,
            &mut visits,
        );
        walk
    }

    fn goes_on(
        &self,
        packet: &Packet,
        address: u128,
        way: &mut Vec<Packet>,
        walk: &mut Walk,
        visits: &mut usize,
    ) {
        *visits += 1;
        if way.contains(packet) || *visits > VISITS_MAX {
            let shown: Vec<String> =
                way.iter().chain([packet]).map(|it| format!("{}:{}", it.at.0, it.at.1)).collect();
            walk.round = Some(shown.join(" "));
        }
        if walk.round.is_some() {
            return;
        }
        let rules = &self.network.rules[packet.at.0];
        let Some(rule) = rules.find(packet, address) else {
            walk.lost.insert(format!("device {}, in by {}", packet.at.0, packet.at.1));
            return;
        };
        way.push(packet.clone());
        let mut tags = packet.tags.clone();
        for action in self.actions(packet.at.0, rule) {
            match action {
                Action::PushVlan(_) => tags.push(0),
                Action::Set { field: Field::VlanVid, value, .. } => {
                    if let Some(tag) = tags.last_mut() {
                        *tag = value;
                    }
                }
                Action::PopVlan => drop(tags.pop()),
                Action::Output(Output::Port(Port::Named(port))) => {
                    self.goes_out((packet.at.0, port), &tags, address, way, walk, visits);
                }
                _ => {}
            }
        }
        way.pop();
    }

    fn goes_out(
        &self,
        out: Spot,
        tags: &[u128],
        address: u128,
        way: &mut Vec<Packet>,
        walk: &mut Walk,
        visits: &mut usize,
    ) {
        let (device, port) = &out;
        let Some(cable) = cable_of(port).filter(|_| !walk.ends.contains(&out)) else {
            if !tags.is_empty() || walk.outs.contains(&out) {
                walk.odd = Some(format!("out of device {device} at {port} with {tags:?}"));
            }
            walk.outs.insert(out);
            return;
        };
        let ends = self.network.fabric.cables.get(cable);
        let Some((ends, end)) = ends.and_then(|ends| Some((ends, ends.iter().position(|it| it == device)?)))
        else {
            walk.lost.insert(format!("device {device} has no port {port}"));
            return;
        };
        if !self.passes(cable, end) {
            walk.lost.insert(format!("cable {cable} from device {device}"));
            return;
        }
        let next = Packet { at: (ends[1 - end], port.clone()), tags: tags.to_vec() };
        self.goes_on(&next, address, way, walk, visits);
    }

    fn actions(&self, device: usize, rule: &Rule) -> Vec<Action> {
        let mut actions = Vec::new();
        for instruction in &rule.treatment {
            match instruction {
                Instruction::Do(Action::Group(number)) => actions.extend(self.bucket(device, *number)),
                Instruction::Do(action) => actions.push(action.clone()),
                _ => {}
            }
        }
        actions
    }

    /// Returns the actions of a fast-failover group: those of the first bucket whose port carries.
    fn bucket(&self, device: usize, number: u32) -> Vec<Action> {
        let rules = &self.network.rules[device];
        let group = rules.groups.iter().find(|group| group.number == number);
        let is_live = |port: &Option<Port>| match port {
            Some(Port::Named(name)) => self.is_port_up(device, name),
            _ => false,
        };
        let live = group.and_then(|group| group.buckets.iter().find(|it| is_live(&it.watch_port)));
        live.map(|bucket| bucket.treatment.clone()).unwrap_or_default()
    }
}
