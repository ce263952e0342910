//! Puts networks, subnets and ports into the address plan, takes them out, and gives their rows
//! attributes. A start builds the plan from these rows.
//!
//! Absent: which address a port gets, and why a request is refused (`address.rs`).

use std::net::IpAddr;

use muster_shared::ResourceId;
use muster_template::{Desired, Kind, VirtualResource};
use serde_json::{Value, json};

use super::{AddressPlan, PortAddress};
use crate::record::PackedSpec;
use crate::row::{Row, Slot};
use crate::traversals::Traversals;

/// Attributes of a port that are kept as JSON. A start reads a port's addresses from them.
const FIXED_IPS: &str = "fixed_ips";
const NETWORK_ID: &str = "network_id";
pub(crate) const AS_JSON: [&str; 3] = [FIXED_IPS, "network", "subnets"];

impl Traversals {
    /// Puts a row into the plan. Returns its attributes, if it gets any.
    pub(crate) fn put_in_plan(
        &mut self,
        slot: Slot,
        desired: &Desired,
    ) -> Result<Option<Vec<(String, String)>>, String> {
        let row = &self.jobs.graph.rows[slot];
        let id = row.physical;
        if let Some((net, tags)) = desired.virtual_resource().and_then(VirtualResource::net) {
            self.addresses.put_network(id, net.name.as_deref(), tags);
            return Ok(None);
        }
        match desired.virtual_resource() {
            Some(VirtualResource::Subnet(subnet)) => self.addresses.put_subnet(id, subnet).map(|()| None),
            Some(VirtualResource::Port(port)) => {
                let replaced = row.replaces;
                let rows = self.jobs.graph.stacks.get(&row.stack).into_iter().flat_map(|stack| &stack.extras);
                let instead_of = rows
                    .map(|slot| &self.jobs.graph.rows[*slot])
                    .find(|row| Some(row.id) == replaced)
                    .map(|row| row.physical);
                let assigned = self.addresses.put_port(id, &port.network, &port.fixed_ips, instead_of)?;
                self.addresses
                    .network(&port.network)
                    .map(|network| Some(self.addresses.shown(network, &assigned)))
            }
            _ => Ok(None),
        }
    }

    /// Removes a row from the plan.
    pub(crate) fn take_out_of_plan(&mut self, slot: Slot) -> Result<(), String> {
        let row = &self.jobs.graph.rows[slot];
        let (kind, id) = (row.kind, row.physical);
        if kind == Kind::Net {
            return self.addresses.remove_network(id);
        }
        if kind == Kind::Subnet {
            return self.addresses.remove_subnet(id);
        }
        if kind == Kind::Port {
            self.addresses.remove_port(id);
        }
        Ok(())
    }

    /// Builds the plan from the rows.
    pub(crate) fn load_plan(&mut self) {
        let slots: Vec<Slot> = self.jobs.graph.rows.slots().collect();
        let of = |it: &Self, kind: Kind| -> Vec<Slot> {
            let is_it = |slot: &&Slot| {
                it.jobs.graph.rows[**slot].kind == kind && it.jobs.graph.rows[**slot].is_applied()
            };
            slots.iter().filter(is_it).copied().collect()
        };
        for kind in [Kind::Net, Kind::Subnet] {
            for slot in of(self, kind) {
                let Some(spec) = self.jobs.graph.rows[slot].spec().map(PackedSpec::unpack) else {
                    continue;
                };
                // The spec was valid when it was accepted.
                drop(self.put_in_plan(slot, &spec));
            }
        }
        for slot in of(self, Kind::Port) {
            let row = &self.jobs.graph.rows[slot];
            if let Some((network, addresses)) = held(row) {
                self.addresses.restore_port(row.physical, network, addresses);
            }
        }
    }
}

/// The network and addresses in a port's row.
fn held(row: &Row) -> Option<(ResourceId, Vec<PortAddress>)> {
    let id = |text: &str| uuid::Uuid::parse_str(text).ok().map(ResourceId);
    let network = id(row.attributes.get(NETWORK_ID)?)?;
    let fixed: Vec<Value> = serde_json::from_str(row.attributes.get(FIXED_IPS)?).ok()?;
    let one = |it: &Value| {
        let address: IpAddr = it.get("ip_address")?.as_str()?.parse().ok()?;
        Some(PortAddress { subnet: id(it.get("subnet_id")?.as_str()?)?, address })
    };
    Some((network, fixed.iter().filter_map(one).collect()))
}

impl AddressPlan {
    fn shown(&self, network: ResourceId, assigned: &[PortAddress]) -> Vec<(String, String)> {
        let subnet = |id: &ResourceId| {
            let subnet = self.subnet(*id)?.wanted();
            let route = |(to, via): &(ipnet::IpNet, IpAddr)| json!({"destination": to, "nexthop": via});
            Some(json!({
                "id": id.to_string(),
                "name": subnet.name,
                "cidr": subnet.cidr,
                "gateway_ip": subnet.gateway,
                "dns_nameservers": subnet.dns_nameservers,
                "host_routes": subnet.host_routes.iter().map(route).collect::<Vec<_>>(),
                "enable_dhcp": subnet.enable_dhcp,
            }))
        };
        let fixed =
            |has: &PortAddress| json!({"subnet_id": has.subnet.to_string(), "ip_address": has.address});
        let fixed: Vec<Value> = assigned.iter().map(fixed).collect();
        let used: Vec<Value> = assigned.iter().filter_map(|has| subnet(&has.subnet)).collect();
        let subnets: Vec<String> = self.subnets_of(network).iter().map(ResourceId::to_string).collect();
        let about = json!({
            "id": network.to_string(),
            "name": self.name_of(network),
            "subnets": subnets,
            "tags": self.tags_of(network),
        });
        vec![
            (FIXED_IPS.to_owned(), json!(fixed).to_string()),
            ("network".to_owned(), about.to_string()),
            (NETWORK_ID.to_owned(), network.to_string()),
            ("subnets".to_owned(), json!(used).to_string()),
        ]
    }
}
