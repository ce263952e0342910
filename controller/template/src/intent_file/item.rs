//! One intent, as a map in the notation of an intent file, and the default of its priority.
//!
//! Absent: its constraints (`constraint.rs`), and whether it can be installed (`controller/intent/src/compile.rs`).

use std::sync::Arc;

use muster_intent::host::{HostId, NotAHost};
use muster_intent::intent::{BadIntent, Intent, Kind};
use muster_intent::manager::{KEY_MAX, Wish};
use muster_intent::topology::ConnectPoint;
use muster_shared::model::flow::{
    BadEntry, DeviceName, Step, check_traffic, traffic_selector, traffic_treatment,
};
use serde_json::{Map, Value};

use super::constraint::ConstraintList;
use super::{below, fault, key};
use crate::error::{cut, suggestion_or_all};
use crate::expression::describe;

type Read<T> = Result<T, BadEntry>;

/// The default priority of rules.
pub(crate) const PRIORITY: u16 = 100;
/// The words for types, as [`Kind::name`] has them.
pub(crate) const TYPES: [&str; 5] = [
    "point_to_point",
    "single_point_to_multi_point",
    "multi_point_to_single_point",
    "link_collection",
    "host_to_host",
];
const KEYS: [&str; 9] =
    ["key", "type", "from", "to", "links", "selector", "treatment", "constraints", "priority"];
/// Interfaces have 15 bytes; ports of a switch may have more.
const PORT_MAX: usize = 64;
const POINT: &str = "want {device: NODE/BRIDGE, port: INTERFACE}";

/// An intent with its key.
pub(crate) fn wish(value: &Value) -> Read<(Box<str>, Wish)> {
    let Value::Object(map) = value else {
        return Err(fault(&[], format!("want an intent, which is a map, got {}", describe(value))));
    };
    known("an intent", map, &KEYS)?;
    let name = required(map, "key", "a name of your own", text_key)?;
    let kind = required(map, "type", "", kind_of)?;
    let kind = kind.read(map)?;
    let selector = optional(map, "selector", traffic_selector)?.unwrap_or_default();
    let treatment = optional(map, "treatment", traffic_treatment)?.unwrap_or_default();
    check_traffic(&selector, &treatment)?;
    let asked = optional(map, "constraints", ConstraintList::read)?.unwrap_or_default();
    let priority = optional(map, "priority", priority)?.unwrap_or(PRIORITY);
    let (constraints, group) = (asked.constraints.clone(), asked.group.clone());
    let intent = Intent { kind, priority, selector, treatment, constraints };
    intent.check().map_err(|bad| BadEntry { path: place_of(&bad, &asked), message: bad.to_string() })?;
    Ok((name, Wish { intent: Arc::new(intent), group }))
}

/// Checks the value of one key alone, while the others are unknown.
pub(crate) fn part(key: &str, value: &Value) -> Read<()> {
    match key {
        "key" => text_key(value).map(drop),
        "type" => kind_of(value).map(drop),
        "from" | "to" if value.get("host").is_some() => end_host(value).map(drop),
        "from" | "to" => points(value).map(drop),
        "links" => links(value).map(drop),
        "selector" => traffic_selector(value).map(drop),
        "treatment" => traffic_treatment(value).map(drop),
        "constraints" => ConstraintList::read(value).map(drop),
        "priority" => priority(value).map(drop),
        _ => Ok(()),
    }
}

/// The MAC address of a host.
pub(crate) fn host(value: &Value) -> Read<HostId> {
    if let Value::String(text) = value {
        text.parse().map_err(|error| fault(&[], format!("{error}")))
    } else {
        Err(fault(&[], format!("{NotAHost}, got {}", describe(value))))
    }
}

/// `{host: MAC}`
fn end_host(value: &Value) -> Read<HostId> {
    let Value::Object(map) = value else {
        return Err(fault(&[], format!("want {{host: MAC}}, got {}", describe(value))));
    };
    if map.contains_key("device") || map.contains_key("port") {
        return Err(fault(&[], "hosts are wherever they are: want {host: MAC}, without a device and a port"));
    }
    known("a host", map, &["host"])?;
    required(map, "host", "the MAC address of its interface, such as 52:54:00:12:34:56", host)
}

