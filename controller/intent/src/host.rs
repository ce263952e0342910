//! Hosts: whom the network is for, and where they are.
//!
//! One that somebody declares is where that says; else where its node tells of it, or its neighbour by LLDP. Where several
//! nodes tell of one it is nowhere: who asks for it is told of all of them.
//!
//! Absent: who tells of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use muster_shared::NodeId;
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

/// The reason why a text is no host.
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
pub(crate) struct Said {
    declared: Option<Host>,
    /// By the node whose agent tells of it.
    observed: BTreeMap<NodeId, Host>,
}

impl Said {
    /// Where somebody says that it is.
    pub fn declared(&self) -> Option<&Host> {
        self.declared.as_ref()
    }

    /// Where agents see it, in the order of their names.
    pub fn observed(&self) -> impl Iterator<Item = &Host> {
        self.observed.values()
    }
}

/// Where a host is, as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts<'a> {
    /// Nobody tells of it.
    Unknown,
    At(&'a Host),
    /// Several nodes tell of it, each at its own port: one of them has another's MAC address.
    Claimed(Vec<&'a Host>),
}

/// Hosts of a site.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    by_id: BTreeMap<HostId, Said>,
    /// By device those that are observed there.
    observed: BTreeMap<DeviceName, BTreeSet<HostId>>,
    /// Those that several nodes tell of.
    several: BTreeSet<HostId>,
}

/// There are more than [`HOSTS_MAX`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a site has at most {HOSTS_MAX} hosts")]
pub struct TooManyHosts;

impl Hosts {
    pub fn get(&self, id: HostId) -> Option<&Said> {
        self.by_id.get(&id)
    }

    /// By id.
    pub fn ids(&self) -> impl Iterator<Item = HostId> {
        self.by_id.keys().copied()
    }

    /// Those that several nodes tell of.
    pub fn with_several(&self) -> impl Iterator<Item = HostId> {
        self.several.iter().copied()
    }

    /// Those that somebody sees on a device.
    pub fn observed_on(&self, device: &DeviceName) -> impl Iterator<Item = HostId> {
        self.observed.get(device).into_iter().flatten().copied()
    }

    /// Somebody says where it is, or does not any more.
    pub fn declare(&mut self, id: HostId, host: Option<Host>) -> Result<(), TooManyHosts> {
        if let Some(said) = self.said(id, host.is_some())? {
            said.declared = host;
        }
        self.forget_unsaid(id);
        Ok(())
    }

    /// A node's agent sees it, or does not any more.
    pub fn observe(&mut self, id: HostId, node: &NodeId, host: Option<Host>) -> Result<(), TooManyHosts> {
        let new = host.as_ref().map(|host| host.location.device.clone());
        let Some(said) = self.said(id, host.is_some())? else { return Ok(()) };
        let old = match host {
            Some(host) => said.observed.insert(node.clone(), host),
            None => said.observed.remove(node),
        };
        match said.observed.len() {
            0 | 1 => self.several.remove(&id),
            _ => self.several.insert(id),
        };
        if let Some(device) = old.map(|host| host.location.device)
            && let Some(there) = self.observed.get_mut(&device)
        {
            there.remove(&id);
            if there.is_empty() {
                self.observed.remove(&device);
            }
        }
        if let Some(device) = new {
            self.observed.entry(device).or_default().insert(id);
        }
        self.forget_unsaid(id);
        Ok(())
    }

    fn said(&mut self, id: HostId, is_new: bool) -> Result<Option<&mut Said>, TooManyHosts> {
        match (self.by_id.contains_key(&id), is_new) {
            (false, false) => Ok(None),
            (false, true) if self.by_id.len() >= HOSTS_MAX => Err(TooManyHosts),
            (false, true) | (true, _) => Ok(Some(self.by_id.entry(id).or_default())),
        }
    }

    fn forget_unsaid(&mut self, id: HostId) {
        if self.by_id.get(&id).is_some_and(|said| said.declared.is_none() && said.observed.is_empty()) {
            self.by_id.remove(&id);
        }
    }
}
