//! The ports of Open vSwitch's bridges as the topology needs them: their names, whether each is up, and the
//! neighbours whose LLDP is heard there.
//!
//! ```text
//!   database ─ bridges, interfaces ─┐
//!   kernel ─── up, down ────────────┼─▶ one look ─┬▶ devices that are others than before ─▶ the agent
//!   listener ─ beacons ─────────────┘             └▶ where to listen, and to speak
//! ```
//!
//! The sources report changes, and nothing is polled. Each event leads to a look at the state in memory, so
//! that a lost carrier is reported within the time of one kernel message. While the database is away, its
//! last state holds, since the switch goes on without it. Without a bridge, no port is listened to.
//!
//! Absent: when ports are reported (`agent/core/src/ports.rs`), and the links between them
//! (`controller/intent/src/links_from_reports.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use muster_shared::NodeId;
use muster_shared::model::flow::{Bridge, Port};
use muster_shared::model::topology::{Beacon, DevicePorts, PortState, TOLD_DEVICES_MAX, TOLD_PORTS_MAX};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::lldp::{Announcement, Frame, Id, LAST_TTL, Listener, TTL};
use crate::net::Network;
use crate::net::monitor::{RETRY, RETRY_MAX, appears};
use crate::net::netlink::{Cable, Cables};
use crate::net::ovsdb::{Bridges, Interface, Interfaces};

/// The most ports on which LLDP is received and sent for devices: each is a socket, of which a process has
/// a thousand.
pub const LLDP_PORTS_MAX: usize = 256;
/// The pause after a change of the database, before the next is taken: applying a document makes many.
const PAUSE: Duration = Duration::from_millis(20);
/// Changes taken in one go, before the rest of the agent has its turn.
const TAKEN_AT_ONCE: usize = 1024;
/// The pause before a lost kernel socket is opened again.
const REOPEN: Duration = Duration::from_millis(100);
/// The pause before a socket that failed to open is tried again: each try lists all links of the host.
const OPEN_AGAIN: Duration = Duration::from_secs(10);
/// The most different warnings.
const WARNINGS_MAX: usize = 1000;

/// The announcement of this node's ports.
#[derive(Clone)]
pub struct Voice {
    pub node: NodeId,
    /// Beacons of ports are derived from this. Unique for each node, and stable as long as
    /// neighbours must recognise its ports.
    pub seed: [u8; 32],
    /// Off: nothing is sent.
    pub speaks: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Devices that are others than before, each whole; by name.
    pub devices: Vec<DevicePorts>,
    /// Warnings for the log.
    pub warnings: Vec<String>,
}

/// Watches the ports of the current network namespace, until dropped.
#[derive(Debug)]
pub struct Ports {
    told: Arc<PendingNews>,
    _tasks: JoinSet<()>,
}

/// News that were not taken yet; of each device only the latest.
#[derive(Debug, Default)]
struct PendingNews {
    pending: Mutex<(BTreeMap<Bridge, DevicePorts>, Vec<String>)>,
    wake: Notify,
}

impl Ports {
    /// Needs a tokio runtime with I/O and time. Sources that cannot be watched yet are watched as soon
    /// as possible.
    pub fn open(network: &Network, listener: Arc<Listener>, voice: Voice) -> Self {
        let told = Arc::<PendingNews>::default();
        let (tell, interfaces) = watch::channel(Arc::default());
        let keeper = Keeper {
            told: Arc::clone(&told),
            listener,
            voice,
            last: BTreeMap::new(),
            up: BTreeSet::new(),
            speaking: BTreeMap::new(),
            warned: BTreeSet::new(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(follow_database(network.ovs_db().to_owned(), tell));
        tasks.spawn(keeper.keep(interfaces));
        Self { told, _tasks: tasks }
    }

    /// Waits for news; those since the last call are joined. Dropping the future loses nothing.
    pub async fn changed(&mut self) -> News {
        loop {
            {
                let mut pending = self.told.pending.lock().unwrap_or_else(PoisonError::into_inner);
                if !pending.0.is_empty() || !pending.1.is_empty() {
                    let (devices, warnings) = std::mem::take(&mut *pending);
                    return News { devices: devices.into_values().collect(), warnings };
                }
            }
            self.told.wake.notified().await;
        }
    }
}

async fn follow_database(socket: PathBuf, tell: watch::Sender<Arc<Interfaces>>) {
    let mut retry = RETRY;
    loop {
        if let Ok(mut bridges) = Bridges::open(&socket).await {
            retry = RETRY;
            let mut is_there = true;
            while is_there {
                let interfaces = bridges.interfaces();
                tell.send_if_modified(|known| {
                    let is_news = **known != interfaces;
                    if is_news {
                        *known = Arc::new(interfaces);
                    }
                    is_news
                });
                sleep(PAUSE).await;
                is_there = bridges.next().await.is_ok();
                for _ in 0..TAKEN_AT_ONCE {
                    match bridges.next().now_or_never() {
                        Some(Ok(())) => {}
                        Some(Err(_)) => is_there = false,
                        None => break,
                    }
                    if !is_there {
                        break;
                    }
                }
            }
        }
        appears(&socket, retry).await;
        // The switch listens a moment after the socket exists.
        sleep(PAUSE).await;
        retry = (retry * 2).min(RETRY_MAX);
    }
}

/// A port on which LLDP is received, and sent while the port is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spot<'a> {
    bridge: &'a str,
    name: &'a str,
    up: bool,
    mac: [u8; 6],
}

struct Keeper {
    told: Arc<PendingNews>,
    listener: Arc<Listener>,
    voice: Voice,
    last: BTreeMap<Bridge, DevicePorts>,
    /// The ports with LLDP that are up.
    up: BTreeSet<u32>,
    /// The address and beacon that each port sends.
    speaking: BTreeMap<u32, ([u8; 6], Beacon)>,
    warned: BTreeSet<String>,
}

impl Keeper {
    async fn keep(mut self, mut interfaces: watch::Receiver<Arc<Interfaces>>) {
        loop {
            while interfaces.borrow_and_update().is_empty() {
                if interfaces.changed().await.is_err() {
                    return;
                }
            }
            match Cables::open().await {
                Ok(mut cables) => self.follow(&mut interfaces, &mut cables).await,
                Err(error) => {
                    self.warn(format!("cannot watch the links of this server: {error}"));
                    sleep(OPEN_AGAIN).await;
                }
            }
            sleep(REOPEN).await;
        }
    }