/// A port of a device.
pub(crate) fn point(value: &Value) -> Read<ConnectPoint> {
    let Value::Object(map) = value else {
        return Err(fault(&[], format!("{POINT}, got {}", describe(value))));
    };
    if map.contains_key("host") {
        return Err(fault(
            &[],
            "hosts are connected by an intent of type host_to_host; want {device: NODE/BRIDGE, port: INTERFACE}",
        ));
    }
    known("a point", map, &["device", "port"])?;
    Ok(ConnectPoint {
        device: required(map, "device", "NODE/BRIDGE, such as web-1/br0", device)?,
        port: required(map, "port", "the name of an interface, such as eth1", port)?,
    })
}

pub(super) fn device(value: &Value) -> Read<DeviceName> {
    if let Value::String(text) = value {
        text.parse().map_err(|error| fault(&[], format!("{error}")))
    } else {
        Err(fault(&[], format!("want a device, NODE/BRIDGE, got {}", describe(value))))
    }
}

fn port(value: &Value) -> Read<Box<str>> {
    let wanted = "the name of an interface, such as eth1";
    match value {
        Value::String(name) if name == "LOCAL" => {
            Err(fault(&[], "the bridge's own port goes by the bridge's name here"))
        }
        Value::String(name)
            if (1..=PORT_MAX).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic()) =>
        {
            Ok(name.as_str().into())
        }
        Value::String(name) => Err(fault(&[], format!("want {wanted}, got '{}'", cut(name)))),
        Value::Number(_) => {
            let why = "ports are named by their interface: numbers change when a port is made again";
            Err(fault(&[], why))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            Err(fault(&[], format!("want {wanted}, got {}", describe(value))))
        }
    }
}

/// A single point, or a list of points.
fn points(value: &Value) -> Read<Vec<ConnectPoint>> {
    if let Value::Array(items) = value { each(items, point) } else { point(value).map(|one| vec![one]) }
}

pub(super) fn link(value: &Value) -> Read<(ConnectPoint, ConnectPoint)> {
    let Value::Object(map) = value else {
        return Err(fault(&[], format!("want a link, {{from: …, to: …}}, got {}", describe(value))));
    };
    known("a link", map, &["from", "to"])?;
    let end = |name: &str| required(map, name, "a device and its port", point);
    Ok((end("from")?, end("to")?))
}

fn links(value: &Value) -> Read<Vec<(ConnectPoint, ConnectPoint)>> {
    if let Value::Array(items) = value {
        each(items, link)
    } else {
        Err(fault(&[], format!("want a list of links, {{from: …, to: …}} each, got {}", describe(value))))
    }
}

fn text_key(value: &Value) -> Read<Box<str>> {
    match value {
        Value::String(text) if text.is_empty() || text.len() > KEY_MAX || text.contains(char::is_control) => {
            Err(fault(&[], format!("want a key of 1 to {KEY_MAX} bytes without control characters")))
        }
        Value::String(text) => Ok(text.as_str().into()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(fault(&[], format!("want a key, which is text, got {}", describe(value))))
        }
    }
}

fn priority(value: &Value) -> Read<u16> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    number
        .and_then(|number| u16::try_from(number).ok())
        // Leaves room above each rule for one that keeps LLDP back.
        .filter(|number| *number < u16::MAX)
        .ok_or_else(|| fault(&[], "want a whole number from 0 to 65534"))
}

/// The type of an intent.
#[derive(Clone, Copy)]
enum Type {
    PointToPoint,
    SinglePointToMultiPoint,
    MultiPointToSinglePoint,
    LinkCollection,
    HostToHost,
}

fn kind_of(value: &Value) -> Read<Type> {
    if let Value::String(word) = value {
        match word.as_str() {
            "point_to_point" => Ok(Type::PointToPoint),
            "single_point_to_multi_point" => Ok(Type::SinglePointToMultiPoint),
            "multi_point_to_single_point" => Ok(Type::MultiPointToSinglePoint),
            "link_collection" => Ok(Type::LinkCollection),
            "host_to_host" => Ok(Type::HostToHost),
            other => {
                let near = suggestion_or_all(other, &TYPES);
                Err(fault(&[], format!("there is no type of intent '{}'{near}", cut(other))))
            }
        }
    } else {
        Err(fault(&[], format!("want {}, got {}", TYPES.join(" or "), describe(value))))
    }
}

