//! Constraints of an intent: a list of maps of one key each.
//!
//! Absent: how a path meets them (`controller/intent/src/compile/constrained_path.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_intent::intent::{Constraints, LinkTypes, Threshold};
use muster_shared::model::flow::{BadEntry, Step};
use serde_json::{Map, Value};

use super::item::{device, each, known, link};
use super::{below, fault, key};
use crate::error::{cut, suggestion_or_all};
use crate::expression::describe;

type Read<T> = Result<T, BadEntry>;

const WORDS: [&str; 11] = [
    "bandwidth",
    "latency",
    "waypoints",
    "obstacles",
    "link_type",
    "annotations",
    "encapsulation",
    "partial_failure",
    "protection",
    "asymmetric",
    "resource_group",
];
/// Bits per second: a petabit, more than any link.
pub(crate) const BANDWIDTH_MAX: u64 = 1_000_000_000_000_000;
/// Seconds: no packet is that long on its way.
pub(crate) const LATENCY_MAX: f64 = 3600.0;
/// Bytes of a resource group's name, and of a link's type.
const NAME_MAX: usize = 255;
/// The most types of links in one constraint.
const LINK_TYPES_MAX: usize = 256;
/// The most annotations that are bounded: more than a link has.
const ANNOTATIONS_MAX: usize = 64;

/// The constraints of a list.
#[derive(Clone, Debug, Default)]
pub(super) struct ConstraintList {
    pub constraints: Constraints,
    /// Intents of the same group share reservations.
    pub group: Option<Box<str>>,
    places: BTreeMap<Box<str>, usize>,
}

impl ConstraintList {
    pub fn read(value: &Value) -> Read<Self> {
        let Value::Array(items) = value else {
            let why = format!("want a list, such as [{{bandwidth: 1000000}}], got {}", describe(value));
            return Err(fault(&[], why));
        };
        let mut asked = Self::default();
        for (n, item) in items.iter().enumerate() {
            let at = below(Step::Item(n));
            let (word, given) = one_key(item).map_err(&at)?;
            if let Some(first) = asked.places.insert(word.into(), n) {
                return Err(at(fault(
                    &[word],
                    format!("this was asked for at constraints[{first}] already"),
                )));
            }
            asked.take(word, given).map_err(below(key(word))).map_err(&at)?;
        }
        Ok(asked)
    }

    fn take(&mut self, word: &str, given: &Value) -> Read<()> {
        let constraints = &mut self.constraints;
        match word {
            "bandwidth" => constraints.bandwidth = Some(bandwidth(given)?),
            "latency" => constraints.latency = Some(latency(given)?),
            "waypoints" => constraints.waypoints = each(list(given, "devices")?, device)?,
            "obstacles" => {
                for (n, item) in list(given, "devices and links")?.iter().enumerate() {
                    let at = below(Step::Item(n));
                    if let Value::Object(_) = item {
                        constraints.obstacle_links.insert(link(item).map_err(at)?);
                    } else {
                        constraints.obstacles.insert(device(item).map_err(at)?);
                    }
                }
            }
            "link_type" => constraints.link_types = Some(link_types(given)?),
            "annotations" => constraints.annotations = annotations(given)?,
            "encapsulation" => constraints.vlan = encapsulation(given)?,
            "partial_failure" => constraints.partial_failure = flag(given)?,
            "protection" => constraints.protection = flag(given)?,
            "asymmetric" => constraints.asymmetric = flag(given)?,
            "resource_group" => self.group = Some(name(given)?),
            _ => {
                let near = suggestion_or_all(word, &WORDS);
                return Err(fault(&[], format!("there is no constraint '{}'{near}", cut(word))));
            }
        }
        Ok(())
    }

    /// The place of this constraint.
    pub fn place_of(&self, constraint: &str) -> Vec<Step> {
        let item = self.places.get(constraint).map(|n| [Step::Item(*n), key(constraint)]);
        std::iter::once(key("constraints")).chain(item.into_iter().flatten()).collect()
    }
}

/// Bits per second.
pub(crate) fn bandwidth(value: &Value) -> Read<u64> {
    let number = match value {
        Value::Number(number) => number.as_u64().or_else(|| number.as_f64().and_then(whole)),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    number
        .filter(|bits| (1..=BANDWIDTH_MAX).contains(bits))
        .ok_or_else(|| fault(&[], format!("want bits per second, a whole number from 1 to {BANDWIDTH_MAX}")))
}

/// Accepts whole numbers such as `1e9`.
fn whole(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (1.0..=BANDWIDTH_MAX as f64).contains(&number)).then_some(number as u64)
}

