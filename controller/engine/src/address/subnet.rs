//! One subnet: the free addresses in its pools, and the ports that use the others.
//!
//! Absent: which subnet a port's address comes from (`address.rs`).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use muster_shared::ResourceId;
use muster_template::Subnet as Wanted;

use super::free_ranges::FreeRanges;

#[derive(Clone, Debug)]
pub(crate) struct Subnet {
    wanted: Wanted,
    network: ResourceId,
    free: FreeRanges,
    /// Ports of each used address: one, or also the one that replaces it.
    used: BTreeMap<u128, Vec<ResourceId>>,
}

impl Subnet {
    pub(super) fn new(network: ResourceId, wanted: &Wanted) -> Self {
        let mut free = FreeRanges::default();
        wanted.pools.iter().for_each(|(first, last)| free.give(number(*first), number(*last)));
        Self { wanted: wanted.clone(), network, free, used: BTreeMap::new() }
    }

    /// Takes over the addresses in use from the subnet before.
    pub(super) fn with_ports_of(mut self, old: &Self) -> Result<Self, String> {
        for (&used, ports) in &old.used {
            let address = address(old.wanted.cidr, used);
            if !self.wanted.is_for_ports(address) {
                return Err(format!("the port {} has {address}, which {} has not", ports[0], self.shown()));
            }
            self.free.take(used);
            self.used.insert(used, ports.clone());
        }
        Ok(self)
    }

    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    pub fn network(&self) -> ResourceId {
        self.network
    }

    pub(super) fn is_ipv4(&self) -> bool {
        matches!(self.wanted.cidr, IpNet::V4(_))
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let (one, other) = (self.wanted.cidr, other.wanted.cidr);
        one.contains(&other) || other.contains(&one)
    }

    pub(super) fn is_used(&self) -> bool {
        !self.used.is_empty()
    }

    pub(super) fn first_used(&self) -> Option<(IpAddr, ResourceId)> {
        self.used.first_key_value().map(|(used, ports)| (address(self.wanted.cidr, *used), ports[0]))
    }

    /// Whether the address is free, or used by the port that the new one replaces.
    pub(super) fn may_have(&self, address: IpAddr, instead_of: Option<ResourceId>) -> bool {
        let is_free = |ports: &Vec<ResourceId>| ports.iter().all(|port| Some(*port) == instead_of);
        self.wanted.is_for_ports(address) && self.used.get(&number(address)).is_none_or(is_free)
    }

    pub(super) fn next_free(&self) -> Option<IpAddr> {
        self.free.first().map(|first| address(self.wanted.cidr, first))
    }

    pub(super) fn take(
        &mut self,
        address: IpAddr,
        port: ResourceId,
        instead_of: Option<ResourceId>,
    ) -> Result<(), String> {
        if !self.wanted.is_for_ports(address) {
            return Err(format!("{address} cannot be a port's address in {}", self.shown()));
        }
        let ports = self.used.get(&number(address)).map_or(&[][..], Vec::as_slice);
        if ports.contains(&port) {
            return Err(format!("{address} of {} is asked for twice", self.shown()));
        }
        if let Some(other) = ports.iter().find(|other| Some(**other) != instead_of) {
            return Err(format!("{address} of {} is in use by the port {other}", self.shown()));
        }
        self.hold(address, port);
        Ok(())
    }

    /// Gives the address to a port without a check.
    pub(super) fn hold(&mut self, address: IpAddr, port: ResourceId) {
        self.used.entry(number(address)).or_default().push(port);
        self.free.take(number(address));
    }

    pub(super) fn give_back(&mut self, address: IpAddr, port: ResourceId) {
        let number = number(address);
        let Some(ports) = self.used.get_mut(&number) else { return };
        ports.retain(|other| *other != port);
        if !ports.is_empty() {
            return;
        }
        self.used.remove(&number);
        let is_in = |(first, last): &(IpAddr, IpAddr)| (*first..=*last).contains(&address);
        if self.wanted.pools.iter().any(is_in) {
            self.free.give(number, number);
        }
    }

    pub(super) fn shown(&self) -> String {
        match &self.wanted.name {
            Some(name) => format!("{name} ({})", self.wanted.cidr),
            None => self.wanted.cidr.to_string(),
        }
    }

    pub(super) fn fullness(&self) -> String {
        let pools: Vec<String> =
            self.wanted.pools.iter().map(|(first, last)| format!("{first}-{last}")).collect();
        let pools = if pools.is_empty() { "none".to_owned() } else { pools.join(", ") };
        format!("{} has {} addresses in use, pools: {pools}", self.shown(), self.used.len())
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// An address in the family of a range.
fn address(cidr: IpNet, number: u128) -> IpAddr {
    match cidr {
        IpNet::V4(_) => Ipv4Addr::from_bits(u32::try_from(number).unwrap_or(u32::MAX)).into(),
        IpNet::V6(_) => Ipv6Addr::from_bits(number).into(),
    }
}
