//! What a node tells of its devices for the topology: their ports, whether each is up, and whose LLDP is heard there.
//!
//! A port says of itself a [`Beacon`]; which port has which only the controller is told, over the sealed link. So who
//! hears one has a cable to that port, or knows somebody who has: nobody makes up a link to a port out of nothing.

use std::fmt;

use super::flow::Bridge;

/// Devices that one node tells of: more are no server's.
pub const TOLD_DEVICES_MAX: usize = 256;
/// Ports of one device that are told, and of one message: with the longest names they fit a packet.
pub const TOLD_PORTS_MAX: usize = 2048;
/// Beacons that are told of one port: one is a link, more are a hub and none.
pub const HEARD_MAX: usize = 2;

/// What a node tells of one of its devices, whole: after each greeting for every bridge of Open vSwitch that is there,
/// and when something of it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePorts {
    pub bridge: Bridge,
    /// The bridge exists on the node; false: it is gone, and has no ports.
    pub up: bool,
    /// By name, at most [`TOLD_PORTS_MAX`].
    pub ports: Vec<PortState>,
}

/// A port of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortState {
    /// The interface's, as rules have it.
    pub name: Box<str>,
    /// Administratively up, and somebody is at the other end.
    pub up: bool,
    /// What this port says of itself in LLDP. None: nothing is sent there.
    pub beacon: Option<Beacon>,
    /// Beacons of other Muster ports that were heard on this port and are still valid; in order, at
    /// most [`HEARD_MAX`].
    pub heard: Vec<Beacon>,
}

/// Stands for a port on its cable: random to everybody else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Beacon(pub [u8; 16]);

impl Beacon {
    /// In a log enough to tell one from another, and not enough to send it.
    const SHOWN: usize = 4;
}

impl fmt::Debug for Beacon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Beacon(")?;
        self.0[..Self::SHOWN].iter().try_for_each(|octet| write!(f, "{octet:02x}"))?;
        f.write_str("…)")
    }
}
