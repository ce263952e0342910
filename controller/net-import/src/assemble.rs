//! Objects of a document from the links of a file: members go into their bridge or bond, and each object must be one
//! that Muster takes.

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::model::network::NetworkDocument;
use serde_json::{Map, Value, json};

use crate::ovs::{Setting, commands};
use crate::{Imported, Malformed};

/// Options that a member leaves to its bridge or bond.
const LAYER3: [&str; 8] =
    ["addresses", "defroute", "dns_servers", "domain", "routes", "rules", "use_dhcp", "use_dhcpv6"];

/// A VLAN on a bond in a bridge is the deepest that a document has.
const DEPTH_MAX: usize = 3;

/// A link of the file, as an object of a document.
pub(crate) struct Link {
    /// The link's place in the file.
    pub path: String,
    /// The link's name in the file, by which others refer to it.
    pub name: String,
    pub object: Map<String, Value>,
    /// The links below it, by name; one that the file does not describe is an interface.
    pub members: Vec<String>,
    /// The link that carries this VLAN, by its name in the file.
    pub carrier: Option<String>,
    /// Settings in the database of Open vSwitch.
    pub settings: Vec<Setting>,
}

impl Link {
    pub fn new(path: impl Into<String>, kind: &str, name: &str) -> Self {
        let mut link = Self {
            path: path.into(),
            name: name.to_owned(),
            object: Map::new(),
            members: Vec::new(),
            carrier: None,
            settings: Vec::new(),
        };
        link.set("type", kind);
        link.set("name", name);
        link
    }

    pub fn set(&mut self, option: &str, value: impl Into<Value>) {
        self.object.insert(option.to_owned(), value.into());
    }

    /// Adds to an option that is a list.
    pub fn add(&mut self, option: &str, value: Value) {
        let list = self.object.entry(option).or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut() {
            list.push(value);
        }
    }

    pub fn kind(&self) -> &str {
        self.object.get("type").and_then(Value::as_str).unwrap_or_default()
    }

    /// The link's name in a document: a VLAN has none of its own.
    pub fn called(&self) -> String {
        match self.object.get("vlan_id") {
            Some(number) => format!("vlan{number}"),
            None => self.name.clone(),
        }
    }
}

/// The document of these links. Links of the file that are `absent` from them are named already.
pub(crate) fn assemble(
    links: Vec<Link>,
    removed: Vec<Value>,
    mut left_out: Vec<String>,
    absent: BTreeSet<String>,
) -> Result<Imported, Malformed> {
    let (mut links, absent) = distinct(links, absent, &mut left_out);
    let order: Vec<String> = links.iter().map(|link| link.name.clone()).collect();
    let mut owned = BTreeSet::new();
    for link in &mut links {
        let (path, name) = (link.path.clone(), link.name.clone());
        link.members.retain(|member| {
            let is_absent = absent.contains(member);
            let is_free = !is_absent && *member != name && owned.insert(member.clone());
            if is_absent {
                left_out.push(format!("{path}: {member} is left out, so it is no member"));
            } else if !is_free {
                left_out.push(format!("{path}: {member} is a member of another link already"));
            }
            is_free
        });
    }
    let mut by_name: BTreeMap<String, Link> =
        links.into_iter().map(|link| (link.name.clone(), link)).collect();
    let mut objects = Vec::new();
    for name in order.iter().filter(|name| !owned.contains(*name)) {
        let Some(link) = by_name.remove(name) else { continue };
        let path = link.path.clone();
        let object = with_members(link, &mut by_name, &mut left_out, 0, false);
        match NetworkDocument::parse(&json!([object])) {
            Ok(_) => objects.push(object),
            Err(error) => left_out.push(format!("{path}: Muster refuses it: {error}")),
        }
    }
    let astray = |link: Link| format!("{}: the link that it belongs to is not in the document", link.path);
    left_out.extend(by_name.into_values().map(astray));
    let mut document = Map::from_iter([("network_config".to_owned(), Value::Array(objects))]);
    if !removed.is_empty() {
        document.insert("remove_config".to_owned(), Value::Array(removed));
    }
    let document = Value::Object(document);
    NetworkDocument::parse(&document).map_err(|error| {
        Malformed::new("the network as a whole", format!("Muster would refuse the document: {error}"))
    })?;
    Ok(Imported { document, left_out })
}

