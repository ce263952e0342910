//! What operators see.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_shared::model::flow::{DeviceName, Packed};

use super::{IntentNo, Manager, Reroute};
use crate::host::{Host, HostId, Whereabouts};
use crate::intent::Intent;
use crate::ledger::Share;
use crate::phase::{Request, State};
use crate::topology::{ConnectPoint, DeviceNo, LinkNo, LinkTraits};

/// An intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentView {
    pub no: IntentNo,
    pub key: Box<str>,
    pub intent: Arc<Intent>,
    /// With whom it shares what it reserves.
    pub group: Option<Box<str>>,
    /// What was asked for last.
    pub request: Request,
    pub state: State,
    /// Failures on devices since it was last as it is to be.
    pub errors: u32,
    /// The reason why it stands so.
    pub reason: Option<Box<str>>,
    /// The devices of each path, in order.
    pub paths: Vec<Vec<DeviceName>>,
    /// All links, each from where to where.
    pub links: Vec<(ConnectPoint, ConnectPoint)>,
    /// What the flow table was told to hold for it.
    pub rules: Vec<(DeviceName, Packed)>,
    /// What it holds of links.
    pub reservations: Vec<ReservationView>,
    /// Devices that are waited for, with how many rules.
    pub waits_for: Vec<(DeviceName, usize)>,
    /// When it is tried again.
    pub retry_in: Option<Duration>,
    /// Moves, the latest last.
    pub history: Vec<Reroute>,
}

/// What an intent holds of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationView {
    /// From where.
    pub from: ConnectPoint,
    /// To where.
    pub to: ConnectPoint,
    /// Bits per second.
    pub bandwidth: Option<u64>,
    /// VLAN label.
    pub label: Option<u16>,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortView {
    /// The interface.
    pub name: Box<str>,
    /// Packets can pass.
    pub up: bool,
}

/// A direction of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkView {
    /// From where.
    pub from: ConnectPoint,
    /// To where.
    pub to: ConnectPoint,
    /// Packets pass.
    pub up: bool,
    /// Somebody says that it is there.
    pub declared: bool,
    /// Heard with LLDP.
    pub discovered: bool,
    /// What is said of it.
    pub traits: LinkTraits,
    /// Bits per second that intents hold.
    pub reserved: u64,
    /// Intents that go over it.
    pub intents: usize,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostView {
    pub id: HostId,
    /// Where it is, and its addresses; of one that several nodes claim, where the first of them says.
    pub host: Host,
    /// Where it is claimed to be, if by several nodes.
    pub claimed: Vec<ConnectPoint>,
    /// Somebody says where it is.
    pub declared: bool,
    /// It was seen.
    pub observed: bool,
    /// Intents that are between it and another.
    pub intents: usize,
}

/// The network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopologyView {
    /// By name: up, its agent is away, ports by name.
    pub devices: Vec<(DeviceName, bool, bool, Vec<PortView>)>,
    /// By ends.
    pub links: Vec<LinkView>,
    /// By id.
    pub hosts: Vec<HostView>,
}

impl Manager {
    /// Hosts that several nodes claim, and where.
    pub fn claims(&self) -> BTreeMap<HostId, Vec<ConnectPoint>> {
        let points = |hosts: Vec<&Host>| hosts.into_iter().map(|host| host.location.clone()).collect();
        self.topology.claimed().map(|(id, hosts)| (id, points(hosts))).collect()
    }

    /// Intents between a host and another.
    pub fn between(&self, host: HostId) -> impl Iterator<Item = IntentNo> {
        self.tracker.all_between(host)
    }

    /// All, by key.
    pub fn list(&self) -> impl Iterator<Item = IntentNo> {
        self.by_key.values().copied()
    }

    /// An intent, whole.
    pub fn view(&self, now: muster_shared::MonoTime, no: IntentNo) -> Option<IntentView> {
        let held = self.held.get(&no)?;
        let topology = &self.topology;
        let name = |device: DeviceNo| topology.device_name(device).clone();
        let stand = held.stand.as_deref();
        let ends = |link: &LinkNo| {
            let (from, to) = topology.ends(*link);
            (topology.point(from), topology.point(to))
        };
        let mut reservations = Vec::new();
        for number in 0..=held.shares {
            let share = Share { key: held.key.clone(), number };
            for (link, bandwidth, label) in self.ledger.held(&share) {
                let (from, to) = ends(&link);
                reservations.push(ReservationView { from, to, bandwidth, label });
            }
        }
        Some(IntentView {
            no,
            key: (*held.key).into(),
            intent: Arc::new(held.intent.unpack()),
            group: held.group.as_deref().map(Into::into),
            request: held.request,
            state: held.standing.state,
            errors: held.errors,
            reason: held.reason.clone(),
            paths: stand.map(|stand| stand.devices(topology)).unwrap_or_default(),
            links: stand.map(|stand| stand.links.iter().map(ends).collect()).unwrap_or_default(),
            rules: held.placed.iter().map(|(device, packed)| (name(device), packed.clone())).collect(),
            reservations,
            waits_for: self.waits_for(no).into_iter().map(|(device, count)| (name(device), count)).collect(),
            retry_in: held.due.map(|due| due.since(now)),
            history: held.history(),
        })
    }

    /// The network, whole.
    pub fn view_topology(&self) -> TopologyView {
        let topology = &self.topology;
        let ports = |device: DeviceNo| {
            let view = |port| PortView { name: topology.point(port).port, up: topology.is_port_up(port) };
            topology.ports(device).map(view).collect()
        };
        let devices = topology.all_devices().map(|device| {
            let name = topology.device_name(device).clone();
            (name, topology.is_device_up(device), topology.is_away(device), ports(device))
        });
        let mut devices: Vec<_> = devices.collect();
        devices.sort_by(|a, b| a.0.cmp(&b.0));
        let links = topology.known_links().map(|link| {
            let (from, to) = topology.ends(link);
            let (declared, discovered) = topology.said(link);
            LinkView {
                from: topology.point(from),
                to: topology.point(to),
                up: topology.passes(link),
                declared,
                discovered,
                traits: topology.traits(link),
                reserved: self.ledger.taken(link),
                intents: self.tracker.on(link),
            }
        });
        let mut links: Vec<_> = links.collect();
        links.sort_by(|a, b| (&a.from, &a.to).cmp(&(&b.from, &b.to)));
        let hosts = topology.hosts().filter_map(|(id, whereabouts, declared, observed)| {
            let (host, claimed) = match whereabouts {
                Whereabouts::Unknown => return None,
                Whereabouts::At(host) => (host.clone(), Vec::new()),
                Whereabouts::Claimed(hosts) => {
                    ((*hosts.first()?).clone(), hosts.iter().map(|host| host.location.clone()).collect())
                }
            };
            Some(HostView { id, host, claimed, declared, observed, intents: self.tracker.between(id) })
        });
        TopologyView { devices, links, hosts: hosts.collect() }
    }
}
