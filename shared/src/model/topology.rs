//! A node's report of its devices for the topology: their ports, whether each is up, and the neighbours whose
//! LLDP is heard.
//!
//! A port announces a [`Beacon`]. Only the controller learns which port has which beacon, over the sealed
//! link. So a node that reports a beacon has a cable to that port, or an accomplice with one: a link cannot
//! be invented.
//!
//! Absent: the links that follow from it (`controller/intent/src/links_from_reports.rs`).

use std::fmt;

use data_encoding::HEXLOWER;

use super::flow::Bridge;

/// The most devices that one node reports: no server has more.
pub const TOLD_DEVICES_MAX: usize = 256;
/// The most ports reported of one device, and in one message: with the longest names they fit a packet.
pub const TOLD_PORTS_MAX: usize = 2048;
/// The most beacons reported of one port: one is a link, several mean a hub, which is not a link.
pub const HEARD_MAX: usize = 2;

/// A node's report of one of its devices, complete: after each greeting for every existing bridge of Open
/// vSwitch, and on every change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePorts {
    pub bridge: Bridge,
    /// Whether the bridge exists on the node; if not, it has no ports.
    pub up: bool,
    /// Ports by name, at most [`TOLD_PORTS_MAX`].
    pub ports: Vec<PortState>,
}

/// A port of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortState {
    /// The interface's, as rules have it.
    pub name: Box<str>,
    /// Whether the port is administratively up and has a carrier.
    pub up: bool,
    /// The beacon that this port announces over LLDP. `None`: the port sends no LLDP.
    pub beacon: Option<Beacon>,
    /// Beacons of other Muster ports that were heard on this port and are still valid; in order, at
    /// most [`HEARD_MAX`].
    pub heard: Vec<Beacon>,
}

/// Identifies a port on its cable: looks random to everybody else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Beacon(pub [u8; 16]);

impl Beacon {
    /// Enough to distinguish beacons in a log, and not enough to send one.
    const SHOWN: usize = 4;
}

impl fmt::Debug for Beacon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Beacon({}…)", HEXLOWER.encode_display(&self.0[..Self::SHOWN]))
    }
}
