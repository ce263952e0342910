//! `Muster::NetworkConfig`: a list of os-net-config objects, and what is to be where neither they nor what was there
//! before can be.
//!
//! The document itself is read by the model's parser; here its errors get their place in the template.

use std::collections::BTreeMap;

use muster_shared::model::NetworkConfig;
use muster_shared::model::network::{NetworkDocument, NetworkError, NicMapping, Problem};
use serde_json::{Value, json};

use super::value::{
    CONFIRM_TIMEOUT, CONFIRM_TIMEOUT_MAX, check_node, check_on_delete, confirm_timeout, on_delete, text,
    unwanted,
};
use super::{Given, Property, PropertyError, PropertyType};
use crate::render::Step;

pub(super) static PROPERTIES: [Property; 6] = [
    Property::optional("confirm_timeout", |value| confirm_timeout(value).map(drop))
        .is(
            PropertyType::Integer,
            "seconds to reach the controller anew after a change; else it is taken back",
        )
        .default("120")
        .range(1, CONFIRM_TIMEOUT_MAX),
    Property::optional("fallback_config", check_fallback).is(
        PropertyType::List,
        "os-net-config objects for where neither these nor what was before can be had",
    ),
    Property::optional("mapping", |value| mapping(value).map(drop))
        .is(PropertyType::Map, "names such as nic1, with the interface or MAC address that each stands for")
        .default("{}"),
    Property::required("network_config", check_document).is(PropertyType::List, "os-net-config objects"),
    Property::required("node", check_node).is(PropertyType::String, "the node it is on").replaces(),
    Property::optional("on_delete", check_on_delete)
        .is(PropertyType::String, "what a delete leaves: what was there before, or what is there")
        .default("\"restore\"")
        .one_of(&["restore", "keep"]),
];

pub(super) fn spec(given: &Given<'_>) -> Result<NetworkConfig, PropertyError> {
    let config = given.required("network_config", |value| document(value).map(|_| value.clone()))?;
    let fallback = given.get("fallback_config", |value| fallback(value, &config))?;
    Ok(NetworkConfig {
        document: fallback.unwrap_or(config).to_string(),
        mapping: given.get("mapping", mapping)?.unwrap_or_default(),
        confirm_timeout: given.get("confirm_timeout", confirm_timeout)?.unwrap_or(CONFIRM_TIMEOUT),
        on_delete: given.get("on_delete", on_delete)?.unwrap_or_default(),
    })
}

fn mapping(value: &Value) -> Result<BTreeMap<String, String>, PropertyError> {
    let Value::Object(map) = value else { return Err(unwanted("a map of aliases to interfaces", value)) };
    map.iter()
        .map(|(key, value)| Ok((key.clone(), nic(key, value).map_err(|error| error.within_key(key))?)))
        .collect()
}

fn nic(alias: &str, value: &Value) -> Result<String, PropertyError> {
    let nic = text(value)?;
    if !value.is_null() {
        NicMapping::new(BTreeMap::from([(alias.to_owned(), nic.clone())]))
            .map_err(|error| PropertyError::new(error.problem.to_string()))?;
    }
    Ok(nic)
}

/// A document that may still have nulls where a function's value will be: what is certain is checked.
fn check_document(value: &Value) -> Result<(), PropertyError> {
    if has_null(value) { check_types(value) } else { document(value).map(drop) }
}

fn document(value: &Value) -> Result<NetworkDocument, PropertyError> {
    NetworkDocument::parse(value).map_err(|error| located(&error, "network_config"))
}

fn located(error: &NetworkError, section: &str) -> PropertyError {
    let path = error.path.strip_prefix(section).unwrap_or_default();
    PropertyError::new(error.problem.to_string()).within_path(path)
}

fn check_fallback(value: &Value) -> Result<(), PropertyError> {
    if has_null(value) { check_types(value) } else { fallback(value, &json!([])).map(drop) }
}

/// The document with both sections.
fn fallback(value: &Value, config: &Value) -> Result<Value, PropertyError> {
    let objects = match config.get("network_config") {
        None => config,
        Some(_) if config.get("fallback_config").is_some() => {
            return Err(PropertyError::new("network_config has this section already"));
        }
        Some(objects) => objects,
    };
    let whole = json!({"network_config": objects, "fallback_config": value});
    NetworkDocument::parse(&whole).map_err(|error| located(&error, "fallback_config"))?;
    Ok(whole)
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(map) => map.values().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn check_types(value: &Value) -> Result<(), PropertyError> {
    let objects = match value {
        Value::Null => return Ok(()),
        Value::Array(objects) => objects,
        Value::Object(sections) if sections.contains_key("network_config") => {
            return check_types(&sections["network_config"])
                .map_err(|error| error.within_key("network_config"));
        }
        _ => return Err(unwanted("a list of os-net-config objects", value)),
    };
    for (i, object) in objects.iter().enumerate() {
        check_type(object).map_err(|error| error.within(Step::Item(i)))?;
    }
    Ok(())
}

fn check_type(value: &Value) -> Result<(), PropertyError> {
    let map = match value {
        Value::Object(map) => map,
        Value::Null => return Ok(()),
        _ => return Err(unwanted("an os-net-config object", value)),
    };
    // An object of nothing but its type: the document's parser complains of the type, or of all that is missing.
    if let Some(kind) = map.get("type").filter(|kind| !kind.is_null())
        && let Err(error) = NetworkDocument::parse(&json!([{ "type": kind }]))
        && (error.path.ends_with(".type") || matches!(error.problem, Problem::Unknown { what: "type", .. }))
    {
        return Err(PropertyError::new(error.problem.to_string()).within_key("type"));
    }
    map.get("members")
        .map_or(Ok(()), |members| check_types(members).map_err(|error| error.within_key("members")))
}