/// The links with each name once, and no VLAN without its carrier; and the names that are absent from them.
fn distinct(
    links: Vec<Link>,
    mut absent: BTreeSet<String>,
    left_out: &mut Vec<String>,
) -> (Vec<Link>, BTreeSet<String>) {
    let (mut called, mut taken) = (BTreeMap::new(), BTreeSet::new());
    let mut kept: Vec<Link> = Vec::new();
    for link in links {
        if called.contains_key(&link.name) || taken.contains(&link.called()) {
            let name = link.called();
            left_out.push(format!("{}: another link is called {name} in the document already", link.path));
            absent.insert(link.name);
        } else {
            taken.insert(link.called());
            called.insert(link.name.clone(), link.called());
            kept.push(link);
        }
    }
    absent.retain(|name| !called.contains_key(name));
    let mut carried: BTreeMap<&str, Vec<&Link>> = BTreeMap::new();
    for link in &kept {
        if let Some(carrier) = &link.carrier {
            carried.entry(carrier).or_default().push(link);
        }
    }
    let mut next: Vec<String> = absent.iter().cloned().collect();
    while let Some(carrier) = next.pop() {
        for link in carried.remove(carrier.as_str()).into_iter().flatten() {
            left_out.push(format!("{}: {carrier}, which carries it, is left out", link.path));
            absent.insert(link.name.clone());
            next.push(link.name.clone());
        }
    }
    kept.retain(|link| !absent.contains(&link.name));
    for link in &mut kept {
        if let Some(carrier) = link.carrier.take() {
            link.set("device", called.get(&carrier).cloned().unwrap_or(carrier));
        }
    }
    (kept, absent)
}

/// The object with its members, which are taken off the map: so each is there once.
fn with_members(
    mut link: Link,
    others: &mut BTreeMap<String, Link>,
    left_out: &mut Vec<String>,
    depth: usize,
    is_port: bool,
) -> Value {
    let in_ovs = link.kind() == "ovs_bridge";
    let has_ports = in_ovs || (is_port && link.kind() == "ovs_bond");
    write_settings(&mut link, is_port || in_ovs, left_out);
    let mut members = Vec::new();
    if depth >= DEPTH_MAX {
        link.members.clear();
    }
    for name in std::mem::take(&mut link.members) {
        let mut member = match others.remove(&name) {
            Some(member) => member,
            None => Link::new(format!("{}: {name}", link.path), "interface", &name),
        };
        // An internal port of Open vSwitch is a link of its own.
        if !(in_ovs && member.kind() == "vlan") {
            leave_layer3(&mut member, &link.name, left_out);
        }
        members.push(with_members(member, others, left_out, depth + 1, has_ports));
    }
    if !members.is_empty() || matches!(link.kind(), "linux_bridge" | "ovs_bridge") {
        link.set("members", members);
    }
    Value::Object(link.object)
}

/// Writes the settings of Open vSwitch. A document has them only for what it puts into a bridge there.
fn write_settings(link: &mut Link, is_there: bool, left_out: &mut Vec<String>) {
    let settings = std::mem::take(&mut link.settings);
    if is_there && !settings.is_empty() {
        link.set("ovs_extra", commands(&link.called(), &settings));
    } else {
        let name = link.called();
        let why = |setting: Setting| format!("{}: {name} is in no bridge of Open vSwitch", setting.path);
        left_out.extend(settings.into_iter().map(why));
    }
}

