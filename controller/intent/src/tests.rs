//! A network for tests, and packets that walk through it.

mod affected_intents;
mod compile;
mod hosts;
mod manager;
mod moves;
mod path;
mod random;
mod reservations;
mod site;
mod stages;
mod trace;

use std::collections::BTreeSet;

use muster_shared::model::flow::{Action, Criterion, Entry, Field, Instruction, Output, Port};

use crate::intent::{Constraints, Intent, Kind};
use crate::stages::Step;
use crate::topology::{ConnectPoint, DeviceNo, LinkNo, LinkTraits, Topology};

/// The point of a text: `s1:h` is the port `h` of the device `s1/br0`.
fn at(text: &str) -> ConnectPoint {
    let (device, port) = text.split_once(':').expect("DEVICE:PORT");
    ConnectPoint { device: format!("{device}/br0").parse().expect("a device"), port: port.into() }
}

/// A network of cables, each `A-B` with or without a cost (`A-B=3`). A port has the name of the
/// device at the other end. Each device also has the ports `h1` and `h2`.
fn network(cables: &str) -> Topology {
    let mut topology = Topology::default();
    for cable in cables.split_whitespace() {
        let (ends, cost) = cable.split_once('=').unwrap_or((cable, "1"));
        let (one, other) = ends.split_once('-').expect("A-B");
        for device in [one, other] {
            for port in ["h1", "h2"] {
                up(&mut topology, &at(&format!("{device}:{port}")));
            }
        }
        let [one, other] = [(one, other), (other, one)].map(|(a, b)| at(&format!("{a}:{b}")));
        for (from, to) in [(&one, &other), (&other, &one)] {
            up(&mut topology, from);
            let traits = LinkTraits { cost: cost.parse().expect("a cost"), ..LinkTraits::default() };
            topology.declare(from, to, traits).expect("a link");
        }
    }
    topology.take_changes();
    topology
}

fn up(topology: &mut Topology, point: &ConnectPoint) {
    topology.set_device(&point.device, true).expect("a device");
    topology.set_port(point, true).expect("a port");
}

/// The link from one device to another.
fn link(topology: &Topology, from: &str, to: &str) -> LinkNo {
    topology.link(&at(&format!("{from}:{to}")), &at(&format!("{to}:{from}"))).expect("a link")
}

fn traits(topology: &mut Topology, from: &str, to: &str, change: impl FnOnce(&mut LinkTraits)) {
    let number = link(topology, from, to);
    let mut traits = topology.traits(number);
    change(&mut traits);
    topology.declare(&at(&format!("{from}:{to}")), &at(&format!("{to}:{from}")), traits).expect("a link");
}

/// A path as its devices: `s1 s2 s3`.
fn shown(topology: &Topology, path: &[LinkNo]) -> String {
    let name = |device| topology.device_name(device).node.to_string();
    let mut names: Vec<String> =
        path.first().map(|link| name(topology.devices_of(*link).0)).into_iter().collect();
    names.extend(path.iter().map(|link| name(topology.devices_of(*link).1)));
    names.join(" ")
}

fn from_to(from: &str, to: &str, constraints: Constraints) -> Intent {
    Intent {
        kind: Kind::PointToPoint { from: at(from), to: at(to) },
        priority: 100,
        selector: vec![Criterion::Field { field: Field::EthType, value: 0x0800, mask: None }],
        treatment: Vec::new(),
        constraints,
    }
}

/// The entries of a fake data plane.
#[derive(Clone, Default)]
struct Plane(Vec<(DeviceNo, Entry)>);

/// The end of a packet.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// The packet went out at these points, once at each. The port where it came in is not among them.
    Out(BTreeSet<String>),
    /// No rule of this device matched the packet.
    Lost(String),
    /// The packet came to a port a second time.
    Round,
    /// The packet went out twice at this port.
    Twice(String),
}

impl Plane {
    fn is_same(a: &Entry, b: &Entry) -> bool {
        match (a, b) {
            (Entry::Rule(a), Entry::Rule(b)) => {
                (a.table, a.priority, &a.selector) == (b.table, b.priority, &b.selector)
            }
            (Entry::Group(a), Entry::Group(b)) => a.number == b.number,
            _ => false,
        }
    }

