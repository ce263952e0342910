//! Finds the intents that a change of the network concerns.
//!
//! The loss of a thing concerns an installed intent that uses the thing. A new thing concerns an
//! intent that is not installed, or not whole, if it may heal the intent. No other intents are
//! looked at. With a hundred thousand intents, a failed cable costs only those that go over it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_shared::model::flow::DeviceName;

use crate::compile::CompileError;
use crate::host::HostId;
use crate::topology::{Change, ConnectPoint, LinkNo, PortNo, Topology};

/// The changes that may heal an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hope {
    /// Only another request.
    None,
    /// Any port of this device.
    Device(DeviceName),
    /// This port, once it is up or free.
    Point(ConnectPoint),
    /// Any of these links, or a link that is not known yet.
    Links(Arc<[LinkNo]>),
    /// Any new or changed link or port.
    Network,
    /// As `Network`, and anything that other intents give back.
    Anything,
}

/// The links and ports that an intent uses.
#[derive(Debug)]
struct On {
    links: Arc<[LinkNo]>,
    ports: Arc<[PortNo]>,
}

/// Intents by thing.
type Index<T, K> = BTreeMap<T, BTreeSet<K>>;

/// The links and ports that intents use, and what may heal them. `K` identifies an intent.
#[derive(Debug)]
pub struct Tracker<K> {
    by_link: Index<LinkNo, K>,
    by_port: Index<PortNo, K>,
    standing: BTreeMap<K, On>,
    hopeful: BTreeMap<K, Hope>,
    for_device: Index<DeviceName, K>,
    for_point: Index<ConnectPoint, K>,
    for_link: Index<LinkNo, K>,
    for_network: BTreeSet<K>,
    for_anything: BTreeSet<K>,
    /// Intents that hope for links, by the number of the next link at that time.
    since: Index<LinkNo, K>,
    since_of: BTreeMap<K, LinkNo>,
    /// Intents between hosts, whatever their state.
    by_host: Index<HostId, K>,
    hosts_of: BTreeMap<K, [HostId; 2]>,
}

/// Intents that a change concerns.
#[derive(Debug, PartialEq, Eq)]
pub struct Concerned<K> {
    /// Intents to compile again.
    pub surely: BTreeSet<K>,
    /// Intents that hope for links, to compile again if one of those links is usable.
    pub perhaps: BTreeSet<K>,
}

impl<K> Default for Tracker<K> {
    fn default() -> Self {
        Self {
            by_link: BTreeMap::new(),
            by_port: BTreeMap::new(),
            standing: BTreeMap::new(),
            hopeful: BTreeMap::new(),
            for_device: BTreeMap::new(),
            for_point: BTreeMap::new(),
            for_link: BTreeMap::new(),
            for_network: BTreeSet::new(),
            for_anything: BTreeSet::new(),
            since: BTreeMap::new(),
            since_of: BTreeMap::new(),
            by_host: BTreeMap::new(),
            hosts_of: BTreeMap::new(),
        }
    }
}

impl CompileError {
    /// The changes that may heal the intent.
    pub fn hope(&self) -> Hope {
        match self {
            // A host that appears concerns all intents between it and another.
            Self::Bad(_) | Self::Circle(_) | Self::NoHost(_) | Self::HostClaimed { .. } => Hope::None,
            Self::NoDevice(device) => Hope::Device(device.clone()),
            Self::NoPort(point) | Self::Down(point) | Self::Inner { port: point, .. } => {
                Hope::Point(point.clone())
            }
            Self::NoPath { closed: Some(links), .. } => Hope::Links(links.clone()),
            Self::Link { link: Some(link), .. } => Hope::Links([*link].into()),
            // The link is not known yet.
            Self::Link { link: None, .. } => Hope::Links([].into()),
            Self::NoPath { closed: None, .. } | Self::TooSlow { .. } => Hope::Anything,
            Self::NoLabel { .. } => Hope::Anything,
            Self::TooMany(_) => Hope::Network,
        }
    }
}

impl<K: Ord + Copy> Tracker<K> {
    /// Number of entries, for leaks.
    pub fn count(&self) -> usize {
        let by_number = self.by_link.len() + self.by_port.len() + self.since.len() + self.by_host.len();
        let by_name = self.for_device.len() + self.for_point.len() + self.for_link.len();
        let own = self.standing.len() + self.hopeful.len() + self.since_of.len() + self.hosts_of.len();
        by_number + by_name + own + self.for_network.len() + self.for_anything.len()
    }

    /// The intent uses these links and ports. It is not whole if it has a hope.
    pub fn stands(&mut self, key: K, links: Arc<[LinkNo]>, ports: Arc<[PortNo]>, hope: Hope) {
        self.failed(key, hope, LinkNo::default());
        for link in links.iter() {
            self.by_link.entry(*link).or_default().insert(key);
        }
        for port in ports.iter() {
            self.by_port.entry(*port).or_default().insert(key);
        }
        self.standing.insert(key, On { links, ports });
    }

    /// The intent could not be compiled. `next` is the number of the next new link.
    pub fn failed(&mut self, key: K, hope: Hope, next: LinkNo) {
        self.forget(key);
        match &hope {
            Hope::None => return,
            Hope::Device(device) => drop(self.for_device.entry(device.clone()).or_default().insert(key)),
            Hope::Point(point) => drop(self.for_point.entry(point.clone()).or_default().insert(key)),
            Hope::Links(links) => {
                for link in links.iter() {
                    self.for_link.entry(*link).or_default().insert(key);
                }
                self.since.entry(next).or_default().insert(key);
                self.since_of.insert(key, next);
            }
            Hope::Network => drop(self.for_network.insert(key)),
            Hope::Anything => drop(self.for_anything.insert(key)),
        }
        self.hopeful.insert(key, hope);
    }