fn leave_layer3(member: &mut Link, owner: &str, left_out: &mut Vec<String>) {
    for option in LAYER3 {
        let says_something = |value: Value| value != json!(false) && value != json!([]);
        if member.object.remove(option).is_some_and(says_something) {
            left_out.push(format!("{}: {option} of a member: give it to {owner}", member.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_go_into_their_owner_and_cycles_are_named() {
        let mut bridge = Link::new("br", "linux_bridge", "br0");
        bridge.members = vec!["bond0".into(), "eth9".into()];
        let mut bond = Link::new("bond", "linux_bond", "bond0");
        bond.set("bonding_options", "mode=active-backup");
        bond.members = vec!["eth0".into(), "eth1".into()];
        let mut eth0 = Link::new("eth0", "interface", "eth0");
        eth0.add("addresses", json!({"ip_netmask": "192.0.2.1/24"}));
        eth0.set("mtu", 9000);
        let mut twice = Link::new("br1", "linux_bridge", "br1");
        twice.members = vec!["eth0".into(), "eth5".into()];
        let (mut a, mut b) = (Link::new("a", "linux_bridge", "a"), Link::new("b", "linux_bridge", "b"));
        (a.members, b.members) = (vec!["b".into()], vec!["a".into()]);
        let imported =
            assemble(vec![bond, bridge, eth0, twice, a, b], Vec::new(), Vec::new(), BTreeSet::new()).unwrap();
        assert_eq!(
            imported.document,
            json!({"network_config": [
                {"type": "linux_bridge", "name": "br0", "members": [
                    {"type": "linux_bond", "name": "bond0", "bonding_options": "mode=active-backup", "members": [
                        {"type": "interface", "name": "eth0", "mtu": 9000}, {"type": "interface", "name": "eth1"}]},
                    {"type": "interface", "name": "eth9"}]},
                {"type": "linux_bridge", "name": "br1", "members": [{"type": "interface", "name": "eth5"}]},
            ]})
        );
        assert_eq!(
            imported.left_out,
            [
                "br1: eth0 is a member of another link already",
                "eth0: addresses of a member: give it to bond0",
                "a: the link that it belongs to is not in the document",
                "b: the link that it belongs to is not in the document",
            ]
        );
    }

    fn vlan(name: &str, id: u32, carrier: &str) -> Link {
        let mut link = Link::new(name, "vlan", name);
        link.object.remove("name");
        link.set("vlan_id", id);
        link.carrier = Some(carrier.to_owned());
        link
    }

    #[test]
    fn a_name_that_comes_twice_is_named() {
        let mut bridge = Link::new("br", "linux_bridge", "br0");
        bridge.members = vec!["w7".into(), "gone".into()];
        let links = vec![
            vlan("v9", 9, "v7"),
            vlan("v7", 7, "eth0"),
            vlan("w7", 7, "eth1"),
            vlan("w8", 8, "w7"),
            vlan("w6", 6, "w8"),
            bridge,
            Link::new("br, again", "ovs_bridge", "br0"),
        ];
        let imported = assemble(links, Vec::new(), Vec::new(), BTreeSet::from(["gone".to_owned()])).unwrap();
        assert_eq!(
            imported.document,
            json!({"network_config": [
                {"type": "vlan", "vlan_id": 9, "device": "vlan7"},
                {"type": "vlan", "vlan_id": 7, "device": "eth0"},
                {"type": "linux_bridge", "name": "br0", "members": []},
            ]})
        );
        assert_eq!(
            imported.left_out,
            [
                "w7: another link is called vlan7 in the document already",
                "br, again: another link is called br0 in the document already",
                "w8: w7, which carries it, is left out",
                "w6: w8, which carries it, is left out",
                "br: w7 is left out, so it is no member",
                "br: gone is left out, so it is no member",
            ]
        );
    }

    #[test]
    fn settings_of_open_vswitch_belong_to_a_bridge_there() {
        let with = |mut link: Link, path: &str, table: &'static str| {
            link.settings = vec![Setting::new(path, table, "other_config:k", "v")];
            link
        };
        let mut bridge = with(Link::new("br", "ovs_bridge", "br0"), "br.k", "bridge");
        bridge.members = vec!["eth0".into(), "pair".into()];
        let mut bond = Link::new("pair", "ovs_bond", "pair");
        bond.members = vec!["eth1".into(), "eth2".into()];
        let links = vec![
            bridge,
            bond,
            with(Link::new("eth0", "interface", "eth0"), "eth0.k", "interface"),
            with(Link::new("eth1", "interface", "eth1"), "eth1.k", "interface"),
            with(Link::new("eth3", "interface", "eth3"), "eth3.k", "interface"),
        ];
        let imported = assemble(links, Vec::new(), Vec::new(), BTreeSet::new()).unwrap();
        assert_eq!(
            imported.document,
            json!({"network_config": [
                {"type": "ovs_bridge", "name": "br0", "ovs_extra": ["set bridge br0 other_config:k=v"], "members": [
                    {"type": "interface", "name": "eth0", "ovs_extra": ["set interface eth0 other_config:k=v"]},
                    {"type": "ovs_bond", "name": "pair", "members": [
                        {"type": "interface", "name": "eth1", "ovs_extra": ["set interface eth1 other_config:k=v"]},
                        {"type": "interface", "name": "eth2"}]}]},
                {"type": "interface", "name": "eth3"},
            ]})
        );
        assert_eq!(imported.left_out, ["eth3.k: eth3 is in no bridge of Open vSwitch"]);
    }

    #[test]
    fn what_muster_refuses_is_left_out_with_its_reason() {
        let mut link = Link::new("x", "interface", "eth0");
        link.set("mtu", 3);
        let imported = assemble(vec![link], Vec::new(), Vec::new(), BTreeSet::new()).unwrap();
        assert_eq!(imported.document, json!({"network_config": []}));
        assert!(imported.left_out[0].starts_with("x: Muster refuses it: "), "{:?}", imported.left_out);
    }
}