/// Seconds, as nanoseconds.
pub(crate) fn latency(value: &Value) -> Read<u64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let nanoseconds =
        number.filter(|seconds| (0.0..=LATENCY_MAX).contains(seconds)).map(|s| (s * 1e9).round());
    nanoseconds
        .filter(|nanoseconds| *nanoseconds >= 1.0)
        .map(|nanoseconds| nanoseconds as u64)
        .ok_or_else(|| fault(&[], format!("want seconds, such as 0.01: more than 0, at most {LATENCY_MAX}")))
}

fn link_types(value: &Value) -> Read<LinkTypes> {
    const WANTED: &str = "want {only: [TYPE, …]} or {without: [TYPE, …]}";
    let Value::Object(map) = value else {
        return Err(fault(&[], format!("{WANTED}, got {}", describe(value))));
    };
    known("link_type", map, &["only", "without"])?;
    let mut given = map.iter();
    let (Some((word, types)), None) = (given.next(), given.next()) else {
        return Err(fault(&[], WANTED));
    };
    let items = list(types, "types, as the annotation 'type' of links has them").map_err(below(key(word)))?;
    if items.is_empty() || items.len() > LINK_TYPES_MAX {
        return Err(fault(&[word], format!("want 1 to {LINK_TYPES_MAX} types")));
    }
    let types: BTreeSet<Box<str>> = each(items, name).map_err(below(key(word)))?.into_iter().collect();
    Ok(if word == "only" { LinkTypes::Only(types) } else { LinkTypes::Without(types) })
}

/// The largest value of each annotation.
fn annotations(value: &Value) -> Read<BTreeMap<Box<str>, Threshold>> {
    const WANTED: &str = "want {NAME: NUMBER, …}, such as {metric: 10}";
    let Value::Object(map) = value else {
        return Err(fault(&[], format!("{WANTED}, got {}", describe(value))));
    };
    if map.is_empty() || map.len() > ANNOTATIONS_MAX {
        return Err(fault(&[], format!("{WANTED}: 1 to {ANNOTATIONS_MAX} annotations")));
    }
    let read = |(name, most): (&String, &Value)| {
        let number = match most {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        let threshold = number.and_then(Threshold::new);
        let name: Box<str> = self::name(&Value::String(name.clone()))?;
        let most = threshold
            .ok_or_else(|| fault(&[&name], format!("want the largest number, got {}", describe(most))))?;
        Ok((name, most))
    };
    map.iter().map(read).collect()
}

/// Whether packets have a VLAN tag of the intent's own.
fn encapsulation(value: &Value) -> Read<bool> {
    match value {
        Value::String(word) if word == "vlan" => Ok(true),
        Value::String(word) if word == "none" => Ok(false),
        Value::String(word) => Err(fault(&[], format!("want vlan or none, got '{}'", cut(word)))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(fault(&[], format!("want vlan or none, got {}", describe(value))))
        }
    }
}

fn flag(value: &Value) -> Read<bool> {
    match value {
        Value::Bool(on) => Ok(*on),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(false),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            Err(fault(&[], format!("want true or false, got {}", describe(value))))
        }
    }
}

fn name(value: &Value) -> Read<Box<str>> {
    match value {
        Value::String(text) if (1..=NAME_MAX).contains(&text.len()) && !text.contains(char::is_control) => {
            Ok(text.as_str().into())
        }
        Value::String(_) => Err(fault(&[], format!("want a name of 1 to {NAME_MAX} bytes"))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(fault(&[], format!("want a name, got {}", describe(value))))
        }
    }
}

fn list<'v>(value: &'v Value, of: &str) -> Read<&'v [Value]> {
    if let Value::Array(items) = value {
        Ok(items)
    } else {
        Err(fault(&[], format!("want a list of {of}, got {}", describe(value))))
    }
}

/// The key and value of a map with one key; a word alone means `{word: true}`.
fn one_key(value: &Value) -> Read<(&str, &Value)> {
    const ONE: &str = "a map of one key, such as {bandwidth: 1000000}";
    let only = |map: &'_ Map<String, Value>| map.len() == 1;
    match value {
        Value::Object(map) if only(map) => {
            map.iter().next().map(|(word, given)| (word.as_str(), given)).ok_or_else(|| fault(&[], ONE))
        }
        Value::Object(map) => Err(fault(&[], format!("want {ONE}, got one of {} keys", map.len()))),
        Value::String(word) => Ok((word, &Value::Bool(true))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            Err(fault(&[], format!("want {ONE}, got {}", describe(value))))
        }
    }
}
