//! Paths over a topology: the cheapest, the next cheapest, two that share nothing.
//!
//! A path is the links in their order; none of a device's two visits. Of several that cost the same always the same one
//! is taken: that with the lower numbers first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

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

/// What is kept of a topology until it is another: the cheapest paths from one device to all others, and how far each is
/// from one. By numbers in arrays: a tree of a thousand devices with sixty links each takes a tenth of a millisecond, and
/// some milliseconds by a map of places.
#[derive(Debug, Default)]
pub struct Trees {
    version: u64,
    /// From each device all links, and those that lead to it.
    out: Vec<Vec<Edge>>,
    into: Vec<Vec<Edge>>,
    /// By source: the last link to each device that can be reached.
    by_source: BTreeMap<DeviceNo, Vec<Option<LinkNo>>>,
    /// By target: how far each device is from it.
    by_target: BTreeMap<DeviceNo, Arc<[u64]>>,
    /// By source: what keeps it from those that it does not reach.
    closed: BTreeMap<DeviceNo, Closed>,
    /// Of the last search.
    seen: Vec<Seen>,
    searches: u64,
}

/// A link, from the device whose list it is in.
#[derive(Clone, Copy, Debug)]
struct Edge {
    /// The device at the other end.
    to: usize,
    weight: u64,
    link: LinkNo,
}

/// A device in a search; one of another search is not seen.
#[derive(Clone, Copy, Debug)]
struct Seen {
    search: u64,
    /// By which link; none at the start.
    by: Option<LinkNo>,
}

/// Links over which no packet goes now, one of which at least every path would have to take. None: they are too many to
/// be kept.
pub type Closed = Option<Arc<[LinkNo]>>;

/// Devices of which trees are kept, of either kind: of 1,000 devices each, that is some 60 MB …
const TREES_MAX: usize = 4096;
/// … and no more of it in a larger network.
const CELLS_MAX: usize = TREES_MAX * 1024;
/// Of [`Closed`]: an intent is tracked by each of them.
const CLOSED_MAX: usize = 64;
/// Links that a search finds closed before it looks whether anything leads to its end at all.
const TROUBLE: usize = 32;
/// Links that are looked at for that.
const NEARBY: usize = 2048;

