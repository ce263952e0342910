//! Devices, their ports, and the links between them.
//!
//! A number stands for a name as long as the program runs, also after the thing is gone and back.
//! So a kept number never means another thing. A link has a direction; a cable is two links.
//!
//! Absent: where the knowledge comes from, and time.

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::NodeId;
use muster_shared::model::flow::{DeviceName, Port};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::host::{Host, HostId, Hosts, TooManyHosts, Whereabouts};

/// Devices, including those that are gone.
pub const DEVICES_MAX: usize = 100_000;
/// Ports of one device, including those that are gone.
pub const PORTS_MAX: usize = 4096;
/// The default cost of a link.
pub const COST: u32 = 1;
/// Additional cost of a link if one of its devices is away and takes no rules. It is above any detour.
const AWAY: u32 = 1 << 24;

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

/// A change of the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Packets now pass.
    LinkUp(LinkNo),
    /// Packets no longer pass.
    LinkDown(LinkNo),
    /// The traits changed; packets pass as before.
    LinkChanged(LinkNo),
    /// The port can now be an end point.
    PortUp(PortNo),
    /// The port can no longer be an end point.
    PortDown(PortNo),
    /// The port no longer has a link.
    PortFree(PortNo),
    /// The port now has a link.
    PortInner(PortNo),
    /// The host has appeared, moved or gone.
    Host(HostId),
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
    /// Changes with everything that may change a path.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Changes since the last call. A thing that changed back is not among them.
    pub fn take_changes(&mut self) -> BTreeSet<Change> {
        std::mem::take(&mut self.changes)
    }

    /// The device with this name, if it was ever seen.
    pub fn device(&self, name: &DeviceName) -> Option<DeviceNo> {
        self.by_name.get(name).copied()
    }

    /// The port with these names, if it was ever seen.
    pub fn port(&self, point: &ConnectPoint) -> Option<PortNo> {
        self.port_on(self.device(&point.device)?, &point.port)
    }

    /// The port with this name on the device, if it was ever seen.
    pub fn port_on(&self, device: DeviceNo, name: &str) -> Option<PortNo> {
        self.devices[device.0 as usize].ports.get(name).copied()
    }

    /// The link with these ends, if it was ever there.
    pub fn link(&self, from: &ConnectPoint, to: &ConnectPoint) -> Option<LinkNo> {
        self.by_ends.get(&(self.port(from)?, self.port(to)?)).copied()
    }

    pub fn device_name(&self, device: DeviceNo) -> &DeviceName {
        &self.devices[device.0 as usize].name
    }

    pub fn point(&self, port: PortNo) -> ConnectPoint {
        let state = &self.ports[port.0 as usize];
        ConnectPoint { device: self.device_name(state.device).clone(), port: state.name.clone() }
    }

    /// The port as a rule of its device names it.
    pub fn port_of_rule(&self, port: PortNo) -> Port {
        Port::Named(self.ports[port.0 as usize].name.clone())
    }

    pub fn device_of(&self, port: PortNo) -> DeviceNo {
        self.ports[port.0 as usize].device
    }

    /// The ports at both ends, in the direction of the link.
    pub fn ends(&self, link: LinkNo) -> (PortNo, PortNo) {
        let link = &self.links[link.0 as usize];
        (link.from, link.to)
    }

    /// The devices at both ends, in the direction of the link.
    pub fn devices_of(&self, link: LinkNo) -> (DeviceNo, DeviceNo) {
        let (from, to) = self.ends(link);
        (self.device_of(from), self.device_of(to))
    }

    /// The opposite direction of the same cable.
    pub fn back(&self, link: LinkNo) -> Option<LinkNo> {
        let (from, to) = self.ends(link);
        self.by_ends.get(&(to, from)).copied()
    }

    /// Declared traits. A link that was only discovered has the defaults.
    pub fn traits(&self, link: LinkNo) -> LinkTraits {
        self.links[link.0 as usize].declared.clone().unwrap_or_default()
    }

    /// The cost. It is higher if a device of the link is away.
    pub fn cost(&self, link: LinkNo) -> u32 {
        let (from, to) = self.devices_of(link);
        let own = self.links[link.0 as usize].declared.as_ref().map_or(COST, |traits| traits.cost);
        let away = self.is_away(from) || self.is_away(to);
        if away { own.saturating_add(AWAY) } else { own }
    }

    /// Whether the device takes no rules now, because its agent is away.
    pub fn is_away(&self, device: DeviceNo) -> bool {
        self.devices[device.0 as usize].away
    }

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

    /// Bits per second, if known.
    pub fn bandwidth(&self, link: LinkNo) -> Option<u64> {
        self.links[link.0 as usize].declared.as_ref()?.bandwidth
    }

    /// Nanoseconds, if known.
    pub fn latency(&self, link: LinkNo) -> Option<u64> {
        self.links[link.0 as usize].declared.as_ref()?.latency
    }

    /// Devices that are up, by number.
    pub fn devices(&self) -> impl Iterator<Item = DeviceNo> + '_ {
        (0..).map(DeviceNo).zip(&self.devices).filter(|(_, device)| device.up).map(|(number, _)| number)
    }

    /// Links over which packets pass, by number.
    pub fn links(&self) -> impl Iterator<Item = LinkNo> + '_ {
        (0..number(&self.links)).map(LinkNo).filter(|link| self.passes(*link))
    }

    /// Links that leave a device and over which packets pass, by number.
    pub fn out(&self, device: DeviceNo) -> impl Iterator<Item = LinkNo> + '_ {
        self.devices[device.0 as usize].out.iter().copied().filter(|link| self.passes(*link))
    }

    /// Links that left a device at any time, by number.
    pub(crate) fn ever_out(&self, device: DeviceNo) -> &[LinkNo] {
        &self.devices[device.0 as usize].out
    }

    /// Links that led to a device at any time, by number.
    pub(crate) fn ever_into(&self, device: DeviceNo) -> &[LinkNo] {
        &self.devices[device.0 as usize].into
    }

    /// Number of devices, including those that are gone.
    pub(crate) fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// The number of the next new link.
    pub(crate) fn next_link(&self) -> LinkNo {
        LinkNo(number(&self.links))
    }

    /// An annotation of a link.
    pub fn annotation(&self, link: LinkNo, name: &str) -> Option<&str> {
        self.links[link.0 as usize].declared.as_ref()?.annotations.get(name).map(|value| &**value)
    }

    /// Whether packets pass: both ports are up, the link is declared or discovered, and LLDP is not missing.
    pub fn passes(&self, link: LinkNo) -> bool {
        let Link { from, to, declared, discovered, silent } = &self.links[link.0 as usize];
        (declared.is_some() || *discovered) && !silent && self.is_up(*from) && self.is_up(*to)
    }

    /// Whether the port and its device are up.
    pub fn is_up(&self, port: PortNo) -> bool {
        let state = &self.ports[port.0 as usize];
        state.up && self.devices[state.device.0 as usize].up
    }

    /// Whether the port itself is up, whatever its device is.
    pub fn is_port_up(&self, port: PortNo) -> bool {
        self.ports[port.0 as usize].up
    }

    /// The device is up.
    pub fn is_device_up(&self, device: DeviceNo) -> bool {
        self.devices[device.0 as usize].up
    }

    /// Ports of a device, by name.
    pub fn ports(&self, device: DeviceNo) -> impl Iterator<Item = PortNo> + '_ {
        self.devices[device.0 as usize].ports.values().copied()
    }

    /// Devices, including those that are gone, by number.
    pub fn all_devices(&self) -> impl Iterator<Item = DeviceNo> + '_ {
        (0..number(&self.devices)).map(DeviceNo)
    }

    /// Links that are declared or discovered, by number.
    pub fn known_links(&self) -> impl Iterator<Item = LinkNo> + '_ {
        let is_there = |link: &LinkNo| {
            let (declared, discovered) = self.said(*link);
            declared || discovered
        };
        (0..number(&self.links)).map(LinkNo).filter(is_there)
    }

    /// Whether the link is declared, and whether it is discovered.
    pub fn said(&self, link: LinkNo) -> (bool, bool) {
        let link = &self.links[link.0 as usize];
        (link.declared.is_some(), link.discovered)
    }

    /// The place of a host, if it is known and not in dispute.
    pub fn host(&self, id: HostId) -> Option<&Host> {
        match self.whereabouts(id) {
            Whereabouts::At(host) => Some(host),
            Whereabouts::Unknown | Whereabouts::Claimed(_) => None,
        }
    }

    /// The place of a host. A statement of an agent that is away counts only if no other agent sees
    /// the host.
    pub fn whereabouts(&self, id: HostId) -> Whereabouts<'_> {
        let Some(said) = self.hosts.get(id) else { return Whereabouts::Unknown };
        if let Some(declared) = said.declared() {
            return Whereabouts::At(declared);
        }
        let all: Vec<&Host> = said.observed().collect();
        let is_there =
            |host: &&&Host| self.device(&host.location.device).is_some_and(|device| !self.is_away(device));
        let present: Vec<&Host> = all.iter().filter(is_there).copied().collect();
        match (present.as_slice(), all.as_slice()) {
            ([one], _) | ([], [one]) => Whereabouts::At(one),
            ([], _) => Whereabouts::Claimed(all),
            _ => Whereabouts::Claimed(present),
        }
    }

    /// Hosts by id, each with its place, whether it is declared, and whether it is observed.
    pub fn hosts(&self) -> impl Iterator<Item = (HostId, Whereabouts<'_>, bool, bool)> {
        self.hosts.ids().filter_map(|id| {
            let said = self.hosts.get(id)?;
            let (declared, observed) = (said.declared().is_some(), said.observed().next().is_some());
            Some((id, self.whereabouts(id), declared, observed))
        })
    }

    /// Hosts that several nodes claim.
    pub fn claimed(&self) -> impl Iterator<Item = (HostId, Vec<&Host>)> {
        self.hosts.with_several().filter_map(|id| match self.whereabouts(id) {
            Whereabouts::Claimed(hosts) => Some((id, hosts)),
            Whereabouts::Unknown | Whereabouts::At(_) => None,
        })
    }

    /// Declares the place of a host, or retracts that.
    ///
    /// # Errors
    /// There are too many hosts.
    pub fn declare_host(&mut self, id: HostId, host: Option<Host>) -> Result<(), TopologyError> {
        let before = self.location(id);
        self.hosts.declare(id, host)?;
        self.host_changed(id, before.as_ref());
        Ok(())
    }

    /// Notes that the agent of a node sees a host, or no longer does.
    ///
    /// # Errors
    /// There are too many hosts.
    pub fn observe_host(
        &mut self,
        id: HostId,
        node: &NodeId,
        host: Option<Host>,
    ) -> Result<(), TopologyError> {
        let before = self.location(id);
        self.hosts.observe(id, node, host)?;
        self.host_changed(id, before.as_ref());
        Ok(())
    }

    fn location(&self, id: HostId) -> Option<ConnectPoint> {
        self.host(id).map(|host| host.location.clone())
    }

    /// Notes a change of a host's place. Paths to a host stay when another node claims it.
    fn host_changed(&mut self, id: HostId, before: Option<&ConnectPoint>) {
        let concerns = match self.whereabouts(id) {
            Whereabouts::At(host) => before != Some(&host.location),
            Whereabouts::Unknown => before.is_some(),
            Whereabouts::Claimed(_) => false,
        };
        if concerns {
            self.changes.insert(Change::Host(id));
        }
    }

    /// Drops the change of a host whose place was known before the start.
    pub(crate) fn is_no_news(&mut self, host: HostId) {
        self.changes.remove(&Change::Host(host));
    }

    /// Hosts that are observed on a device.
    pub(crate) fn hosts_observed_on(&self, device: &DeviceName) -> impl Iterator<Item = HostId> {
        self.hosts.observed_on(device)
    }

    /// The link whose LLDP is heard at a port.
    pub fn heard_at(&self, port: PortNo) -> Option<LinkNo> {
        let mut into = self.ports[port.0 as usize].into.iter().copied();
        into.find(|link| self.links[link.0 as usize].discovered)
    }

    /// The declared link whose LLDP was heard at a port and is no longer.
    pub fn missed_at(&self, port: PortNo) -> Option<LinkNo> {
        let mut into = self.ports[port.0 as usize].into.iter().copied();
        into.find(|link| self.links[link.0 as usize].silent)
    }

    /// Restores a missed link after a start, once declared links are known. The effect is that of
    /// [`Topology::miss`].
    pub fn is_missed(&mut self, link: LinkNo) {
        self.change(&[], &[link], |topology| {
            let state = &mut topology.links[link.0 as usize];
            (state.discovered, state.silent) = (false, state.declared.is_some());
        });
    }

    /// Discovered links that leave by a port.
    pub fn discovered_out(&self, port: PortNo) -> impl Iterator<Item = LinkNo> + '_ {
        let out = self.ports[port.0 as usize].out.iter().copied();
        out.filter(|link| self.links[link.0 as usize].discovered)
    }

    /// Whether a link is known at the port, even if no packets pass over it. Hosts are not at such
    /// a port.
    pub fn is_inner(&self, port: PortNo) -> bool {
        let state = &self.ports[port.0 as usize];
        state.out.iter().chain(&state.into).any(|link| {
            let link = &self.links[link.0 as usize];
            link.declared.is_some() || link.discovered
        })
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

    /// Links that leave by a port or did once.
    pub fn links_out_of(&self, port: PortNo) -> &[LinkNo] {
        &self.ports[port.0 as usize].out
    }

    /// Links that end at a port or did once.
    pub fn links_into(&self, port: PortNo) -> &[LinkNo] {
        &self.ports[port.0 as usize].into
    }

    /// The port at the other end, as far as it is known.
    pub fn neighbour(&self, port: PortNo) -> Option<PortNo> {
        let state = &self.ports[port.0 as usize];
        let far = |link: &LinkNo| {
            let link = &self.links[link.0 as usize];
            let is_there = link.declared.is_some() || link.discovered;
            is_there.then_some(if link.from == port { link.to } else { link.from })
        };
        state.out.iter().chain(&state.into).find_map(far)
    }

    /// Ports where packets that leave by this port may come in: the neighbour, if one is known.
    /// Otherwise all former neighbours: a cable that failed may be whole again at any time, and the
    /// rules over it count then.
    pub(crate) fn may_lead_to(&self, port: PortNo) -> impl Iterator<Item = PortNo> + '_ {
        let neighbour = self.neighbour(port);
        let state = &self.ports[port.0 as usize];
        let ever = state.out.iter().map(|link| self.links[link.0 as usize].to);
        let ever = ever.chain(state.into.iter().map(|link| self.links[link.0 as usize].from));
        neighbour.into_iter().chain(ever.filter(move |_| neighbour.is_none()))
    }

    /// Applies `how`, and notes the changes of these ports and links, and of the ports' links.
    fn change(&mut self, ports: &[PortNo], links: &[LinkNo], how: impl FnOnce(&mut Self)) {
        let mut touched: BTreeSet<LinkNo> = links.iter().copied().collect();
        for port in ports {
            let state = &self.ports[port.0 as usize];
            touched.extend(state.out.iter().chain(&state.into));
        }
        let before: Vec<bool> = touched.iter().map(|link| self.passes(*link)).collect();
        let ends: BTreeSet<PortNo> = links.iter().flat_map(|link| <[_; 2]>::from(self.ends(*link))).collect();
        let inner: Vec<bool> = ends.iter().map(|port| self.is_inner(*port)).collect();
        let up: Vec<bool> = ports.iter().map(|port| self.is_up(*port)).collect();
        let traits: Vec<LinkTraits> = links.iter().map(|link| self.traits(*link)).collect();
        how(self);
        for (link, before) in touched.into_iter().zip(before) {
            match (before, self.passes(link)) {
                (false, true) => self.note(Change::LinkUp(link), Change::LinkDown(link)),
                (true, false) => self.note(Change::LinkDown(link), Change::LinkUp(link)),
                (true, true) | (false, false) => {}
            }
        }
        for (port, before) in ports.iter().zip(up) {
            match (before, self.is_up(*port)) {
                (false, true) => self.note(Change::PortUp(*port), Change::PortDown(*port)),
                (true, false) => self.note(Change::PortDown(*port), Change::PortUp(*port)),
                (true, true) | (false, false) => {}
            }
        }
        for (port, was_inner) in ends.into_iter().zip(inner) {
            match (was_inner, self.is_inner(port)) {
                (true, false) => self.note(Change::PortFree(port), Change::PortInner(port)),
                (false, true) => self.note(Change::PortInner(port), Change::PortFree(port)),
                (true, true) | (false, false) => {}
            }
        }
        for (link, before) in links.iter().zip(traits) {
            if before != self.traits(*link) {
                self.changes.insert(Change::LinkChanged(*link));
                self.version += 1;
            }
        }
    }

    /// Notes a change. A change and its opposite before the next look cancel out: packets were lost
    /// in between, but the paths are the same.
    fn note(&mut self, change: Change, opposite: Change) {
        // Ports without links are on no path.
        if let Change::LinkUp(_) | Change::LinkDown(_) | Change::LinkChanged(_) = change {
            self.version += 1;
        }
        if !self.changes.remove(&opposite) {
            self.changes.insert(change);
        }
    }
}
