//! The site's address plan: networks, their subnets, and which port has which address. Pure; one
//! plan for all stacks.
//!
//! A port keeps an address as long as the address fits its request, and frees its addresses when it
//! is removed. No two ports have the same address.
//!
//! Absent: the rows of networks, subnets and ports (`address/row.rs`), and the properties that a
//! template gives them (`controller/template/src/address.rs`).

mod free_ranges;
mod hidden;
mod row;
mod subnet;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use muster_shared::ResourceId;
use muster_template::{FixedIp, Subnet as Wanted};
use subnet::Subnet;

pub(crate) use row::AS_JSON;

/// Known names that an error lists.
const NAMED_MAX: usize = 10;

/// An address of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PortAddress {
    pub subnet: ResourceId,
    pub address: IpAddr,
}

#[derive(Debug, Default)]
struct Network {
    name: Option<String>,
    tags: Vec<String>,
    /// Subnets in the order of their declaration.
    subnets: Vec<ResourceId>,
    ports: BTreeSet<ResourceId>,
}

/// A port that needs addresses.
struct PortRequest {
    id: ResourceId,
    /// The port that this one replaces, whose addresses it may take.
    instead_of: Option<ResourceId>,
    /// Addresses to keep if they fit.
    had: Vec<PortAddress>,
}

/// An address that is not assigned yet.
struct OpenAddress {
    /// Position among the addresses of the port.
    place: usize,
    subnets: Vec<ResourceId>,
    address: Option<IpAddr>,
}

#[derive(Debug)]
struct Port {
    network: ResourceId,
    addresses: Vec<PortAddress>,
}

#[derive(Debug, Default)]
pub(crate) struct AddressPlan {
    networks: BTreeMap<ResourceId, Network>,
    subnets: BTreeMap<ResourceId, Subnet>,
    ports: BTreeMap<ResourceId, Port>,
}

impl AddressPlan {
    /// Number of networks, subnets and ports.
    pub fn len(&self) -> usize {
        self.networks.len() + self.subnets.len() + self.ports.len()
    }

    /// Adds a network, or gives it another name and other tags.
    pub fn put_network(&mut self, id: ResourceId, name: Option<&str>, tags: &[String]) {
        let network = self.networks.entry(id).or_default();
        (network.name, network.tags) = (name.map(str::to_owned), tags.to_vec());
    }

    /// Removes a network.
    ///
    /// # Errors
    /// The network still has subnets or ports.
    pub fn remove_network(&mut self, id: ResourceId) -> Result<(), String> {
        let Some(network) = self.networks.get(&id) else { return Ok(()) };
        let (subnets, ports) = (network.subnets.len(), network.ports.len());
        if subnets + ports > 0 {
            return Err(format!(
                "the network {} still has {subnets} subnets and {ports} ports: take them away first",
                shown(id, network.name.as_deref())
            ));
        }
        self.networks.remove(&id);
        Ok(())
    }

    /// Adds or changes a subnet.
    ///
    /// # Errors
    /// The subnet is wrong, or a port has an address that would lie outside of it. Nothing has
    /// changed then.
    pub fn put_subnet(&mut self, id: ResourceId, wanted: &Wanted) -> Result<(), String> {
        let network = self.network(&wanted.network)?;
        let new = Subnet::new(network, wanted);
        let beside = self.networks[&network].subnets.iter().filter(|other| **other != id);
        if let Some(other) = beside.map(|other| &self.subnets[other]).find(|other| other.overlaps(&new)) {
            return Err(format!("{} overlaps {} of the same network", new.shown(), other.shown()));
        }
        let old = self.subnets.get(&id);
        if let Some(old) = old.filter(|old| old.network() != network && old.is_used()) {
            return Err(format!("{} has ports and cannot go to another network", old.shown()));
        }
        let new = match old {
            Some(old) => new.with_ports_of(old)?,
            None => new,
        };
        if let Some(old) = old.map(Subnet::network).filter(|old| *old != network) {
            self.leave_network(old, id);
        }
        let subnets = &mut self.networks.entry(network).or_default().subnets;
        if !subnets.contains(&id) {
            subnets.push(id);
        }
        self.subnets.insert(id, new);
        Ok(())
    }

    /// Removes a subnet.
    ///
    /// # Errors
    /// The subnet has ports.
    pub fn remove_subnet(&mut self, id: ResourceId) -> Result<(), String> {
        let Some(subnet) = self.subnets.get(&id) else { return Ok(()) };
        if let Some((address, port)) = subnet.first_used() {
            return Err(format!(
                "the subnet {} still has ports, such as {address} of {port}: take them away first",
                subnet.shown()
            ));
        }
        let network = subnet.network();
        self.subnets.remove(&id);
        self.leave_network(network, id);
        Ok(())
    }

