//! `OS::Heat::ResourceGroup` and `OS::Heat::ResourceChain`: properties as written.
//!
//! Absent: the members and their batches (`tree/group_members.rs`).

use serde_json::Value;

use super::value::{integer, text, unwanted};
use super::{Place, Property, PropertyError, PropertyType, TypeInfo};
use crate::Limits;
use crate::parameter::ParameterType;

const MODES: [&str; 2] = ["append", "update"];

pub(super) const GROUP: TypeInfo = TypeInfo::new(
    "OS::Heat::ResourceGroup",
    "many resources of one definition",
    &GROUP_PROPERTIES,
    Place::Whole,
)
.other_attributes(
    "refs, refs_map, removed_rsrc_list, attributes (with the name of one), resource.NAME or \
     resource.NAME.ATTRIBUTE of a member, and any other name: the list of that of all members",
);

pub(super) const CHAIN: TypeInfo = TypeInfo::new(
    "OS::Heat::ResourceChain",
    "one resource of each type of a list, with the same properties",
    &CHAIN_PROPERTIES,
    Place::Whole,
)
.other_attributes(
    "refs, refs_map, attributes (with the name of one), resource.NAME or resource.NAME.ATTRIBUTE of a \
     member, and any other name: the list of that of all members",
);

/// A nested template, or an environment's mapping of a type: the resource names it. This is its name where
/// only the kind is known.
pub(super) const NESTED: TypeInfo =
    TypeInfo::new("a template", "another template, as a stack in this one", &[], Place::Whole)
        .other_attributes(
            "each output, outputs, and resource.NAME or resource.NAME.ATTRIBUTE of what is in it",
        );

/// The members that a `for_each` makes of one resource; no type in templates.
pub(super) const SET: TypeInfo =
    TypeInfo::new("for_each", "one resource for each node that a selector means", &[], Place::Whole)
        .other_attributes("those of its members");

static GROUP_PROPERTIES: [Property; 5] = [
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

static CHAIN_PROPERTIES: [Property; 3] = [
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
