//! Intents and the network as operators see them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_shared::model::flow::{DeviceName, Packed};

use super::{IntentNo, Manager, Reroute};
use crate::host::{Host, HostId, HostLocation};
use crate::intent::Intent;
use crate::phase::{Request, State};
use crate::reservations::Share;
use crate::topology::{ConnectPoint, DeviceNo, LinkNo, LinkTraits};

/// An intent with all details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentView {
    pub no: IntentNo,
    pub key: Box<str>,
    pub intent: Arc<Intent>,
    /// The resource group that shares its reservations.
    pub group: Option<Box<str>>,
    /// The last request.
    pub request: Request,
    pub state: State,
    /// Failures on devices since the intent was last as requested.
    pub errors: u32,
    /// The reason for the state.
    pub reason: Option<Box<str>>,
    /// The devices of each path, in order.
    pub paths: Vec<Vec<DeviceName>>,
    /// The links with their ends.
    pub links: Vec<(ConnectPoint, ConnectPoint)>,
    /// The rules that the flow table was told to hold for it.
    pub rules: Vec<(DeviceName, Packed)>,
    /// Reservations on links.
    pub reservations: Vec<ReservationView>,
    /// Devices that have not answered, with the number of rules.
    pub waits_for: Vec<(DeviceName, usize)>,
    /// Time until the next retry.
    pub retry_in: Option<Duration>,
    /// Moves; the latest is last.
    pub history: Vec<Reroute>,
}

/// A reservation on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationView {
    pub from: ConnectPoint,
    pub to: ConnectPoint,
    /// Bits per second.
    pub bandwidth: Option<u64>,
    pub label: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortView {
    /// The interface.
    pub name: Box<str>,
    /// Whether packets can pass.
    pub up: bool,
}

/// A direction of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkView {
    pub from: ConnectPoint,
    pub to: ConnectPoint,
    /// Whether packets pass.
    pub up: bool,
    /// Whether the link is declared.
    pub declared: bool,
    /// Whether LLDP is heard over it.
    pub discovered: bool,
    /// Declared properties.
    pub traits: LinkTraits,
    /// Bits per second that intents reserve.
    pub reserved: u64,
    /// Number of intents that go over it.
    pub intents: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostView {
    pub id: HostId,
    /// Place and addresses. If several nodes claim the host, those of the first.
    pub host: Host,
    /// Claimed places, if there are several.
    pub claimed: Vec<ConnectPoint>,
    /// Whether the place is declared.
    pub declared: bool,
    /// Whether an agent sees the host.
    pub observed: bool,
    /// Number of intents between this host and another.
    pub intents: usize,
}

/// The whole network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopologyView {
    /// By name: up, its agent is away, ports by name.
    pub devices: Vec<(DeviceName, bool, bool, Vec<PortView>)>,
    /// Links by their ends.
    pub links: Vec<LinkView>,
    /// Hosts by id.
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

    /// The intents, by key.
    pub fn list(&self) -> impl Iterator<Item = IntentNo> {
        self.by_key.values().copied()
    }

    /// An intent with all details.
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

    /// The whole network.
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
        let hosts = topology.hosts().filter_map(|(id, host_location, declared, observed)| {
            let (host, claimed) = match host_location {
                HostLocation::Unknown => return None,
                HostLocation::At(host) => (host.clone(), Vec::new()),
                HostLocation::Claimed(hosts) => {
                    ((*hosts.first()?).clone(), hosts.iter().map(|host| host.location.clone()).collect())
                }
            };
            Some(HostView { id, host, claimed, declared, observed, intents: self.tracker.between(id) })
        });
        TopologyView { devices, links, hosts: hosts.collect() }
    }
}
