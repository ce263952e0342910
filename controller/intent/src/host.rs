//! Hosts: whom the network is for, and where they are.
//!
//! One that somebody declares is where that says; else where its node tells of it, or its neighbour by LLDP.
//!
//! Absent: who tells of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use muster_shared::model::flow::DeviceName;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::topology::ConnectPoint;

/// Hosts of a site.
pub const HOSTS_MAX: usize = 100_000;
/// Addresses that are kept of one.
pub const ADDRESSES_MAX: usize = 64;

/// The MAC address of a host: of one interface, never of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostId([u8; 6]);

/// Why a text is no host.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("want the MAC address of one interface, such as 52:54:00:12:34:56")]
pub struct NotAHost;

impl HostId {
    /// Of octets; none for an address of many, or of nobody.
    pub fn new(octets: [u8; 6]) -> Option<Self> {
        (octets[0] & 1 == 0 && octets != [0; 6]).then_some(Self(octets))
    }

    /// As a rule has it.
    pub fn value(self) -> u128 {
        self.0.iter().fold(0, |value, octet| value << 8 | u128::from(*octet))
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for HostId {
    type Err = NotAHost;

    /// In either case, with colons: `AA:bb:…` and `aa:BB:…` are one host.
    fn from_str(text: &str) -> Result<Self, NotAHost> {
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().ok_or(NotAHost)?;
            let is_hex = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
            *octet = u8::from_str_radix(part, 16).ok().filter(|_| is_hex).ok_or(NotAHost)?;
        }
        Self::new(octets).filter(|_| parts.next().is_none()).ok_or(NotAHost)
    }
}

/// Where a host is, and what it is called there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The port that it is at.
    pub location: ConnectPoint,
    /// In no order of ours.
    pub addresses: Vec<IpAddr>,
}

/// What is said of a host, and by whom.
#[derive(Debug, Default)]
struct Said {
    declared: Option<Host>,
    observed: Option<Host>,
}

impl Said {
    fn counts(&self) -> Option<&Host> {
        self.declared.as_ref().or(self.observed.as_ref())
    }
}

/// Hosts of a site.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    by_id: BTreeMap<HostId, Said>,
    /// By device those that are observed there.
    observed: BTreeMap<DeviceName, BTreeSet<HostId>>,
}

/// There are more than [`HOSTS_MAX`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a site has at most {HOSTS_MAX} hosts")]
pub struct TooManyHosts;

impl Hosts {
    pub fn get(&self, id: HostId) -> Option<&Host> {
        self.by_id.get(&id)?.counts()
    }

    /// By id: whether it was declared, and whether it was observed.
    pub fn iter(&self) -> impl Iterator<Item = (HostId, &Host, bool, bool)> {
        let one = |(id, said): (&HostId, &Said)| {
            let (id, declared, observed) = (*id, said.declared.is_some(), said.observed.is_some());
            Some((id, self.get(id)?, declared, observed))
        };
        self.by_id.iter().filter_map(one)
    }

    /// Those that somebody sees on a device.
    pub fn observed_on(&self, device: &DeviceName) -> impl Iterator<Item = HostId> {
        self.observed.get(device).into_iter().flatten().copied()
    }

    /// Whether it is elsewhere now.
    pub fn say(&mut self, id: HostId, is_declared: bool, host: Option<Host>) -> Result<bool, TooManyHosts> {
        if !self.by_id.contains_key(&id) && (host.is_none() || self.by_id.len() >= HOSTS_MAX) {
            return if host.is_some() { Err(TooManyHosts) } else { Ok(false) };
        }
        let said = self.by_id.entry(id).or_default();
        if !is_declared {
            if let Some(old) = &said.observed
                && let Some(there) = self.observed.get_mut(&old.location.device)
            {
                there.remove(&id);
                if there.is_empty() {
                    self.observed.remove(&old.location.device);
                }
            }
            if let Some(new) = &host {
                self.observed.entry(new.location.device.clone()).or_default().insert(id);
            }
        }
        let before = said.counts().map(|host| host.location.clone());
        if is_declared {
            said.declared = host
        } else {
            said.observed = host
        }
        let has_moved = said.counts().map(|host| &host.location) != before.as_ref();
        if said.counts().is_none() {
            self.by_id.remove(&id);
        }
        Ok(has_moved)
    }
}
