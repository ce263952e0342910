//! The document that describes the present network, for a server that others have configured. Pure.
//!
//! ```text
//!   State ─▶ a candidate for each link or bridge ─▶ plan: no step? ─┬─▶ an object of the document
//!                                                                  └─▶ left out, with the reason
//! ```
//! An object is in the document only if applying the document changes nothing, and if the next boot leads to the same
//! network: a link that others make after the boot, or that carries one that is left out, is in no document.
//!
//! Absent on purpose: DNS servers, policy rules, ethtool settings, spanning trees and settings in Open vSwitch.

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::model::network::{MAIN_TABLE, NetworkDocument};
use serde_json::{Map, Value, json};

use super::plan::plan;
use super::snapshot::Snapshot;
use super::state::{Address, Attach, Link, PROTOCOL_DHCP, PROTOCOL_RA, Route, State};
use super::verify::differences;
use super::wanted::Target;

/// Names of links that container engines, hypervisors and the like make and remove by themselves begin so.
const OF_OTHERS: [&str; 15] = [
    "cali",
    "cilium",
    "cni",
    "docker",
    "flannel",
    "kube",
    "lxc",
    "lxd",
    "ovs-system",
    "podman",
    "tap",
    "tailscale",
    "veth",
    "virbr",
    "vnet",
];
/// Bridges of a container engine have this name, with as many digits behind it.
const NUMBERED: (&str, usize) = ("br-", 12);
/// Links of others that a line names.
const NAMED: usize = 8;
/// The MTU that a link has where nobody has set one.
const USUAL_MTU: u32 = 1_500;

/// The part of the present network that a document can describe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Objects as in `network_config`.
    pub objects: Vec<Value>,
    /// Links that no object describes, with the reason; a line each.
    pub left_out: Vec<String>,
}

impl Description {
    /// Names of all links that the objects describe.
    pub fn links(&self) -> BTreeSet<String> {
        let document = NetworkDocument::parse(&json!(self.objects)).unwrap_or_default();
        document.link_names().map(ToString::to_string).collect()
    }
}

