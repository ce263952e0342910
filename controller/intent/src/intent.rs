//! Intents: requests for connectivity, and what makes one wrong in any network.
//!
//! Absent: whether this network can have it (`compile.rs`), and its state (`phase.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::model::flow::{Action, Criterion, DeviceName, Field};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::compile::takes_lldp;
use crate::host::HostId;
use crate::topology::ConnectPoint;

/// Points of one intent.
pub const POINTS_MAX: usize = 1024;
/// Links of a link collection, and obstacles.
pub const LINKS_MAX: usize = 4096;
/// Waypoints of a path.
pub const WAYPOINTS_MAX: usize = 16;

/// A request for connectivity, as far as it concerns the network. The requester and the time are
/// not part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    pub kind: Kind,
    /// Priority of its rules.
    pub priority: u16,
    /// The packets. The port is not in it: the intent's ends are the ports.
    pub selector: Vec<Criterion>,
    /// Actions on the packets on the last device.
    pub treatment: Vec<Action>,
    pub constraints: Constraints,
}

/// The ends of an intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// From one port to another.
    PointToPoint {
        /// The port where packets come in.
        from: ConnectPoint,
        /// The port where packets go out.
        to: ConnectPoint,
    },
    /// From one port to each of several.
    SinglePointToMultiPoint {
        /// The port where packets come in.
        from: ConnectPoint,
        /// Ports where a copy of each packet goes out.
        to: Vec<ConnectPoint>,
    },
    /// From several ports to one.
    MultiPointToSinglePoint {
        /// Ports where packets come in.
        from: Vec<ConnectPoint>,
        /// The port where packets go out.
        to: ConnectPoint,
    },
    /// Over these links and no others.
    LinkCollection {
        /// Each link with its ends, in its direction.
        links: Vec<(ConnectPoint, ConnectPoint)>,
        /// Ports where packets come in.
        from: Vec<ConnectPoint>,
        /// Ports where packets go out.
        to: Vec<ConnectPoint>,
    },
    /// Between two hosts, both ways, wherever they are.
    HostToHost {
        one: HostId,
        /// The other.
        two: HostId,
    },
}

/// Constraints on the paths. The default has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constraints {
    /// Bits per second to reserve on each link.
    pub bandwidth: Option<u64>,
    /// Bound on the latency of a path in nanoseconds.
    pub latency: Option<u64>,
    /// Devices to pass in this order.
    pub waypoints: Vec<DeviceName>,
    /// Devices to avoid.
    pub obstacles: BTreeSet<DeviceName>,
    /// Links to avoid, in their direction.
    pub obstacle_links: BTreeSet<(ConnectPoint, ConnectPoint)>,
    /// Restriction by the annotation `type` of links.
    pub link_types: Option<LinkTypes>,
    /// Bounds on annotations by name: a link is taken where each of them is a number, and at most this.
    #[serde(default)]
    pub annotations: BTreeMap<Box<str>, Threshold>,
    /// Give packets a VLAN tag of the intent's own between the first and the last device.
    pub vlan: bool,
    /// Connect the points that can be reached if not all can.
    pub partial_failure: bool,
    /// Keep a second path ready that shares no link with the first.
    pub protection: bool,
    /// Each of two directions takes its own cheapest path, over whatever cables.
    #[serde(default)]
    pub asymmetric: bool,
}

/// The largest value of an annotation that is taken: a finite number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold(f64);

// The number is never NaN.
impl Eq for Threshold {}

impl Threshold {
    /// Returns none if the number is not finite.
    pub fn new(most: f64) -> Option<Self> {
        most.is_finite().then_some(Self(most))
    }

    pub fn number(self) -> f64 {
        self.0
    }

    /// Whether an annotation is a number, and at most this.
    pub fn admits(self, annotation: &str) -> bool {
        annotation.trim().parse().is_ok_and(|value: f64| value.is_finite() && value <= self.0)
    }
}

/// Link types by the annotation `type`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkTypes {
    /// Only links with one of these types.
    Only(BTreeSet<Box<str>>),
    /// No links with one of these types. Links without a type are allowed.
    Without(BTreeSet<Box<str>>),
}

