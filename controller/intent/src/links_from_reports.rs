//! Ports and beacons that agents report, turned into devices, links and hosts.
//!
//! ```text
//!   agent: Hello, ports with beacons, facts, silence ──▶ Ports ──▶ Manager: devices, links, hosts
//! ```
//!
//! **Invariants.** A beacon heard at one port is a link from the port that sends it. A port that
//! hears beacons of several ports is at a hub, over which no path leads. An agent that has just
//! started to listen keeps the known links. Reports of one node never take a port, a beacon or room
//! from another.
//!
//! Absent: which intents a change concerns (`affected_intents.rs`), and when a port that came back counts as
//! up (`damping.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use muster_shared::model::flow::{Bridge, DeviceName};
use muster_shared::model::topology::{Beacon, DevicePorts, PortState, TOLD_DEVICES_MAX};
use muster_shared::model::{Facts, NeighbourFacts};
use muster_shared::{MonoTime, NodeId};

use crate::host::{ADDRESSES_MAX, Host, HostId};
use crate::manager::{Manager, PortRecord, SettledPort};
use crate::record::IntentChange;
use crate::topology::ConnectPoint;

/// Devices of one node while the controller runs, including those that are gone.
const EVER_TOLD_MAX: usize = 4 * TOLD_DEVICES_MAX;
/// Hosts that one node sees. A server has no more.
const SEEN_MAX: usize = 1024;
/// The kernel's kind of ports that Open vSwitch makes itself.
const INTERNAL: &str = "openvswitch";
/// A port sends a beacon every two seconds. For this long an agent that has just started to listen
/// has not heard all of them.
const LISTENING: Duration = Duration::from_secs(5);

/// An agent reports its bridges right after its Hello, once it has read them. Open vSwitch answers
/// within this time.
const TOLD_WITHIN: Duration = Duration::from_secs(2);
/// Bridges named in the text for a missing one.
const BRIDGES_NAMED: usize = 10;

/// Inputs of a call.
pub struct Turn<'a> {
    pub now: MonoTime,
    pub manager: &'a mut Manager,
    /// Whether a node has joined.
    pub has_joined: &'a dyn Fn(&NodeId) -> bool,
}

/// The state of ports.
#[derive(Debug, Default)]
pub struct Ports {
    /// Devices that each node reported, on its present or last connection.
    told: BTreeMap<NodeId, BTreeMap<Bridge, DevicePorts>>,
    /// The port that sends each beacon.
    beacons: BTreeMap<Beacon, ConnectPoint>,
    /// The beacons that ports sent before the present ones.
    former: BTreeMap<ConnectPoint, Beacon>,
    /// The devices that hear each beacon.
    hearers: BTreeMap<Beacon, BTreeSet<DeviceName>>,
    /// Agents that sent a Hello and have not reported their ports since, and when.
    greeted: BTreeMap<NodeId, MonoTime>,
    /// Agents that have just started to listen, and until when.
    listening: BTreeMap<NodeId, MonoTime>,
    /// The same, by time.
    listened: BTreeSet<(MonoTime, NodeId)>,
    /// Devices with a report that the topology refused in part.
    refused: BTreeSet<DeviceName>,
    changes: VecDeque<IntentChange>,
}

impl Ports {
    /// Whether anything is known of this node.
    pub fn knows(&self, node: &NodeId) -> bool {
        let hears = |hearers: &BTreeSet<DeviceName>| hearers.iter().any(|hearer| hearer.node == *node);
        self.told.contains_key(node)
            || self.greeted.contains_key(node)
            || self.listening.contains_key(node)
            || self.refused.iter().any(|refused| refused.node == *node)
            || self.hearers.values().any(hears)
    }

    /// The next change to persist.
    pub fn poll_change(&mut self) -> Option<IntentChange> {
        self.changes.pop_front()
    }

    /// When to call [`Ports::timeout`].
    pub fn next_due(&self) -> Option<MonoTime> {
        self.listened.first().map(|(due, _)| *due)
    }