impl Type {
    fn read(self, map: &Map<String, Value>) -> Read<Kind> {
        let says = "{device: NODE/BRIDGE, port: INTERFACE}";
        let one = |name: &str| {
            let mut points = required(map, name, says, points)?;
            match (points.len(), points.pop()) {
                (1, Some(one)) => Ok(one),
                _ => {
                    let why = match name {
                        "from" => "several points to come in: that is of type multi_point_to_single_point",
                        _ => "several points to go out: that is of type single_point_to_multi_point",
                    };
                    let none = "want one point";
                    Err(fault(
                        &[name],
                        if map[name].as_array().is_some_and(Vec::is_empty) { none } else { why },
                    ))
                }
            }
        };
        let many = |name: &str| required(map, name, "a list of such points: {device: …, port: …}", points);
        let links = optional(map, "links", links)?.unwrap_or_default();
        if !links.is_empty() && !matches!(self, Type::LinkCollection) {
            return Err(fault(
                &["links"],
                "only an intent of type link_collection says which links it takes",
            ));
        }
        Ok(match self {
            Type::PointToPoint => Kind::PointToPoint { from: one("from")?, to: one("to")? },
            Type::SinglePointToMultiPoint => {
                Kind::SinglePointToMultiPoint { from: one("from")?, to: many("to")? }
            }
            Type::MultiPointToSinglePoint => {
                Kind::MultiPointToSinglePoint { from: many("from")?, to: one("to")? }
            }
            Type::HostToHost => {
                let says = "{host: MAC}";
                let end = |name: &str| required(map, name, says, end_host);
                Kind::HostToHost { one: end("from")?, two: end("to")? }
            }
            Type::LinkCollection => Kind::LinkCollection { links, from: many("from")?, to: many("to")? },
        })
    }
}

/// The place in the map of an error that concerns the whole intent.
fn place_of(bad: &BadIntent, asked: &ConstraintList) -> Vec<Step> {
    let of = |name: &str| asked.place_of(name);
    match bad {
        BadIntent::InPort => vec![key("selector"), key("in_port")],
        BadIntent::Highest => vec![key("priority")],
        BadIntent::HostField(name) => vec![key("selector"), key(name)],
        BadIntent::SamePoint(_) | BadIntent::SameHost(_) => vec![key("to")],
        BadIntent::Twice(_) | BadIntent::Points => Vec::new(),
        BadIntent::Links => vec![key("links")],
        BadIntent::Waypoints | BadIntent::WaypointTwice(_) | BadIntent::WaypointObstacle(_) => {
            of("waypoints")
        }
        BadIntent::EndObstacle(_) => of("obstacles"),
        BadIntent::Bandwidth => of("bandwidth"),
        BadIntent::Latency => of("latency"),
        BadIntent::NotOfKind { constraint, .. } => of(constraint),
        BadIntent::Together(_, second) => of(second),
    }
}

pub(super) fn each<T>(items: &[Value], read: impl Fn(&Value) -> Read<T>) -> Read<Vec<T>> {
    items.iter().enumerate().map(|(n, item)| read(item).map_err(below(Step::Item(n)))).collect()
}

pub(super) fn known(what: &str, map: &Map<String, Value>, keys: &[&str]) -> Read<()> {
    match map.keys().find(|name| !keys.contains(&name.as_str())) {
        None => Ok(()),
        Some(other) => {
            let near = suggestion_or_all(other, keys);
            Err(fault(&[cut(other)], format!("{what} has no '{}'{near}", cut(other))))
        }
    }
}

fn optional<T>(
    map: &Map<String, Value>,
    name: &str,
    read: impl FnOnce(&Value) -> Read<T>,
) -> Read<Option<T>> {
    let value = map.get(name).filter(|value| !value.is_null());
    value.map(read).transpose().map_err(below(key(name)))
}

fn required<T>(
    map: &Map<String, Value>,
    name: &str,
    what: &str,
    read: impl FnOnce(&Value) -> Read<T>,
) -> Read<T> {
    let types = TYPES.join(", ");
    let what = if what.is_empty() { &types } else { what };
    optional(map, name, read)?.ok_or_else(|| fault(&[name], format!("this must be given: {what}")))
}
