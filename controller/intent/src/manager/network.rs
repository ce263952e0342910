//! The network as agents and operators report it. A port that goes down counts at once; one that
//! comes back waits for a while (`damping.rs`).
//!
//! Absent: which links follow from the beacons of ports (`links_from_reports.rs`), and which intents a change
//! concerns (`affected_intents.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_shared::MonoTime;
use muster_shared::model::flow::DeviceName;

use super::Manager;
use crate::host::{Host, HostId};
use crate::topology::{Change, ConnectPoint, LinkNo, LinkTraits, PortNo, Topology, TopologyError};

/// A port as an agent reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledPort {
    /// The interface.
    pub name: Box<str>,
    /// Whether packets can pass.
    pub up: bool,
    /// The port whose LLDP is heard there.
    pub heard: Option<ConnectPoint>,
}

impl Manager {
    /// Handles a whole report about a device. Returns what the topology refused, for the log.
    pub fn tell_device(
        &mut self,
        now: MonoTime,
        device: &DeviceName,
        up: bool,
        ports: &[SettledPort],
    ) -> Vec<TopologyError> {
        let mut errors = Vec::new();
        let number = match self.topology.set_device(device, up) {
            Ok(number) => number,
            Err(error) => return vec![error],
        };
        let told: BTreeSet<&str> = ports.iter().map(|port| &*port.name).collect();
        let gone: Vec<PortNo> = self.topology.ports(number).collect();
        for port in gone {
            let point = self.topology.point(port);
            if !told.contains(&*point.port) {
                self.lower(now, port);
                self.hear(&point, None, &mut errors);
            }
        }
        for told in ports {
            let point = ConnectPoint { device: device.clone(), port: told.name.clone() };
            let port = match self.topology.know_port(&point) {
                Ok(port) => port,
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            match told.up {
                false => self.lower(now, port),
                true if !self.topology.is_port_up(port) && self.damping.rises(now, port) => {
                    self.topology.raise(port);
                }
                true => {}
            }
            self.hear(&point, told.heard.as_ref(), &mut errors);
        }
        errors
    }

    fn lower(&mut self, now: MonoTime, port: PortNo) {
        let was_up = self.topology.is_port_up(port);
        self.damping.falls(now, port, was_up);
        self.topology.lower(port);
    }

    fn hear(&mut self, at: &ConnectPoint, from: Option<&ConnectPoint>, errors: &mut Vec<TopologyError>) {
        let Some(port) = self.topology.port(at) else { return };
        let known = self.topology.heard_at(port);
        let is_known = |link: LinkNo| {
            let known = self.topology.point(self.topology.ends(link).0);
            from == Some(&known)
        };
        if let Some(link) = known.filter(|link| !is_known(*link)) {
            self.topology.miss(link);
        }
        if let Some(from) = from {
            // A port has one cable: a link by it to another end is gone, even if that end still
            // reports it.
            let from = self.topology.port(from);
            let old: Vec<LinkNo> = self.topology.discovered_out(port).collect();
            for link in old {
                if Some(self.topology.ends(link).1) != from {
                    self.topology.miss(link);
                }
            }
        }
        if let Some(from) = from
            && let Err(error) = self.topology.hear(from, at)
        {
            errors.push(error);
        }
    }

    /// Raises ports that came back and stayed up.
    pub(super) fn raise_ports(&mut self, now: MonoTime) {
        while let Some(port) = self.damping.next_risen(now) {
            self.topology.raise(port);
        }
    }

    /// Sets whether the agent of a device is away. New paths then avoid the device if they can.
    ///
    /// # Errors
    /// There are too many devices.
    pub fn set_away(&mut self, device: &DeviceName, away: bool) -> Result<(), TopologyError> {
        let number = self.topology.know_device(device)?;
        if away != self.topology.is_away(number) {
            self.topology.set_away(number, away);
            if away {
                self.look_for_other_ways(&format!("the agent of {device} is away").into());
            }
        }
        Ok(())
    }

    /// Marks intents that wait for a device that is away: there may be a path without it.
    pub(super) fn look_for_other_ways(&mut self, why: &Arc<str>) {
        for (token, no) in &self.tokens {
            let waits = self.held.get(no).is_some_and(|held| {
                let awaited = held.work.as_ref().is_some_and(|work| work.awaits(*token));
                awaited && held.open.get(token).is_some_and(|open| self.topology.is_away(open.device))
            });
            if waits {
                self.todo.surely(*no, why);
            }
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
        self.topology.declare(from, to, traits)
    }

    /// Retracts the declaration of a link.
    pub fn retract(&mut self, from: &ConnectPoint, to: &ConnectPoint) {
        if let Some(link) = self.topology.link(from, to) {
            self.topology.retract(link);
        }
    }

    /// Declares the place of a host, or retracts that.
    ///
    /// # Errors
    /// There are too many hosts.
    pub fn declare_host(&mut self, id: HostId, host: Option<Host>) -> Result<(), TopologyError> {
        self.topology.declare_host(id, host)
    }

    /// Replaces the hosts observed at ports of these devices. Hosts behind a port with a link
    /// belong to the device at its other end. Hosts beyond the bound are left out.
    pub fn observe_hosts(&mut self, devices: &BTreeSet<DeviceName>, seen: Vec<(HostId, Host)>) {
        let is_free = |(_, host): &(HostId, Host)| {
            self.topology.port(&host.location).is_some_and(|it| !self.topology.is_inner(it))
        };
        let seen: BTreeMap<HostId, Host> = seen.into_iter().filter(is_free).collect();
        let on = |device| self.topology.hosts_observed_on(device).map(move |id| (id, device));
        let known = devices.iter().flat_map(on);
        let gone: Vec<_> = known.filter(|(id, _)| !seen.contains_key(id)).collect();
        for (id, device) in gone {
            let _was_known = self.topology.observe_host(id, &device.node, None);
        }
        for (id, host) in seen {
            let node = host.location.device.node.clone();
            let _too_many = self.topology.observe_host(id, &node, Some(host));
        }
    }

    /// A text about these changes, for operators.
    pub(super) fn told(&self, changes: &BTreeSet<Change>) -> String {
        let is_loss = |change: &&Change| {
            matches!(change, Change::LinkDown(_) | Change::PortDown(_) | Change::PortInner(_))
        };
        let told = changes.iter().find(is_loss).or_else(|| changes.first());
        let text = told.map(|change| told_of(&self.topology, change)).unwrap_or_default();
        match changes.len() {
            0 | 1 => text,
            all => format!("{text}, and {} more changed", all - 1),
        }
    }
}

fn told_of(topology: &Topology, change: &Change) -> String {
    let link = |link: LinkNo, what: &str| {
        let (from, to) = topology.ends(link);
        format!("the link from {} to {} {what}", topology.point(from), topology.point(to))
    };
    match change {
        Change::LinkUp(it) => link(*it, "is there"),
        Change::LinkDown(it) => link(*it, "is down"),
        Change::LinkChanged(it) => link(*it, "is another"),
        Change::PortUp(port) => format!("{} is up", topology.point(*port)),
        Change::PortDown(port) => format!("{} is down", topology.point(*port)),
        Change::Host(host) => match topology.host(*host) {
            Some(known) => format!("host {host} is at {}", known.location),
            None => format!("nobody knows where host {host} is any more"),
        },
        Change::PortInner(port) => format!("a link is known at {}", topology.point(*port)),
        Change::PortFree(port) => format!("{} has no link any more", topology.point(*port)),
    }
}
