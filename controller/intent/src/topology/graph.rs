//! The topology as a graph to read: names, ends, costs, neighbours, and over which links packets pass.

use muster_shared::model::flow::{DeviceName, Port};

use super::{COST, ConnectPoint, DeviceNo, Link, LinkNo, LinkTraits, PortNo, Topology, number};

/// Additional cost of a link if one of its devices is away and takes no rules. It is above any detour.
const AWAY: u32 = 1 << 24;

impl Topology {
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

    /// Bits per second, if known.
    pub fn bandwidth(&self, link: LinkNo) -> Option<u64> {
        self.links[link.0 as usize].declared.as_ref()?.bandwidth
    }

    /// Nanoseconds, if known.
    pub fn latency(&self, link: LinkNo) -> Option<u64> {
        self.links[link.0 as usize].declared.as_ref()?.latency
    }

    /// An annotation of a link.
    pub fn annotation(&self, link: LinkNo, name: &str) -> Option<&str> {
        self.links[link.0 as usize].declared.as_ref()?.annotations.get(name).map(|value| &**value)
    }

    /// Whether the device takes no rules now, because its agent is away.
    pub fn is_away(&self, device: DeviceNo) -> bool {
        self.devices[device.0 as usize].away
    }

    /// The device is up.
    pub fn is_device_up(&self, device: DeviceNo) -> bool {
        self.devices[device.0 as usize].up
    }

    /// Whether the port itself is up, whatever its device is.
    pub fn is_port_up(&self, port: PortNo) -> bool {
        self.ports[port.0 as usize].up
    }

    /// Whether the port and its device are up.
    pub fn is_up(&self, port: PortNo) -> bool {
        let state = &self.ports[port.0 as usize];
        state.up && self.devices[state.device.0 as usize].up
    }

    /// Whether packets pass: both ports are up, the link is declared or discovered, and LLDP is not missing.
    pub fn passes(&self, link: LinkNo) -> bool {
        let Link { from, to, declared, discovered, silent } = &self.links[link.0 as usize];
        (declared.is_some() || *discovered) && !silent && self.is_up(*from) && self.is_up(*to)
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

    /// Whether the link is declared, and whether it is discovered.
    pub fn said(&self, link: LinkNo) -> (bool, bool) {
        let link = &self.links[link.0 as usize];
        (link.declared.is_some(), link.discovered)
    }

    /// Devices that are up, by number.
    pub fn devices(&self) -> impl Iterator<Item = DeviceNo> + '_ {
        (0..).map(DeviceNo).zip(&self.devices).filter(|(_, device)| device.up).map(|(number, _)| number)
    }

    /// Devices, including those that are gone, by number.
    pub fn all_devices(&self) -> impl Iterator<Item = DeviceNo> + '_ {
        (0..number(&self.devices)).map(DeviceNo)
    }

    /// Number of devices, including those that are gone.
    pub(crate) fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// Ports of a device, by name.
    pub fn ports(&self, device: DeviceNo) -> impl Iterator<Item = PortNo> + '_ {
        self.devices[device.0 as usize].ports.values().copied()
    }

    /// Links over which packets pass, by number.
    pub fn links(&self) -> impl Iterator<Item = LinkNo> + '_ {
        (0..number(&self.links)).map(LinkNo).filter(|link| self.passes(*link))
    }

    /// Links that are declared or discovered, by number.
    pub fn known_links(&self) -> impl Iterator<Item = LinkNo> + '_ {
        let is_there = |link: &LinkNo| {
            let (declared, discovered) = self.said(*link);
            declared || discovered
        };
        (0..number(&self.links)).map(LinkNo).filter(is_there)
    }

    /// The number of the next new link.
    pub(crate) fn next_link(&self) -> LinkNo {
        LinkNo(number(&self.links))
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

    /// Links that leave by a port or did once.
    pub fn links_out_of(&self, port: PortNo) -> &[LinkNo] {
        &self.ports[port.0 as usize].out
    }

    /// Links that end at a port or did once.
    pub fn links_into(&self, port: PortNo) -> &[LinkNo] {
        &self.ports[port.0 as usize].into
    }

    /// Discovered links that leave by a port.
    pub fn discovered_out(&self, port: PortNo) -> impl Iterator<Item = LinkNo> + '_ {
        let out = self.ports[port.0 as usize].out.iter().copied();
        out.filter(|link| self.links[link.0 as usize].discovered)
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
}