/// Describes the state.
pub(super) fn describe(state: &State) -> Description {
    let mut description = Description::default();
    let mut left_out = BTreeSet::new();
    for (name, link) in state.links.iter().filter(|(name, link)| is_of_interest(name, link, state)) {
        match object(name, link, state).and_then(|object| unchanged(vec![object], state)) {
            Ok(objects) => description.objects.extend(objects),
            Err(why) => {
                description.left_out.push(format!("{name}: {why}"));
                left_out.insert(name.as_str());
            }
        }
    }
    leave_carriers_out(&mut description, &left_out, state);
    let others: Vec<&str> =
        state.links.keys().map(String::as_str).filter(|name| is_of_others(name)).collect();
    if !others.is_empty() {
        let more = others.len().saturating_sub(NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let named = others.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        description.left_out.push(format!("{named}{more}: other software makes and removes such links"));
    }
    // Alone each changes nothing. Together they could disagree.
    if let Err(why) = unchanged(description.objects.clone(), state) {
        description.objects.clear();
        description.left_out.push(format!("the network as a whole: {why}"));
    }
    description
}

/// Leaves out what carries a link that is left out: whoever makes that one at boot leaves its carrier alone once Muster
/// has it.
fn leave_carriers_out(description: &mut Description, left_out: &BTreeSet<&str>, state: &State) {
    let carried_by = |object: &Value| {
        let of_it = Description { objects: vec![object.clone()], left_out: Vec::new() }.links();
        let carried = state.with_what_they_carry(of_it.iter().map(String::as_str));
        let carried = carried.into_iter().find(|name| left_out.contains(name)).map(str::to_owned);
        carried.map(|carried| (of_it, carried))
    };
    let lines = &mut description.left_out;
    description.objects.retain(|object| match carried_by(object) {
        None => true,
        Some((names, carried)) => {
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            lines.push(format!(
                "{names}: it carries {carried}, which no document would make at the next boot"
            ));
            false
        }
    });
}

/// The objects again, if applying them changes nothing.
fn unchanged(objects: Vec<Value>, state: &State) -> Result<Vec<Value>, String> {
    let document = NetworkDocument::parse(&json!(objects)).map_err(|error| error.to_string())?;
    let mut before = Snapshot::default();
    before.extend_by(&document, state);
    let target = Target::new(&document, &before, state, None);
    let steps = plan(&target, state).map_err(|error| error.problem)?;
    match (steps.first(), differences(&target, state).into_iter().next()) {
        (None, None) => Ok(objects),
        (Some(step), _) => Err(format!("a document cannot describe it: applying one would {step}")),
        (None, Some(difference)) => Err(format!("a document cannot describe it: {}", difference.text)),
    }
}

/// Whether the link is up, nobody else's, and not in another one, whose object has it as a member.
fn is_of_interest(name: &str, link: &Link, state: &State) -> bool {
    let is_member = state.attachment(name) != Attach::None;
    link.up && name != "lo" && !is_of_others(name) && !is_member
}

fn is_of_others(name: &str) -> bool {
    let is_number =
        |rest: &str| rest.len() == NUMBERED.1 && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.strip_prefix(NUMBERED.0).is_some_and(is_number)
        || OF_OTHERS.iter().any(|prefix| name.starts_with(prefix))
}

/// The object of a link with its members.
fn object(name: &str, link: &Link, state: &State) -> Result<Value, String> {
    let mut object = Map::new();
    let mut set = |key: &str, value: Value| drop(object.insert(key.to_owned(), value));
    if let Some(bridge) = state.ovs_bridge(name) {
        set("type", json!("ovs_bridge"));
        set("name", json!(name));
        if let Some(tag) = bridge.ports.get(name).and_then(|port| port.tag) {
            set("ovs_extra", json!([format!("set port {name} tag={tag}")]));
        }
        set("members", Value::Array(ovs_members(name, state)?));
    } else {
        match &*link.kind {
            "" | "veth" => {
                set("type", json!("interface"));
                set("name", json!(name));
            }
            "bridge" => {
                set("type", json!("linux_bridge"));
                set("name", json!(name));
                set("members", Value::Array(members(name, state)?));
            }
            "bond" => {
                let options = link.bond.as_ref().map(|bond| bond.of_its_mode().describe());
                set("type", json!("linux_bond"));
                set("name", json!(name));
                set("bonding_options", json!(options.unwrap_or_default()));
                set("members", Value::Array(members(name, state)?));
            }
            "vlan" => {
                let vlan = link.vlan.as_ref().ok_or("its VLAN is not known")?;
                if name != format!("vlan{}", vlan.id) {
                    return Err(format!("a VLAN of a document is named vlan{}", vlan.id));
                }
                set("type", json!("vlan"));
                set("device", json!(vlan.device));
                set("vlan_id", json!(vlan.id));
            }
            other => return Err(format!("a document has no links of kind '{other}'")),
        }
    }
    layer3(link, &mut object)?;
    if link.mtu != USUAL_MTU && link.kind != "vlan" {
        object.insert("mtu".to_owned(), json!(link.mtu));
    }
    Ok(Value::Object(object))
}

/// Addresses and static routes of a link.
fn layer3(link: &Link, object: &mut Map<String, Value>) -> Result<(), String> {
    let is_leased = |address: &Address| (address.ends.0 || address.given) && !address.is_link_local();
    let is_given = |route: &Route| matches!(route.protocol, PROTOCOL_RA | PROTOCOL_DHCP);
    if link.addresses.iter().any(is_leased) || link.routes.iter().any(is_given) {
        return Err("a DHCP server or router gives it addresses or routes: add it by an update without --adopt, with \
                    use_dhcp"
            .to_owned());
    }
    if link.addresses.iter().any(|address| address.noprefixroute) {
        return Err("its addresses have no route to their networks, as NetworkManager makes them: add it by an update \
                    without --adopt"
            .to_owned());
    }
    let is_own = |address: &&Address| !address.given && !address.is_of_mac(link.mac.as_deref());
    let addresses = link.addresses.iter().filter(is_own);
    let addresses: Vec<Value> = addresses.map(|address| json!({"ip_netmask": address.net})).collect();
    let routes = link.routes.iter().filter(|route| route.is_static());
    let routes = routes.map(route).collect::<Result<Vec<Value>, String>>()?;
    for (key, values) in [("addresses", addresses), ("routes", routes)] {
        if !values.is_empty() {
            object.insert(key.to_owned(), Value::Array(values));
        }
    }
    Ok(())
}

fn route(route: &Route) -> Result<Value, String> {
    let Some(gateway) = route.gateway else {
        let why = if route.hops.is_empty() { "it has no next hop" } else { "it has several next hops" };
        return Err(format!("a document cannot describe its route {route}: {why}"));
    };
    let mut object = Map::new();
    object.insert("ip_netmask".to_owned(), json!(route.destination));
    object.insert("next_hop".to_owned(), json!(gateway));
    let usual_metric = if route.destination.addr().is_ipv4() { 0 } else { 1_024 };
    if route.metric != usual_metric {
        object.insert("metric".to_owned(), json!(route.metric));
    }
    if route.table != MAIN_TABLE {
        object.insert("table".to_owned(), json!(route.table));
    }
    let source = route.source.map(|source| format!("src {source}"));
    let onlink = route.onlink.then(|| "onlink".to_owned());
    let options: Vec<String> = [source, onlink].into_iter().flatten().collect();
    if !options.is_empty() {
        object.insert("route_options".to_owned(), json!(options.join(" ")));
    }
    Ok(Value::Object(object))
}

/// Members of a Linux bridge or bond. Ports that other software puts into a bridge are no part of the document.
fn members(bridge: &str, state: &State) -> Result<Vec<Value>, String> {
    let is_member = |name: &str| state.attachment(name) == Attach::Linux(bridge.to_owned());
    let members = state.links.iter().filter(|(name, _)| is_member(name) && !is_of_others(name));
    members.map(|(name, link)| object(name, link, state)).collect()
}

/// Members of a bridge of Open vSwitch: links, its VLANs, bonds and patches.
fn ovs_members(bridge: &str, state: &State) -> Result<Vec<Value>, String> {
    let ports = state.ovs_bridge(bridge).map(|bridge| &bridge.ports);
    let ports = ports.into_iter().flatten().filter(|(name, _)| *name != bridge && !is_of_others(name));
    let mut members = Vec::new();
    for (name, port) in ports {
        let interface = |name: &String| json!({"type": "interface", "name": name});
        let single = if port.interfaces.len() == 1 { port.interfaces.first_key_value() } else { None };
        let Some((only, it)) = single else {
            let bonded: Vec<Value> = port.interfaces.keys().map(interface).collect();
            members.push(json!({"type": "ovs_bond", "name": name, "members": bonded}));
            continue;
        };
        match (it.columns.get("type").and_then(Value::as_str), port.tag) {
            (_, Some(tag)) if it.internal && *only == format!("vlan{tag}") => {
                members.push(ovs_vlan(only, tag, state)?);
            }
            _ if it.internal => {
                return Err(format!(
                    "a document has no internal ports such as {only}, but VLANs as vlan<ID>"
                ));
            }
            (None, None) => members.push(interface(only)),
            (None, Some(tag)) => {
                let setting = format!("set port {only} tag={tag}");
                members.push(json!({"type": "interface", "name": only, "ovs_extra": [setting]}));
            }
            (Some("patch"), _) => {
                let peer = peer(&it.columns);
                members.push(
                    json!({"type": "ovs_patch_port", "name": only, "bridge_name": bridge, "peer": peer}),
                );
            }
            (Some(kind), _) => {
                return Err(format!("its port {only} is of type {kind}, with settings of its own"));
            }
        }
    }
    Ok(members)
}

fn ovs_vlan(name: &str, tag: u16, state: &State) -> Result<Value, String> {
    let link = state.links.get(name).ok_or_else(|| format!("{name} is not there"))?;
    let mut object = Map::new();
    object.insert("type".to_owned(), json!("vlan"));
    object.insert("vlan_id".to_owned(), json!(tag));
    layer3(link, &mut object)?;
    Ok(Value::Object(object))
}

/// The other end of a patch port, of the column `options`.
fn peer(columns: &BTreeMap<String, Value>) -> String {
    let pairs = columns.get("options").and_then(|options| options.get(1)).and_then(Value::as_array);
    let peer = pairs.into_iter().flatten().find(|pair| pair[0] == "peer");
    peer.and_then(|pair| pair[1].as_str()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn link(more: Value) -> Value {
        let mut link = json!({"index": 2, "kind": "", "mtu": 1500, "up": true, "mac": "52:54:00:00:00:01"});
        link.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        link
    }

    fn describe_links(links: Value) -> Description {
        describe(&serde_json::from_value(json!({ "links": links })).unwrap())
    }

    fn route(destination: &str, gateway: &str) -> Value {
        json!({"destination": destination, "gateway": gateway, "table": 254, "metric": 0, "protocol": 4})
    }

    #[test]
    fn what_a_document_can_say_is_said() {
        let described = describe_links(json!({
            "lo": link(json!({"addresses": [{"net": "127.0.0.1/8"}]})),
            "eth0": link(json!({
                "mtu": 9000,
                "addresses": [{"net": "192.0.2.10/24"}, {"net": "2001:db8::a/64"}, {"net": "fe80::5054:ff:fe00:1/64"}],
                "routes": [
                    route("0.0.0.0/0", "192.0.2.1"),
                    {"destination": "10.0.0.0/8", "gateway": "192.0.2.2", "table": 100, "metric": 20, "protocol": 3,
                     "source": "192.0.2.10", "onlink": true},
                    {"destination": "192.0.2.0/24", "gateway": null, "table": 254, "metric": 0, "protocol": 2},
                ],
            })),
            "eth1": link(json!({"master": "br0"})),
            "vnet3": link(json!({"kind": "tun", "master": "br0"})),
            "br0": link(json!({"kind": "bridge", "addresses": [{"net": "10.1.0.1/16"}]})),
            "vlan20": link(json!({"kind": "vlan", "vlan": {"device": "eth0", "id": 20}, "parent": "eth0", "mtu": 9000})),
            "eth2": link(json!({"up": false})),
            "docker0": link(json!({"kind": "bridge", "addresses": [{"net": "172.17.0.1/16"}]})),
            "br-0123456789ab": link(json!({"kind": "bridge"})),
        }));
        let wanted = json!([
            {"type": "linux_bridge", "name": "br0", "addresses": [{"ip_netmask": "10.1.0.1/16"}],
             "members": [{"type": "interface", "name": "eth1"}]},
            {"type": "interface", "name": "eth0", "mtu": 9000,
             "addresses": [{"ip_netmask": "192.0.2.10/24"}, {"ip_netmask": "2001:db8::a/64"}],
             "routes": [{"ip_netmask": "0.0.0.0/0", "next_hop": "192.0.2.1"},
                        {"ip_netmask": "10.0.0.0/8", "next_hop": "192.0.2.2", "metric": 20, "table": 100,
                         "route_options": "src 192.0.2.10 onlink"}]},
            {"type": "vlan", "device": "eth0", "vlan_id": 20},
        ]);
        let others = "br-0123456789ab, docker0, vnet3: other software makes and removes such links";
        assert_eq!((json!(described.objects), described.left_out), (wanted, vec![others.to_owned()]));
    }

    #[test]
    fn what_it_cannot_say_is_left_out_and_nothing_else() {
        let described = describe_links(json!({
            "eth0": link(json!({"addresses": [{"net": "192.0.2.10/24"}]})),
            "eth1": link(json!({"addresses": [{"net": "192.0.2.11/24", "ends": true}]})),
            "eth4": link(json!({"addresses": [{"net": "2001:db8::4/64", "given": true}]})),
            "eth5": link(json!({"addresses": [{"net": "192.0.2.15/24", "noprefixroute": true}]})),
            "eth6": link(json!({"addresses": [{"net": "192.0.2.16/24"}]})),
            "cni0": link(json!({"kind": "bridge"})),
            "eth2": link(json!({"routes": [{"destination": "10.0.0.0/8", "gateway": null, "table": 254, "metric": 0, "protocol": 4}]})),
            "eth3": link(json!({"addresses": [{"net": "192.0.2.12/24", "peer": "192.0.2.13"}]})),
            "eth6.20": link(json!({"kind": "vlan", "vlan": {"device": "eth6", "id": 20}, "parent": "eth6"})),
            "wg0": link(json!({"kind": "wireguard", "addresses": [{"net": "10.9.0.1/24"}]})),
        }));
        assert_eq!(
            json!(described.objects),
            json!([{"type": "interface", "name": "eth0", "addresses": [{"ip_netmask": "192.0.2.10/24"}]}])
        );
        let wanted = [
            "eth1: a DHCP server or router gives it addresses or routes: add it by an update without --adopt, with use_dhcp",
            "eth2: a document cannot describe its route 10.0.0.0/8: it has no next hop",
            "eth3: a document cannot describe it: applying one would add the address 192.0.2.12/32 to eth3",
            "eth4: a DHCP server or router gives it addresses or routes: add it by an update without --adopt, with use_dhcp",
            "eth5: its addresses have no route to their networks, as NetworkManager makes them: add it by an update without --adopt",
            "eth6.20: a VLAN of a document is named vlan20",
            "wg0: a document has no links of kind 'wireguard'",
            "eth6: it carries eth6.20, which no document would make at the next boot",
            "cni0: other software makes and removes such links",
        ];
        assert_eq!(described.left_out, wanted);
    }

    #[test]
    fn bridges_of_open_vswitch_have_their_ports() {
        let port = |interfaces: Value| json!({"tag": null, "interfaces": interfaces});
        let state = json!({
            "links": {
                "br-ex": link(json!({"kind": "openvswitch", "addresses": [{"net": "192.0.2.10/24"}]})),
                "vlan20": link(json!({"kind": "openvswitch", "addresses": [{"net": "10.20.0.1/24"}]})),
                "eth1": link(json!({})),
                "eth2": link(json!({})),
                "eth3": link(json!({})),
            },
            "ovs": {"br-ex": {"ports": {
                "br-ex": port(json!({"br-ex": {"internal": true}})),
                "vlan20": {"tag": 20, "interfaces": {"vlan20": {"internal": true}}},
                "eth1": {"tag": 7, "interfaces": {"eth1": {}}},
                "bond1": port(json!({"eth2": {}, "eth3": {}})),
            }}},
        });
        let described = describe(&serde_json::from_value(state).unwrap());
        let wanted = json!([{
            "type": "ovs_bridge", "name": "br-ex", "addresses": [{"ip_netmask": "192.0.2.10/24"}],
            "members": [
                {"type": "ovs_bond", "name": "bond1",
                 "members": [{"type": "interface", "name": "eth2"}, {"type": "interface", "name": "eth3"}]},
                {"type": "interface", "name": "eth1", "ovs_extra": ["set port eth1 tag=7"]},
                {"type": "vlan", "vlan_id": 20, "addresses": [{"ip_netmask": "10.20.0.1/24"}]},
            ],
        }]);
        assert_eq!((json!(described.objects), described.left_out), (wanted, vec![]));
    }

    /// Whatever the state, the document that describes it changes nothing.
    #[test]
    fn a_description_changes_nothing() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/net/testdata");
        let mut objects = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            let case: Value =
                serde_json::from_str(&std::fs::read_to_string(file.unwrap().path()).unwrap()).unwrap();
            let state: State = serde_json::from_value(case["state"].clone()).unwrap();
            let described = describe(&state);
            objects += described.objects.len();
            assert_eq!(
                unchanged(described.objects.clone(), &state),
                Ok(described.objects),
                "{}",
                case["note"]
            );
        }
        assert!(objects > 20, "{objects}");
    }
}
