//! Hosts: the users of the network, and what is said of their places. Operators declare a host, its own
//! node reports it, or its neighbour does by LLDP.
//!
//! Absent: which of several statements counts, and that a host can have no place at all
//! (`topology/host_location.rs`); the sources of these reports (`Ports::look_for_hosts`,
//! `links_from_reports.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use muster_shared::model::flow::DeviceName;
use muster_shared::{NodeId, mac};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::topology::ConnectPoint;

/// Bound on the hosts of a site.
pub const HOSTS_MAX: usize = 100_000;
/// Addresses kept of one host.
pub const ADDRESSES_MAX: usize = 64;

/// The MAC address of a host: of one interface, not a group address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostId([u8; 6]);

/// A text is not the id of a host.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("want the MAC address of one interface, such as 52:54:00:12:34:56")]
pub struct NotAHost;

impl HostId {
    /// A host id of these octets. `None`: a group address, or all zeros.
    pub fn new(octets: [u8; 6]) -> Option<Self> {
        (octets[0] & 1 == 0 && octets != [0; 6]).then_some(Self(octets))
    }

    /// The value in a rule.
    pub fn value(self) -> u128 {
        self.0.iter().fold(0, |value, octet| value << 8 | u128::from(*octet))
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&mac::text(&self.0))
    }
}

impl FromStr for HostId {
    type Err = NotAHost;

    /// Reads six octets with colons, in upper or lower case: `AA:bb:…` and `aa:BB:…` are one host.
    fn from_str(text: &str) -> Result<Self, NotAHost> {
        mac::parse(text).and_then(Self::new).ok_or(NotAHost)
    }
}

/// The place of a host, and its addresses there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The port of the host.
    pub location: ConnectPoint,
    /// In no particular order.
    pub addresses: Vec<IpAddr>,
}

/// Statements about a host.
#[derive(Debug, Default)]
pub(crate) struct Said {
    declared: Option<Host>,
    /// Observations, by the node of the agent.
    observed: BTreeMap<NodeId, Host>,
}

impl Said {
    /// The declared place.
    pub fn declared(&self) -> Option<&Host> {
        self.declared.as_ref()
    }

    /// The observed places, by name of the node.
    pub fn observed(&self) -> impl Iterator<Item = &Host> {
        self.observed.values()
    }
}

/// The place of a host, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostLocation<'a> {
    /// No declaration and no observation.
    Unknown,
    At(&'a Host),
    /// Several nodes report the host, each at its own port. One of them has a wrong MAC address.
    Claimed(Vec<&'a Host>),
}

/// Hosts of a site.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    by_id: BTreeMap<HostId, Said>,
    /// The hosts observed on each device.
    observed: BTreeMap<DeviceName, BTreeSet<HostId>>,
    /// Hosts that several nodes report.
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

    /// Host ids, in order.
    pub fn ids(&self) -> impl Iterator<Item = HostId> {
        self.by_id.keys().copied()
    }

    /// Hosts that several nodes report.
    pub fn with_several(&self) -> impl Iterator<Item = HostId> {
        self.several.iter().copied()
    }

    /// Hosts observed on a device.
    pub fn observed_on(&self, device: &DeviceName) -> impl Iterator<Item = HostId> {
        self.observed.get(device).into_iter().flatten().copied()
    }

    /// Declares the place of a host, or retracts that.
    pub fn declare(&mut self, id: HostId, host: Option<Host>) -> Result<(), TooManyHosts> {
        if let Some(said) = self.said(id, host.is_some())? {
            said.declared = host;
        }
        self.forget_unsaid(id);
        Ok(())
    }

    /// Notes that a node's agent sees the host, or no longer does.
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