    /// Assigns addresses to a port. The port keeps those that fit. In a network with both families
    /// a port without wishes gets one address of each.
    ///
    /// `instead_of`: the port that this one replaces. The new port takes over its addresses if they fit.
    ///
    /// # Errors
    /// No address can be assigned. The port keeps those that it had.
    pub fn put_port(
        &mut self,
        id: ResourceId,
        network: &str,
        wishes: &[FixedIp],
        instead_of: Option<ResourceId>,
    ) -> Result<Vec<PortAddress>, String> {
        let network = self.network(network)?;
        let before = self.release(id);
        let had = before.as_ref().or_else(|| self.ports.get(&instead_of?));
        let had = had.map(|port| port.addresses.clone()).unwrap_or_default();
        let port = PortRequest { id, instead_of, had };
        match self.assign(port, network, wishes) {
            Ok(addresses) => {
                self.hold(id, Port { network, addresses: addresses.clone() });
                Ok(addresses)
            }
            Err(why) => {
                if let Some(before) = before {
                    self.hold(id, before);
                }
                Err(why)
            }
        }
    }

    /// Adds a port as it was before a restart.
    pub fn restore_port(&mut self, id: ResourceId, network: ResourceId, addresses: Vec<PortAddress>) {
        self.hold(id, Port { network, addresses });
    }

    /// Removes a port and frees its addresses.
    pub fn remove_port(&mut self, id: ResourceId) {
        self.release(id);
    }

    /// Finds a network by name or id.
    ///
    /// # Errors
    /// No network has this name, or several have it.
    pub fn network(&self, named: &str) -> Result<ResourceId, String> {
        let by_id =
            uuid::Uuid::parse_str(named).ok().map(ResourceId).filter(|id| self.networks.contains_key(id));
        let by_name = || {
            let mut found =
                self.networks.iter().filter(|(_, network)| network.name.as_deref() == Some(named));
            (found.next().map(|(id, _)| *id), found.count())
        };
        match by_id.map_or_else(by_name, |id| (Some(id), 0)) {
            (Some(id), 0) => Ok(id),
            (Some(_), more) => Err(format!("{} networks are named '{named}'; say which by its id", more + 1)),
            (None, _) => {
                let names = self.networks.values().filter_map(|network| network.name.as_deref());
                let known: Vec<&str> = names.take(NAMED_MAX).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                Err(format!(
                    "there is no network '{named}': declare it as OS::Neutron::Net in this or another stack (known: {known})"
                ))
            }
        }
    }

    /// Ids of networks and subnets.
    pub fn made(&self) -> impl Iterator<Item = ResourceId> {
        self.networks.keys().chain(self.subnets.keys()).copied()
    }

