//! Which intents a change of the network concerns.
//!
//! An intent that is installed is concerned when something goes that it stands on; one that is not, or not whole, when
//! something comes that may heal it. Nothing else is looked at: a cable that fails among a hundred thousand intents
//! costs those that go over it.

use std::collections::{BTreeMap, BTreeSet};

use crate::compile::{CompileError, Compiled};
use crate::topology::{Change, LinkNo, PortNo};

/// What may heal an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hope {
    /// Nothing but another request.
    None,
    /// A link or a port that comes, or becomes another.
    Network,
    /// That too, and what others give back.
    Reservations,
}

#[derive(Debug)]
struct On {
    links: Box<[LinkNo]>,
    ports: Box<[PortNo]>,
}

/// What intents stand on. `K` is what the caller knows an intent by.
#[derive(Debug)]
pub struct Tracker<K> {
    by_link: BTreeMap<LinkNo, BTreeSet<K>>,
    by_port: BTreeMap<PortNo, BTreeSet<K>>,
    standing: BTreeMap<K, On>,
    hopeful: BTreeMap<K, Hope>,
}

impl<K> Default for Tracker<K> {
    fn default() -> Self {
        Self {
            by_link: BTreeMap::new(),
            by_port: BTreeMap::new(),
            standing: BTreeMap::new(),
            hopeful: BTreeMap::new(),
        }
    }
}

impl CompileError {
    /// What may heal it.
    pub fn hope(&self) -> Hope {
        match self {
            Self::Bad(_) => Hope::None,
            Self::NoDevice(_) | Self::NoPort(_) | Self::Down(_) | Self::Inner { .. } => Hope::Network,
            Self::Link { .. } | Self::Circle(_) | Self::TooMany(_) => Hope::Network,
            Self::NoPath { .. } | Self::TooSlow { .. } | Self::NoLabel { .. } => Hope::Reservations,
        }
    }
}

impl<K: Ord + Copy> Tracker<K> {
    /// It stands on what it was compiled to.
    pub fn stands(&mut self, key: K, on: &Compiled) {
        self.forget(key);
        for link in &on.links {
            self.by_link.entry(*link).or_default().insert(key);
        }
        for port in &on.points {
            self.by_port.entry(*port).or_default().insert(key);
        }
        let (links, ports) = (on.links.clone().into(), on.points.clone().into());
        self.standing.insert(key, On { links, ports });
        if !on.missing.is_empty() {
            self.hopeful.insert(key, Hope::Reservations);
        }
    }

    /// Nothing could be made of it.
    pub fn failed(&mut self, key: K, hope: Hope) {
        self.forget(key);
        if hope != Hope::None {
            self.hopeful.insert(key, hope);
        }
    }

    /// It stands on nothing, and hopes for nothing.
    pub fn forget(&mut self, key: K) {
        self.hopeful.remove(&key);
        let Some(On { links, ports }) = self.standing.remove(&key) else { return };
        for link in links {
            leave(&mut self.by_link, link, key);
        }
        for port in ports {
            leave(&mut self.by_port, port, key);
        }
    }

    /// Something that comes may heal it.
    pub fn is_hopeful(&self, key: K) -> bool {
        self.hopeful.contains_key(&key)
    }

    /// How many stand on a link.
    pub fn on(&self, link: LinkNo) -> usize {
        self.by_link.get(&link).map_or(0, BTreeSet::len)
    }

    /// Those that are to be compiled again after these changes.
    pub fn concerned(&self, changes: &BTreeSet<Change>) -> BTreeSet<K> {
        let mut found = BTreeSet::new();
        let mut heals = false;
        for change in changes {
            match change {
                Change::LinkDown(link) => found.extend(self.by_link.get(link).into_iter().flatten()),
                Change::PortDown(port) => found.extend(self.by_port.get(port).into_iter().flatten()),
                Change::LinkUp(_) | Change::PortUp(_) => heals = true,
                Change::LinkChanged(link) => {
                    found.extend(self.by_link.get(link).into_iter().flatten());
                    heals = true;
                }
            }
        }
        if heals {
            found.extend(self.hopeful.keys());
        }
        found
    }

    /// Those that are to be compiled again after somebody gave something back.
    pub fn hoping_for_reservations(&self) -> impl Iterator<Item = K> + '_ {
        self.hopeful.iter().filter(|(_, hope)| **hope == Hope::Reservations).map(|(key, _)| *key)
    }

    /// Nobody is known.
    pub fn is_empty(&self) -> bool {
        self.standing.is_empty()
            && self.hopeful.is_empty()
            && self.by_link.is_empty()
            && self.by_port.is_empty()
    }
}

fn leave<T: Ord, K: Ord>(of: &mut BTreeMap<T, BTreeSet<K>>, thing: T, key: K) {
    if let Some(keys) = of.get_mut(&thing) {
        keys.remove(&key);
        if keys.is_empty() {
            of.remove(&thing);
        }
    }
}