    /// The text for a bridge that the node does not have, as far as its agent has reported. An
    /// agent without bridges reports none.
    pub fn lacks_bridge(&self, now: MonoTime, device: &DeviceName) -> Option<String> {
        let told = self.told.get(&device.node);
        let may_have_more = match self.greeted.get(&device.node) {
            Some(greeted) => told.is_some() || *greeted + TOLD_WITHIN > now,
            None => false,
        };
        if may_have_more || device.is_nftables() || told.is_some_and(|told| told.contains_key(&device.bridge))
        {
            return None;
        }
        let told: Vec<&str> =
            told.into_iter().flat_map(BTreeMap::keys).map(|bridge| bridge.as_str()).collect();
        let mut names: Vec<&str> = told.iter().take(BRIDGES_NAMED).copied().collect();
        if told.len() > BRIDGES_NAMED {
            names.push("…");
        }
        let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Some(format!("{} has no bridge {} (it has {has}): the rules wait for it", device.node, device.bridge))
    }

    /// The agent of a node sent a Hello. Beacons that it does not hear yet may exist.
    pub fn greeted(&mut self, now: MonoTime, node: &NodeId) {
        self.greeted.insert(node.clone(), now);
    }

    fn begins_to_listen(&mut self, now: MonoTime, node: &NodeId) {
        let until = now + LISTENING;
        if let Some(old) = self.listening.insert(node.clone(), until) {
            self.listened.remove(&(old, node.clone()));
        }
        self.listened.insert((until, node.clone()));
    }

    /// Handles the time of [`Ports::next_due`]: beacons that agents have not heard by now are missing.
    pub fn timeout(&mut self, turn: &mut Turn<'_>) {
        while self.next_due().is_some_and(|due| due <= turn.now) {
            let Some((_, node)) = self.listened.pop_first() else { return };
            self.listening.remove(&node);
            for name in self.devices_of(&node) {
                self.tell_topology(turn, &name);
            }
        }
    }

    /// The devices that a node reported.
    fn devices_of(&self, node: &NodeId) -> BTreeSet<DeviceName> {
        let bridges = self.told.get(node).into_iter().flat_map(BTreeMap::keys);
        bridges.map(|bridge| DeviceName { node: node.clone(), bridge: bridge.clone() }).collect()
    }

    /// Handles the ports that an agent reports. `facts` are the last ones of its node.
    pub fn told(
        &mut self,
        turn: &mut Turn<'_>,
        node: &NodeId,
        mut devices: Vec<DevicePorts>,
        facts: Option<&Facts>,
    ) {
        if self.greeted.remove(node).is_some() {
            self.begins_to_listen(turn.now, node);
        }
        let mut touched: BTreeSet<DeviceName> = BTreeSet::new();
        let mut gone = BTreeSet::new();
        // Devices that are gone make room for new ones.
        devices.sort_by_key(|device| device.up);
        for device in devices {
            let name = DeviceName { node: node.clone(), bridge: device.bridge.clone() };
            let topology = turn.manager.topology();
            if topology.device(&name).is_none() {
                let own = topology.all_devices().filter(|it| topology.device_name(*it).node == name.node);
                // A node that makes and removes bridges all the time leaves room for other nodes.
                if !device.up || own.count() >= EVER_TOLD_MAX {
                    continue;
                }
            }
            let told = self.told.entry(node.clone()).or_default();
            if !told.contains_key(&name.bridge) && told.len() >= TOLD_DEVICES_MAX {
                continue;
            }
            let new = device.clone();
            if !device.up {
                gone.insert(name.clone());
            }
            let old = match device.up {
                true => told.insert(name.bridge.clone(), device),
                false => told.remove(&name.bridge),
            };
            self.beacons_of(&name, old.as_ref(), &new, &mut touched);
            touched.insert(name);
        }
        for name in &touched {
            self.tell_topology(turn, name);
        }
        if let Some(facts) = facts {
            self.look_for_hosts(turn.manager, node, facts);
        }
        turn.manager.observe_hosts(&gone, Vec::new());
        // A cable that was moved is heard at one end before the other end stops hearing it.
        let refused: Vec<DeviceName> = self.refused.difference(&touched).cloned().collect();
        refused.iter().for_each(|name| self.tell_topology(turn, name));
    }

