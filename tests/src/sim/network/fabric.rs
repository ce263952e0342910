//! The bridges, cables and hosts of a site, and the intents that operators ask of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use muster_intent::intent::{Constraints, Intent, Kind};
use muster_intent::manager::Wish;
use muster_intent::topology::ConnectPoint;
use muster_shared::model::flow::{Action, Criterion, DeviceName, Field};

use super::super::dice::Dice;
use super::super::flow::{MANAGEMENT, OTHER, device};

/// Ports of a bridge that lead to no other.
pub const HOSTS: [&str; 2] = ["h1", "h2"];
/// Bits per second that a link is said to carry.
pub const CAPACITY: u64 = 100;
/// Rules of intents lie above those of operators and stacks.
pub const PRIORITY: u16 = 1000;
/// `10.9.0.0`, whose addresses are those of intents.
const ADDRESSES: u128 = 0x0a09_0000;
/// The most nodes with bridges: more would only take longer.
const NODES_MAX: usize = 8;

/// Bridges and cables as they are meant to be.
#[derive(Debug, Default)]
pub struct Fabric {
    pub devices: Vec<DeviceName>,
    /// The bridges at the two ends of each cable. Its ports have its number.
    pub cables: Vec<[usize; 2]>,
}

/// The port of a cable.
pub fn cable_port(cable: usize) -> String {
    format!("c{cable}")
}

/// The cable of a port.
pub fn cable_of(port: &str) -> Option<usize> {
    port.strip_prefix('c')?.parse().ok()
}

impl Fabric {
    /// A ring, one with a chord, leaves and spines, anything connected, or nothing.
    pub fn new(dice: &mut Dice, nodes: usize) -> Self {
        if nodes < 3 || dice.one_in(4) {
            return Self::default();
        }
        let count = 3 + dice.index(nodes.min(NODES_MAX) - 2);
        let name = |node: usize, bridge| device(&format!("node-{node}"), bridge);
        let bridges: Vec<&str> =
            (0..count).map(|_| if dice.one_in(4) { MANAGEMENT } else { OTHER }).collect();
        let mut devices: Vec<DeviceName> = (0..count).map(|node| name(node, bridges[node])).collect();
        let mut cables = Vec::new();
        match dice.below(4) {
            shape @ (0 | 1) => {
                cables.extend((0..count).map(|at| [at, (at + 1) % count]));
                if shape == 1 && count > 3 {
                    cables.push([0, count / 2]);
                }
            }
            2 => {
                let spines = if count > 3 { 2 } else { 1 };
                cables.extend((spines..count).flat_map(|leaf| (0..spines).map(move |spine| [leaf, spine])));
            }
            _ => {
                // Also both bridges of a server.
                for (node, bridge) in bridges.iter().enumerate() {
                    if dice.one_in(4) {
                        devices.push(name(node, if *bridge == OTHER { MANAGEMENT } else { OTHER }));
                    }
                }
                cables.extend((1..devices.len()).map(|at| [at, dice.index(at)]));
                for _ in 0..dice.index(devices.len()) {
                    let [one, other] = [(); 2].map(|()| dice.index(devices.len()));
                    // Two cables between two bridges as well.
                    if one != other {
                        cables.push([one, other]);
                    }
                }
            }
        }
        Self { devices, cables }
    }

    /// A port for hosts.
    fn host(&self, dice: &mut Dice, device: usize) -> ConnectPoint {
        let port = *dice.pick(&HOSTS);
        ConnectPoint { device: self.devices[device].clone(), port: port.into() }
    }

    /// A direction of a cable, from this end of it.
    pub fn link(&self, cable: usize, end: usize) -> (ConnectPoint, ConnectPoint) {
        let [from, to] = [end, 1 - end].map(|end| ConnectPoint {
            device: self.devices[self.cables[cable][end]].clone(),
            port: cable_port(cable).into(),
        });
        (from, to)
    }

    /// Bridges that are reached from one over cables of which this is so, with the cable and its end that led there.
    pub fn reached(
        &self,
        from: usize,
        passes: impl Fn(usize, usize) -> bool,
    ) -> BTreeMap<usize, Option<(usize, usize)>> {
        let mut reached = BTreeMap::from([(from, None)]);
        let mut left = VecDeque::from([from]);
        while let Some(at) = left.pop_front() {
            for (cable, ends) in self.cables.iter().enumerate() {
                for (end, there) in [(0, ends[1]), (1, ends[0])] {
                    if ends[end] == at && !reached.contains_key(&there) && passes(cable, end) {
                        reached.insert(there, Some((cable, end)));
                        left.push_back(there);
                    }
                }
            }
        }
        reached
    }

