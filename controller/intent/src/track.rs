//! Which intents a change of the network concerns.
//!
//! An intent that is installed is concerned when something goes that it stands on; one that is not, or not whole, when
//! something comes that may heal it. Nothing else is looked at: a cable that fails among a hundred thousand intents
//! costs those that go over it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_shared::model::flow::DeviceName;

use crate::compile::CompileError;
use crate::host::HostId;
use crate::topology::{Change, ConnectPoint, LinkNo, PortNo, Topology};

/// What may heal an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hope {
    /// Nothing but another request.
    None,
    /// A port of this device.
    Device(DeviceName),
    /// That this port comes, or is free.
    Point(ConnectPoint),
    /// One of these links, or one that nobody has heard of yet.
    Links(Arc<[LinkNo]>),
    /// A link or a port that comes, or becomes another.
    Network,
    /// That too, and what others give back.
    Anything,
}

/// What an intent stands on.
#[derive(Debug)]
struct On {
    links: Arc<[LinkNo]>,
    ports: Arc<[PortNo]>,
}

/// By a thing those that have to do with it.
type Index<T, K> = BTreeMap<T, BTreeSet<K>>;

/// What intents stand on, and what they hope for. `K` is what the caller knows an intent by.
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
    /// Those that hope for links, by the number that the next link had when they began to.
    since: Index<LinkNo, K>,
    since_of: BTreeMap<K, LinkNo>,
    /// Those that are between hosts, however they stand.
    by_host: Index<HostId, K>,
    hosts_of: BTreeMap<K, [HostId; 2]>,
}

/// Those that a change concerns.
#[derive(Debug, PartialEq, Eq)]
pub struct Concerned<K> {
    /// To be compiled again.
    pub surely: BTreeSet<K>,
    /// Those too of which [`Tracker::hope`] is for links, unless none of these is of use.
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
    /// What may heal it.
    pub fn hope(&self) -> Hope {
        match self {
            // A host that comes concerns all that are between it and another.
            Self::Bad(_) | Self::Circle(_) | Self::NoHost(_) | Self::HostClaimed { .. } => Hope::None,
            Self::NoDevice(device) => Hope::Device(device.clone()),
            Self::NoPort(point) | Self::Down(point) | Self::Inner { port: point, .. } => {
                Hope::Point(point.clone())
            }
            Self::NoPath { closed: Some(links), .. } => Hope::Links(links.clone()),
            Self::Link { link: Some(link), .. } => Hope::Links([*link].into()),
            // One that nobody has heard of yet.
            Self::Link { link: None, .. } => Hope::Links([].into()),
            Self::NoPath { closed: None, .. } | Self::TooSlow { .. } => Hope::Anything,
            Self::NoLabel { .. } => Hope::Anything,
            Self::TooMany(_) => Hope::Network,
        }
    }
}

impl<K: Ord + Copy> Tracker<K> {
    /// What it knows of intents, each by itself.
    pub fn count(&self) -> usize {
        let by_number = self.by_link.len() + self.by_port.len() + self.since.len() + self.by_host.len();
        let by_name = self.for_device.len() + self.for_point.len() + self.for_link.len();
        let own = self.standing.len() + self.hopeful.len() + self.since_of.len() + self.hosts_of.len();
        by_number + by_name + own + self.for_network.len() + self.for_anything.len()
    }

    /// It stands on what it was compiled to, and is not whole if it hopes.
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

    /// Nothing could be made of it, when the next link had this number.
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

    /// It is between these hosts, until it is forgotten or stands elsewhere.
    pub fn is_between(&mut self, key: K, hosts: [HostId; 2]) {
        for host in hosts {
            self.by_host.entry(host).or_default().insert(key);
        }
        self.hosts_of.insert(key, hosts);
    }

    /// It stands on nothing, and hopes for nothing.
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

    /// Something that comes may heal it.
    pub fn is_hopeful(&self, key: K) -> bool {
        self.hopeful.contains_key(&key) || self.hosts_of.contains_key(&key)
    }

    /// What may heal it.
    pub fn hope(&self, key: K) -> &Hope {
        self.hopeful.get(&key).unwrap_or(&Hope::None)
    }

    /// How many stand on a link.
    pub fn on(&self, link: LinkNo) -> usize {
        self.by_link.get(&link).map_or(0, BTreeSet::len)
    }

    /// How many are between a host and another.
    pub fn between(&self, host: HostId) -> usize {
        self.by_host.get(&host).map_or(0, BTreeSet::len)
    }

    /// Those between a host and another.
    pub fn all_between(&self, host: HostId) -> impl Iterator<Item = K> {
        self.by_host.get(&host).into_iter().flatten().copied()
    }

    /// Those that are to be compiled again after these changes.
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

    /// Those whom a link may help that comes or becomes another.
    fn hope_for(&self, link: LinkNo, surely: &mut BTreeSet<K>, perhaps: &mut BTreeSet<K>) {
        surely.extend(self.for_network.iter().chain(&self.for_anything));
        surely.extend(self.since.range(..=link).flat_map(|(_, keys)| keys));
        perhaps.extend(of(&self.for_link, &link));
    }

    /// Those that may be compiled again after somebody gave something back of these links.
    pub fn concerned_by_room(&self, links: &BTreeSet<LinkNo>) -> Concerned<K> {
        let perhaps = links.iter().flat_map(|link| of(&self.for_link, link)).copied().collect();
        Concerned { surely: self.for_anything.clone(), perhaps }
    }

    /// Nobody is known.
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
