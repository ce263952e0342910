//! An intent, a topology and what others hold → paths and rules.
//!
//! A rule matches the port that packets come in by and the intent's selector, on every device of the way; the treatment
//! is done on the last one, so that the selector is the same all along. With a VLAN label the devices between match the
//! label instead.
//!
//! Absent: what is installed now, and in which order rules go (`stages`).

mod reach;
mod route;
mod rules;

use std::collections::BTreeSet;

pub(crate) use route::Gate;
pub(crate) use rules::{takes_lldp, vlan, vlan_set};

use muster_shared::model::flow::{DeviceName, Entry, INSTRUCTIONS_MAX};
use thiserror::Error;

use crate::host::HostId;
use crate::intent::{BadIntent, Intent, Kind};
use crate::ledger::{Holder, Ledger};
use crate::path::{Closed, Path, Trees};
use crate::topology::{ConnectPoint, DeviceNo, LinkNo, PortNo, Topology};

/// What an intent comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// From each point to each, in the order of the points; with protection the second path too.
    pub paths: Vec<Path>,
    /// On which device what, in the order of the devices' numbers.
    pub entries: Vec<(DeviceNo, Entry)>,
    /// All links, sorted.
    pub links: Vec<LinkNo>,
    /// The points, sorted; between hosts that of one and that of the other.
    pub points: Vec<PortNo>,
    /// The VLAN id that packets have on all of the links: a label, or the one that the intent's selector asks for.
    pub label: Option<u16>,
    /// Points that cannot be reached, where that was allowed.
    pub missing: Vec<ConnectPoint>,
}

/// Where nodes say that one host is.
pub fn claimed(at: &[ConnectPoint]) -> String {
    let at: Vec<String> = at.iter().map(|point| format!("by {} at {point}", point.device.node)).collect();
    at.join(" and ")
}

/// The reason why nothing can be made of an intent now.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompileError {
    /// In any network.
    #[error(transparent)]
    Bad(#[from] BadIntent),
    /// The site has no such device.
    #[error("there is no device {0}")]
    NoDevice(DeviceName),
    /// Nobody says where it is.
    #[error(
        "nobody says where host {0} is: declare it (Muster::TopologyHost), or see that the agent of its node is there"
    )]
    NoHost(HostId),
    /// Several nodes say that it is with them.
    #[error(
        "host {host} is claimed {}: one of these nodes has another's MAC address; correct that, or say where the host \
             is (Muster::TopologyHost)",
        claimed(at)
    )]
    HostClaimed {
        /// The host.
        host: HostId,
        /// Where, by each node.
        at: Vec<ConnectPoint>,
    },
    /// The device has no such port.
    #[error("{0}: the device has no such port")]
    NoPort(ConnectPoint),
    /// The port or its device is down.
    #[error("{0} is down")]
    Down(ConnectPoint),
    /// A link is at the port: what comes in there comes from another device.
    #[error("{port} is connected with {other}: an intent begins and ends at ports without a link")]
    Inner {
        /// The port.
        port: ConnectPoint,
        /// What it is connected with.
        other: ConnectPoint,
    },
    /// Nothing leads there.
    #[error("no path from {from} to {to}{with}")]
    NoPath {
        /// From where.
        from: DeviceName,
        /// To where.
        to: DeviceName,
        /// With which constraint, where there is a path without.
        with: String,
        /// What every path would have to take.
        closed: Closed,
    },
    /// There are paths, all slower.
    #[error("the fastest path from {from} to {to} takes {fastest} ns, and {wanted} ns are allowed")]
    TooSlow {
        /// From where.
        from: DeviceName,
        /// To where.
        to: DeviceName,
        fastest: u64,
        wanted: u64,
    },
    /// All labels are taken on every path.
    #[error("every VLAN label is taken on the path from {from} to {to}")]
    NoLabel {
        /// From where.
        from: DeviceName,
        /// To where.
        to: DeviceName,
    },
    /// A link of a collection is not there, or nothing passes.
    #[error("the link from {from} to {to} {why}")]
    Link {
        /// From where.
        from: ConnectPoint,
        /// To where.
        to: ConnectPoint,
        /// What is the matter.
        why: &'static str,
        /// Where it is known.
        link: Option<LinkNo>,
    },
    /// So many points on one device that a rule cannot hold them.
    #[error(
        "on {0} a rule would send packets out at more ports than one takes: at most {INSTRUCTIONS_MAX} steps"
    )]
    TooMany(DeviceName),
    /// The links of a collection go round.
    #[error("the links lead round in a circle by {0}")]
    Circle(DeviceName),
}

/// What compiling looks at.
pub struct Compiler<'a> {
    /// The network.
    pub topology: &'a Topology,
    pub ledger: &'a Ledger,
    /// Kept between intents.
    pub trees: &'a mut Trees,
}

impl Compiler<'_> {
    /// What an intent comes to. `holder` is who takes bandwidth for it; `key` is its own; `group` is the number of the
    /// group that protection needs on the first device.
    ///
    /// # Errors
    /// Why it comes to nothing.
    pub fn compile(
        &mut self,
        intent: &Intent,
        key: &str,
        holder: &Holder,
        group: u32,
    ) -> Result<Compiled, CompileError> {
        intent.check()?;
        for point in intent.kind.ingress().iter().chain(intent.kind.egress()) {
            self.known(point)?;
        }
        let mut made = match &intent.kind {
            Kind::PointToPoint { from, to } => self.point_to_point(intent, key, holder, group, from, to)?,
            Kind::SinglePointToMultiPoint { from, to } => self.spread(intent, holder, from, to)?,
            Kind::MultiPointToSinglePoint { from, to } => self.gather(intent, holder, from, to)?,
            Kind::HostToHost { one, two } => self.host_to_host(intent, holder, *one, *two)?,
            Kind::LinkCollection { links, from, to } => self.collect(intent, holder, links, from, to)?,
        };
        let links: BTreeSet<LinkNo> =
            made.links.iter().copied().chain(made.paths.iter().flatten().copied()).collect();
        made.links = links.into_iter().collect();
        if intent.kind.hosts().is_none() {
            let points = intent.kind.ingress().iter().chain(intent.kind.egress());
            made.points = points.filter_map(|point| self.topology.port(point)).collect();
            made.points.sort_unstable();
        }
        made.entries.extend(rules::keeping_lldp(&made.entries));
        if let Some((device, _)) = made.entries.iter().find(|(_, entry)| !entry.is_canonical()) {
            return Err(CompileError::TooMany(self.topology.device_name(*device).clone()));
        }
        made.entries.sort_by_key(|(device, _)| *device);
        made.label = made.label.or_else(|| vlan(&intent.selector));
        Ok(made)
    }

    /// The site has it, and it is no port between devices. It may be down.
    fn known(&self, point: &ConnectPoint) -> Result<PortNo, CompileError> {
        let topology = self.topology;
        topology.device(&point.device).ok_or_else(|| CompileError::NoDevice(point.device.clone()))?;
        let port = topology.port(point).ok_or_else(|| CompileError::NoPort(point.clone()))?;
        match topology.neighbour(port) {
            Some(other) => Err(CompileError::Inner { port: point.clone(), other: topology.point(other) }),
            None => Ok(port),
        }
    }

    /// As [`Compiler::known`], and up.
    fn end(&self, point: &ConnectPoint) -> Result<PortNo, CompileError> {
        let port = self.known(point)?;
        match self.topology.is_up(port) {
            true => Ok(port),
            false => Err(CompileError::Down(point.clone())),
        }
    }
}