    fn some_devices(&self, dice: &mut Dice, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.devices.len()).collect();
        for at in 0..count.min(all.len()) {
            let other = at + dice.index(all.len() - at);
            all.swap(at, other);
        }
        all.truncate(count);
        all
    }

    /// Draws an intent for key number `key`. `any`: also one that this network cannot have.
    pub fn wish(&self, dice: &mut Dice, key: usize, any: bool) -> Wish {
        let kind = match dice.below(20) {
            0..12 => self.point_to_point(dice),
            12..15 => {
                let count = 2 + dice.index(2);
                let (from, to) = self.one_and_many(dice, count);
                Kind::SinglePointToMultiPoint { from, to }
            }
            15..18 => {
                let count = 2 + dice.index(2);
                let (to, from) = self.one_and_many(dice, count);
                Kind::MultiPointToSinglePoint { from, to }
            }
            _ => self.collection(dice),
        };
        let constraints = self.constraints(dice, &kind);
        // An intent stays in its group: what it holds would stay under the old one's name until it moves.
        let group = key.is_multiple_of(3).then(|| "g0".into());
        let treatment = match dice.below(3) {
            0 => vec![Action::Set { field: Field::EthDst, value: 0x5254_0000_0001, mask: None }],
            _ => Vec::new(),
        };
        let priority = PRIORITY + u16::try_from(dice.below(2)).unwrap_or_default();
        let selector = vec![
            Criterion::Field { field: Field::EthType, value: 0x0800, mask: None },
            Criterion::Field { field: Field::Ipv4Dst, value: address(key), mask: None },
        ];
        let mut intent = Intent { kind, priority, selector, treatment, constraints };
        if any {
            self.spoils(dice, &mut intent);
        }
        Wish { intent: Arc::new(intent), group }
    }

    /// Once in a while it cannot be: in any network, or in this one.
    fn spoils(&self, dice: &mut Dice, intent: &mut Intent) {
        let Kind::PointToPoint { from, to } = &mut intent.kind else { return };
        match dice.below(40) {
            0 => *to = from.clone(),
            1 => to.device = device("ghost", OTHER),
            2 => to.port = cable_port(0).into(),
            3 => to.port = "h9".into(),
            _ => {}
        }
    }

    fn point_to_point(&self, dice: &mut Dice) -> Kind {
        let [from, to] = self.some_devices(dice, 2)[..] else { unreachable!("there are at least three") };
        let (from, to) = (self.host(dice, from), self.host(dice, to));
        if dice.one_in(12) {
            // On one bridge.
            let other = if &*from.port == HOSTS[0] { HOSTS[1] } else { HOSTS[0] };
            return Kind::PointToPoint {
                to: ConnectPoint { device: from.device.clone(), port: other.into() },
                from,
            };
        }
        Kind::PointToPoint { from, to }
    }

    fn one_and_many(&self, dice: &mut Dice, many: usize) -> (ConnectPoint, Vec<ConnectPoint>) {
        let devices = self.some_devices(dice, 1 + many);
        let mut points = devices.into_iter().map(|device| self.host(dice, device)).collect::<Vec<_>>();
        let one = points.remove(0);
        (one, points)
    }

    /// The links of some path.
    fn collection(&self, dice: &mut Dice) -> Kind {
        let [from, to] = self.some_devices(dice, 2)[..] else { unreachable!("there are at least three") };
        let reached = self.reached(from, |_, _| true);
        let (mut links, mut at) = (Vec::new(), to);
        while let Some(Some((cable, end))) = reached.get(&at) {
            links.push(self.link(*cable, *end));
            at = self.cables[*cable][*end];
        }
        links.reverse();
        Kind::LinkCollection { links, from: vec![self.host(dice, from)], to: vec![self.host(dice, to)] }
    }

    fn constraints(&self, dice: &mut Dice, kind: &Kind) -> Constraints {
        let mut wanted = Constraints::default();
        if dice.one_in(4) {
            wanted.bandwidth = Some(*dice.pick(&[30, 40, 60]));
        }
        let is_multi =
            matches!(kind, Kind::SinglePointToMultiPoint { .. } | Kind::MultiPointToSinglePoint { .. });
        wanted.partial_failure = is_multi && dice.one_in(2);
        let ends: BTreeSet<&DeviceName> =
            kind.ingress().iter().chain(kind.egress()).map(|point| &point.device).collect();
        let others: Vec<&DeviceName> = self.devices.iter().filter(|it| !ends.contains(it)).collect();
        if matches!(kind, Kind::LinkCollection { .. }) {
            return wanted;
        }
        if dice.one_in(12) {
            let (cable, end) = (dice.index(self.cables.len()), dice.index(2));
            wanted.obstacle_links.insert(self.link(cable, end));
        }
        if dice.one_in(6) && !others.is_empty() {
            wanted.obstacles.insert((*dice.pick(&others)).clone());
        }
        if matches!(kind, Kind::PointToPoint { .. }) {
            match dice.below(8) {
                0 | 1 => wanted.vlan = true,
                2 | 3 => wanted.protection = true,
                4 if !others.is_empty() && wanted.obstacles.is_empty() => {
                    wanted.waypoints.push((*dice.pick(&others)).clone());
                }
                _ => {}
            }
        }
        wanted
    }
}

/// Packets of the intent under key number `key` are for this.
fn address(key: usize) -> u128 {
    ADDRESSES + key as u128 + 1
}