    /// Observes the hosts that a node knows without a search: itself, at its own ports of its
    /// bridges, and LLDP neighbours, at the ports that hear them.
    pub fn look_for_hosts(&self, manager: &mut Manager, node: &NodeId, facts: &Facts) {
        let Some(told) = self.told.get(node) else { return };
        let mut seen = Vec::new();
        for (bridge, device) in told {
            let device_name = DeviceName { node: node.clone(), bridge: bridge.clone() };
            let ports: BTreeSet<&str> = device.ports.iter().map(|port| &*port.name).collect();
            let links = facts.links.iter().filter(|link| ports.contains(&*link.name));
            for link in links {
                let location = ConnectPoint { device: device_name.clone(), port: link.name.as_str().into() };
                let own = (link.kind == INTERNAL).then_some(link.mac).flatten().and_then(HostId::new);
                let own_addresses = link.addresses.iter().map(IpNet::addr).take(ADDRESSES_MAX).collect();
                let own = own.map(|id| (id, own_addresses));
                // A neighbour whose port id is a MAC address is a server. A switch names its ports.
                let neighbour = |it: &NeighbourFacts| {
                    let id: HostId = it.port_id.parse().ok()?;
                    Some((id, it.management.iter().copied().take(ADDRESSES_MAX).collect()))
                };
                let found = own.into_iter().chain(link.neighbours.iter().filter_map(neighbour));
                seen.extend(found.map(|(id, addresses): (HostId, Vec<IpAddr>)| {
                    (id, Host { location: location.clone(), addresses })
                }));
            }
        }
        seen.truncate(SEEN_MAX);
        manager.observe_hosts(&self.devices_of(node), seen);
    }

    /// Updates the beacons that a device sends and hears.
    fn beacons_of(
        &mut self,
        name: &DeviceName,
        old: Option<&DevicePorts>,
        new: &DevicePorts,
        touched: &mut BTreeSet<DeviceName>,
    ) {
        let said = |device: &DevicePorts| -> BTreeSet<(Beacon, Box<str>)> {
            device.ports.iter().filter_map(|port| Some((port.beacon?, port.name.clone()))).collect()
        };
        let heard = |device: &DevicePorts| -> BTreeSet<Beacon> {
            device.ports.iter().flat_map(|port| &port.heard).copied().collect()
        };
        let (before, now) = (old.map(said).unwrap_or_default(), said(new));
        for (beacon, port) in before.difference(&now).cloned() {
            let (beacon, port) = (&beacon, port);
            let point = ConnectPoint { device: name.clone(), port: port.clone() };
            if self.beacons.get(beacon) == Some(&point) {
                // The former beacon of a restarted agent is still heard for a while.
                let forgotten = match now.iter().any(|(_, other)| *other == port) {
                    true => self.former.insert(point, *beacon),
                    false => Some(*beacon),
                };
                if let Some(forgotten) = forgotten {
                    self.beacons.remove(&forgotten);
                }
                touched.extend(self.hearers.get(beacon).into_iter().flatten().cloned());
            }
        }
        for (beacon, port) in now.difference(&before) {
            let point = ConnectPoint { device: name.clone(), port: port.clone() };
            // A hearer knows the beacon too, so a beacon stays with the device that sends it.
            let other = self.beacons.get(beacon).filter(|other| other.device != *name);
            if other.is_some() {
                continue;
            }
            self.beacons.insert(*beacon, point);
            touched.extend(self.hearers.get(beacon).into_iter().flatten().cloned());
        }
        let (before, now) = (old.map(heard).unwrap_or_default(), heard(new));
        for beacon in before.difference(&now) {
            if let Some(hearers) = self.hearers.get_mut(beacon) {
                hearers.remove(name);
                if hearers.is_empty() {
                    self.hearers.remove(beacon);
                }
            }
        }
        for beacon in now.difference(&before) {
            self.hearers.entry(*beacon).or_default().insert(name.clone());
        }
    }

