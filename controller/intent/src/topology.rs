//! Devices, their ports, and the links between them.
//!
//! A number stands for a name as long as the program runs, also after the thing is gone and has come back: what holds a
//! number never means something else. A link has a direction; a cable is two of them.
//!
//! Absent: where any of it is known from, and when.

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::NodeId;
use muster_shared::model::flow::{DeviceName, Port};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::host::{Host, HostId, Hosts, TooManyHosts, Whereabouts};

/// Devices, all ever seen.
pub const DEVICES_MAX: usize = 100_000;
/// Ports of one device, all ever seen.
pub const PORTS_MAX: usize = 4096;
/// The cost of a link where none is given.
pub const COST: u32 = 1;
/// What a link costs more where nothing can be put on one of its devices now: more than any way round.
const AWAY: u32 = 1 << 24;

/// A device of a [`Topology`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNo(u32);

impl DeviceNo {
    /// From 0, without gaps.
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
    /// From 0, without gaps.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A port by names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConnectPoint {
    /// Whose port it is.
    pub device: DeviceName,
    /// The interface.
    pub port: Box<str>,
}

/// What is said of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkTraits {
    /// The sum over a path is what the cheapest path has least of; from 1.
    pub cost: u32,
    /// Bits per second that may be reserved; none: it is not known, and nothing can be.
    pub bandwidth: Option<u64>,
    /// Nanoseconds; none: it is not known.
    pub latency: Option<u64>,
    /// Whatever else, such as `type`.
    pub annotations: BTreeMap<Box<str>, Box<str>>,
}

/// What became of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Packets pass, which did not before.
    LinkUp(LinkNo),
    /// Packets no longer pass.
    LinkDown(LinkNo),
    /// The traits are others; packets pass as before.
    LinkChanged(LinkNo),
    /// It can be an end point, which it could not before.
    PortUp(PortNo),
    /// It can no longer be an end point.
    PortDown(PortNo),
    /// No link is at it any more.
    PortFree(PortNo),
    /// A link is known at it, and was not.
    PortInner(PortNo),
    /// It is at another port, or not known any more, or was not before.
    Host(HostId),
}

/// The reason why something cannot be said of a topology.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TopologyError {
    /// More than [`DEVICES_MAX`].
    #[error("a site has at most {DEVICES_MAX} devices")]
    Devices,
    /// More than [`PORTS_MAX`].
    #[error("{0} has more than {PORTS_MAX} ports")]
    Ports(DeviceName),
    /// From a device to itself.
    #[error("a link cannot connect {0} to itself")]
    Loop(DeviceName),
    /// The port has another link already.
    #[error("{port} has a link with {other} already, and a port has one cable")]
    Taken {
        /// The port.
        port: ConnectPoint,
        /// What it is connected with.
        other: ConnectPoint,
    },
    /// Of hosts.
    #[error(transparent)]
    Hosts(#[from] TooManyHosts),
    /// A cost of 0.
    #[error("a link costs at least 1")]
    Cost,
}

#[derive(Debug)]
struct Device {
    name: DeviceName,
    up: bool,
    /// Nothing can be put there now.
    away: bool,
    ports: BTreeMap<Box<str>, PortNo>,
    /// By number: all that ever left here.
    out: Vec<LinkNo>,
    /// By number: all that ever led here.
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
    /// Heard with LLDP.
    discovered: bool,
    /// Was heard once, and is no longer though it should be.
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
    /// As a rule names the port.
    pub fn of_rule(&self) -> Port {
        Port::Named(self.port.clone())
    }
}

fn number<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).expect("bounded by DEVICES_MAX and PORTS_MAX")
}

impl Topology {
    /// Changes with everything that may make another path.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What became of what since this was asked last; something that came back to what it was is not in it.
    pub fn take_changes(&mut self) -> BTreeSet<Change> {
        std::mem::take(&mut self.changes)
    }

    /// By name, if it was ever seen.
    pub fn device(&self, name: &DeviceName) -> Option<DeviceNo> {
        self.by_name.get(name).copied()
    }

    /// By name, if it was ever seen.
    pub fn port(&self, point: &ConnectPoint) -> Option<PortNo> {
        self.port_on(self.device(&point.device)?, &point.port)
    }

    /// By its name on its device, if it was ever seen.
    pub fn port_on(&self, device: DeviceNo, name: &str) -> Option<PortNo> {
        self.devices[device.0 as usize].ports.get(name).copied()
    }

