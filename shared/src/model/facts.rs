//! The facts of a server. `docs/facts.md` has the names under which operators see them.
//!
//! Absent: the bounds on facts (`wire/facts.rs`), and when they are sent (`agent/core/src/facts.rs`).

use std::net::IpAddr;

use ipnet::IpNet;

/// The facts of a server. At most [`FACTS_MAX`](crate::wire::FACTS_MAX) bytes on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The kernel's host name.
    pub hostname: String,
    /// Release of the running kernel.
    pub kernel: String,
    pub os: OsFacts,
    /// The processor's, as in `uname -m`.
    pub architecture: String,
    /// Online processors.
    pub cpus: u32,
    /// The model of the first processor; empty where the kernel reports none.
    pub cpu_model: String,
    pub memory: u64,
    /// Unix seconds.
    pub booted_at: u64,
    /// The version of the reporting agent.
    pub agent_version: String,
    /// Disks by name.
    pub disks: Vec<DiskFacts>,
    /// Links by name; if there are very many, those of hardware first.
    pub links: Vec<LinkFacts>,
    /// The number of all links.
    pub links_total: u32,
}

/// An operating system, by its os-release. Empty where that has no value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsFacts {
    /// `ID`, such as `debian`.
    pub id: String,
    /// `VERSION_ID`, such as `12`.
    pub version: String,
    /// `PRETTY_NAME`.
    pub name: String,
}

/// A disk of hardware, or of the machine that the server is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskFacts {
    /// The name, such as `sda`.
    pub name: String,
    pub size: u64,
    /// The model that the disk reports; empty if it reports none.
    pub model: String,
    pub rotational: bool,
}

/// A network interface as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkFacts {
    pub name: String,
    /// The kernel's kind, such as `bridge`; empty for hardware.
    pub kind: String,
    /// The kernel's driver; empty where there is no device behind it.
    pub driver: String,
    /// The card's address and identity on the PCI bus.
    pub pci: Option<PciFacts>,
    /// The MAC address of an Ethernet link.
    pub mac: Option<[u8; 6]>,
    /// The MAC address from the factory.
    pub permanent_mac: Option<[u8; 6]>,
    /// The MTU in bytes.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// A peer is at the other end of the cable.
    pub carrier: bool,
    /// The speed in Mbit/s; absent where the link has none.
    pub speed: Option<u32>,
    /// Absent where the link does not report a duplex mode.
    pub full_duplex: Option<bool>,
    /// The link that this one is a member of, by name: a bridge, a bond, a VRF.
    pub master: Option<String>,
    /// The link below this one, by name: of a VLAN, a macvlan, a tunnel.
    pub lower: Option<String>,
    /// Addresses in the kernel's order.
    pub addresses: Vec<IpNet>,
    /// Neighbours whose LLDP frames came in on this link and are still valid, by chassis and port.
    pub neighbours: Vec<NeighbourFacts>,
    /// Counters since the link was made.
    pub counters: Counters,
}

/// A device of the PCI bus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PciFacts {
    /// An address such as `0000:3b:00.0`.
    pub address: String,
    /// The vendor's number, by the PCI list.
    pub vendor: u16,
    pub device: u16,
}

/// A neighbour, as it describes itself by LLDP (IEEE 802.1AB). Control characters in texts become blanks.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NeighbourFacts {
    /// The switch's id: a MAC or IP address, or a name; otherwise its octets in hexadecimal.
    pub chassis_id: String,
    /// The id of the switch's port, in the same form.
    pub port_id: String,
    /// A description for people.
    pub port_description: Option<String>,
    /// The name that the administrator gave.
    pub system_name: Option<String>,
    /// Maker, version and so on.
    pub system_description: Option<String>,
    /// The port's own VLAN (IEEE 802.1Q).
    pub vlan: Option<u16>,
    /// The addresses at which the neighbour is managed.
    pub management: Vec<IpAddr>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub rx_bytes: u64,
    pub rx_packets: u64,
    pub rx_errors: u64,
    pub rx_dropped: u64,
    pub tx_bytes: u64,
    pub tx_packets: u64,
    pub tx_errors: u64,
    pub tx_dropped: u64,
}

impl Facts {
    /// Whether the facts are equal apart from running counters.
    pub fn is_same(&self, other: &Facts) -> bool {
        let still = |facts: &Facts| {
            let mut facts = facts.clone();
            facts.links.iter_mut().for_each(|link| link.counters = Counters::default());
            facts
        };
        still(self) == still(other)
    }
}