/// The reason why an intent is wrong in any network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadIntent {
    /// The selector has a port.
    #[error("the selector has an 'in_port', which is the port of 'from'")]
    InPort,
    /// The selector has a field that the hosts set.
    #[error("the selector has an '{0}', which is that of the hosts")]
    HostField(&'static str),
    /// Both hosts are the same.
    #[error("{0} is both hosts: want two different hosts")]
    SameHost(HostId),
    /// No rule can be above this priority.
    #[error(
        "the selector takes LLDP, which a rule above keeps back: want a priority below 65535, or an 'eth_type'"
    )]
    Highest,
    /// Packets would leave by the port that they come in by.
    #[error("{0} is where packets come in and where they go out")]
    SamePoint(ConnectPoint),
    /// A point is given twice.
    #[error("{0} is given twice")]
    Twice(ConnectPoint),
    /// There are no points, or more than [`POINTS_MAX`].
    #[error("want 1 to {POINTS_MAX} points to go in and to go out")]
    Points,
    /// There are more than [`LINKS_MAX`].
    #[error("at most {LINKS_MAX} links are taken")]
    Links,
    /// There are more than [`WAYPOINTS_MAX`].
    #[error("at most {WAYPOINTS_MAX} waypoints are taken")]
    Waypoints,
    /// A waypoint is given twice.
    #[error("the waypoint {0} is given twice, and a path passes a device once")]
    WaypointTwice(DeviceName),
    /// A device is a waypoint and an obstacle.
    #[error("{0} is a waypoint and an obstacle")]
    WaypointObstacle(DeviceName),
    /// An end is an obstacle.
    #[error("{0} is an obstacle, and the intent begins or ends there")]
    EndObstacle(DeviceName),
    /// The bandwidth is 0.
    #[error("a bandwidth is at least 1 bit per second")]
    Bandwidth,
    /// The latency is 0.
    #[error("a latency is more than 0")]
    Latency,
    /// This kind of intent does not have the constraint.
    #[error("'{constraint}' means nothing for an intent of type {kind}")]
    NotOfKind {
        constraint: &'static str,
        /// The name of the kind.
        kind: &'static str,
    },
    /// Two constraints exclude each other.
    #[error("'{0}' and '{1}' are not possible together")]
    Together(&'static str, &'static str),
}

impl Kind {
    /// The name in files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::PointToPoint { .. } => "point_to_point",
            Self::SinglePointToMultiPoint { .. } => "single_point_to_multi_point",
            Self::MultiPointToSinglePoint { .. } => "multi_point_to_single_point",
            Self::HostToHost { .. } => "host_to_host",
            Self::LinkCollection { .. } => "link_collection",
        }
    }

    /// The two hosts, if it is between hosts.
    pub fn hosts(&self) -> Option<[HostId; 2]> {
        match self {
            Self::HostToHost { one, two } => Some([*one, *two]),
            Self::PointToPoint { .. }
            | Self::SinglePointToMultiPoint { .. }
            | Self::MultiPointToSinglePoint { .. }
            | Self::LinkCollection { .. } => None,
        }
    }

    /// Points where packets come in. Empty for hosts.
    pub fn ingress(&self) -> &[ConnectPoint] {
        match self {
            Self::PointToPoint { from, .. } | Self::SinglePointToMultiPoint { from, .. } => {
                std::slice::from_ref(from)
            }
            Self::MultiPointToSinglePoint { from, .. } | Self::LinkCollection { from, .. } => from,
            Self::HostToHost { .. } => &[],
        }
    }

    /// Points where packets go out. Empty for hosts.
    pub fn egress(&self) -> &[ConnectPoint] {
        match self {
            Self::PointToPoint { to, .. } | Self::MultiPointToSinglePoint { to, .. } => {
                std::slice::from_ref(to)
            }
            Self::SinglePointToMultiPoint { to, .. } | Self::LinkCollection { to, .. } => to,
            Self::HostToHost { .. } => &[],
        }
    }
}