    /// By its ends, if it was ever there.
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

    /// As a rule of its device names it.
    pub fn port_of_rule(&self, port: PortNo) -> Port {
        Port::Named(self.ports[port.0 as usize].name.clone())
    }

    pub fn device_of(&self, port: PortNo) -> DeviceNo {
        self.ports[port.0 as usize].device
    }

    /// From where to where.
    pub fn ends(&self, link: LinkNo) -> (PortNo, PortNo) {
        let link = &self.links[link.0 as usize];
        (link.from, link.to)
    }

    /// From which device to which.
    pub fn devices_of(&self, link: LinkNo) -> (DeviceNo, DeviceNo) {
        let (from, to) = self.ends(link);
        (self.device_of(from), self.device_of(to))
    }

    /// The same cable, the other way.
    pub fn back(&self, link: LinkNo) -> Option<LinkNo> {
        let (from, to) = self.ends(link);
        self.by_ends.get(&(to, from)).copied()
    }

    /// What was declared of it; of one that was only discovered the defaults.
    pub fn traits(&self, link: LinkNo) -> LinkTraits {
        self.links[link.0 as usize].declared.clone().unwrap_or_default()
    }

    /// The cost; more where a device of it is away.
    pub fn cost(&self, link: LinkNo) -> u32 {
        let (from, to) = self.devices_of(link);
        let own = self.links[link.0 as usize].declared.as_ref().map_or(COST, |traits| traits.cost);
        let away = self.is_away(from) || self.is_away(to);
        if away { own.saturating_add(AWAY) } else { own }
    }

    /// Nothing can be put there now.
    pub fn is_away(&self, device: DeviceNo) -> bool {
        self.devices[device.0 as usize].away
    }

    /// The agent is not there, or there again: new paths keep off it where they can.
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

