//! Intents as JSON, in the notation of intent files: printed intents parse to the same intents.

use muster_intent::intent::{Constraints, Intent, Kind, LinkTypes};
use muster_intent::topology::ConnectPoint;
use muster_shared::model::flow::{Instruction, Rule};
use serde_json::{Map, Value, json};

/// The intent as in an intent file, without the key.
pub fn wish_json(intent: &Intent, group: Option<&str>) -> Map<String, Value> {
    let Intent { kind, priority, selector, treatment, constraints } = intent;
    let rule = Rule {
        table: 0,
        priority: *priority,
        selector: selector.clone(),
        treatment: treatment.iter().cloned().map(Instruction::Do).collect(),
        idle_timeout: 0,
        hard_timeout: 0,
    };
    let mut map = Map::new();
    let mut put = |name: &str, value: Value| drop(map.insert(name.to_owned(), value));
    put("type", json!(kind.name()));
    let list = |points: &[ConnectPoint]| points.iter().map(point_json).collect::<Value>();
    match kind {
        Kind::PointToPoint { from, to } => {
            put("from", point_json(from));
            put("to", point_json(to));
        }
        Kind::SinglePointToMultiPoint { from, to } => {
            put("from", point_json(from));
            put("to", list(to));
        }
        Kind::MultiPointToSinglePoint { from, to } => {
            put("from", list(from));
            put("to", point_json(to));
        }
        Kind::HostToHost { one, two } => {
            put("from", json!({"host": one.to_string()}));
            put("to", json!({"host": two.to_string()}));
        }
        Kind::LinkCollection { links, from, to } => {
            put("from", list(from));
            put("to", list(to));
            put("links", links.iter().map(link_json).collect());
        }
    }
    put("selector", rule.selector_json());
    put("treatment", rule.treatment_json());
    put("constraints", constraints_json(constraints, group));
    put("priority", json!(priority));
    map
}

/// `{"device", "port"}`
pub fn point_json(point: &ConnectPoint) -> Value {
    json!({"device": point.device.to_string(), "port": point.port})
}

fn link_json((from, to): &(ConnectPoint, ConnectPoint)) -> Value {
    json!({"from": point_json(from), "to": point_json(to)})
}

fn constraints_json(constraints: &Constraints, group: Option<&str>) -> Value {
    let Constraints { bandwidth, latency, waypoints, obstacles, obstacle_links, .. } = constraints;
    let Constraints { link_types, annotations, vlan, partial_failure, .. } = constraints;
    let Constraints { protection, asymmetric, .. } = constraints;
    let mut list = Vec::new();
    let mut put = |name: &str, value: Value| list.push(json!({ name: value }));
    if let Some(bits) = bandwidth {
        put("bandwidth", json!(bits));
    }
    if let Some(nanoseconds) = latency {
        put("latency", json!(seconds(*nanoseconds)));
    }
    if !waypoints.is_empty() {
        put("waypoints", waypoints.iter().map(|device| json!(device.to_string())).collect());
    }
    if !obstacles.is_empty() || !obstacle_links.is_empty() {
        let devices = obstacles.iter().map(|device| json!(device.to_string()));
        put("obstacles", devices.chain(obstacle_links.iter().map(link_json)).collect());
    }
    match link_types {
        Some(LinkTypes::Only(types)) => put("link_type", json!({"only": types})),
        Some(LinkTypes::Without(types)) => put("link_type", json!({"without": types})),
        None => {}
    }
    if !annotations.is_empty() {
        let bounds = annotations.iter().map(|(name, most)| (name.to_string(), json!(most.number())));
        put("annotations", Value::Object(bounds.collect()));
    }
    let flags =
        [("partial_failure", partial_failure), ("protection", protection), ("asymmetric", asymmetric)];
    for (name, is_on) in flags {
        if *is_on {
            put(name, json!(true));
        }
    }
    if *vlan {
        put("encapsulation", json!("vlan"));
    }
    if let Some(group) = group {
        put("resource_group", json!(group));
    }
    Value::Array(list)
}

/// A number that parses to the same value.
pub(crate) fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