impl Intent {
    /// Checks the intent without regard to the network.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<(), BadIntent> {
        if self.selector.iter().any(|criterion| matches!(criterion, Criterion::InPort(_))) {
            return Err(BadIntent::InPort);
        }
        if self.priority == u16::MAX && takes_lldp(&self.selector) {
            return Err(BadIntent::Highest);
        }
        self.check_points()?;
        self.check_constraints()
    }

    fn check_hosts(&self, one: HostId, two: HostId) -> Result<(), BadIntent> {
        if one == two {
            return Err(BadIntent::SameHost(one));
        }
        let has = |wanted: Field| {
            let is_it = |criterion: &Criterion| matches!(criterion, Criterion::Field { field, .. } if *field == wanted);
            self.selector.iter().any(is_it)
        };
        let named = [(Field::EthSrc, "eth_src"), (Field::EthDst, "eth_dst")];
        match named.into_iter().find(|(field, _)| has(*field)) {
            Some((_, name)) => Err(BadIntent::HostField(name)),
            None => Ok(()),
        }
    }

    fn check_points(&self) -> Result<(), BadIntent> {
        if let Some([one, two]) = self.kind.hosts() {
            return self.check_hosts(one, two);
        }
        let (ingress, egress) = (self.kind.ingress(), self.kind.egress());
        for points in [ingress, egress] {
            if points.is_empty() || points.len() > POINTS_MAX {
                return Err(BadIntent::Points);
            }
            let mut seen = BTreeSet::new();
            if let Some(twice) = points.iter().find(|point| !seen.insert(*point)) {
                return Err(BadIntent::Twice(twice.clone()));
            }
        }
        let outs: BTreeSet<&ConnectPoint> = egress.iter().collect();
        if let Some(both) = ingress.iter().find(|point| outs.contains(point)) {
            return Err(BadIntent::SamePoint(both.clone()));
        }
        let is_over = matches!(&self.kind, Kind::LinkCollection { links, .. } if links.len() > LINKS_MAX);
        if is_over { Err(BadIntent::Links) } else { Ok(()) }
    }

    fn check_constraints(&self) -> Result<(), BadIntent> {
        let Constraints { bandwidth, latency, waypoints, obstacles, .. } = &self.constraints;
        let Constraints { obstacle_links, vlan, partial_failure, protection, .. } = &self.constraints;
        let Constraints { annotations, asymmetric, .. } = &self.constraints;
        let kind = self.kind.name();
        let is_point = matches!(self.kind, Kind::PointToPoint { .. });
        let is_single = is_point || self.kind.hosts().is_some();
        let is_multi =
            matches!(self.kind, Kind::SinglePointToMultiPoint { .. } | Kind::MultiPointToSinglePoint { .. });
        let chosen = matches!(self.kind, Kind::LinkCollection { .. });
        for (constraint, is_given, has_meaning) in [
            ("waypoints", !waypoints.is_empty(), is_single),
            ("protection", *protection, is_point),
            ("encapsulation", *vlan, is_point),
            ("partial_failure", *partial_failure, is_multi),
            ("latency", latency.is_some(), !chosen),
            ("obstacles", !obstacles.is_empty() || !obstacle_links.is_empty(), !chosen),
            ("link_type", self.constraints.link_types.is_some(), !chosen),
            ("annotations", !annotations.is_empty(), !chosen),
            ("asymmetric", *asymmetric, self.kind.hosts().is_some()),
        ] {
            if is_given && !has_meaning {
                return Err(BadIntent::NotOfKind { constraint, kind });
            }
        }
        if *protection && !waypoints.is_empty() {
            return Err(BadIntent::Together("protection", "waypoints"));
        }
        if *protection && *vlan {
            return Err(BadIntent::Together("protection", "encapsulation"));
        }
        if *bandwidth == Some(0) {
            return Err(BadIntent::Bandwidth);
        }
        if *latency == Some(0) {
            return Err(BadIntent::Latency);
        }
        if waypoints.len() > WAYPOINTS_MAX {
            return Err(BadIntent::Waypoints);
        }
        if obstacles.len() + obstacle_links.len() > LINKS_MAX {
            return Err(BadIntent::Links);
        }
        let mut seen = BTreeSet::new();
        for device in waypoints {
            if !seen.insert(device) {
                return Err(BadIntent::WaypointTwice(device.clone()));
            }
            if obstacles.contains(device) {
                return Err(BadIntent::WaypointObstacle(device.clone()));
            }
        }
        let mut ends = self.kind.ingress().iter().chain(self.kind.egress());
        match ends.find(|end| obstacles.contains(&end.device)) {
            Some(end) => Err(BadIntent::EndObstacle(end.device.clone())),
            None => Ok(()),
        }
    }
}
