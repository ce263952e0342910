//! Paths over a topology: the cheapest, the next cheapest, two that share nothing.
//!
//! A path is the links in their order; none of a device's two visits. Of several that cost the same always the same one
//! is taken: that with the lower numbers first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use pathfinding::prelude::{dijkstra, dijkstra_all, yen};

use crate::topology::{DeviceNo, LinkNo, Topology};

/// Links in their order; empty: both ends are on one device.
pub type Path = Vec<LinkNo>;

/// What counts of a link; none: it is not used at all.
pub type Weight<'a> = &'a dyn Fn(LinkNo) -> Option<u64>;

/// A place of the graph that is searched: a link is a place of its own, for two devices may have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum At {
    Device(DeviceNo),
    Link(LinkNo),
}

/// The cheapest paths from one device to all others, kept until the topology is another. By numbers in arrays: a tree of a
/// thousand devices with sixty links each takes a tenth of a millisecond, and some milliseconds by a map of places.
#[derive(Debug, Default)]
pub struct Trees {
    version: u64,
    /// From each device the cheapest link to each neighbour, with what it weighs.
    out: Vec<Vec<(usize, u64, LinkNo)>>,
    /// By source: the last link to each device that can be reached.
    by_source: BTreeMap<DeviceNo, Vec<Option<LinkNo>>>,
}

/// Sources of which trees are kept: 1,000 devices each, that is some 50 MB.
const TREES_MAX: usize = 4096;

impl Trees {
    /// The cheapest path by cost, over all links.
    pub fn cheapest(&mut self, topology: &Topology, from: DeviceNo, to: DeviceNo) -> Option<Path> {
        if self.version != topology.version() || self.out.is_empty() {
            self.out = neighbourhood(topology);
            self.by_source.clear();
            self.version = topology.version();
        }
        if self.by_source.len() >= TREES_MAX {
            self.by_source.clear();
        }
        let out = &self.out;
        let last = self.by_source.entry(from).or_insert_with(|| tree(out, from.index()));
        let mut path = Path::new();
        let mut at = to;
        while at != from {
            let link = last.get(at.index()).copied().flatten()?;
            path.push(link);
            at = topology.devices_of(link).0;
        }
        path.reverse();
        Some(path)
    }
}

/// Of several links to one neighbour the cheapest, and of equal ones the first.
fn neighbourhood(topology: &Topology) -> Vec<Vec<(usize, u64, LinkNo)>> {
    let of = |device: DeviceNo| {
        let mut best: BTreeMap<usize, (u64, LinkNo)> = BTreeMap::new();
        for link in topology.out(device) {
            let offer = (with_hop(topology.cost(link).into()), link);
            let kept = best.entry(topology.devices_of(link).1.index()).or_insert(offer);
            *kept = offer.min(*kept);
        }
        best.into_iter().map(|(to, (weight, link))| (to, weight, link)).collect()
    };
    topology.all_devices().map(of).collect()
}

/// The last link to each device that can be reached: Dijkstra's. Of paths that weigh the same the one over the devices
/// with the lower numbers is taken.
fn tree(out: &[Vec<(usize, u64, LinkNo)>], from: usize) -> Vec<Option<LinkNo>> {
    let mut far = vec![u64::MAX; out.len()];
    let mut last = vec![None; out.len()];
    let mut next = BinaryHeap::from([Reverse((0, from))]);
    if let Some(far) = far.get_mut(from) {
        *far = 0;
    }
    while let Some(Reverse((weight, at))) = next.pop() {
        if far.get(at).is_none_or(|far| *far < weight) {
            continue;
        }
        for (to, more, link) in &out[at] {
            let whole = weight.saturating_add(*more);
            if whole < far[*to] {
                far[*to] = whole;
                last[*to] = Some(*link);
                next.push(Reverse((whole, *to)));
            }
        }
    }
    last
}

/// Of paths that weigh the same the one with fewer links is taken; no path has a million.
fn with_hop(weight: u64) -> u64 {
    weight.saturating_mul(1 << 20).saturating_add(1)
}

fn neighbours(topology: &Topology, weight: Weight<'_>, at: &At) -> Vec<(At, u64)> {
    match at {
        At::Device(device) => {
            topology.out(*device).filter_map(|link| Some((At::Link(link), with_hop(weight(link)?)))).collect()
        }
        At::Link(link) => vec![(At::Device(topology.devices_of(*link).1), 0)],
    }
}

