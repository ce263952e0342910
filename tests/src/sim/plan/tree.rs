//! Resources of a plan that are no single thing on a server: nested stacks, groups, and those that the controller
//! itself realises.
//!
//! There are two nested templates, which never change; only their inputs differ.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_intent::intent::Intent;
use muster_intent::manager::Wish;
use muster_intent::topology::ConnectPoint;
use muster_shared::ResourceId;
use muster_template::{point_json, wish_json};
use serde_json::{Map, Value as Json, json};

use super::super::network::{CAPACITY, PRIORITY};
use super::{HANDLE, Plan, Resource, Value, What, each, script};

/// Names of members of a group come from this.
const INDEX: &str = "%index%";
/// A nested stack, and one with a group in it.
const INNER: &str = "inner.yaml";
const DEEP: &str = "deep/deep.yaml";
/// The characters of a random text in a nested stack.
pub const INNER_LENGTH: usize = 8;

/// A resource that the controller realises itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Virtual {
    /// `OS::Heat::Value`
    Value(Value),
    /// `OS::Heat::RandomString`
    Random { length: usize, salt: u64 },
    /// `OS::Heat::SoftwareConfig`, by its text.
    Config(String),
    /// `OS::Heat::WaitConditionHandle`
    Handle,
    /// `OS::Heat::WaitCondition` of that handle.
    Wait { count: u64, timeout: u64 },
    /// `OS::Neutron::Net`
    Net { name: String },
    /// `OS::Neutron::Subnet`: `10.THIRD.0.0/24`, with a pool from .10 to `last`.
    Subnet { network: String, third: usize, last: u8 },
    /// `OS::Neutron::Port` of a network by its name, here or elsewhere, or by its id; with the address that ends so.
    Port { network: String, by_id: bool, fixed: Option<(usize, u8)> },
    /// `Muster::TopologyLink`, both ways, with a latency in milliseconds.
    Link { ends: Box<(ConnectPoint, ConnectPoint)>, millis: u64 },
    /// `Muster::Intent`
    Intent { key: String, wish: Wish, timeout: u64 },
}

/// `OS::Heat::ResourceGroup` or `OS::Heat::ResourceChain`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The group is a chain: all its members have the same properties, and none is removed.
    pub chain: Option<Order>,
    pub count: Value,
    /// A parameter gives the count.
    pub by_parameter: bool,
    /// Members that are removed.
    pub removed: BTreeSet<u64>,
    /// Members that are removed, by the resource that each stands for.
    pub removed_things: BTreeSet<ResourceId>,
    /// Members that were removed before stay removed.
    pub appends: bool,
    /// The members that are made, and that are changed, at once.
    pub batches: Option<(u64, u64)>,
    pub member: Member,
}

/// The order in which a chain is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each member after the one before.
    InTurn,
    /// The members are made at once.
    AtOnce,
}

/// The type of a member, with its properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    /// `Muster::Dummy`
    Dummy { node: String, value: Value },
    /// A nested stack.
    Nested(Inner),
    /// `OS::Neutron::Port`
    Port { network: String },
}

/// A nested stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inner {
    /// The node of the nested stack's dummies.
    pub node: String,
    /// The input of the nested stack.
    pub value: Value,
    /// `true` or `false`: whether there is `e` in it.
    pub on: Value,
    /// A change of this number recreates its random text and its dummy.
    pub again: u64,
    /// The number of members of the group in the nested stack, if it has one.
    pub count: Option<Value>,
}

impl What {
    /// Whether its members are ports.
    pub fn is_group_of_ports(&self) -> bool {
        matches!(self, What::Group(Group { member: Member::Port { .. }, .. }))
    }

    /// Returns the values that a tree is made of.
    pub fn values(&self) -> Vec<&Value> {
        match self {
            What::Virtual(Virtual::Value(value)) => vec![value],
            What::Group(group) => {
                let mut values = vec![&group.count];
                match &group.member {
                    Member::Dummy { value, .. } => values.push(value),
                    // Each member has its own values.
                    Member::Nested(inner) => values.extend(inner.values().into_iter().skip(1)),
                    Member::Port { .. } => {}
                }
                values
            }
            What::Nested(inner) => inner.values(),
            _ => Vec::new(),
        }
    }
}

