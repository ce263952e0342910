//! Objects of a document from the links of a file: members go into their bridge or bond, and each object must be one
//! that Muster takes.

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::model::network::NetworkDocument;
use serde_json::{Map, Value, json};

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
}

impl Link {
    pub fn new(path: impl Into<String>, kind: &str, name: &str) -> Self {
        let mut link =
            Self { path: path.into(), name: name.to_owned(), object: Map::new(), members: Vec::new() };
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
}

/// The document of these links.
pub(crate) fn assemble(
    links: Vec<Link>,
    removed: Vec<Value>,
    mut left_out: Vec<String>,
) -> Result<Imported, Malformed> {
    let order: Vec<String> = links.iter().map(|link| link.name.clone()).collect();
    let mut owned = BTreeSet::new();
    let mut links = links;
    for link in &mut links {
        let (path, name) = (link.path.clone(), link.name.clone());
        link.members.retain(|member| {
            let is_free = *member != name && owned.insert(member.clone());
            if !is_free {
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
        let object = with_members(link, &mut by_name, &mut left_out, 0);
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

/// The object with its members, which are taken off the map: so each is there once.
fn with_members(
    mut link: Link,
    others: &mut BTreeMap<String, Link>,
    left_out: &mut Vec<String>,
    depth: usize,
) -> Value {
    let in_ovs = link.kind() == "ovs_bridge";
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
        members.push(with_members(member, others, left_out, depth + 1));
    }
    if !members.is_empty() || matches!(link.kind(), "linux_bridge" | "ovs_bridge") {
        link.set("members", members);
    }
    Value::Object(link.object)
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
        let imported = assemble(vec![bond, bridge, eth0, twice, a, b], Vec::new(), Vec::new()).unwrap();
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

    #[test]
    fn what_muster_refuses_is_left_out_with_its_reason() {
        let mut link = Link::new("x", "interface", "eth0");
        link.set("mtu", 3);
        let imported = assemble(vec![link], Vec::new(), Vec::new()).unwrap();
        assert_eq!(imported.document, json!({"network_config": []}));
        assert!(imported.left_out[0].starts_with("x: Muster refuses it: "), "{:?}", imported.left_out);
    }
}
