//! Merges the values of several environments for one parameter, following the environments' strategies.
//!
//! The rules are those of Heat's `environment_util`: texts and lists are appended, maps updated; with
//! `deep_merge` also values inside maps. Values of different kinds, at which Heat would stop, and numbers or
//! booleans, whose merge makes no sense, are refused with a reason.
//!
//! Absent: which strategy a parameter has (`strategy.rs`).

use serde_json::{Map, Value};

use super::strategy::Strategy;
use crate::error::{cut, push_key};
use crate::expression::describe;
use crate::parameter::ParameterType;

/// The value of a parameter after a later environment gave `new`. Both are of its type.
pub(crate) fn merge(
    kind: ParameterType,
    strategy: Strategy,
    old: Value,
    new: Value,
) -> Result<Value, String> {
    if strategy == Strategy::Overwrite {
        return Ok(new);
    }
    match (kind, old, new) {
        (ParameterType::String, Value::String(old), Value::String(new)) => Ok(Value::String(old + &new)),
        (ParameterType::CommaDelimitedList, old, new) => values(old, new, false, &mut String::new()),
        (ParameterType::Json, old, new) => {
            values(old, new, strategy == Strategy::DeepMerge, &mut String::new())
        }
        (kind, _, _) => Err(format!(
            "values of the type {} cannot be merged: give this parameter the strategy 'overwrite'",
            kind.name()
        )),
    }
}

/// Merges two values. An empty one gives way.
fn values(old: Value, new: Value, deep: bool, path: &mut String) -> Result<Value, String> {
    match (old, new) {
        (old, new) if is_empty(&old) => Ok(new),
        (Value::Array(mut old), Value::Array(new)) => {
            old.extend(new);
            Ok(Value::Array(old))
        }
        (Value::Object(old), Value::Object(new)) => maps(old, new, deep, path).map(Value::Object),
        (Value::String(old), Value::String(new)) => Ok(Value::String(old + &new)),
        (old, new) => {
            let place = if path.is_empty() { String::new() } else { format!(" at '{path}'") };
            Err(format!("{} and {} cannot be merged{place}", describe(&old), describe(&new)))
        }
    }
}

fn maps(
    mut old: Map<String, Value>,
    new: Map<String, Value>,
    deep: bool,
    path: &mut String,
) -> Result<Map<String, Value>, String> {
    for (key, value) in new {
        let known = old.get_mut(&key).map(Value::take);
        let merged = match (known, &value) {
            // Null counts as not given.
            (Some(known), Value::Null) => known,
            (None, Value::Null) => continue,
            (Some(known), Value::Object(_) | Value::Array(_) | Value::String(_)) if deep => {
                let before = path.len();
                push_key(path, cut(&key));
                let merged = values(known, value, deep, path)?;
                path.truncate(before);
                merged
            }
            _ => value,
        };
        old.insert(key, merged);
    }
    Ok(old)
}

/// As in Python: whether the value is false in a condition.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

#[cfg(test)]
mod tests;