/// The next of a few numbers, if it is one.
fn next(value: &Value) -> Option<Value> {
    let Value::Text(text) = value else { return None };
    let number: u64 = text.parse().ok()?;
    Some(Value::Text(((number + 1) % 4).to_string()))
}

impl Virtual {
    /// Changes the resource; none: it has no other value.
    pub fn change(&mut self) -> Option<()> {
        match self {
            Virtual::Value(value) => *value = next(value)?,
            Virtual::Random { salt, .. } => *salt += 1,
            Virtual::Config(text) => text.push('+'),
            Virtual::Wait { count, .. } => *count = 1 + *count % 3,
            Virtual::Port { fixed: fixed @ Some(_), .. } => *fixed = None,
            Virtual::Link { millis, .. } => *millis += 1,
            Virtual::Intent { wish, .. } => {
                let priority = if wish.intent.priority == PRIORITY { PRIORITY + 1 } else { PRIORITY };
                wish.intent = Arc::new(Intent { priority, ..(*wish.intent).clone() });
            }
            Virtual::Port { .. } | Virtual::Net { .. } | Virtual::Subnet { .. } | Virtual::Handle => {
                return None;
            }
        }
        Some(())
    }

    pub fn json(&self, properties: &mut Map<String, Json>) -> &'static str {
        let (kind, all) = match self {
            Virtual::Value(value) => ("OS::Heat::Value", json!({"value": value.json()})),
            Virtual::Random { length, salt } => {
                ("OS::Heat::RandomString", json!({"length": length, "salt": salt.to_string()}))
            }
            Virtual::Config(text) => script::config_json(text),
            Virtual::Handle => ("OS::Heat::WaitConditionHandle", json!({})),
            Virtual::Wait { count, timeout } => {
                let handle = json!({"get_resource": HANDLE});
                let all = json!({"handle": handle, "count": count, "timeout": timeout});
                ("OS::Heat::WaitCondition", all)
            }
            Virtual::Net { name } => ("OS::Neutron::Net", json!({"name": name})),
            Virtual::Subnet { network, third, last } => {
                let [cidr, start, end] = ["0/24".into(), "10".into(), last.to_string()]
                    .map(|end: String| format!("10.{third}.0.{end}"));
                let pools = json!([{"start": start, "end": end}]);
                let all = json!({"network": network, "cidr": cidr, "allocation_pools": pools});
                ("OS::Neutron::Subnet", all)
            }
            Virtual::Port { network, by_id, fixed } => {
                let network = if *by_id { json!({"get_resource": "y"}) } else { json!(network) };
                let mut all = json!({"network": network});
                if let Some((third, last)) = fixed {
                    all["fixed_ips"] = json!([{"ip_address": format!("10.{third}.0.{last}")}]);
                }
                ("OS::Neutron::Port", all)
            }
            Virtual::Link { ends, millis } => {
                let [from, to] = [&ends.0, &ends.1].map(point_json);
                let latency = *millis as f64 / 1000.0;
                let all = json!({"from": from, "to": to, "bandwidth": CAPACITY, "latency": latency});
                ("Muster::TopologyLink", all)
            }
            Virtual::Intent { key, wish, timeout } => {
                let mut all = wish_json(&wish.intent, wish.group.as_deref());
                all.insert("key".into(), json!(key));
                all.insert("timeout".into(), json!(timeout));
                ("Muster::Intent", all.into())
            }
        };
        properties.extend(all.as_object().cloned().unwrap_or_default());
        kind
    }
}

