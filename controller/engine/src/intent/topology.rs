//! What agents say of their devices' ports, and whose beacon is heard where.

use std::collections::BTreeSet;

use muster_intent::manager::{PortRecord, SettledPort, TopologyView};
use muster_intent::topology::ConnectPoint;
use muster_shared::model::flow::{Bridge, DeviceName};
use muster_shared::model::topology::{Beacon, DevicePorts, PortState, TOLD_DEVICES_MAX};

use super::record::IntentChange;
use crate::engine::Engine;
use crate::node::NodeKey;
use crate::record::Change;

impl Engine {
    /// An agent tells of its devices.
    pub(crate) fn ports_told(&mut self, node: NodeKey, devices: Vec<DevicePorts>) {
        if !self.nodes[node].ready {
            return;
        }
        let mut touched: BTreeSet<(NodeKey, Bridge)> = BTreeSet::new();
        for device in devices {
            let bridge = device.bridge.clone();
            let told = self.intents.told.entry(node).or_default();
            if !told.contains_key(&bridge) && told.len() >= TOLD_DEVICES_MAX {
                continue;
            }
            let new = device.clone();
            let old = match device.up {
                true => told.insert(bridge.clone(), device),
                false => told.remove(&bridge),
            };
            self.beacons_of(node, old.as_ref(), &new, &mut touched);
            touched.insert((node, bridge));
        }
        for (node, bridge) in touched {
            self.tell_topology(node, &bridge);
        }
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
            let heard = self.far_end(&name, port);
            SettledPort { name: port.name.clone(), up: port.up, heard }
        };
        let ports: Vec<SettledPort> = told.into_iter().flat_map(|device| &device.ports).map(port).collect();
        let before = self.port_records(&name);
        let manager = &mut self.intents.manager;
        // What cannot be, such as a second cable at a port, is left out: the topology shows what there is.
        let _left_out = manager.tell_device(self.now, &name, up, &ports);
        let _too_many = manager.set_away(&name, false);
        let after = self.port_records(&name);
        if before != after
            && let Some((up, ports)) = after
        {
            self.change(Change::Intent(IntentChange::Device { device: name, up, ports }));
        }
    }

    /// Whose LLDP is heard at a port. Several ports are a hub, over which no path leads; beacons that nobody says are
    /// nothing.
    fn far_end(&self, device: &DeviceName, port: &PortState) -> Option<ConnectPoint> {
        let known = port.heard.iter().filter_map(|beacon| self.intents.beacons.get(beacon));
        let points: BTreeSet<&ConnectPoint> = known.collect();
        match (points.len(), points.first()) {
            (1, Some(point)) => Some((*point).clone()),
            (0, _) if !port.heard.is_empty() => {
                // After a start nobody else may have told of its ports yet: what was known stays.
                let topology = self.intents.manager.topology();
                let at = ConnectPoint { device: device.clone(), port: port.name.clone() };
                let link = topology.port(&at).and_then(|port| topology.heard_at(port))?;
                let far = topology.point(topology.ends(link).0);
                let node = self.nodes.find(&far.device.node)?;
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
        let devices = self.intents.told.get(&node).into_iter().flat_map(std::collections::BTreeMap::keys);
        let devices: Vec<Bridge> = devices.cloned().collect();
        for bridge in devices {
            let name = DeviceName { node: self.nodes[node].name.clone(), bridge };
            let _too_many = self.intents.manager.set_away(&name, true);
        }
    }

    /// The node is no more.
    pub(crate) fn topology_left(&mut self, node: NodeKey) {
        let told = self.intents.told.remove(&node).unwrap_or_default();
        for (bridge, old) in told {
            let mut touched = BTreeSet::new();
            let gone = DevicePorts { bridge: bridge.clone(), up: false, ports: Vec::new() };
            self.beacons_of(node, Some(&old), &gone, &mut touched);
            touched.insert((node, bridge.clone()));
            touched.into_iter().for_each(|(node, bridge)| self.tell_topology(node, &bridge));
            let device = DeviceName { node: self.nodes[node].name.clone(), bridge };
            self.change(Change::Intent(IntentChange::DeviceRemoved(device)));
        }
    }

    /// The network as it is known.
    pub fn topology(&self) -> TopologyView {
        self.intents.manager.view_topology()
    }
}
