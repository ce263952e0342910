//! The names of files: in `get_file`, in a resource's type, and in an environment's types.

use muster_template::files::{is_template, resolve};
use serde_json::Value;

use crate::place::Places;

/// A file that names others: its place here, and Heat's name for it, which is empty for the root template.
#[derive(Clone, Copy)]
pub struct Source<'s> {
    pub place: &'s str,
    pub key: &'s str,
}

/// Lets a template name files where they are, and says whether anything changed.
pub fn template(value: &mut Value, of: Source<'_>, places: &Places, left_out: &mut Vec<String>) -> bool {
    match value {
        Value::Object(map) => map.iter_mut().fold(false, |changed, (key, value)| {
            let done = match (key.as_str(), &*value) {
                ("get_file", Value::String(_)) => name(value, of, true, places, left_out),
                ("type", Value::String(text)) => {
                    let is_relative = is_template(text);
                    name(value, of, is_relative, places, left_out)
                }
                _ => template(value, of, places, left_out),
            };
            changed | done
        }),
        Value::Array(items) => {
            items.iter_mut().fold(false, |changed, item| changed | template(item, of, places, left_out))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Lets a registry of types name files where they are.
pub fn registry(value: &mut Value, of: Source<'_>, places: &Places, left_out: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let is_relative = is_template(text);
            name(value, of, is_relative, places, left_out);
        }
        Value::Object(map) => map.values_mut().for_each(|value| registry(value, of, places, left_out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {}
    }
}

/// Heat's clients send whole addresses; other clients names from where a template lies, as Muster's does.
fn name(
    value: &mut Value,
    of: Source<'_>,
    is_relative: bool,
    places: &Places,
    left_out: &mut Vec<String>,
) -> bool {
    let Value::String(key) = value else { return false };
    let relative = || is_relative.then(|| places.from(of.place, &resolve(of.key, key))).flatten();
    if let Some(place) = places.from(of.place, key).or_else(relative) {
        let changed = place != *key;
        *key = place;
        return changed;
    }
    if is_relative || ["file://", "http://", "https://"].iter().any(|scheme| key.starts_with(scheme)) {
        left_out.push(format!("{} names {key}, which is not among the stack's files", of.place));
    }
    false
}
