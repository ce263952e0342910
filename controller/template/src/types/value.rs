//! Readers that several types share.

use muster_shared::NodeId;
use muster_shared::model::{OnDelete, Presence};
use serde_json::Value;

use super::PropertyError;
use crate::error::{cut, suggestion};
use crate::expression::describe;
use crate::function;
use crate::text::text_of;

type Read<T> = Result<T, PropertyError>;

/// Seconds that the agent waits to reach the controller anew after a change, where nothing is said.
pub(super) const CONFIRM_TIMEOUT: u32 = 120;
/// An hour without a way back is no protection any more.
pub(super) const CONFIRM_TIMEOUT_MAX: u64 = 3600;

/// Text; numbers and booleans become it as in Heat.
pub(super) fn text(value: &Value) -> Read<String> {
    match value {
        Value::Array(_) | Value::Object(_) => Err(unwanted("text", value)),
        _ => Ok(text_of(value).into_owned()),
    }
}

/// A whole number, also as text.
pub(super) fn integer(value: &Value, least: u64, most: u64) -> Read<u64> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => return Err(unwanted("a number", value)),
    };
    number
        .filter(|n| (least..=most).contains(n))
        .ok_or_else(|| PropertyError::new(format!("want a whole number from {least} to {most}")))
}

pub(crate) fn confirm_timeout(value: &Value) -> Read<u32> {
    let seconds = integer(value, 1, CONFIRM_TIMEOUT_MAX)?;
    u32::try_from(seconds).map_err(|_| PropertyError::new("too many seconds"))
}

pub(super) fn node(value: &Value) -> Read<NodeId> {
    match value {
        Value::String(text) => text.parse().map_err(|error| PropertyError::new(format!("{error}"))),
        _ => Err(unwanted("the name of a node", value)),
    }
}

pub(super) fn check_node(value: &Value) -> Read<()> {
    node(value).map(drop)
}

pub(super) fn on_delete(value: &Value) -> Read<OnDelete> {
    match value.as_str() {
        Some("restore") => Ok(OnDelete::Restore),
        Some("keep") => Ok(OnDelete::Keep),
        Some(other) => {
            let near = suggestion(other, ["restore", "keep"]);
            Err(PropertyError::new(format!("want restore or keep, got '{}'{near}", cut(other))))
        }
        None => Err(unwanted("restore or keep", value)),
    }
}

pub(super) fn presence(value: &Value) -> Read<Presence> {
    match value.as_str() {
        Some("present") => Ok(Presence::Present),
        Some("absent") => Ok(Presence::Absent),
        Some(other) => {
            let near = suggestion(other, ["present", "absent"]);
            Err(PropertyError::new(format!("want present or absent, got '{}'{near}", cut(other))))
        }
        None => Err(unwanted("present or absent", value)),
    }
}

pub(super) fn flag(value: &Value) -> Read<bool> {
    value.as_bool().ok_or_else(|| unwanted("true or false", value))
}

pub(super) fn check_on_delete(value: &Value) -> Read<()> {
    on_delete(value).map(drop)
}

/// A map with one key where none belongs is most often a misspelt function: say so.
pub(super) fn unwanted(wanted: &str, value: &Value) -> PropertyError {
    if let Value::Object(map) = value
        && let (Some(key), 1) = (map.keys().next(), map.len())
    {
        let near = function::suggest(key);
        return PropertyError::new(format!(
            "want {wanted}, got a map; unknown function '{}'{near}",
            cut(key)
        ));
    }
    PropertyError::new(format!("want {wanted}, got {}", describe(value)))
}
