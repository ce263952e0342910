//! `OS::Heat::ResourceGroup` and `OS::Heat::ResourceChain`: properties as they are written. What they come to is the
//! tree's to find out.

use serde_json::Value;

use super::value::{integer, text, unwanted};
use super::{Property, PropertyError};
use crate::Limits;

pub(super) static GROUP_PROPERTIES: [Property; 5] = [
    Property::optional("count", |value| integer(value, 0, Limits::COUNT).map(drop)),
    Property::optional("index_var", |value| text(value).map(drop)),
    Property::optional("removal_policies", list),
    Property::optional("removal_policies_mode", |value| text(value).map(drop)),
    Property::required("resource_def", map),
];

pub(super) static CHAIN_PROPERTIES: [Property; 3] = [
    Property::optional("concurrent", |_| Ok(())),
    Property::optional("resource_properties", map),
    Property::required("resources", list),
];

fn list(value: &Value) -> Result<(), PropertyError> {
    if value.is_array() { Ok(()) } else { Err(unwanted("a list", value)) }
}

fn map(value: &Value) -> Result<(), PropertyError> {
    if value.is_object() { Ok(()) } else { Err(unwanted("a map", value)) }
}