impl Group {
    /// Returns the attribute of the group's members that others refer to.
    pub fn attribute(&self) -> &'static str {
        match &self.member {
            Member::Dummy { .. } => "i",
            Member::Nested(_) => "o",
            Member::Port { .. } => "name",
        }
    }

    /// Returns the value of that attribute for one member.
    pub fn attribute_of(&self, member: u64) -> String {
        match self.chain {
            Some(_) => "i".to_owned(),
            None => format!("i{member}"),
        }
    }

    /// Changes the count; none: it has no other value.
    pub fn change(&mut self) -> Option<()> {
        self.count = next(&self.count)?;
        Some(())
    }

    pub fn json(
        &self,
        name: &str,
        properties: &mut Map<String, Json>,
        more: &mut Map<String, Json>,
    ) -> &'static str {
        let own = match self.chain {
            Some(_) => "i".to_owned(),
            None => format!("i{INDEX}"),
        };
        let mut inside = Map::new();
        let kind = match &self.member {
            Member::Dummy { node, value } => {
                inside.insert("node".into(), json!(node));
                inside.insert("values".into(), json!({"i": own, "k": value.json()}));
                "Muster::Dummy"
            }
            Member::Nested(inner) => {
                let kind = inner.json(&mut inside);
                inside.insert("p".into(), json!(own));
                kind
            }
            Member::Port { network } => {
                inside.insert("network".into(), json!(network));
                inside.insert("name".into(), json!(own));
                "OS::Neutron::Port"
            }
        };
        if let (Some(order), Value::Text(count)) = (self.chain, &self.count) {
            let types = vec![kind; count.parse().unwrap_or_default()];
            properties.insert("resources".into(), json!(types));
            properties.insert("resource_properties".into(), inside.into());
            properties.insert("concurrent".into(), json!(order == Order::AtOnce));
            return "OS::Heat::ResourceChain";
        }
        let count = match self.by_parameter {
            true => json!({"get_param": format!("count_{name}")}),
            false => self.count.json(),
        };
        properties.insert("count".into(), count);
        properties.insert("resource_def".into(), json!({"type": kind, "properties": inside}));
        let names = self.removed.iter().map(u64::to_string);
        let names: Vec<String> = names.chain(self.removed_things.iter().map(ResourceId::to_string)).collect();
        if !names.is_empty() {
            properties.insert("removal_policies".into(), json!([{"resource_list": names}]));
        }
        if !self.appends {
            properties.insert("removal_policies_mode".into(), json!("update"));
        }
        if let Some((create, update)) = self.batches {
            let policy = json!({"batch_create": {"max_batch_size": create}, "rolling_update": {"max_batch_size": update}});
            more.insert("update_policy".into(), policy);
        }
        "OS::Heat::ResourceGroup"
    }
}

impl Inner {
    fn values(&self) -> Vec<&Value> {
        [&self.value, &self.on].into_iter().chain(&self.count).collect()
    }

    pub fn json(&self, properties: &mut Map<String, Json>) -> &'static str {
        properties.insert("node".into(), json!(self.node));
        properties.insert("p".into(), self.value.json());
        properties.insert("on".into(), self.on.json());
        properties.insert("r".into(), json!(self.again.to_string()));
        match &self.count {
            Some(count) => {
                properties.insert("n".into(), count.json());
                DEEP
            }
            None => INNER,
        }
    }
}

impl Plan {
    /// Returns the paths that a resource needs; none: the plan has no resource with this path.
    pub fn needs_of(&self, path: &str) -> Option<BTreeSet<String>> {
        let (path, own) = each::split(path);
        let (name, inside) = cut(path);
        let resource = self.resources.get(name).filter(|resource| resource.is_there())?;
        let mut needs = resource.needs();
        needs.retain(|need| self.resources.get(need).is_some_and(Resource::is_there));
        if let (Some(each), Some(node)) = (&resource.each, own) {
            self.pair(each, &mut needs, node);
        }
        let is_number = |text: &str| text.parse::<u64>().is_ok();
        let (prefix, inner, inside) = match (&resource.what, inside) {
            (_, None) => return Some(needs),
            (What::Nested(inner), Some(inside)) => (name.to_owned(), inner, inside),
            (What::Group(group), Some(inside)) => {
                let (member, inside) = cut(inside);
                let number: u64 = member.parse().ok()?;
                if group.chain == Some(Order::InTurn)
                    && let Some(before) = number.checked_sub(1)
                {
                    needs.insert(format!("{name}/{before}"));
                }
                match (&group.member, inside) {
                    (Member::Nested(inner), Some(inside)) => (format!("{name}/{member}"), inner, inside),
                    (Member::Nested(_), None) | (_, Some(_)) => return None,
                    (Member::Dummy { .. } | Member::Port { .. }, None) => return Some(needs),
                }
            }
            _ => return None,
        };
        let own: &[&str] = match inside.strip_prefix("g/") {
            Some(member) if inner.count.is_some() && is_number(member) => &["d"],
            Some(_) => return None,
            None if inside == "d" => &["v", "w"],
            None if inside == "e" => &["d"],
            None => return None,
        };
        needs.extend(own.iter().map(|own| format!("{prefix}/{own}")));
        Some(needs)
    }
}

