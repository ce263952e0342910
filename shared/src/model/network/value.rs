//! Single values out of JSON, each with its path in the error.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Map, Value};

use super::error::clip;
use super::parse::Tables;
use super::{LinkName, MAIN_TABLE, NetworkError};

type Parsed<T> = Result<T, NetworkError>;

/// A routing table by its number, its name in the kernel or a name that the document defines.
pub(super) fn table(path: &str, value: &Value, tables: &Tables) -> Parsed<u32> {
    match value.as_str() {
        Some("main") => Ok(MAIN_TABLE),
        Some("default") => Ok(253),
        Some(name) if name.parse::<u32>().is_err() => tables.get(name).copied().ok_or_else(|| {
            NetworkError::unsupported(
                path,
                format!("the table name {}", quoted(name)),
                "give the table's number, or a route_table of that name",
            )
        }),
        Some(_) | None => match number(path, value, 1, u32::MAX)? {
            255 => Err(NetworkError::invalid(path, "255 is the kernel's own table")),
            table => Ok(table),
        },
    }
}

pub(super) fn fields<'a>(path: &str, value: &'a Value) -> Parsed<&'a Map<String, Value>> {
    value.as_object().ok_or_else(|| wrong_kind(path, "a map", value))
}

pub(super) fn list<'a>(path: &str, value: &'a Value) -> Parsed<&'a Vec<Value>> {
    value.as_array().ok_or_else(|| wrong_kind(path, "a list", value))
}

pub(super) fn text<'a>(path: &str, value: &'a Value) -> Parsed<&'a str> {
    value.as_str().ok_or_else(|| wrong_kind(path, "a string", value))
}

/// A boolean, or a string that oslo.utils accepts as one.
pub(super) fn boolean(path: &str, value: &Value) -> Parsed<bool> {
    truth(value).ok_or_else(|| wrong_kind(path, "a boolean", value))
}

pub(super) fn is_boolean(value: &Value) -> bool {
    truth(value).is_some()
}

/// The texts that are booleans, in any case.
pub(super) const TRUTHS: [(&str, bool); 12] = [
    ("t", true),
    ("true", true),
    ("on", true),
    ("y", true),
    ("yes", true),
    ("1", true),
    ("f", false),
    ("false", false),
    ("off", false),
    ("n", false),
    ("no", false),
    ("0", false),
];

fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(value) => Some(*value),
        Value::String(text) => {
            TRUTHS.iter().find(|(word, _)| text.eq_ignore_ascii_case(word)).map(|(_, is_true)| *is_true)
        }
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// An integer within bounds; also as text, for parameters of a template arrive as such.
pub(super) fn number(path: &str, value: &Value, least: u32, most: u32) -> Parsed<u32> {
    let number = match value {
        Value::Number(number) => number.as_u64().or_else(|| whole(number)),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            return Err(wrong_kind(path, "an integer", value));
        }
    };
    number
        .and_then(|number| u32::try_from(number).ok())
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| NetworkError::invalid(path, format!("an integer from {least} to {most} is taken")))
}

/// An integer that was written as `1.0`.
fn whole(number: &serde_json::Number) -> Option<u64> {
    let number = number.as_f64().filter(|number| number.fract() == 0.0)?;
    format!("{number}").parse().ok()
}

pub(super) fn prefix(path: &str, value: &Value) -> Parsed<IpNet> {
    let written = text(path, value)?;
    written.parse().map_err(|_| {
        let problem = match written.parse::<IpAddr>() {
            Ok(address) => format!("{address} lacks its prefix length, such as {address}/24"),
            Err(_) => format!("{} is no address with prefix length, such as 192.0.2.1/24", quoted(written)),
        };
        NetworkError::invalid(path, problem)
    })
}

pub(super) fn link_name(path: &str, value: &Value) -> Parsed<LinkName> {
    LinkName::new(text(path, value)?).map_err(|problem| NetworkError::invalid(path, problem))
}

pub(super) fn required_name(path: &str, map: &Map<String, Value>) -> Parsed<LinkName> {
    let path = format!("{path}.name");
    link_name(&path, map.get("name").ok_or_else(|| NetworkError::invalid(&path, "is missing"))?)
}

/// The value of an option that has two spellings.
pub(super) fn either<'a>(
    path: &str,
    map: &'a Map<String, Value>,
    one: &'static str,
    other: &'static str,
) -> Parsed<Option<(&'static str, &'a Value)>> {
    match (map.get(one), map.get(other)) {
        (Some(_), Some(_)) => {
            Err(NetworkError::invalid(path, format!("has {one} and {other}; give one of them")))
        }
        (Some(value), None) => Ok(Some((one, value))),
        (None, Some(value)) => Ok(Some((other, value))),
        (None, None) => Ok(None),
    }
}

pub(super) fn wrong_kind(path: &str, wanted: &str, value: &Value) -> NetworkError {
    let found = match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
    };
    NetworkError::invalid(path, format!("{wanted} is wanted, not {found}"))
}

/// Enough of a text from outside to recognise it.
pub(super) fn quoted(text: &str) -> String {
    format!("{:?}", clip(text))
}