    /// All that are up, by number.
    pub fn devices(&self) -> impl Iterator<Item = DeviceNo> + '_ {
        (0..).map(DeviceNo).zip(&self.devices).filter(|(_, device)| device.up).map(|(number, _)| number)
    }

    /// All over which packets pass, by number.
    pub fn links(&self) -> impl Iterator<Item = LinkNo> + '_ {
        (0..number(&self.links)).map(LinkNo).filter(|link| self.passes(*link))
    }

    /// Those that leave a device, and over which packets pass; by number.
    pub fn out(&self, device: DeviceNo) -> impl Iterator<Item = LinkNo> + '_ {
        self.devices[device.0 as usize].out.iter().copied().filter(|link| self.passes(*link))
    }

    /// All that ever left a device, by number.
    pub(crate) fn ever_out(&self, device: DeviceNo) -> &[LinkNo] {
        &self.devices[device.0 as usize].out
    }

    /// All that ever led to a device, by number.
    pub(crate) fn ever_into(&self, device: DeviceNo) -> &[LinkNo] {
        &self.devices[device.0 as usize].into
    }

    /// How many devices there ever were.
    pub(crate) fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// How many links there ever were: the number of the next one.
    pub(crate) fn next_link(&self) -> LinkNo {
        LinkNo(number(&self.links))
    }

    /// What is said of a link beyond numbers.
    pub fn annotation(&self, link: LinkNo, name: &str) -> Option<&str> {
        self.links[link.0 as usize].declared.as_ref()?.annotations.get(name).map(|value| &**value)
    }

    /// Packets pass over it: both ports are up, somebody says that it is there, and LLDP does not say otherwise.
    pub fn passes(&self, link: LinkNo) -> bool {
        let Link { from, to, declared, discovered, silent } = &self.links[link.0 as usize];
        (declared.is_some() || *discovered) && !silent && self.is_up(*from) && self.is_up(*to)
    }

    /// The port and its device are up.
    pub fn is_up(&self, port: PortNo) -> bool {
        let state = &self.ports[port.0 as usize];
        state.up && self.devices[state.device.0 as usize].up
    }

    /// The port itself is up, whatever its device is.
    pub fn is_port_up(&self, port: PortNo) -> bool {
        self.ports[port.0 as usize].up
    }

    /// The device is up.
    pub fn is_device_up(&self, device: DeviceNo) -> bool {
        self.devices[device.0 as usize].up
    }

    /// Those of a device, by name.
    pub fn ports(&self, device: DeviceNo) -> impl Iterator<Item = PortNo> + '_ {
        self.devices[device.0 as usize].ports.values().copied()
    }

    /// All ever seen, by number.
    pub fn all_devices(&self) -> impl Iterator<Item = DeviceNo> + '_ {
        (0..number(&self.devices)).map(DeviceNo)
    }

    /// All that somebody says are there, by number.
    pub fn known_links(&self) -> impl Iterator<Item = LinkNo> + '_ {
        let is_there = |link: &LinkNo| {
            let (declared, discovered) = self.said(*link);
            declared || discovered
        };
        (0..number(&self.links)).map(LinkNo).filter(is_there)
    }

    /// Whether it was declared, and whether LLDP tells of it.
    pub fn said(&self, link: LinkNo) -> (bool, bool) {
        let link = &self.links[link.0 as usize];
        (link.declared.is_some(), link.discovered)
    }

    /// Where a host is, if that is known and one place.
    pub fn host(&self, id: HostId) -> Option<&Host> {
        match self.whereabouts(id) {
            Whereabouts::At(host) => Some(host),
            Whereabouts::Unknown | Whereabouts::Claimed(_) => None,
        }
    }

    /// Where a host is. What an agent said that is away counts where nobody else tells of the host.
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

    /// By id: where each is or is claimed to be, whether somebody declares it, and whether it was observed.
    pub fn hosts(&self) -> impl Iterator<Item = (HostId, Whereabouts<'_>, bool, bool)> {
        self.hosts.ids().filter_map(|id| {
            let said = self.hosts.get(id)?;
            let (declared, observed) = (said.declared().is_some(), said.observed().next().is_some());
            Some((id, self.whereabouts(id), declared, observed))
        })
    }

    /// Those that several nodes claim.
    pub fn claimed(&self) -> impl Iterator<Item = (HostId, Vec<&Host>)> {
        self.hosts.with_several().filter_map(|id| match self.whereabouts(id) {
            Whereabouts::Claimed(hosts) => Some((id, hosts)),
            Whereabouts::Unknown | Whereabouts::At(_) => None,
        })
    }

    /// Somebody says where a host is, or does not any more.
    ///
    /// # Errors
    /// There are too many.
    pub fn declare_host(&mut self, id: HostId, host: Option<Host>) -> Result<(), TopologyError> {
        let before = self.location(id);
        self.hosts.declare(id, host)?;
        self.host_changed(id, before.as_ref());
        Ok(())
    }

    /// A host was seen by a node's agent, or is not any more.
    ///
    /// # Errors
    /// There are too many.
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

    /// What goes to a host stays where it is when another node claims it.
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

    /// It was there before: nobody is concerned.
    pub(crate) fn is_no_news(&mut self, host: HostId) {
        self.changes.remove(&Change::Host(host));
    }

    /// Those that were seen on a device.
    pub(crate) fn hosts_observed_on(&self, device: &DeviceName) -> impl Iterator<Item = HostId> {
        self.hosts.observed_on(device)
    }

    /// The link over which LLDP is heard at a port.
    pub fn heard_at(&self, port: PortNo) -> Option<LinkNo> {
        let mut into = self.ports[port.0 as usize].into.iter().copied();
        into.find(|link| self.links[link.0 as usize].discovered)
    }

    /// The link whose LLDP was heard at a port and is no longer, though somebody says that it is there.
    pub fn missed_at(&self, port: PortNo) -> Option<LinkNo> {
        let mut into = self.ports[port.0 as usize].into.iter().copied();
        into.find(|link| self.links[link.0 as usize].silent)
    }

    /// As [`Topology::miss`] left it: after a start, when what was declared is known.
    pub fn is_missed(&mut self, link: LinkNo) {
        self.change(&[], &[link], |topology| {
            let state = &mut topology.links[link.0 as usize];
            (state.discovered, state.silent) = (false, state.declared.is_some());
        });
    }

    /// Links that leave by a port, and of which LLDP tells.
    pub fn discovered_out(&self, port: PortNo) -> impl Iterator<Item = LinkNo> + '_ {
        let out = self.ports[port.0 as usize].out.iter().copied();
        out.filter(|link| self.links[link.0 as usize].discovered)
    }

    /// A link is known at it, also one over which nothing passes now: hosts are elsewhere.
    pub fn is_inner(&self, port: PortNo) -> bool {
        let state = &self.ports[port.0 as usize];
        state.out.iter().chain(&state.into).any(|link| {
            let link = &self.links[link.0 as usize];
            link.declared.is_some() || link.discovered
        })
    }

    /// An agent tells of a device, or that it is gone.
    ///
    /// # Errors
    /// There are too many.
    pub fn set_device(&mut self, name: &DeviceName, up: bool) -> Result<DeviceNo, TopologyError> {
        let device = self.make_device(name)?;
        if self.devices[device.0 as usize].up != up {
            let ports: Vec<PortNo> = self.devices[device.0 as usize].ports.values().copied().collect();
            self.change(&ports, &[], |topology| topology.devices[device.0 as usize].up = up);
        }
        Ok(device)
    }

    /// An agent tells of a port, or that it is down or gone.
    ///
    /// # Errors
    /// There are too many.
    pub fn set_port(&mut self, point: &ConnectPoint, up: bool) -> Result<PortNo, TopologyError> {
        let port = self.make_port(point)?;
        self.set_port_up(port, up);
        Ok(port)
    }

    /// By name, also before anybody told of it.
    ///
    /// # Errors
    /// There are too many.
    pub fn know_device(&mut self, name: &DeviceName) -> Result<DeviceNo, TopologyError> {
        self.make_device(name)
    }

    /// By name, also before anybody told of it.
    ///
    /// # Errors
    /// There are too many.
    pub fn know_port(&mut self, point: &ConnectPoint) -> Result<PortNo, TopologyError> {
        self.make_port(point)
    }

    /// The port is up.
    pub fn raise(&mut self, port: PortNo) {
        self.set_port_up(port, true);
    }

    /// The port is down, or gone.
    pub fn lower(&mut self, port: PortNo) {
        self.set_port_up(port, false);
    }

    fn set_port_up(&mut self, port: PortNo, up: bool) {
        if self.ports[port.0 as usize].up != up {
            self.change(&[port], &[], |topology| topology.ports[port.0 as usize].up = up);
        }
    }

    /// Somebody says that there is a link, in this direction, and what it is like.
    ///
    /// # Errors
    /// What is said cannot be, beside what was said before.
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

    /// Nobody says any more that there is such a link.
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

    /// LLDP was heard over it, and is no longer: one that was declared is there, and nothing passes.
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

    /// Links that leave by a port, or did.
    pub fn links_out_of(&self, port: PortNo) -> &[LinkNo] {
        &self.ports[port.0 as usize].out
    }

    /// Links that end at a port, or did.
    pub fn links_into(&self, port: PortNo) -> &[LinkNo] {
        &self.ports[port.0 as usize].into
    }

    /// What the port is connected with, as far as anybody says.
    pub fn neighbour(&self, port: PortNo) -> Option<PortNo> {
        let state = &self.ports[port.0 as usize];
        let far = |link: &LinkNo| {
            let link = &self.links[link.0 as usize];
            let is_there = link.declared.is_some() || link.discovered;
            is_there.then_some(if link.from == port { link.to } else { link.from })
        };
        state.out.iter().chain(&state.into).find_map(far)
    }

    /// Where packets that leave by the port may come in: at its neighbour. Where nobody tells of one, wherever it was
    /// connected with: a cable that failed may be whole again at any time, and the rules that lead over it count then.
    pub(crate) fn may_lead_to(&self, port: PortNo) -> impl Iterator<Item = PortNo> + '_ {
        let neighbour = self.neighbour(port);
        let state = &self.ports[port.0 as usize];
        let ever = state.out.iter().map(|link| self.links[link.0 as usize].to);
        let ever = ever.chain(state.into.iter().map(|link| self.links[link.0 as usize].from));
        neighbour.into_iter().chain(ever.filter(move |_| neighbour.is_none()))
    }

    /// Does it, and notes what became of these ports and links, and of the ports' links.
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

    /// A link that failed and healed before anybody looked carried nothing meanwhile, but its paths are what they were.
    fn note(&mut self, change: Change, opposite: Change) {
        // Ports without links lie on no path.
        if let Change::LinkUp(_) | Change::LinkDown(_) | Change::LinkChanged(_) = change {
            self.version += 1;
        }
        if !self.changes.remove(&opposite) {
            self.changes.insert(change);
        }
    }
}
