//! `Muster::NetworkConfig`: a list of os-net-config objects.
//!
//! Here the list's shape and the objects' types are checked, so that the place is named; what each object may hold is
//! the host's to say.

use std::collections::BTreeMap;

use muster_shared::model::NetworkConfig;
use serde_json::Value;

use super::value::{check_node, check_on_delete, integer, on_delete, text, unwanted};
use super::{Given, Property, PropertyError};
use crate::error::{cut, suggestion};
use crate::render::Step;

/// As long as the agent waits to hear that the controller can still be reached, where nothing is said.
const CONFIRM_TIMEOUT: u32 = 120;
/// An hour without a way back is no protection any more.
const CONFIRM_TIMEOUT_MAX: u64 = 3600;

/// Types of objects this build applies.
const TYPES: [&str; 4] = ["interface", "linux_bridge", "ovs_bridge", "vlan"];

pub(super) static PROPERTIES: [Property; 5] = [
    Property::optional("confirm_timeout", |value| timeout(value).map(drop)),
    Property::optional("mapping", |value| mapping(value).map(drop)),
    Property::required("network_config", document),
    Property::required("node", check_node),
    Property::optional("on_delete", check_on_delete),
];

pub(super) fn spec(given: &Given<'_>) -> Result<NetworkConfig, PropertyError> {
    Ok(NetworkConfig {
        document: given.required("network_config", |value| document(value).map(|()| value.to_string()))?,
        mapping: given.get("mapping", mapping)?.unwrap_or_default(),
        confirm_timeout: given.get("confirm_timeout", timeout)?.unwrap_or(CONFIRM_TIMEOUT),
        on_delete: given.get("on_delete", on_delete)?.unwrap_or_default(),
    })
}

fn timeout(value: &Value) -> Result<u32, PropertyError> {
    let seconds = integer(value, 1, CONFIRM_TIMEOUT_MAX)?;
    u32::try_from(seconds).map_err(|_| PropertyError::new("too many seconds"))
}

fn mapping(value: &Value) -> Result<BTreeMap<String, String>, PropertyError> {
    let Value::Object(map) = value else { return Err(unwanted("a map of aliases to interfaces", value)) };
    map.iter()
        .map(|(key, value)| Ok((key.clone(), text(value).map_err(|error| error.within_key(key))?)))
        .collect()
}

fn document(value: &Value) -> Result<(), PropertyError> {
    let Value::Array(objects) = value else { return Err(unwanted("a list of os-net-config objects", value)) };
    for (i, object) in objects.iter().enumerate() {
        self::object(object).map_err(|error| error.within(Step::Item(i)))?;
    }
    Ok(())
}

fn object(value: &Value) -> Result<(), PropertyError> {
    let map = match value {
        Value::Object(map) => map,
        Value::Null => return Ok(()),
        _ => return Err(unwanted("an os-net-config object", value)),
    };
    match map.get("type") {
        None => return Err(PropertyError::new("an os-net-config object needs a 'type'")),
        Some(Value::String(kind)) if TYPES.contains(&kind.as_str()) => {}
        Some(Value::Null) => {}
        Some(Value::String(kind)) => {
            let near = suggestion(kind, TYPES);
            let message = format!(
                "the type '{}' is not supported by this version{near}; supported are {}",
                cut(kind),
                TYPES.join(", ")
            );
            return Err(PropertyError::new(message).within_key("type"));
        }
        Some(other) => return Err(unwanted("the name of a type", other).within_key("type")),
    }
    match map.get("members") {
        None | Some(Value::Null) => Ok(()),
        Some(members) => document(members).map_err(|error| error.within_key("members")),
    }
}