fn links(places: Vec<At>) -> Path {
    let link = |at: At| match at {
        At::Link(link) => Some(link),
        At::Device(_) => None,
    };
    places.into_iter().filter_map(link).collect()
}

/// The path with the smallest sum of weights; of equal ones that with fewer links.
pub fn cheapest(topology: &Topology, from: DeviceNo, to: DeviceNo, weight: Weight<'_>) -> Option<Path> {
    let found =
        dijkstra(&At::Device(from), |at| neighbours(topology, weight, at), |at| *at == At::Device(to));
    found.map(|(places, _)| links(places))
}

/// The `most` paths with the smallest sums, in their order; no device twice on any.
pub fn cheapest_few(
    topology: &Topology,
    from: DeviceNo,
    to: DeviceNo,
    weight: Weight<'_>,
    most: usize,
) -> Vec<Path> {
    if from == to {
        return vec![Path::new()];
    }
    let found =
        yen(&At::Device(from), |at| neighbours(topology, weight, at), |at| *at == At::Device(to), most);
    found.into_iter().map(|(places, _)| links(places)).collect()
}

/// Two paths that share no link in either direction, with the smallest sum of both: Suurballe's, with Bhandari's removal
/// of what both would use against each other. The first is the cheaper one.
pub fn disjoint(
    topology: &Topology,
    from: DeviceNo,
    to: DeviceNo,
    weight: Weight<'_>,
) -> Option<(Path, Path)> {
    let first = cheapest(topology, from, to, weight)?;
    let full = |link: LinkNo| weight(link).map(with_hop);
    // How far each device is from the start: with these no weight of the second search is below zero.
    let far: BTreeMap<DeviceNo, u64> = dijkstra_all(&from, |device| -> Vec<(DeviceNo, u64)> {
        topology.out(*device).filter_map(|link| Some((topology.devices_of(link).1, full(link)?))).collect()
    })
    .into_iter()
    .map(|(device, (_, sum))| (device, sum))
    .chain([(from, 0)])
    .collect();
    let used: BTreeSet<LinkNo> = first.iter().copied().collect();
    let against: BTreeSet<LinkNo> = first.iter().filter_map(|link| topology.back(*link)).collect();
    // Over the first path one may only go backwards, and for nothing: that takes the link out of both.
    let second = dijkstra(
        &At::Device(from),
        |at| match at {
            At::Link(link) => {
                let (start, end) = topology.devices_of(*link);
                vec![(At::Device(if used.contains(link) { start } else { end }), 0)]
            }
            At::Device(device) => {
                let reduced = |link: LinkNo| {
                    let (start, end) = topology.devices_of(link);
                    Some((full(link)? + far.get(&start)?).saturating_sub(*far.get(&end)?))
                };
                let onwards = topology
                    .out(*device)
                    .filter(|link| !used.contains(link) && !against.contains(link))
                    .filter_map(|link| Some((At::Link(link), reduced(link)?)));
                let backwards = first
                    .iter()
                    .filter(|link| topology.devices_of(**link).1 == *device)
                    .map(|link| (At::Link(*link), 0));
                onwards.chain(backwards).collect()
            }
        },
        |at| *at == At::Device(to),
    )?;
    let second = links(second.0);
    let undone: BTreeSet<LinkNo> = second.iter().copied().filter(|link| used.contains(link)).collect();
    let mut left: BTreeSet<LinkNo> =
        used.iter().chain(&second).copied().filter(|link| !undone.contains(link)).collect();
    let one = walk(topology, from, to, &mut left)?;
    let other = walk(topology, from, to, &mut left)?;
    let sum = |path: &Path| path.iter().filter_map(|link| full(*link)).sum::<u64>();
    Some(if (sum(&other), other.len()) < (sum(&one), one.len()) { (other, one) } else { (one, other) })
}

/// Takes a path out of the links of two.
fn walk(topology: &Topology, from: DeviceNo, to: DeviceNo, left: &mut BTreeSet<LinkNo>) -> Option<Path> {
    let mut path = Path::new();
    let mut at = from;
    while at != to {
        let link = *left.iter().find(|link| topology.devices_of(**link).0 == at)?;
        left.remove(&link);
        path.push(link);
        at = topology.devices_of(link).1;
    }
    Some(path)
}
