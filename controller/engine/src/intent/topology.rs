//! What agents say of their devices' ports, and whose beacon is heard where.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use muster_intent::compile::claimed;
use muster_intent::host::{ADDRESSES_MAX, Host, HostId};
use muster_intent::manager::{PortRecord, SettledPort, TopologyView};
use muster_intent::topology::ConnectPoint;
use muster_shared::model::NeighbourFacts;
use muster_shared::model::flow::{Bridge, DeviceName};
use muster_shared::model::topology::{Beacon, DevicePorts, PortState, TOLD_DEVICES_MAX};
use muster_shared::{MonoTime, NodeId};

use super::Intents;
use super::record::IntentChange;
use crate::engine::Engine;
use crate::node::NodeKey;
use crate::record::Change;
use crate::timer::TimerKey;

/// Devices of one node while the controller runs, also those that are gone.
const EVER_TOLD_MAX: usize = 4 * TOLD_DEVICES_MAX;
/// Hosts that one node sees: a server has no more.
const SEEN_MAX: usize = 1024;
/// The kernel's kind of the ports that Open vSwitch makes itself.
const INTERNAL: &str = "openvswitch";
/// A port speaks every two seconds: so long an agent that has just begun has not heard all there is.
const LISTENING: Duration = Duration::from_secs(5);

/// An agent tells of its bridges right after its greeting, or once it has read them, which takes Open vSwitch less.
const TOLD_WITHIN: Duration = Duration::from_secs(2);
/// Bridges named of a node that lacks one.
const BRIDGES_NAMED: usize = 10;

