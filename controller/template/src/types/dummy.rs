//! `Muster::Dummy`: makes nothing real.

use std::collections::BTreeMap;

use muster_shared::model::{Action, Dummy, FailOn};
use serde_json::Value;

use super::value::{check_node, text, unwanted};
use super::{Given, Property, PropertyError, PropertyType};
use crate::error::{cut, suggestion};

/// A day: longer than any stack's timeout that makes sense.
const SECONDS_MAX: u64 = 86_400;
const FAIL: [&str; 5] = ["true", "false", "create", "update", "delete"];

pub(super) static PROPERTIES: [Property; 4] = [
    Property::optional("fail", |value| fail(value).map(drop))
        .is(PropertyType::String, "which actions fail")
        .default("\"false\"")
        .one_of(&FAIL),
    Property::optional("node", check_node)
        .is(PropertyType::String, "the node it is on; any node where it is left out")
        .replaces(),
    Property::optional("seconds", |value| milliseconds(value).map(drop))
        .is(PropertyType::Number, "how long each action takes")
        .default("0")
        .range(0, SECONDS_MAX),
    Property::optional("values", |value| values(value).map(drop))
        .is(PropertyType::Map, "texts that are kept, and are its attributes")
        .default("{}")
        .replaces_where("a '!' key has changed"),
];

pub(super) fn spec(given: &Given<'_>) -> Result<Dummy, PropertyError> {
    Ok(Dummy {
        values: given.get("values", values)?.unwrap_or_default(),
        milliseconds: given.get("seconds", milliseconds)?.unwrap_or(0),
        fail: given.get("fail", fail)?.flatten(),
    })
}

fn values(value: &Value) -> Result<BTreeMap<String, String>, PropertyError> {
    let Value::Object(map) = value else { return Err(unwanted("a map", value)) };
    map.iter()
        .map(|(key, value)| Ok((key.clone(), text(value).map_err(|error| error.within_key(key))?)))
        .collect()
}

fn milliseconds(value: &Value) -> Result<u64, PropertyError> {
    let seconds = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => return Err(unwanted("a number of seconds", value)),
    };
    match seconds {
        // In range, so the cast is exact but for what is below a millisecond.
        Some(seconds) if (0.0..=SECONDS_MAX as f64).contains(&seconds) => {
            Ok((seconds * 1000.0).round() as u64)
        }
        _ => Err(PropertyError::new(format!("want seconds from 0 to {SECONDS_MAX}"))),
    }
}

fn fail(value: &Value) -> Result<Option<FailOn>, PropertyError> {
    let word = match value {
        Value::Bool(on) => return Ok(on.then_some(FailOn::Any)),
        Value::String(word) => word,
        _ => return Err(unwanted("true, false, create, update or delete", value)),
    };
    match word.to_ascii_lowercase().as_str() {
        "true" => Ok(Some(FailOn::Any)),
        "false" => Ok(None),
        "create" => Ok(Some(FailOn::Action(Action::Create))),
        "update" => Ok(Some(FailOn::Action(Action::Update))),
        "delete" => Ok(Some(FailOn::Action(Action::Delete))),
        _ => {
            let near = suggestion(word, FAIL);
            Err(PropertyError::new(format!(
                "want true, false, create, update or delete, got '{}'{near}",
                cut(word)
            )))
        }
    }
}
