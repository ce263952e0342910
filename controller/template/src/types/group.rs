//! `OS::Heat::ResourceGroup` and `OS::Heat::ResourceChain`: properties as they are written. What they come to is the
//! tree's to find out.

use serde_json::Value;

use super::value::{integer, text, unwanted};
use super::{Property, PropertyError, PropertyType};
use crate::Limits;
use crate::parameter::ParameterType;

const MODES: [&str; 2] = ["append", "update"];

pub(super) static GROUP_PROPERTIES: [Property; 5] = [
    Property::optional("count", |value| integer(value, 0, Limits::COUNT).map(drop))
        .is(PropertyType::Integer, "how many members there are")
        .default("1")
        .range(0, Limits::COUNT),
    Property::optional("index_var", |value| text(value).map(drop))
        .is(PropertyType::String, "what stands for a member's name in the texts of its properties")
        .default("\"%index%\"")
        .limits("at least three characters"),
    Property::optional("removal_policies", list).is(
        PropertyType::List,
        "maps with a 'resource_list': members to be removed, by name or by reference",
    ),
    Property::optional("removal_policies_mode", mode)
        .is(PropertyType::String, "whether names that were removed before stay so")
        .default("\"append\"")
        .one_of(&MODES),
    Property::required("resource_def", map)
        .is(PropertyType::Map, "what each member is: 'type', 'properties' and 'metadata'"),
];

pub(super) static CHAIN_PROPERTIES: [Property; 3] = [
    Property::optional("concurrent", flag)
        .is(PropertyType::Boolean, "all at once, and not each after the one before")
        .default("false"),
    Property::optional("resource_properties", map).is(PropertyType::Map, "the properties of each"),
    Property::required("resources", list).is(PropertyType::List, "the types, in order"),
];

fn flag(value: &Value) -> Result<(), PropertyError> {
    ParameterType::Boolean.convert(value).map(drop).map_err(PropertyError::new)
}

fn mode(value: &Value) -> Result<(), PropertyError> {
    match value.as_str() {
        Some(mode) if MODES.contains(&mode) => Ok(()),
        _ => Err(unwanted("append or update", value)),
    }
}

fn list(value: &Value) -> Result<(), PropertyError> {
    if value.is_array() { Ok(()) } else { Err(unwanted("a list", value)) }
}

fn map(value: &Value) -> Result<(), PropertyError> {
    if value.is_object() { Ok(()) } else { Err(unwanted("a map", value)) }
}