impl Intents {
    /// That a node has no such bridge, as far as its agent has told. An agent says nothing where there is none.
    pub(crate) fn lacks_bridge(&self, now: MonoTime, node: NodeKey, device: &DeviceName) -> Option<String> {
        let told = self.told.get(&node);
        let may_have_more = match self.greeted.get(&node) {
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
}

impl Engine {
    /// A node's agent greeted: what it does not hear yet may be there.
    pub(crate) fn topology_hello(&mut self, node: NodeKey) {
        self.intents.greeted.insert(node, self.now);
    }

    fn begins_to_listen(&mut self, node: NodeKey) {
        let until = self.now + LISTENING;
        if let Some(old) = self.intents.listening.insert(node, until) {
            self.timers.clear(old, TimerKey::Listened(node));
        }
        self.timers.set(until, TimerKey::Listened(node));
    }

    /// What it has not heard by now is not there.
    pub(crate) fn listened(&mut self, node: NodeKey) {
        self.intents.listening.remove(&node);
        let devices = self.intents.told.get(&node).into_iter().flat_map(BTreeMap::keys);
        for bridge in devices.cloned().collect::<Vec<_>>() {
            self.tell_topology(node, &bridge);
        }
    }

    /// An agent tells of its devices.
    pub(crate) fn ports_told(&mut self, node: NodeKey, devices: Vec<DevicePorts>) {
        if !self.nodes[node].ready {
            return;
        }
        if self.intents.greeted.remove(&node).is_some() {
            self.begins_to_listen(node);
        }
        let mut touched: BTreeSet<(NodeKey, Bridge)> = BTreeSet::new();
        let mut gone = BTreeSet::new();
        let mut devices = devices;
        // What goes makes room for what comes.
        devices.sort_by_key(|device| device.up);
        for device in devices {
            let bridge = device.bridge.clone();
            let name = DeviceName { node: self.nodes[node].name.clone(), bridge: bridge.clone() };
            let topology = self.intents.manager.topology();
            if topology.device(&name).is_none() {
                let own = topology.all_devices().filter(|it| topology.device_name(*it).node == name.node);
                // However often a node makes bridges and takes them away, others have room.
                if !device.up || own.count() >= EVER_TOLD_MAX {
                    continue;
                }
            }
            let told = self.intents.told.entry(node).or_default();
            if !told.contains_key(&bridge) && told.len() >= TOLD_DEVICES_MAX {
                continue;
            }
            let new = device.clone();
            if !device.up {
                gone.insert(name);
            }
            let old = match device.up {
                true => told.insert(bridge.clone(), device),
                false => told.remove(&bridge),
            };
            self.beacons_of(node, old.as_ref(), &new, &mut touched);
            touched.insert((node, bridge));
        }
        for (node, bridge) in &touched {
            self.tell_topology(*node, bridge);
        }
        self.look_for_hosts(node);
        self.intents.manager.observe_hosts(&gone, Vec::new());
        self.tell_claims();
        // A cable that was moved is heard at one end before the other has let go of it.
        let refused: Vec<_> = self.intents.refused.difference(&touched).cloned().collect();
        refused.iter().for_each(|(node, bridge)| self.tell_topology(*node, bridge));
    }

    /// The hosts that a node knows of without looking for them: itself, at the ports of its bridges that are its own, and
    /// neighbours that speak LLDP, at the ports of bridges where they are heard.
    pub(crate) fn look_for_hosts(&mut self, node: NodeKey) {
        let (Some(told), Some(facts)) = (self.intents.told.get(&node), &self.nodes[node].facts) else {
            return;
        };
        let facts = facts.facts.clone();
        let name = &self.nodes[node].name;
        let mut seen = Vec::new();
        for (bridge, device) in told {
            let device_name = DeviceName { node: name.clone(), bridge: bridge.clone() };
            let ports: BTreeSet<&str> = device.ports.iter().map(|port| &*port.name).collect();
            let links = facts.links.iter().filter(|link| ports.contains(&*link.name));
            for link in links {
                let location = ConnectPoint { device: device_name.clone(), port: link.name.as_str().into() };
                let own = (link.kind == INTERNAL).then_some(link.mac).flatten().and_then(HostId::new);
                let own_addresses = link.addresses.iter().map(IpNet::addr).take(ADDRESSES_MAX).collect();
                let own = own.map(|id| (id, own_addresses));
                // A neighbour whose port goes by its MAC address is a server's; a switch names its ports.
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
        let devices = told.keys().map(|bridge| DeviceName { node: name.clone(), bridge: bridge.clone() });
        let devices: BTreeSet<DeviceName> = devices.collect();
        self.intents.manager.observe_hosts(&devices, seen);
        self.tell_claims();
    }

    /// Stacks that have an intent between a host and another hear of it when several nodes claim that host.
    fn tell_claims(&mut self) {
        let now = self.intents.manager.claims();
        let before = std::mem::replace(&mut self.intents.claimed, now);
        let new: Vec<_> =
            self.intents.claimed.iter().filter(|(host, at)| before.get(*host) != Some(*at)).collect();
        let mut told: Vec<(u64, String)> = Vec::new();
        for (host, at) in new {
            let rows = self.intents.manager.between(*host).filter_map(|no| self.intents.owners.get(&no));
            let stacks = rows.filter_map(|id| Some(self.rows[self.rows.of_id(*id)?].stack));
            let stacks: BTreeSet<u64> = stacks.collect();
            told.extend(
                stacks.into_iter().map(|stack| (stack, format!("host {host} is claimed {}", claimed(at)))),
            );
        }
        told.into_iter().for_each(|(stack, told)| self.note(stack, told));
    }

    /// What nodes claim that others claim as well, for people, by node.
    pub(crate) fn mac_conflicts(&self) -> BTreeMap<NodeId, Vec<String>> {
        let mut all: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
        for (host, at) in self.intents.manager.claims() {
            let told = format!("MAC address {host} is claimed {}", claimed(&at));
            for point in at {
                all.entry(point.device.node).or_default().push(told.clone());
            }
        }
        all
    }

    /// Beacons that a device says and hears, before and now.
    fn beacons_of(
        &mut self,
        node: NodeKey,
        old: Option<&DevicePorts>,
        new: &DevicePorts,
        touched: &mut BTreeSet<(NodeKey, Bridge)>,
    ) {
        let name = DeviceName { node: self.nodes[node].name.clone(), bridge: new.bridge.clone() };
        let at = (node, new.bridge.clone());
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
            if self.intents.beacons.get(beacon) == Some(&point) {
                // Of an agent that was started again the one before is heard for a while.
                let forgotten = match now.iter().any(|(_, other)| *other == port) {
                    true => self.intents.former.insert(point, *beacon),
                    false => Some(*beacon),
                };
                if let Some(forgotten) = forgotten {
                    self.intents.beacons.remove(&forgotten);
                }
                touched.extend(self.intents.hearers.get(beacon).into_iter().flatten().cloned());
            }
        }
        for (beacon, port) in now.difference(&before) {
            let point = ConnectPoint { device: name.clone(), port: port.clone() };
            // Who hears a beacon knows it: nobody takes it from the device that says it.
            let other = self.intents.beacons.get(beacon).filter(|other| other.device != name);
            if other.is_some() {
                continue;
            }
            self.intents.beacons.insert(*beacon, point);
            touched.extend(self.intents.hearers.get(beacon).into_iter().flatten().cloned());
        }
        let (before, now) = (old.map(heard).unwrap_or_default(), heard(new));
        for beacon in before.difference(&now) {
            if let Some(hearers) = self.intents.hearers.get_mut(beacon) {
                hearers.remove(&at);
                if hearers.is_empty() {
                    self.intents.hearers.remove(beacon);
                }
            }
        }
        for beacon in now.difference(&before) {
            self.intents.hearers.entry(*beacon).or_default().insert(at.clone());
        }
    }

    fn tell_topology(&mut self, node: NodeKey, bridge: &Bridge) {
        let name = DeviceName { node: self.nodes[node].name.clone(), bridge: bridge.clone() };
        let told = self.intents.told.get(&node).and_then(|devices| devices.get(bridge));
        let up = told.is_some();
        let port = |port: &PortState| {
            let heard = self.far_end(node, &name, port);
            SettledPort { name: port.name.clone(), up: port.up, heard }
        };
        let ports: Vec<SettledPort> = told.into_iter().flat_map(|device| &device.ports).map(port).collect();
        let before = self.port_records(&name);
        let manager = &mut self.intents.manager;
        // What cannot be, such as a second cable at a port, is left out: the topology shows what there is.
        let at = (node, bridge.clone());
        match manager.tell_device(self.now, &name, up, &ports).is_empty() {
            true => self.intents.refused.remove(&at),
            false => self.intents.refused.insert(at),
        };
        let manager = &mut self.intents.manager;
        let _too_many = manager.set_away(&name, false);
        let after = self.port_records(&name);
        if before != after
            && let Some((up, mut after)) = after
        {
            // Those that are gone, and to which nothing leads, are as if they had never been.
            let is_told: BTreeSet<&str> = ports.iter().map(|port| &*port.name).collect();
            after.retain(|port| {
                port.up || port.heard.is_some() || port.missed.is_some() || is_told.contains(&*port.name)
            });
            let ports = after;
            self.change(Change::Intent(IntentChange::Device { device: name, up, ports }));
        }
    }

    /// Whose LLDP is heard at a port. Several ports are a hub, over which no path leads; beacons that nobody says are
    /// nothing.
    fn far_end(&self, node: NodeKey, device: &DeviceName, port: &PortState) -> Option<ConnectPoint> {
        let known = port.heard.iter().filter_map(|beacon| self.intents.beacons.get(beacon));
        let points: BTreeSet<&ConnectPoint> = known.collect();
        match (points.len(), points.first()) {
            (1, Some(point)) => Some((*point).clone()),
            (0, _) if port.up && port.heard.is_empty() && self.intents.listening.contains_key(&node) => {
                let topology = self.intents.manager.topology();
                let at = ConnectPoint { device: device.clone(), port: port.name.clone() };
                let link = topology.port(&at).and_then(|port| topology.heard_at(port))?;
                Some(topology.point(topology.ends(link).0))
            }
            (0, _) if !port.heard.is_empty() => {
                // After a start nobody else may have told of its ports yet: what was known stays.
                let topology = self.intents.manager.topology();
                let at = ConnectPoint { device: device.clone(), port: port.name.clone() };
                let link = topology.port(&at).and_then(|port| topology.heard_at(port))?;
                let far = topology.point(topology.ends(link).0);
                let node =
                    self.nodes.find(&far.device.node).filter(|node| self.nodes[*node].joined.is_some())?;
                let has_told =
                    self.intents.told.get(&node).is_some_and(|it| it.contains_key(&far.device.bridge));
                (!has_told).then_some(far)
            }
            _ => None,
        }
    }

    fn port_records(&self, name: &DeviceName) -> Option<(bool, Vec<PortRecord>)> {
        let manager = &self.intents.manager;
        let device = manager.topology().device(name)?;
        Some((manager.topology().is_device_up(device), manager.port_records(device)))
    }

    /// The node is away: its devices stay as they are, and new ways keep off them.
    pub(crate) fn topology_away(&mut self, node: NodeKey) {
        let devices = self.intents.told.get(&node).into_iter().flat_map(BTreeMap::keys);
        let devices: Vec<Bridge> = devices.cloned().collect();
        for bridge in devices {
            let name = DeviceName { node: self.nodes[node].name.clone(), bridge };
            let _too_many = self.intents.manager.set_away(&name, true);
        }
        self.tell_claims();
    }

    /// The node is no more.
    pub(crate) fn topology_left(&mut self, node: NodeKey) {
        let mut told = self.intents.told.remove(&node).unwrap_or_default();
        let name = self.nodes[node].name.clone();
        // Also those of which it has not told since the controller started.
        let topology = self.intents.manager.topology();
        let known = topology.all_devices().map(|device| topology.device_name(device));
        let known: Vec<Bridge> = known.filter(|it| it.node == name).map(|it| it.bridge.clone()).collect();
        for bridge in known {
            if let Some(old) = told.remove(&bridge) {
                let gone = DevicePorts { bridge: bridge.clone(), up: false, ports: Vec::new() };
                self.beacons_of(node, Some(&old), &gone, &mut BTreeSet::new());
            }
            self.tell_topology(node, &bridge);
            self.intents.refused.remove(&(node, bridge.clone()));
            let device = DeviceName { node: name.clone(), bridge };
            self.intents.manager.observe_hosts(&[device.clone()].into(), Vec::new());
            self.change(Change::Intent(IntentChange::DeviceRemoved(device)));
        }
        self.tell_claims();
        // Nobody hears it any more.
        let others =
            self.intents.told.iter().flat_map(|(node, all)| all.keys().map(|it| (*node, it.clone())));
        for (node, bridge) in others.collect::<Vec<_>>() {
            self.tell_topology(node, &bridge);
        }
    }

    /// The network as it is known.
    pub fn topology(&self) -> TopologyView {
        self.intents.manager.view_topology()
    }
}