/// The first name of a path, and the rest.
fn cut(path: &str) -> (&str, Option<&str>) {
    path.split_once('/').map_or((path, None), |(name, inside)| (name, Some(inside)))
}

/// Returns the site's own name for a type, if it has one.
fn own_type(kind: &str) -> Option<&'static str> {
    match kind {
        "Muster::Dummy" => Some("Site::Dummy"),
        "Muster::File" => Some("Site::File"),
        "OS::Heat::RandomString" => Some("Site::Text"),
        INNER => Some("Site::Inner"),
        DEEP => Some("Site::Deep"),
        _ => None,
    }
}

/// Has types named as the site calls them; returns what those are, as a registry of an environment.
pub fn with_own_types(resources: &mut Map<String, Json>) -> Map<String, Json> {
    let mut registry = Map::new();
    let mut name = |kind: &mut Json| {
        let known = kind.as_str().and_then(|known| Some((own_type(known)?, known.to_owned())));
        if let Some((own, known)) = known {
            registry.insert(own.to_owned(), json!(known));
            *kind = json!(own);
        }
    };
    // A name that a site gives does not say in time that it is for one node.
    for resource in resources.values_mut().filter(|resource| resource.get("for_each").is_none()) {
        for place in ["/type", "/properties/resource_def/type"] {
            resource.pointer_mut(place).into_iter().for_each(&mut name);
        }
        let links = resource.pointer_mut("/properties/resources").and_then(Json::as_array_mut);
        links.into_iter().flatten().for_each(&mut name);
    }
    registry
}

/// The templates that these name.
pub fn files<'a>(whats: impl Iterator<Item = &'a What>) -> BTreeMap<String, String> {
    let inners = whats.filter_map(|what| match what {
        What::Nested(inner) | What::Group(Group { member: Member::Nested(inner), .. }) => Some(inner),
        _ => None,
    });
    let file = |inner: &Inner| match inner.count {
        Some(_) => (DEEP.to_owned(), template(true)),
        None => (INNER.to_owned(), template(false)),
    };
    inners.map(file).collect()
}

fn template(deep: bool) -> String {
    let node = json!({"get_param": "node"});
    let mut template = json!({
        "heat_template_version": "2018-08-31",
        "parameters": {
            "node": {"type": "string"}, "p": {"type": "string"}, "on": {"type": "boolean"}, "r": {"type": "string"}
        },
        "resources": {
            "v": {"type": "OS::Heat::Value", "properties": {"value": {"get_param": "p"}}},
            "w": {"type": "OS::Heat::RandomString", "properties": {"length": INNER_LENGTH, "salt": {"get_param": "r"}}},
            "d": {"type": "Muster::Dummy", "properties": {"node": node, "values": {
                "v": {"get_attr": ["v", "value"]}, "w": {"get_attr": ["w", "value"]}, "!r": {"get_param": "r"}
            }}},
            "e": {"type": "Muster::Dummy", "condition": {"get_param": "on"},
                "properties": {"node": node, "values": {"d": {"get_resource": "d"}}}},
        },
        "outputs": {"o": {"value": {"get_attr": ["d", "v"]}}},
    });
    if deep {
        template["parameters"]["n"] = json!({"type": "number"});
        template["resources"]["g"] = json!({"type": "OS::Heat::ResourceGroup", "properties": {
            "count": {"get_param": "n"},
            "resource_def": {"type": "Muster::Dummy", "properties": {
                "node": node, "values": {"i": format!("i{INDEX}"), "d": {"get_resource": "d"}}
            }},
        }});
    }
    template.to_string()
}