    /// Follows changes until there is no bridge, or the kernel lost a message.
    async fn follow(&mut self, interfaces: &mut watch::Receiver<Arc<Interfaces>>, cables: &mut Cables) {
        let listener = Arc::clone(&self.listener);
        loop {
            let known = Arc::clone(&interfaces.borrow_and_update());
            let names: BTreeSet<&str> = known.values().flatten().map(|interface| &*interface.name).collect();
            loop {
                self.look(&known, |name| cables.get(name));
                if known.is_empty() {
                    return;
                }
                tokio::select! {
                    changed = interfaces.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                    changed = cables.changed(&names) => if changed.is_err() { return },
                    () = listener.heard() => {}
                }
            }
        }
    }

    fn look<'a>(&mut self, interfaces: &'a Interfaces, cable: impl Fn(&str) -> Option<(u32, &'a Cable)>) {
        let (spots, many) = spots(interfaces, &cable);
        if many > spots.len() {
            self.warn(format!(
                "LLDP is heard and sent on {LLDP_PORTS_MAX} of the {many} ports of this server's bridges: the \
                 links of the others are not discovered"
            ));
        }
        for (index, error) in self.listener.follow_devices(spots.keys().copied().collect()) {
            if let Some(spot) = spots.get(&index) {
                self.warn(format!("cannot hear and send LLDP on {}: {error}", spot.name));
            }
        }
        let devices = self.devices(interfaces, &spots, &cable);
        self.tell(devices);
        self.speak(&spots);
    }

    fn devices<'a>(
        &mut self,
        interfaces: &Interfaces,
        spots: &BTreeMap<u32, Spot>,
        cable: &impl Fn(&str) -> Option<(u32, &'a Cable)>,
    ) -> BTreeMap<Bridge, DevicePorts> {
        let names = interfaces.iter().filter_map(|(name, ports)| {
            let bridge = Bridge::try_from(String::from(&**name)).ok();
            Some((bridge.filter(|bridge| !bridge.is_nftables())?, ports))
        });
        let devices: BTreeMap<Bridge, &Vec<Interface>> = names.collect();
        if devices.len() > TOLD_DEVICES_MAX {
            self.warn(format!(
                "this server has {} bridges of Open vSwitch: the topology has the first {TOLD_DEVICES_MAX}",
                devices.len()
            ));
        }
        let mut told = BTreeMap::new();
        for (bridge, interfaces) in devices.into_iter().take(TOLD_DEVICES_MAX) {
            let mut ports = BTreeMap::new();
            for interface in interfaces.iter().filter(|interface| Port::is_name(&interface.name)) {
                let found = cable(&interface.name);
                let up = found.map_or(interface.up, |(_, cable)| cable.up);
                let spot = found.map(|(index, _)| index).filter(|index| spots.contains_key(index));
                let heard = spot.filter(|_| up).map(|index| self.listener.beacons(index));
                let beacon = spot
                    .filter(|index| self.voice.speaks && self.listener.is_open(*index))
                    .map(|_| self.voice.beacon(bridge.as_str(), &interface.name));
                let name = interface.name.clone();
                let heard = heard.unwrap_or_default();
                ports.insert(name.clone(), PortState { name, up, beacon, heard });
            }
            if ports.len() > TOLD_PORTS_MAX {
                self.warn(format!(
                    "{bridge} has {} ports: the topology has the first {TOLD_PORTS_MAX}",
                    ports.len()
                ));
            }
            let ports = ports.into_values().take(TOLD_PORTS_MAX).collect();
            told.insert(bridge.clone(), DevicePorts { bridge, up: true, ports });
        }
        told
    }