impl Trees {
    /// The cheapest path by cost, over all links.
    pub fn cheapest(&mut self, topology: &Topology, from: DeviceNo, to: DeviceNo) -> Option<Path> {
        self.renew(topology);
        if self.by_source.len() >= self.trees_max() {
            self.by_source.clear();
        }
        let out = &self.out;
        let last = self.by_source.entry(from).or_insert_with(|| tree(out, from.index()).0);
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

    /// Where [`Trees::cheapest`] finds none: what is in the way.
    pub fn closed(&mut self, topology: &Topology, from: DeviceNo) -> Closed {
        self.renew(topology);
        if self.closed.len() >= TREES_MAX {
            self.closed.clear();
        }
        if let Some(known) = self.closed.get(&from) {
            return known.clone();
        }
        let last = tree(&self.out, from.index()).0;
        let is_reached =
            |device: DeviceNo| device == from || last.get(device.index()).is_some_and(Option::is_some);
        let closed =
            edge_of(topology, topology.all_devices().filter(|it| is_reached(*it)), is_reached, false);
        self.closed.insert(from, closed.clone());
        closed
    }

    /// The cheapest path over links that are open, or what is in the way. Guided by how far each device is from the end
    /// where all are open, so that what leads elsewhere is not looked at; a link is asked about when it is its turn.
    ///
    /// # Errors
    /// There is none.
    pub fn cheapest_open(
        &mut self,
        topology: &Topology,
        from: DeviceNo,
        to: DeviceNo,
        open: &dyn Fn(LinkNo) -> bool,
    ) -> Result<Path, Closed> {
        let far = self.towards(topology, to);
        self.searches += 1;
        let search = self.searches;
        self.seen.resize(self.out.len(), Seen { search: 0, by: None });
        let mut next = BinaryHeap::new();
        let mut at = from;
        let (mut gone, mut by, mut shut) = (0, None, 0);
        loop {
            self.seen[at.index()] = Seen { search, by };
            if at == to {
                return Ok(self.way(topology, from, to));
            }
            for edge in &self.out[at.index()] {
                let rest = far[edge.to];
                if rest < u64::MAX && self.seen[edge.to].search != search {
                    let gone = edge.weight.saturating_add(gone);
                    // Of what may be as cheap the one that is nearest to the end.
                    next.push(Reverse((gone.saturating_add(rest), Reverse(gone), edge.link)));
                }
            }
            loop {
                let Some(Reverse((_, Reverse(whole), link))) = next.pop() else {
                    return Err(self.around(topology, from, open));
                };
                let end = topology.devices_of(link).1;
                if self.seen[end.index()].search == search {
                    continue;
                }
                if open(link) {
                    (at, gone, by) = (end, whole, Some(link));
                    break;
                }
                shut += 1;
                if shut == TROUBLE
                    && let Some(closed) = self.is_cut_off(topology, from, to, open)
                {
                    return Err(closed);
                }
            }
        }
    }

    fn way(&self, topology: &Topology, from: DeviceNo, to: DeviceNo) -> Path {
        let mut path = Path::new();
        let mut at = to;
        while at != from {
            let Some(link) = self.seen[at.index()].by else { break };
            path.push(link);
            at = topology.devices_of(link).0;
        }
        path.reverse();
        path
    }

    /// What leads from those that can be reached to others: also from those that lead nowhere today.
    fn around(&mut self, topology: &Topology, from: DeviceNo, open: &dyn Fn(LinkNo) -> bool) -> Closed {
        self.searches += 1;
        let seen = Seen { search: self.searches, by: None };
        self.seen[from.index()] = seen;
        let mut reached = vec![from];
        let mut at = 0;
        while let Some(device) = reached.get(at).copied() {
            for edge in &self.out[device.index()] {
                if self.seen[edge.to].search != seen.search && open(edge.link) {
                    self.seen[edge.to] = seen;
                    reached.push(topology.devices_of(edge.link).1);
                }
            }
            at += 1;
        }
        let is_seen = |device: DeviceNo| self.seen[device.index()].search == seen.search;
        edge_of(topology, reached.into_iter(), is_seen, false)
    }

    /// Nothing leads to the end, from not far around it: what would have to.
    fn is_cut_off(
        &self,
        topology: &Topology,
        from: DeviceNo,
        to: DeviceNo,
        open: &dyn Fn(LinkNo) -> bool,
    ) -> Option<Closed> {
        let mut reached = BTreeSet::from([to]);
        let mut left = vec![to];
        let mut looked = 0;
        while let Some(at) = left.pop() {
            for edge in &self.into[at.index()] {
                looked += 1;
                if looked > NEARBY {
                    return None;
                }
                let start = topology.devices_of(edge.link).0;
                if !reached.contains(&start) && open(edge.link) {
                    if start == from {
                        return None;
                    }
                    reached.insert(start);
                    left.push(start);
                }
            }
        }
        let devices: Vec<DeviceNo> = reached.iter().copied().collect();
        Some(edge_of(topology, devices.into_iter(), |device| reached.contains(&device), true))
    }

    /// How far each device is from this one, over all links.
    fn towards(&mut self, topology: &Topology, to: DeviceNo) -> Arc<[u64]> {
        self.renew(topology);
        if self.by_target.len() >= self.trees_max() {
            self.by_target.clear();
        }
        let into = &self.into;
        self.by_target.entry(to).or_insert_with(|| tree(into, to.index()).1.into()).clone()
    }

    fn trees_max(&self) -> usize {
        (CELLS_MAX / self.out.len().max(1)).clamp(1, TREES_MAX)
    }

    fn renew(&mut self, topology: &Topology) {
        if self.version == topology.version() && self.out.len() == topology.device_count() {
            return;
        }
        self.version = topology.version();
        (self.by_source, self.by_target) = (BTreeMap::new(), BTreeMap::new());
        self.closed.clear();
        self.out = topology.all_devices().map(|_| Vec::new()).collect();
        self.into.clone_from(&self.out);
        for link in topology.links() {
            let (from, to) = topology.devices_of(link);
            let weight = with_hop(topology.cost(link).into());
            self.out[from.index()].push(Edge { to: to.index(), weight, link });
            self.into[to.index()].push(Edge { to: from.index(), weight, link });
        }
        // Of equal ones the one over the device with the lower number.
        let lists = self.out.iter_mut().chain(&mut self.into);
        lists.for_each(|list| list.sort_unstable_by_key(|edge| (edge.to, edge.weight, edge.link)));
    }
}

/// Links that are known between some devices and the others, over which none is reached: from them, or to them.
fn edge_of(
    topology: &Topology,
    devices: impl Iterator<Item = DeviceNo>,
    is_among: impl Fn(DeviceNo) -> bool,
    into: bool,
) -> Closed {
    let mut closed = BTreeSet::new();
    for device in devices {
        let links = if into { topology.ever_into(device) } else { topology.ever_out(device) };
        for link in links {
            let (from, to) = topology.devices_of(*link);
            if !is_among(if into { from } else { to }) {
                closed.insert(*link);
            }
            if closed.len() > CLOSED_MAX {
                return None;
            }
        }
    }
    Some(closed.into_iter().collect())
}

/// The last link to each device that can be reached, and how far it is: Dijkstra's. Of paths that weigh the same the one
/// over the devices with the lower numbers is taken.
fn tree(out: &[Vec<Edge>], from: usize) -> (Vec<Option<LinkNo>>, Vec<u64>) {
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
        for Edge { to, weight: more, link } in &out[at] {
            let whole = weight.saturating_add(*more);
            if whole < far[*to] {
                far[*to] = whole;
                last[*to] = Some(*link);
                next.push(Reverse((whole, *to)));
            }
        }
    }
    (last, far)
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
