//! `Muster::Dummy`: makes nothing real.

use std::collections::BTreeMap;

use muster_shared::model::{Action, Dummy, FailOn};
use serde_json::Value;

use super::value::{check_node, text, unwanted};
use super::{Given, Property, PropertyError};
use crate::error::{cut, suggestion};

pub(super) static PROPERTIES: [Property; 4] = [
    Property::optional("fail", |value| fail(value).map(drop)),
    Property::optional("node", check_node),
    Property::optional("seconds", |value| milliseconds(value).map(drop)),
    Property::optional("values", |value| values(value).map(drop)),
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
    /// A day: longer than any stack's timeout that makes sense.
    const MOST: f64 = 86_400.0;
    let seconds = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => return Err(unwanted("a number of seconds", value)),
    };
    match seconds {
        // In range, so the cast is exact but for what is below a millisecond.
        Some(seconds) if (0.0..=MOST).contains(&seconds) => Ok((seconds * 1000.0).round() as u64),
        _ => Err(PropertyError::new(format!("want seconds from 0 to {MOST}"))),
    }
}

fn fail(value: &Value) -> Result<Option<FailOn>, PropertyError> {
    const WORDS: [&str; 5] = ["true", "false", "create", "update", "delete"];
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
            let near = suggestion(word, WORDS);
            Err(PropertyError::new(format!(
                "want true, false, create, update or delete, got '{}'{near}",
                cut(word)
            )))
        }
    }
}
