//! `Muster::Sysctl`: a setting of the kernel.

use muster_shared::model::{Sysctl, SysctlError, check_sysctl_key};
use serde_json::Value;

use super::value::{check_node, check_on_delete, on_delete, text, unwanted};
use super::{Given, Property, PropertyError, PropertyType};
use crate::error::cut;

pub(super) static PROPERTIES: [Property; 4] = [
    Property::required("key", |value| key(value).map(drop))
        .is(PropertyType::String, "its name, with dots; a dot within a part is '/'")
        .replaces(),
    Property::required("node", check_node).is(PropertyType::String, "the node it is on").replaces(),
    Property::optional("on_delete", check_on_delete)
        .is(PropertyType::String, "what a delete leaves: what was there before, or what is there")
        .default("\"restore\"")
        .one_of(&["restore", "keep"]),
    Property::required("value", |value| text(value).map(drop))
        .is(PropertyType::String, "what the kernel has now and from boot on"),
];

pub(super) fn spec(given: &Given<'_>) -> Result<Sysctl, PropertyError> {
    let sysctl = Sysctl {
        key: given.required("key", key)?,
        value: given.required("value", text)?,
        on_delete: given.get("on_delete", on_delete)?.unwrap_or_default(),
    };
    sysctl.check().map_err(|error: SysctlError| PropertyError::new(error.to_string()))?;
    Ok(sysctl)
}

fn key(value: &Value) -> Result<String, PropertyError> {
    let Value::String(key) = value else { return Err(unwanted("the name of a setting", value)) };
    match check_sysctl_key(key) {
        Ok(()) => Ok(key.clone()),
        Err(error) => Err(PropertyError::new(format!("'{}': {error}", cut(key)))),
    }
}