    /// The intent is between these hosts, until it is forgotten or uses other links.
    pub fn is_between(&mut self, key: K, hosts: [HostId; 2]) {
        for host in hosts {
            self.by_host.entry(host).or_default().insert(key);
        }
        self.hosts_of.insert(key, hosts);
    }

    /// Drops all that is known of the intent.
    pub fn forget(&mut self, key: K) {
        for host in self.hosts_of.remove(&key).into_iter().flatten() {
            leave(&mut self.by_host, &host, key);
        }
        match self.hopeful.remove(&key) {
            None | Some(Hope::None) => {}
            Some(Hope::Device(device)) => leave(&mut self.for_device, &device, key),
            Some(Hope::Point(point)) => leave(&mut self.for_point, &point, key),
            Some(Hope::Links(links)) => {
                links.iter().for_each(|link| leave(&mut self.for_link, link, key));
                if let Some(next) = self.since_of.remove(&key) {
                    leave(&mut self.since, &next, key);
                }
            }
            Some(Hope::Network) => drop(self.for_network.remove(&key)),
            Some(Hope::Anything) => drop(self.for_anything.remove(&key)),
        }
        let Some(On { links, ports }) = self.standing.remove(&key) else { return };
        links.iter().for_each(|link| leave(&mut self.by_link, link, key));
        ports.iter().for_each(|port| leave(&mut self.by_port, port, key));
    }

    /// Whether a change may heal the intent.
    pub fn is_hopeful(&self, key: K) -> bool {
        self.hopeful.contains_key(&key) || self.hosts_of.contains_key(&key)
    }

    /// The changes that may heal the intent.
    pub fn hope(&self, key: K) -> &Hope {
        self.hopeful.get(&key).unwrap_or(&Hope::None)
    }

    /// Number of intents on a link.
    pub fn on(&self, link: LinkNo) -> usize {
        self.by_link.get(&link).map_or(0, BTreeSet::len)
    }

    /// Number of intents between a host and another.
    pub fn between(&self, host: HostId) -> usize {
        self.by_host.get(&host).map_or(0, BTreeSet::len)
    }

    /// Intents between a host and another.
    pub fn all_between(&self, host: HostId) -> impl Iterator<Item = K> {
        self.by_host.get(&host).into_iter().flatten().copied()
    }

    /// The intents to compile again after these changes.
    pub fn concerned(&self, topology: &Topology, changes: &BTreeSet<Change>) -> Concerned<K> {
        let (mut surely, mut perhaps) = (BTreeSet::new(), BTreeSet::new());
        for change in changes {
            match change {
                Change::LinkDown(link) => surely.extend(of(&self.by_link, link)),
                Change::PortDown(port) | Change::PortInner(port) => surely.extend(of(&self.by_port, port)),
                Change::LinkChanged(link) => {
                    surely.extend(of(&self.by_link, link));
                    self.hope_for(*link, &mut surely, &mut perhaps);
                }
                Change::Host(host) => surely.extend(of(&self.by_host, host)),
                Change::LinkUp(link) => self.hope_for(*link, &mut surely, &mut perhaps),
                Change::PortUp(port) | Change::PortFree(port) => {
                    let point = topology.point(*port);
                    surely.extend(of(&self.for_point, &point));
                    surely.extend(of(&self.for_device, &point.device));
                    surely.extend(self.for_network.iter().chain(&self.for_anything));
                }
            }
        }
        Concerned { surely, perhaps }
    }

    /// Adds the intents that a new or changed link may help.
    fn hope_for(&self, link: LinkNo, surely: &mut BTreeSet<K>, perhaps: &mut BTreeSet<K>) {
        surely.extend(self.for_network.iter().chain(&self.for_anything));
        surely.extend(self.since.range(..=link).flat_map(|(_, keys)| keys));
        perhaps.extend(of(&self.for_link, &link));
    }

    /// The intents that may be compiled again after an intent gave back something of these links.
    pub fn concerned_by_room(&self, links: &BTreeSet<LinkNo>) -> Concerned<K> {
        let perhaps = links.iter().flat_map(|link| of(&self.for_link, link)).copied().collect();
        Concerned { surely: self.for_anything.clone(), perhaps }
    }

    /// Whether no intent is known.
    pub fn is_empty(&self) -> bool {
        let stands = !self.standing.is_empty() || !self.by_link.is_empty() || !self.by_port.is_empty();
        let hopes = !self.hopeful.is_empty() || !self.since_of.is_empty();
        let hopes = hopes || !self.by_host.is_empty() || !self.hosts_of.is_empty();
        let hopes = hopes || !self.for_network.is_empty() || !self.for_anything.is_empty();
        let indexed = self.for_device.len() + self.for_point.len() + self.for_link.len() + self.since.len();
        !stands && !hopes && indexed == 0
    }
}

fn of<'i, T: Ord, K>(index: &'i Index<T, K>, thing: &T) -> impl Iterator<Item = &'i K> {
    index.get(thing).into_iter().flatten()
}

fn leave<T: Ord, K: Ord>(of: &mut Index<T, K>, thing: &T, key: K) {
    if let Some(keys) = of.get_mut(thing) {
        keys.remove(&key);
        if keys.is_empty() {
            of.remove(thing);
        }
    }
}
