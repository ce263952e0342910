//! Paths over a topology: the cheapest, the next cheapest, and two disjoint ones.
//!
//! A path is a list of links in order. No path visits a device twice. Of paths with the same cost
//! always the same one is taken: the one with the lower numbers first.
//!
//! Absent: which links an intent may use (`compile/constrained_path.rs`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use pathfinding::prelude::{dijkstra, dijkstra_all, yen};

use crate::topology::{DeviceNo, LinkNo, Topology};

/// Links in order. Empty: both ends are on one device.
pub type Path = Vec<LinkNo>;

/// The weight of a link. `None`: the link is not used.
pub type Weight<'a> = &'a dyn Fn(LinkNo) -> Option<u64>;

/// A node of the searched graph. A link is a node of its own, because two devices may have several links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum At {
    Device(DeviceNo),
    Link(LinkNo),
}

/// Cached searches for one version of a topology: cheapest paths from a device to all others, and
/// distances to a device. They are arrays indexed by number. A tree of a thousand devices with
/// sixty links each takes a tenth of a millisecond; with a map it takes some milliseconds.
#[derive(Debug, Default)]
pub struct Trees {
    version: u64,
    /// For each device its outgoing links, and its incoming ones.
    out: Vec<Vec<Edge>>,
    into: Vec<Vec<Edge>>,
    /// For each source the last link to each reachable device.
    by_source: BTreeMap<DeviceNo, Vec<Option<LinkNo>>>,
    /// For each target the distance of each device to it.
    by_target: BTreeMap<DeviceNo, Arc<[u64]>>,
    /// For each source the links that cut it off from the devices that it cannot reach.
    closed: BTreeMap<DeviceNo, Closed>,
    /// State of the last search.
    seen: Vec<Seen>,
    searches: u64,
}

/// A link, seen from the device whose list has it.
#[derive(Clone, Copy, Debug)]
struct Edge {
    /// The device at the other end.
    to: usize,
    weight: u64,
    link: LinkNo,
}

/// A device in a search. An entry of an earlier search does not count.
#[derive(Clone, Copy, Debug)]
struct Seen {
    search: u64,
    /// The link by which the search came. `None` at the start.
    by: Option<LinkNo>,
}

/// Closed links, at least one of which every path would need. `None`: there are too many to keep.
pub type Closed = Option<Arc<[LinkNo]>>;

/// Bound on the trees of either kind. With 1,000 devices each they take some 60 MB.
const TREES_MAX: usize = 4096;
/// Bound on the entries of all trees, so that a larger network takes no more memory.
const CELLS_MAX: usize = TREES_MAX * 1024;
/// Bound on the links in [`Closed`]. An intent is tracked by each of them.
const CLOSED_MAX: usize = 64;
/// Closed links that a search meets before it checks whether any link leads to its end at all.
const TROUBLE: usize = 32;
/// Links that this check looks at.
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

    /// The links that cut off `from`, if [`Trees::cheapest`] finds no path.
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

    /// The cheapest path over open links, or the links that are closed. The distance of each device
    /// to the end guides the search, so links that lead elsewhere are not looked at. `open` is
    /// called for a link only in its turn.
    ///
    /// # Errors
    /// There is no path.
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
                    // Among candidates with the same sum, the one nearest to the end goes first.
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

    /// Links from the reachable devices to others, including links that lead nowhere now.
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

    /// Whether no link leads to the end, from a small area around it. Returns the closed links into
    /// that area.
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

    /// The distance of each device to this one, over all links.
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
        // Among equal links, the one over the device with the lower number goes first.
        let lists = self.out.iter_mut().chain(&mut self.into);
        lists.for_each(|list| list.sort_unstable_by_key(|edge| (edge.to, edge.weight, edge.link)));
    }
}

/// Known links between these devices and the others: outgoing ones, or incoming ones with `into`.
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

/// Dijkstra's algorithm: the last link to each reachable device, and its distance. Of paths with
/// the same weight the one over devices with lower numbers is taken.
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

/// Adds one to the weight per link, so that of equal paths the one with fewer links is taken. No
/// path has a million links.
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

/// The path with the smallest sum of weights; of equal ones the one with fewer links.
pub fn cheapest(topology: &Topology, from: DeviceNo, to: DeviceNo, weight: Weight<'_>) -> Option<Path> {
    let found =
        dijkstra(&At::Device(from), |at| neighbours(topology, weight, at), |at| *at == At::Device(to));
    found.map(|(places, _)| links(places))
}

/// The `most` paths with the smallest sums, in order. No path visits a device twice.
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

/// Two paths that share no link in either direction, with the smallest sum of both: Suurballe's
/// algorithm, with Bhandari's removal of links that both would use in opposite directions. The
/// first path is the cheaper one.
pub fn disjoint(
    topology: &Topology,
    from: DeviceNo,
    to: DeviceNo,
    weight: Weight<'_>,
) -> Option<(Path, Path)> {
    let first = cheapest(topology, from, to, weight)?;
    let full = |link: LinkNo| weight(link).map(with_hop);
    // Distances from the start. With them no weight of the second search is negative.
    let far: BTreeMap<DeviceNo, u64> = dijkstra_all(&from, |device| -> Vec<(DeviceNo, u64)> {
        topology.out(*device).filter_map(|link| Some((topology.devices_of(link).1, full(link)?))).collect()
    })
    .into_iter()
    .map(|(device, (_, sum))| (device, sum))
    .chain([(from, 0)])
    .collect();
    let used: BTreeSet<LinkNo> = first.iter().copied().collect();
    let against: BTreeSet<LinkNo> = first.iter().filter_map(|link| topology.back(*link)).collect();
    // The second search may use the first path only backwards, at no cost. That removes the link
    // from both paths.
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

/// Takes one path out of the links of two.
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
