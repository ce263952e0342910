//! `Muster::Hostname`: the name that a node's kernel and `/etc/hostname` have.

use muster_shared::model::{Hostname, check_hostname};
use serde_json::Value;

use super::value::{CONFIRM_TIMEOUT, check_node, check_on_delete, confirm_timeout, on_delete, unwanted};
use super::{Given, Property, PropertyError};
use crate::error::cut;

pub(super) static PROPERTIES: [Property; 4] = [
    Property::optional("confirm_timeout", |value| confirm_timeout(value).map(drop)),
    Property::required("hostname", |value| hostname(value).map(drop)),
    Property::required("node", check_node),
    Property::optional("on_delete", check_on_delete),
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
