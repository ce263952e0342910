//! An intent, a topology and the reservations of others → paths and rules.
//!
//! On every device of the path a rule matches the ingress port and the intent's selector. The last
//! device applies the treatment, so the selector is the same on all devices. With a VLAN label the
//! devices in between match the label instead.
//!
//! Absent: whether a link may be on a path (`compile/constrained_path.rs`), and the order of changes
//! (`stages.rs`).

mod constrained_path;
mod reach;
mod rules;

use std::collections::BTreeSet;

pub(crate) use constrained_path::Gate;
pub(crate) use rules::{takes_lldp, vlan, vlan_set};

use muster_shared::model::flow::{DeviceName, Entry, INSTRUCTIONS_MAX};
use thiserror::Error;

use crate::host::HostId;
use crate::intent::{BadIntent, Intent, Kind};
use crate::path_search::{Closed, Path, Trees};
use crate::reservations::{Holder, Ledger};
use crate::topology::{ConnectPoint, DeviceNo, LinkNo, PortNo, Topology};

/// The result of compiling an intent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// A path from each point to each, in the order of the points. With protection also the second path.
    pub paths: Vec<Path>,
    /// Entries with their device, by device number.
    pub entries: Vec<(DeviceNo, Entry)>,
    pub links: Vec<LinkNo>,
    /// The points, sorted. Between hosts: the port of one, then of the other.
    pub points: Vec<PortNo>,
    /// The VLAN id of packets on all links: a label, or the id that the selector asks for.
    pub label: Option<u16>,
    /// Points that cannot be reached, with `partial_failure`.
    pub missing: Vec<ConnectPoint>,
}

/// The text for the places where nodes claim a host.
pub fn claimed(at: &[ConnectPoint]) -> String {
    let at: Vec<String> = at.iter().map(|point| format!("by {} at {point}", point.device.node)).collect();
    at.join(" and ")
}

/// The reason why an intent cannot be compiled now.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompileError {
    /// The intent is wrong in any network.
    #[error(transparent)]
    Bad(#[from] BadIntent),
    /// The site has no such device.
    #[error("there is no device {0}")]
    NoDevice(DeviceName),
    /// The place of the host is unknown.
    #[error(
        "nobody says where host {0} is: declare it (Muster::TopologyHost), or see that the agent of its node is there"
    )]
    NoHost(HostId),
    /// Several nodes claim the host.
    #[error(
        "host {host} is claimed {}: one of these nodes has another's MAC address; correct that, or say where the host \
             is (Muster::TopologyHost)",
        claimed(at)
    )]
    HostClaimed {
        host: HostId,
        /// The place that each node claims.
        at: Vec<ConnectPoint>,
    },
    /// The device has no such port.
    #[error("{0}: the device has no such port")]
    NoPort(ConnectPoint),
    /// The port or its device is down.
    #[error("{0} is down")]
    Down(ConnectPoint),
    /// The port has a link, so its packets come from another device.
    #[error("{port} is connected with {other}: an intent begins and ends at ports without a link")]
    Inner {
        port: ConnectPoint,
        /// The port at the other end.
        other: ConnectPoint,
    },
    /// There is no path.
    #[error("no path from {from} to {to}{with}")]
    NoPath {
        from: DeviceName,
        to: DeviceName,
        /// The constraint without which there is a path.
        with: String,
        /// Closed links, at least one of which every path would need.
        closed: Closed,
    },
    /// Every path is slower than allowed.
    #[error("the fastest path from {from} to {to} takes {fastest} ns, and {wanted} ns are allowed")]
    TooSlow {
        /// The first device.
        from: DeviceName,
        to: DeviceName,
        fastest: u64,
        wanted: u64,
    },
    /// Every label is taken on the path.
    #[error("every VLAN label is taken on the path from {from} to {to}")]
    NoLabel {
        /// The first device.
        from: DeviceName,
        to: DeviceName,
    },
    /// A link of a collection is unknown, down, or lacks bandwidth.
    #[error("the link from {from} to {to} {why}")]
    Link {
        from: ConnectPoint,
        to: ConnectPoint,
        /// The fault.
        why: &'static str,
        /// The link, if it is known.
        link: Option<LinkNo>,
    },
    /// A rule cannot hold all the output ports on one device.
    #[error(
        "on {0} a rule would send packets out at more ports than one takes: at most {INSTRUCTIONS_MAX} steps"
    )]
    TooMany(DeviceName),
    /// The links of a collection make a circle.
    #[error("the links lead round in a circle by {0}")]
    Circle(DeviceName),
}

/// The inputs of compiling.
pub struct Compiler<'a> {
    pub topology: &'a Topology,
    pub ledger: &'a Ledger,
    /// A cache, kept between intents.
    pub trees: &'a mut Trees,
}

impl Compiler<'_> {
    /// Compiles an intent. `holder` takes its bandwidth, `key` is its own key, and `group` is the
    /// number of the group for protection on the first device.
    ///
    /// # Errors
    /// The intent cannot be compiled.
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

    /// The port of a point, which the site must have and which must have no link. The port may be down.
    fn known(&self, point: &ConnectPoint) -> Result<PortNo, CompileError> {
        let topology = self.topology;
        topology.device(&point.device).ok_or_else(|| CompileError::NoDevice(point.device.clone()))?;
        let port = topology.port(point).ok_or_else(|| CompileError::NoPort(point.clone()))?;
        match topology.neighbour(port) {
            Some(other) => Err(CompileError::Inner { port: point.clone(), other: topology.point(other) }),
            None => Ok(port),
        }
    }

    /// As [`Compiler::known`], and the port must be up.
    fn end(&self, point: &ConnectPoint) -> Result<PortNo, CompileError> {
        let port = self.known(point)?;
        match self.topology.is_up(port) {
            true => Ok(port),
            false => Err(CompileError::Down(point.clone())),
        }
    }
}
