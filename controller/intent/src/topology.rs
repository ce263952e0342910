//! Devices, their ports, and the links between them.
//!
//! A number stands for a name as long as the program runs, also after the thing is gone and back.
//! So a kept number never means another thing. A link has a direction; a cable is two links.
//!
//! This file takes in what agents and operators say of devices, ports and links. `graph` reads them
//! for paths and views, `host_location` has the places of hosts, and `change` keeps what changed.
//!
//! Absent: reports of agents (`links_from_reports.rs`), and time (`damping.rs`).

mod change;
mod graph;
mod host_location;

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::model::flow::{DeviceName, Port};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use self::change::Change;
use crate::host::{Hosts, TooManyHosts};

/// Devices, including those that are gone.
pub const DEVICES_MAX: usize = 100_000;
/// Ports of one device, including those that are gone.
pub const PORTS_MAX: usize = 4096;
/// The default cost of a link.
pub const COST: u32 = 1;

/// A device of a [`Topology`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNo(u32);

impl DeviceNo {
    /// Counts from 0 without gaps.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A port of a [`Topology`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortNo(u32);

/// A direction of a link of a [`Topology`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkNo(u32);

impl LinkNo {
    /// Counts from 0 without gaps.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A port by its names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConnectPoint {
    /// The device of the port.
    pub device: DeviceName,
    /// The interface.
    pub port: Box<str>,
}

/// Declared properties of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkTraits {
    /// Cost, from 1. The cheapest path has the smallest sum.
    pub cost: u32,
    /// Bits per second that intents may reserve. `None`: unknown, so no intent can reserve any.
    pub bandwidth: Option<u64>,
    /// Nanoseconds. `None`: unknown.
    pub latency: Option<u64>,
    /// Other properties, such as `type`.
    pub annotations: BTreeMap<Box<str>, Box<str>>,
}

/// The reason why the topology refuses a statement.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TopologyError {
    /// There are more than [`DEVICES_MAX`].
    #[error("a site has at most {DEVICES_MAX} devices")]
    Devices,
    /// There are more than [`PORTS_MAX`].
    #[error("{0} has more than {PORTS_MAX} ports")]
    Ports(DeviceName),
    /// The link is from a device to itself.
    #[error("a link cannot connect {0} to itself")]
    Loop(DeviceName),
    /// The port has another link.
    #[error("{port} has a link with {other} already, and a port has one cable")]
    Taken {
        port: ConnectPoint,
        /// The port at the other end.
        other: ConnectPoint,
    },
    /// There are too many hosts.
    #[error(transparent)]
    Hosts(#[from] TooManyHosts),
    /// The cost is 0.
    #[error("a link costs at least 1")]
    Cost,
}

#[derive(Debug)]
struct Device {
    name: DeviceName,
    up: bool,
    /// The agent is away, so the device takes no rules.
    away: bool,
    ports: BTreeMap<Box<str>, PortNo>,
    /// Links that left this device at any time, by number.
    out: Vec<LinkNo>,
    /// Links that led to this device at any time, by number.
    into: Vec<LinkNo>,
}

#[derive(Debug)]
struct PortState {
    device: DeviceNo,
    name: Box<str>,
    up: bool,
    out: Vec<LinkNo>,
    into: Vec<LinkNo>,
}

#[derive(Debug)]
struct Link {
    from: PortNo,
    to: PortNo,
    declared: Option<LinkTraits>,
    /// LLDP is heard over the link.
    discovered: bool,
    /// LLDP was heard once and is no longer, though the link is declared.
    silent: bool,
}

/// Devices, ports and links of a site.
#[derive(Debug, Default)]
pub struct Topology {
    devices: Vec<Device>,
    by_name: BTreeMap<DeviceName, DeviceNo>,
    ports: Vec<PortState>,
    links: Vec<Link>,
    by_ends: BTreeMap<(PortNo, PortNo), LinkNo>,
    hosts: Hosts,
    changes: BTreeSet<Change>,
    version: u64,
}

impl Default for LinkTraits {
    fn default() -> Self {
        Self { cost: COST, bandwidth: None, latency: None, annotations: BTreeMap::new() }
    }
}

impl std::fmt::Display for ConnectPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} port {}", self.device, self.port)
    }
}

impl ConnectPoint {
    /// The port as a rule names it.
    pub fn of_rule(&self) -> Port {
        Port::Named(self.port.clone())
    }
}

fn number<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).expect("bounded by DEVICES_MAX and PORTS_MAX")
}

impl Topology {
    /// Sets whether the agent of the device is away. New paths then avoid the device if they can.
    pub fn set_away(&mut self, device: DeviceNo, away: bool) {
        if self.devices[device.0 as usize].away == away {
            return;
        }
        let name = self.device_name(device).clone();
        let hosts: Vec<_> = self.hosts.observed_on(&name).map(|id| (id, self.location(id))).collect();
        self.devices[device.0 as usize].away = away;
        self.version += 1;
        for (id, before) in hosts {
            self.host_changed(id, before.as_ref());
        }
    }

    /// An agent reports that a device exists or is gone.
    ///
    /// # Errors
    /// There are too many devices.
    pub fn set_device(&mut self, name: &DeviceName, up: bool) -> Result<DeviceNo, TopologyError> {
        let device = self.make_device(name)?;
        if self.devices[device.0 as usize].up != up {
            let ports: Vec<PortNo> = self.devices[device.0 as usize].ports.values().copied().collect();
            self.change(&ports, &[], |topology| topology.devices[device.0 as usize].up = up);
        }
        Ok(device)
    }

