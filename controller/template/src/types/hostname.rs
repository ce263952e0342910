//! `Muster::Hostname`: the name that a node's kernel and `/etc/hostname` have.

use muster_shared::model::{Hostname, check_hostname};
use serde_json::Value;

use super::value::{
    CONFIRM_TIMEOUT, CONFIRM_TIMEOUT_MAX, check_node, check_on_delete, confirm_timeout, on_delete, unwanted,
};
use super::{Given, Property, PropertyError, PropertyType};
use crate::error::cut;

pub(super) static PROPERTIES: [Property; 4] = [
    Property::optional("confirm_timeout", |value| confirm_timeout(value).map(drop))
        .is(
            PropertyType::Integer,
            "seconds to reach the controller anew after a change; else it is taken back",
        )
        .default("120")
        .range(1, CONFIRM_TIMEOUT_MAX),
    Property::required("hostname", |value| hostname(value).map(drop))
        .is(PropertyType::String, "the name, short or fully qualified")
        .limits("labels of letters, digits and '-' with dots between them, 64 characters at most"),
    Property::required("node", check_node).is(PropertyType::String, "the node it is on").replaces(),
    Property::optional("on_delete", check_on_delete)
        .is(PropertyType::String, "what a delete leaves: what was there before, or what is there")
        .default("\"restore\"")
        .one_of(&["restore", "keep"]),
];

pub(super) fn spec(given: &Given<'_>) -> Result<Hostname, PropertyError> {
    Ok(Hostname {
        hostname: given.required("hostname", hostname)?,
        confirm_timeout: given.get("confirm_timeout", confirm_timeout)?.unwrap_or(CONFIRM_TIMEOUT),
        on_delete: given.get("on_delete", on_delete)?.unwrap_or_default(),
    })
}

/// A number is refused: YAML reads `010` and `1e3` as one, and the name would be another.
fn hostname(value: &Value) -> Result<String, PropertyError> {
    let Value::String(name) = value else { return Err(unwanted("a host name", value)) };
    match check_hostname(name) {
        Ok(()) => Ok(name.clone()),
        Err(why) => Err(PropertyError::new(format!("the host name '{}' {why}", cut(name)))),
    }
}
