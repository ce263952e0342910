//! The network as a graph for `paths` and `topology`: shortest paths by the number of links, and parts that hang together.
//!
//! Absent: the paths of intents, with their constraints and reservations (`controller/intent/src/path_search.rs`). What is
//! here answers a question and decides nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use muster_api::intent::{LinkView, TopologyView};

/// The most paths of one answer: of very many equal ones, some.
const PATHS_MAX: usize = 32;

/// Links over which packets pass, by the bridge that they leave.
type Leaving<'n> = BTreeMap<&'n str, Vec<&'n LinkView>>;

fn leaving(network: &TopologyView) -> Leaving<'_> {
    let up: BTreeSet<&str> =
        network.devices.iter().filter(|bridge| bridge.up).map(|bridge| bridge.device.as_str()).collect();
    let mut leaving = Leaving::new();
    for link in network.links.iter().filter(|link| link.up) {
        if up.contains(link.from.device.as_str()) && up.contains(link.to.device.as_str()) {
            leaving.entry(&link.from.device).or_default().push(link);
        }
    }
    leaving
}

/// The shortest paths between two bridges, each a list of links.
pub fn shortest<'n>(network: &'n TopologyView, from: &str, to: &str) -> Vec<Vec<&'n LinkView>> {
    let leaving = leaving(network);
    // How far each bridge is from the first.
    let mut far: BTreeMap<&str, usize> = BTreeMap::from([(from, 0)]);
    let mut next = VecDeque::from([from]);
    while let Some(at) = next.pop_front() {
        let steps = far.get(at).copied().unwrap_or_default() + 1;
        for link in leaving.get(at).into_iter().flatten() {
            far.entry(&link.to.device).or_insert_with(|| {
                next.push_back(&link.to.device);
                steps
            });
        }
    }
    let Some(length) = far.get(to).copied() else { return Vec::new() };
    let mut arriving: BTreeMap<&str, Vec<&LinkView>> = BTreeMap::new();
    for link in leaving.values().flatten().copied() {
        let (here, there) = (far.get(link.from.device.as_str()), far.get(link.to.device.as_str()));
        if here.zip(there).is_some_and(|(here, there)| here + 1 == *there) {
            arriving.entry(&link.to.device).or_default().push(link);
        }
    }
    // From the last bridge back, a link at a time, with a bound on those that are kept.
    let mut paths: Vec<Vec<&LinkView>> = vec![Vec::new()];
    for _ in 0..length {
        let longer = paths.iter().flat_map(|path| {
            let at = path.last().map_or(to, |link: &&LinkView| link.from.device.as_str());
            arriving.get(at).into_iter().flatten().map(|link| path.iter().copied().chain([*link]).collect())
        });
        paths = longer.take(PATHS_MAX).collect();
    }
    if length == 0 {
        return Vec::new();
    }
    paths.iter_mut().for_each(|path| path.reverse());
    paths
}

/// Bridges that hang together, each part and all parts by name.
pub fn clusters(network: &TopologyView) -> Vec<Vec<&str>> {
    let mut beside: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for link in leaving(network).values().flatten() {
        beside.entry(&link.from.device).or_default().push(&link.to.device);
        beside.entry(&link.to.device).or_default().push(&link.from.device);
    }
    let (mut seen, mut all) = (BTreeSet::new(), Vec::new());
    for bridge in &network.devices {
        let first = bridge.device.as_str();
        if !seen.insert(first) {
            continue;
        }
        let (mut part, mut next) = (BTreeSet::from([first]), VecDeque::from([first]));
        while let Some(at) = next.pop_front() {
            for other in beside.get(at).into_iter().flatten() {
                if seen.insert(*other) {
                    part.insert(*other);
                    next.push_back(*other);
                }
            }
        }
        all.push(part.into_iter().collect());
    }
    all
}