    fn tell(&mut self, devices: BTreeMap<Bridge, DevicePorts>) {
        let gone = self.last.keys().filter(|bridge| !devices.contains_key(*bridge));
        let gone = gone.map(|bridge| DevicePorts { bridge: bridge.clone(), up: false, ports: Vec::new() });
        let others = devices.values().filter(|device| self.last.get(&device.bridge) != Some(*device));
        let news: Vec<DevicePorts> = gone.chain(others.cloned()).collect();
        self.last = devices;
        if news.is_empty() {
            return;
        }
        let mut pending = self.told.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.0.extend(news.into_iter().map(|device| (device.bridge.clone(), device)));
        drop(pending);
        self.told.wake.notify_one();
    }

    fn speak(&mut self, spots: &BTreeMap<u32, Spot>) {
        let up: BTreeSet<u32> = spots.iter().filter(|(_, spot)| spot.up).map(|(index, _)| *index).collect();
        for index in self.up.difference(&up) {
            self.listener.hush(*index);
            self.listener.forget(*index);
            self.speaking.remove(index);
        }
        self.up = up;
        if !self.voice.speaks {
            return;
        }
        for (index, spot) in spots.iter().filter(|(_, spot)| spot.up) {
            let says = (spot.mac, self.voice.beacon(spot.bridge, spot.name));
            if self.speaking.get(index) == Some(&says) {
                continue;
            }
            match self.listener.speak(*index, self.voice.says(spot)) {
                Ok(()) => drop(self.speaking.insert(*index, says)),
                Err(error) => self.warn(format!("cannot send LLDP: {error}")),
            }
        }
    }

    fn warn(&mut self, warning: String) {
        if self.warned.len() < WARNINGS_MAX && self.warned.insert(warning.clone()) {
            self.told.pending.lock().unwrap_or_else(PoisonError::into_inner).1.push(warning);
            self.told.wake.notify_one();
        }
    }
}

/// The ports with an Ethernet cable by the kernel's index, cards first if there are very many; and
/// their number.
fn spots<'a>(
    interfaces: &'a Interfaces,
    cable: &impl Fn(&str) -> Option<(u32, &'a Cable)>,
) -> (BTreeMap<u32, Spot<'a>>, usize) {
    let mut spots = Vec::new();
    for (bridge, interfaces) in interfaces {
        for interface in interfaces.iter().filter(|interface| interface.kind.is_empty()) {
            let Some((index, cable)) = cable(&interface.name) else { continue };
            let Some(mac) = cable.mac.filter(|_| cable.has_far_end()) else { continue };
            let spot = Spot { bridge, name: &interface.name, up: cable.up, mac };
            spots.push((!cable.kind.is_empty(), &*interface.name, index, spot));
        }
    }
    spots.sort_by_key(|(is_virtual, name, ..)| (*is_virtual, *name));
    let many = spots.len();
    (spots.into_iter().take(LLDP_PORTS_MAX).map(|(_, _, index, spot)| (index, spot)).collect(), many)
}

impl Voice {
    fn beacon(&self, bridge: &str, port: &str) -> Beacon {
        let mut hasher = blake3::Hasher::new_keyed(&self.seed);
        // Neither name has a zero in it.
        hasher.update(bridge.as_bytes()).update(&[0]).update(port.as_bytes());
        let mut octets = [0; 16];
        octets.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Beacon(octets)
    }

    fn says(&self, spot: &Spot) -> Announcement {
        let [frame, last] = [TTL, LAST_TTL].map(|good_for| self.frame(spot, good_for));
        Announcement { frame, last }
    }

    fn frame(&self, spot: &Spot, good_for: Duration) -> Vec<u8> {
        // An id has at most 255 octets; a node's name that is too long for the id is still sent in
        // full elsewhere.
        let node = self.node.as_str();
        let node_of_id = &node[..node.len().min(254 - spot.bridge.len().min(254))];
        let chassis = format!("{node_of_id}/{}", spot.bridge);
        let frame = Frame {
            chassis: Id { subtype: Id::LOCAL_OF_CHASSIS, octets: chassis.into_bytes() },
            port: Id { subtype: Id::NAME_OF_PORT, octets: spot.name.into() },
            ttl: good_for.as_secs() as u16,
            port_description: None,
            system_name: Some(node.to_owned()),
            system_description: None,
            vlan: None,
            management: Vec::new(),
            beacon: Some(self.beacon(spot.bridge, spot.name)),
        };
        frame.write(spot.mac)
    }
}

#[cfg(test)]
mod tests;
