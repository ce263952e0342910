//! A packet of TCP, as far as it is known before it is sent, and what rules ask of it.

use std::net::IpAddr;

use ipnet::IpNet;

use super::Fits;

/// A kernel chooses no port below this one for a client.
const CHOSEN_LEAST: u16 = 1024;

/// The place in the kernel where a packet is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// For this machine.
    Input,
    /// From this machine.
    Output,
}

/// The interface that the packet comes in or leaves by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interface {
    Name(String),
    /// Any one but loopback's.
    OfNetwork,
}

/// A packet of TCP that begins a connection, or one that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub hook: Hook,
    pub interface: Interface,
    /// The version of IP.
    pub is_v6: bool,
    pub source: Option<IpAddr>,
    pub destination: Option<IpAddr>,
    /// None: one that a client's kernel has chosen.
    pub source_port: Option<u16>,
    pub destination_port: Option<u16>,
    /// The packet begins a connection.
    pub is_new: bool,
}

impl Packet {
    /// The packet that answers this one.
    #[must_use]
    pub fn answer(&self) -> Self {
        Self {
            hook: match self.hook {
                Hook::Input => Hook::Output,
                Hook::Output => Hook::Input,
            },
            interface: self.interface.clone(),
            is_v6: self.is_v6,
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            is_new: false,
        }
    }

    /// The port that says which service it is for: none for an answer, which belongs to a connection.
    pub(super) fn ports(&self) -> Option<(&'static str, u16)> {
        self.destination_port.filter(|_| self.is_new).map(|port| ("dport", port))
    }

    /// Whether tables of this family judge it: those of nftables for `ip`, `ip6` or `inet`.
    pub(super) fn is_of(&self, family: &str) -> bool {
        match family {
            "inet" => true,
            "ip" => !self.is_v6,
            "ip6" => self.is_v6,
            _ => false,
        }
    }

    /// Whether it comes in by an interface of this name, or leaves by it. A trailing `wildcard` stands for any end.
    pub(super) fn interface(&self, hook: Hook, name: &str, wildcard: char) -> Fits {
        if hook != self.hook {
            return Fits::No;
        }
        let (start, is_pattern) = match name.strip_suffix(wildcard) {
            Some(start) => (start, true),
            None => (name, false),
        };
        match &self.interface {
            Interface::Name(own) if is_pattern => Fits::of(Some(own.starts_with(start))),
            Interface::Name(own) => Fits::of(Some(own == name)),
            Interface::OfNetwork if name == "lo" => Fits::No,
            Interface::OfNetwork => Fits::Unknown,
        }
    }

    /// Whether its connection is in this state.
    pub(super) fn state(&self, state: &str) -> Fits {
        let own = if self.is_new { "new" } else { "established" };
        Fits::of(Some(state.eq_ignore_ascii_case(own)))
    }
}

/// Whether a port is one of these; one that a kernel has chosen may be.
pub(super) fn is_port(port: Option<u16>, low: u16, high: u16) -> Fits {
    match port {
        Some(port) => Fits::of(Some((low..=high).contains(&port))),
        None if high < CHOSEN_LEAST => Fits::No,
        None => Fits::Unknown,
    }
}

/// Whether an address is in a network, or is that address; unknown for an address that is not known.
pub(super) fn within(address: Option<IpAddr>, network: &str) -> Fits {
    let network = match network.parse::<IpAddr>() {
        Ok(single) => Some(IpNet::from(single)),
        Err(_) => network.parse::<IpNet>().ok(),
    };
    Fits::of(address.zip(network).map(|(address, network)| network.contains(&address)))
}