    fn apply(&mut self, step: &Step) {
        let (Step::Put(device, entry) | Step::Remove(device, entry)) = step;
        self.0.retain(|(at, held)| at != device || !Self::is_same(held, entry));
        if let Step::Put(..) = step {
            self.0.push((*device, entry.clone()));
        }
    }

    /// Walks an IPv4 packet that comes in at a point.
    fn walk(&self, topology: &Topology, from: &ConnectPoint) -> Fate {
        self.walk_to(topology, from, 0)
    }

    /// Walks a packet for this address.
    fn walk_to(&self, topology: &Topology, from: &ConnectPoint, address: u128) -> Fate {
        let (mut outs, mut twice) = (BTreeSet::new(), None);
        // A packet at a port, with its VLAN tags and the ports that it has passed.
        let mut left = vec![(from.clone(), Vec::<u128>::new(), Vec::new())];
        while let Some((point, tags, mut way)) = left.pop() {
            if way.contains(&(point.clone(), tags.clone())) {
                return Fate::Round;
            }
            way.push((point.clone(), tags.clone()));
            let device = topology.device(&point.device).expect("a device");
            let Some(actions) = self.actions(topology, device, &point, &tags, address) else {
                return Fate::Lost(point.device.node.to_string());
            };
            let mut now = tags;
            for action in actions {
                match action {
                    Action::PushVlan(_) => now.push(0),
                    Action::Set { field: Field::VlanVid, value, .. } => {
                        *now.last_mut().expect("a tag") = value
                    }
                    Action::PopVlan => assert!(now.pop().is_some()),
                    Action::Output(Output::Port(Port::Named(port))) => {
                        let out = ConnectPoint { device: point.device.clone(), port };
                        match topology.neighbour(topology.port(&out).expect("a port")) {
                            Some(next) => {
                                let link = topology.link(&out, &topology.point(next)).expect("a link");
                                if topology.passes(link) {
                                    left.push((topology.point(next), now.clone(), way.clone()));
                                }
                            }
                            None => {
                                assert!(now.is_empty(), "a tag goes out at {out}");
                                if !outs.insert(format!("{}:{}", out.device.node, out.port)) {
                                    twice = Some(out.to_string());
                                }
                            }
                        }
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        twice.map_or(Fate::Out(outs), Fate::Twice)
    }

    fn actions(
        &self,
        topology: &Topology,
        device: DeviceNo,
        point: &ConnectPoint,
        tags: &[u128],
        address: u128,
    ) -> Option<Vec<Action>> {
        let matches = |criterion: &Criterion| match criterion {
            Criterion::InPort(port) => *port == point.of_rule(),
            Criterion::Field { field: Field::VlanVid, value, .. } => tags.last() == Some(value),
            Criterion::Field { field: Field::Ipv4Dst, value, .. } => tags.is_empty() && *value == address,
            Criterion::Field { .. } => tags.is_empty(),
        };
        let here = self.0.iter().filter(|(at, _)| *at == device).filter_map(|(_, entry)| match entry {
            Entry::Rule(rule) if rule.selector.iter().all(matches) => Some(rule),
            _ => None,
        });
        let rule = here.max_by_key(|rule| rule.priority)?;
        let mut actions = Vec::new();
        for instruction in &rule.treatment {
            let Instruction::Do(action) = instruction else { panic!("{instruction:?}") };
            match action {
                Action::Group(number) => actions.extend(self.bucket(topology, device, *number)?),
                action => actions.push(action.clone()),
            }
        }
        Some(actions)
    }

    /// The first bucket of a fast failover group whose port is up.
    fn bucket(&self, topology: &Topology, device: DeviceNo, number: u32) -> Option<Vec<Action>> {
        let group = self.0.iter().find_map(|(at, entry)| match entry {
            Entry::Group(group) if *at == device && group.number == number => Some(group),
            _ => None,
        })?;
        let is_live = |port: &Port| {
            let Port::Named(name) = port else { return false };
            let point = ConnectPoint { device: topology.device_name(device).clone(), port: name.clone() };
            topology.port(&point).is_some_and(|port| topology.is_up(port))
        };
        let live = group.buckets.iter().find(|bucket| bucket.watch_port.as_ref().is_some_and(is_live))?;
        Some(live.treatment.clone())
    }
}