    fn tell_topology(&mut self, turn: &mut Turn<'_>, name: &DeviceName) {
        let told = self.told.get(&name.node).and_then(|devices| devices.get(&name.bridge));
        let up = told.is_some();
        let port = |port: &PortState| {
            let heard = self.far_end(turn, name, port);
            SettledPort { name: port.name.clone(), up: port.up, heard }
        };
        let ports: Vec<SettledPort> = told.into_iter().flat_map(|device| &device.ports).map(port).collect();
        let before = port_records(turn.manager, name);
        // An impossible report, such as a second cable at a port, is left out.
        match turn.manager.tell_device(turn.now, name, up, &ports).is_empty() {
            true => self.refused.remove(name),
            false => self.refused.insert(name.clone()),
        };
        let _too_many = turn.manager.set_away(name, false);
        let after = port_records(turn.manager, name);
        if before != after
            && let Some((up, mut after)) = after
        {
            // A port that is gone and has no link is not recorded.
            let is_told: BTreeSet<&str> = ports.iter().map(|port| &*port.name).collect();
            after.retain(|port| {
                port.up || port.heard.is_some() || port.missed.is_some() || is_told.contains(&*port.name)
            });
            self.changes.push_back(IntentChange::Device { device: name.clone(), up, ports: after });
        }
    }

    /// The port whose LLDP is heard at a port. If there are several, the port is at a hub, over
    /// which no path leads. Beacons without a sender count as nothing.
    fn far_end(&self, turn: &Turn<'_>, device: &DeviceName, port: &PortState) -> Option<ConnectPoint> {
        let known = port.heard.iter().filter_map(|beacon| self.beacons.get(beacon));
        let points: BTreeSet<&ConnectPoint> = known.collect();
        match (points.len(), points.first()) {
            (1, Some(point)) => Some((*point).clone()),
            (0, _) if port.up && port.heard.is_empty() && self.listening.contains_key(&device.node) => {
                let topology = turn.manager.topology();
                let at = ConnectPoint { device: device.clone(), port: port.name.clone() };
                let link = topology.port(&at).and_then(|port| topology.heard_at(port))?;
                Some(topology.point(topology.ends(link).0))
            }
            (0, _) if !port.heard.is_empty() => {
                // After a start the other agent may not have reported its ports yet, so the known
                // link stays.
                let topology = turn.manager.topology();
                let at = ConnectPoint { device: device.clone(), port: port.name.clone() };
                let link = topology.port(&at).and_then(|port| topology.heard_at(port))?;
                let far = topology.point(topology.ends(link).0);
                let told = self.told.get(&far.device.node);
                let has_told = told.is_some_and(|told| told.contains_key(&far.device.bridge));
                ((turn.has_joined)(&far.device.node) && !has_told).then_some(far)
            }
            _ => None,
        }
    }

    /// The node is away. Its devices stay as they are, and new paths avoid them.
    pub fn away(&mut self, manager: &mut Manager, node: &NodeId) {
        for name in self.devices_of(node) {
            let _too_many = manager.set_away(&name, true);
        }
    }

    /// The node was removed.
    pub fn left(&mut self, turn: &mut Turn<'_>, node: &NodeId) {
        let mut told = self.told.remove(node).unwrap_or_default();
        // Devices that it has not reported since the controller started go too.
        let topology = turn.manager.topology();
        let known = topology.all_devices().map(|device| topology.device_name(device));
        let known: Vec<DeviceName> = known.filter(|it| it.node == *node).cloned().collect();
        for name in known {
            if let Some(old) = told.remove(&name.bridge) {
                let gone = DevicePorts { bridge: name.bridge.clone(), up: false, ports: Vec::new() };
                self.beacons_of(&name, Some(&old), &gone, &mut BTreeSet::new());
            }
            self.tell_topology(turn, &name);
            self.refused.remove(&name);
            turn.manager.observe_hosts(&[name.clone()].into(), Vec::new());
            self.changes.push_back(IntentChange::DeviceRemoved(name));
        }
        // The other devices no longer hear its beacons.
        let others: Vec<DeviceName> = self.told.keys().flat_map(|node| self.devices_of(node)).collect();
        for name in others {
            self.tell_topology(turn, &name);
        }
    }
}

fn port_records(manager: &Manager, name: &DeviceName) -> Option<(bool, Vec<PortRecord>)> {
    let device = manager.topology().device(name)?;
    Some((manager.topology().is_device_up(device), manager.port_records(device)))
}