    /// The network of a port, and the subnets of its addresses.
    pub fn made_of(&self, port: ResourceId) -> impl Iterator<Item = ResourceId> + '_ {
        let port = self.ports.get(&port);
        port.into_iter()
            .flat_map(|port| std::iter::once(port.network).chain(port.addresses.iter().map(|has| has.subnet)))
    }

    /// The ports in a network, or with an address in a subnet.
    pub fn ports_with(&self, id: ResourceId) -> impl Iterator<Item = ResourceId> + '_ {
        let network = self.subnets.get(&id).map_or(id, Subnet::network);
        let ports = self.networks.get(&network).into_iter().flat_map(|network| &network.ports).copied();
        ports.filter(move |port| self.made_of(*port).any(|made| made == id))
    }

    pub fn name_of(&self, network: ResourceId) -> Option<&str> {
        self.networks.get(&network)?.name.as_deref()
    }

    pub fn tags_of(&self, network: ResourceId) -> &[String] {
        self.networks.get(&network).map_or(&[], |network| &network.tags)
    }

    /// A subnet, for the attributes of a port with an address in it.
    pub fn subnet(&self, id: ResourceId) -> Option<&Subnet> {
        self.subnets.get(&id)
    }

    pub fn subnets_of(&self, network: ResourceId) -> &[ResourceId] {
        self.networks.get(&network).map_or(&[], |network| &network.subnets)
    }

    fn assign(
        &mut self,
        mut port: PortRequest,
        network: ResourceId,
        wishes: &[FixedIp],
    ) -> Result<Vec<PortAddress>, String> {
        let mut open = self.openings(network, wishes)?;
        // Wishes for an address come first, so that no other wish of the port takes that address.
        open.sort_by_key(|opening| opening.address.is_none());
        let mut taken: Vec<(usize, PortAddress)> = Vec::new();
        let result = open.iter().try_for_each(|opening| {
            let assigned = self.fill(&mut port, opening)?;
            taken.push((opening.place, assigned));
            Ok(())
        });
        for (_, assigned) in &taken {
            self.give_back(port.id, assigned);
        }
        taken.sort_by_key(|(place, _)| *place);
        result.map(|()| taken.into_iter().map(|(_, assigned)| assigned).collect())
    }

    /// The addresses to assign: from which subnets, and which address if the port asks for one.
    fn openings(&self, network: ResourceId, wishes: &[FixedIp]) -> Result<Vec<OpenAddress>, String> {
        let all = self.subnets_of(network);
        let name = || shown(network, self.networks.get(&network).and_then(|network| network.name.as_deref()));
        if all.is_empty() {
            return Err(format!("the network {} has no subnet: declare one as OS::Neutron::Subnet", name()));
        }
        if wishes.is_empty() {
            let family = |v4: bool| -> Vec<ResourceId> {
                all.iter().copied().filter(|id| self.subnets[id].is_ipv4() == v4).collect()
            };
            let families = [family(true), family(false)].into_iter().filter(|subnets| !subnets.is_empty());
            return Ok(families
                .enumerate()
                .map(|(place, subnets)| OpenAddress { place, subnets, address: None })
                .collect());
        }
        let open = |(place, wish): (usize, &FixedIp)| {
            let mut subnets: Vec<ResourceId> = match &wish.subnet {
                Some(named) => {
                    let is_it = |id: &&ResourceId| {
                        self.subnets[*id].wanted().name.as_ref() == Some(named) || id.to_string() == *named
                    };
                    all.iter().filter(is_it).copied().collect()
                }
                None => all.to_vec(),
            };
            if let (true, Some(named)) = (subnets.is_empty(), &wish.subnet) {
                let known: Vec<String> =
                    all.iter().take(NAMED_MAX).map(|id| self.subnets[id].shown()).collect();
                return Err(format!(
                    "the network {} has no subnet '{named}' (known: {})",
                    name(),
                    known.join(", ")
                ));
            }
            if let Some(address) = wish.address {
                subnets.retain(|id| self.subnets[id].wanted().is_for_ports(address));
                if subnets.is_empty() {
                    return Err(format!("{address} is in no subnet of the network {}", name()));
                }
            }
            Ok(OpenAddress { place, subnets, address: wish.address })
        };
        wishes.iter().enumerate().map(open).collect()
    }

    fn fill(&mut self, port: &mut PortRequest, opening: &OpenAddress) -> Result<PortAddress, String> {
        let fits = |has: &PortAddress| {
            opening.subnets.contains(&has.subnet)
                && opening.address.is_none_or(|address| address == has.address)
                && self.subnets[&has.subnet].may_have(has.address, port.instead_of)
        };
        let kept = port.had.iter().position(fits).map(|at| port.had.swap_remove(at));
        let wanted = opening.address.map(|address| PortAddress { subnet: opening.subnets[0], address });
        let free = |subnet: &ResourceId| {
            let address = self.subnets[subnet].next_free()?;
            Some(PortAddress { subnet: *subnet, address })
        };
        let Some(assigned) = kept.or(wanted).or_else(|| opening.subnets.iter().find_map(free)) else {
            let full: Vec<String> = opening.subnets.iter().map(|id| self.subnets[id].fullness()).collect();
            return Err(format!("no address is free: {}", full.join("; ")));
        };
        self.take(port.id, assigned, port.instead_of)?;
        Ok(assigned)
    }

    fn take(
        &mut self,
        id: ResourceId,
        assigned: PortAddress,
        instead_of: Option<ResourceId>,
    ) -> Result<(), String> {
        match self.subnets.get_mut(&assigned.subnet) {
            Some(subnet) => subnet.take(assigned.address, id, instead_of),
            None => Err(format!("there is no subnet {}", assigned.subnet)),
        }
    }

    fn give_back(&mut self, id: ResourceId, assigned: &PortAddress) {
        if let Some(subnet) = self.subnets.get_mut(&assigned.subnet) {
            subnet.give_back(assigned.address, id);
        }
    }

    fn leave_network(&mut self, network: ResourceId, subnet: ResourceId) {
        if let Some(network) = self.networks.get_mut(&network) {
            network.subnets.retain(|other| *other != subnet);
        }
    }

    fn release(&mut self, id: ResourceId) -> Option<Port> {
        let port = self.ports.remove(&id)?;
        port.addresses.iter().for_each(|has| self.give_back(id, has));
        if let Some(network) = self.networks.get_mut(&port.network) {
            network.ports.remove(&id);
        }
        Some(port)
    }

    fn hold(&mut self, id: ResourceId, port: Port) {
        for has in &port.addresses {
            // The address was free a moment ago, or the store has it for this port.
            if let Some(subnet) = self.subnets.get_mut(&has.subnet) {
                subnet.hold(has.address, id);
            }
        }
        self.networks.entry(port.network).or_default().ports.insert(id);
        self.ports.insert(id, port);
    }
}

fn shown(id: ResourceId, name: Option<&str>) -> String {
    name.map_or_else(|| id.to_string(), |name| format!("'{name}'"))
}

#[cfg(test)]
mod tests;