    /// An agent reports a port as up, down or gone.
    ///
    /// # Errors
    /// There are too many devices or ports.
    pub fn set_port(&mut self, point: &ConnectPoint, up: bool) -> Result<PortNo, TopologyError> {
        let port = self.make_port(point)?;
        self.set_port_up(port, up);
        Ok(port)
    }

    /// The number of a device, which no agent need have reported.
    ///
    /// # Errors
    /// There are too many devices.
    pub fn know_device(&mut self, name: &DeviceName) -> Result<DeviceNo, TopologyError> {
        self.make_device(name)
    }

    /// The number of a port, which no agent need have reported.
    ///
    /// # Errors
    /// There are too many devices or ports.
    pub fn know_port(&mut self, point: &ConnectPoint) -> Result<PortNo, TopologyError> {
        self.make_port(point)
    }

    /// Notes that the port is up.
    pub fn raise(&mut self, port: PortNo) {
        self.set_port_up(port, true);
    }

    /// Notes that the port is down or gone.
    pub fn lower(&mut self, port: PortNo) {
        self.set_port_up(port, false);
    }

    fn set_port_up(&mut self, port: PortNo, up: bool) {
        if self.ports[port.0 as usize].up != up {
            self.change(&[port], &[], |topology| topology.ports[port.0 as usize].up = up);
        }
    }

    /// Declares a link in this direction, with its traits.
    ///
    /// # Errors
    /// The statement contradicts an earlier one, or is wrong by itself.
    pub fn declare(
        &mut self,
        from: &ConnectPoint,
        to: &ConnectPoint,
        traits: LinkTraits,
    ) -> Result<LinkNo, TopologyError> {
        if traits.cost == 0 {
            return Err(TopologyError::Cost);
        }
        let link = self.make_link(from, to)?;
        self.change(&[], &[link], |topology| topology.links[link.0 as usize].declared = Some(traits));
        Ok(link)
    }

    /// Retracts the declaration of a link.
    pub fn retract(&mut self, link: LinkNo) {
        self.change(&[], &[link], |topology| topology.links[link.0 as usize].declared = None);
    }

    /// LLDP of `from` was heard at `to`.
    ///
    /// # Errors
    /// As [`Topology::declare`].
    pub fn hear(&mut self, from: &ConnectPoint, to: &ConnectPoint) -> Result<LinkNo, TopologyError> {
        let link = self.make_link(from, to)?;
        let state = &self.links[link.0 as usize];
        if !state.discovered || state.silent {
            self.change(&[], &[link], |topology| {
                let state = &mut topology.links[link.0 as usize];
                (state.discovered, state.silent) = (true, false);
            });
        }
        Ok(link)
    }

    /// LLDP is no longer heard over the link. A declared link then stays known, but no packets pass.
    pub fn miss(&mut self, link: LinkNo) {
        if self.links[link.0 as usize].discovered {
            self.change(&[], &[link], |topology| {
                let state = &mut topology.links[link.0 as usize];
                (state.discovered, state.silent) = (false, state.declared.is_some());
            });
        }
    }

    /// Restores a missed link after a start, once declared links are known. The effect is that of
    /// [`Topology::miss`].
    pub fn is_missed(&mut self, link: LinkNo) {
        self.change(&[], &[link], |topology| {
            let state = &mut topology.links[link.0 as usize];
            (state.discovered, state.silent) = (false, state.declared.is_some());
        });
    }

    fn make_device(&mut self, name: &DeviceName) -> Result<DeviceNo, TopologyError> {
        if let Some(device) = self.by_name.get(name) {
            return Ok(*device);
        }
        if self.devices.len() == DEVICES_MAX {
            return Err(TopologyError::Devices);
        }
        let device = DeviceNo(number(&self.devices));
        self.by_name.insert(name.clone(), device);
        self.devices.push(Device {
            name: name.clone(),
            up: false,
            away: false,
            ports: BTreeMap::new(),
            out: Vec::new(),
            into: Vec::new(),
        });
        Ok(device)
    }

    fn make_port(&mut self, point: &ConnectPoint) -> Result<PortNo, TopologyError> {
        let device = self.make_device(&point.device)?;
        let port = PortNo(number(&self.ports));
        let ports = &mut self.devices[device.0 as usize].ports;
        if let Some(port) = ports.get(&point.port) {
            return Ok(*port);
        }
        if ports.len() == PORTS_MAX {
            return Err(TopologyError::Ports(point.device.clone()));
        }
        ports.insert(point.port.clone(), port);
        let name = point.port.clone();
        self.ports.push(PortState { device, name, up: false, out: Vec::new(), into: Vec::new() });
        Ok(port)
    }

    fn make_link(&mut self, from: &ConnectPoint, to: &ConnectPoint) -> Result<LinkNo, TopologyError> {
        if from.device == to.device {
            return Err(TopologyError::Loop(from.device.clone()));
        }
        let (start, end) = (self.make_port(from)?, self.make_port(to)?);
        for (port, other) in [(start, end), (end, start)] {
            if let Some(taken) = self.neighbour(port).filter(|neighbour| *neighbour != other) {
                return Err(TopologyError::Taken { port: self.point(port), other: self.point(taken) });
            }
        }
        if let Some(link) = self.by_ends.get(&(start, end)) {
            return Ok(*link);
        }
        let link = LinkNo(number(&self.links));
        self.by_ends.insert((start, end), link);
        self.ports[start.0 as usize].out.push(link);
        self.ports[end.0 as usize].into.push(link);
        let [near, far] = [start, end].map(|port| self.device_of(port).0 as usize);
        self.devices[near].out.push(link);
        self.devices[far].into.push(link);
        self.links.push(Link { from: start, to: end, declared: None, discovered: false, silent: false });
        Ok(link)
    }
}
