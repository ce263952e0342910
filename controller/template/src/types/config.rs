//! `OS::Heat::SoftwareConfig`, `OS::Heat::StructuredConfig` and `OS::Heat::SoftwareComponent`: their properties.
//!
//! Absent: the config itself (`controller/template/src/config.rs`), and its inputs and steps on a node
//! (`deployment.rs`).

use std::collections::BTreeMap;

use muster_shared::model::{DeploymentOutput, INPUT_TYPE};
use serde_json::{Map, Value};

use super::value::{text, unwanted};
use super::{Place, Property, PropertyError, PropertyType, RenderedProperties, TypeInfo};
use crate::config::{ComponentPart, ConfigAction, ConfigBody, ConfigGroup, ConfigInput, SoftwareConfig};
use crate::error::{cut, suggestion_or_all};
use crate::parameter::ParameterType;
use crate::render::Step;
use crate::virtual_resource::VirtualResource;

type Read<T> = Result<T, PropertyError>;

const INPUT_KEYS: [&str; 5] = ["default", "description", "name", "replace_on_change", "type"];
const OUTPUT_KEYS: [&str; 4] = ["description", "error_output", "name", "type"];
const PART_KEYS: [&str; 3] = ["actions", "config", "tool"];
/// Types of inputs and outputs; as in Heat. Hooks alone are told them.
const TYPES: [&str; 5] = ["Boolean", "CommaDelimitedList", "Json", "Number", "String"];

const GROUPS: &str = "what takes the config on the node: script, apply-config, json-file, os-net-config, or a hook of the \
     server, such as ansible or puppet";
const GROUP: Property = Property::optional("group", |value| group(value).map(drop))
    .is(PropertyType::String, GROUPS)
    .default("\"Heat::Ungrouped\"");
/// A script is a text.
const DOCUMENT_GROUP: Property = Property::optional("group", |value| document_group(value).map(drop))
    .is(PropertyType::String, GROUPS)
    .default("\"Heat::Ungrouped\"");
const INPUTS: Property = Property::optional("inputs", |value| inputs(value).map(drop))
    .is(PropertyType::List, "maps with name, type, default, description, replace_on_change");
const OUTPUTS: Property = Property::optional("outputs", |value| outputs(value).map(drop))
    .is(PropertyType::List, "maps with name, type, description, error_output");
const OPTIONS: Property = Property::optional("options", |value| map(value).map(drop))
    .is(PropertyType::Map, "for hooks: what their group's tool is told besides the config");

pub(super) const SOFTWARE: TypeInfo = TypeInfo::new(
    "OS::Heat::SoftwareConfig",
    "what deployments do: a script, or a document as text",
    &SOFTWARE_PROPERTIES,
    Place::Controller(|given| software(given).map(VirtualResource::Config)),
)
.attributes(&CONFIG_ATTRIBUTES);

pub(super) const STRUCTURED: TypeInfo = TypeInfo::new(
    "OS::Heat::StructuredConfig",
    "what deployments do: a document",
    &STRUCTURED_PROPERTIES,
    Place::Controller(|given| structured(given).map(VirtualResource::Config)),
)
.attributes(&CONFIG_ATTRIBUTES);

pub(super) const COMPONENT: TypeInfo = TypeInfo::new(
    "OS::Heat::SoftwareComponent",
    "what deployments do, for each action apart",
    &COMPONENT_PROPERTIES,
    Place::Controller(|given| component(given).map(VirtualResource::Config)),
)
.attributes(&CONFIG_ATTRIBUTES);

static CONFIG_ATTRIBUTES: [(&str, &str); 1] =
    [("config", "the property 'config'; of a component a map with 'configs'")];

static SOFTWARE_PROPERTIES: [Property; 5] = [
    Property::optional("config", |value| text(value).map(drop))
        .is(PropertyType::String, "a script, or a document as JSON"),
    GROUP,
    INPUTS,
    OPTIONS,
    OUTPUTS,
];

static STRUCTURED_PROPERTIES: [Property; 5] = [
    Property::optional("config", |value| document(value).map(drop))
        .is(PropertyType::Map, "a document; {get_input: NAME} in it is what a structured deployment gives"),
    DOCUMENT_GROUP,
    INPUTS,
    OPTIONS,
    OUTPUTS,
];

static COMPONENT_PROPERTIES: [Property; 4] = [
    Property::required("configs", |value| parts(value).map(drop))
        .is(PropertyType::List, "maps with actions, tool and config"),
    INPUTS,
    OPTIONS,
    OUTPUTS,
];

fn software(given: &RenderedProperties<'_>) -> Read<SoftwareConfig> {
    let group = given.get("group", group)?.unwrap_or(ConfigGroup::ApplyConfig);
    let config = given.get("config", text)?.unwrap_or_default();
    whole(given, ConfigBody::Text(group, config))
}

fn structured(given: &RenderedProperties<'_>) -> Read<SoftwareConfig> {
    let group = given.get("group", document_group)?.unwrap_or(ConfigGroup::ApplyConfig);
    let config = given.get("config", document)?.unwrap_or_else(|| Value::Object(Map::new()));
    whole(given, ConfigBody::Structured(group, config.to_string()))
}

fn component(given: &RenderedProperties<'_>) -> Read<SoftwareConfig> {
    let parts = given.required("configs", parts)?;
    whole(given, ConfigBody::Component(parts))
}

fn whole(given: &RenderedProperties<'_>, mut body: ConfigBody) -> Read<SoftwareConfig> {
    let types = given.get("inputs", types)?.unwrap_or_default();
    match &mut body {
        ConfigBody::Text(group, _) | ConfigBody::Structured(group, _) => typed(group, &types),
        ConfigBody::Component(parts) => parts.iter_mut().for_each(|part| typed(&mut part.tool, &types)),
    }
    Ok(SoftwareConfig {
        body,
        inputs: given.get("inputs", inputs)?.unwrap_or_default(),
        outputs: given.get("outputs", outputs)?.unwrap_or_default(),
        options: given.get("options", |value| map(value).map(|_| value.to_string()))?,
    })
}

fn group(value: &Value) -> Read<ConfigGroup> {
    let name = value.as_str().ok_or_else(|| unwanted("the name of a group", value))?;
    Ok(ConfigGroup::of_name(name))
}

/// A hook is told the types of its inputs, which other groups need not know.
fn typed(group: &mut ConfigGroup, types: &BTreeMap<String, String>) {
    if let ConfigGroup::Hook(hook) = group {
        hook.types.clone_from(types);
    }
}

fn document_group(value: &Value) -> Read<ConfigGroup> {
    match group(value)? {
        ConfigGroup::Script => Err(PropertyError::new("a script is text: take an OS::Heat::SoftwareConfig")),
        group @ (ConfigGroup::ApplyConfig
        | ConfigGroup::JsonFile
        | ConfigGroup::OsNetConfig
        | ConfigGroup::Hook(_)) => Ok(group),
    }
}

pub(super) fn map(value: &Value) -> Read<&Map<String, Value>> {
    value.as_object().ok_or_else(|| unwanted("a map", value))
}

/// A list too: os-net-config's objects.
fn document(value: &Value) -> Read<Value> {
    if value.is_object() || value.is_array() { Ok(value.clone()) } else { Err(unwanted("a map", value)) }
}

fn each<T>(value: &Value, read: impl Fn(&Map<String, Value>) -> Read<T>) -> Read<Vec<T>> {
    let Value::Array(items) = value else { return Err(unwanted("a list of maps", value)) };
    let one = |(index, item): (usize, &Value)| {
        map(item).and_then(&read).map_err(|error| error.within(Step::Item(index)))
    };
    // Null stands for an unknown value.
    items.iter().enumerate().filter(|(_, item)| !item.is_null()).map(one).collect()
}

fn known_keys(map: &Map<String, Value>, known: &[&str]) -> Read<()> {
    match map.keys().find(|key| !known.contains(&key.as_str())) {
        Some(other) => {
            let near = suggestion_or_all(other, known);
            Err(PropertyError::new(format!("unknown key '{}'{near}", cut(other))))
        }
        None => Ok(()),
    }
}

fn named(map: &Map<String, Value>) -> Read<String> {
    match map.get("name") {
        Some(Value::Null) => Ok(String::new()),
        Some(name) => text(name).map_err(|error| error.within_key("name")),
        None => Err(PropertyError::new("needs a 'name'")),
    }
}

fn flag(map: &Map<String, Value>, key: &str) -> Read<bool> {
    let Some(value) = map.get(key).filter(|value| !value.is_null()) else { return Ok(false) };
    match ParameterType::Boolean.convert(value) {
        Ok(flag) => Ok(flag == Value::Bool(true)),
        Err(message) => Err(PropertyError::new(message).within_key(key)),
    }
}

fn known_type(map: &Map<String, Value>) -> Read<()> {
    let Some(value) = map.get("type").filter(|value| !value.is_null()) else { return Ok(()) };
    let name = value.as_str().filter(|name| TYPES.contains(name));
    name.map(drop).ok_or_else(|| {
        let near = suggestion_or_all(value.as_str().unwrap_or_default(), &TYPES);
        PropertyError::new(format!("unknown type{near}")).within_key("type")
    })
}

fn inputs(value: &Value) -> Read<Vec<ConfigInput>> {
    each(value, |map| {
        known_keys(map, &INPUT_KEYS)?;
        known_type(map)?;
        Ok(ConfigInput {
            name: named(map)?,
            default: map.get("default").filter(|value| !value.is_null()).map(Value::to_string),
            replace_on_change: flag(map, "replace_on_change")?,
        })
    })
}

/// The inputs' types but for the default one.
fn types(value: &Value) -> Read<BTreeMap<String, String>> {
    let each =
        each(value, |map| Ok((named(map)?, map.get("type").and_then(Value::as_str).map(str::to_owned))))?;
    let typed =
        each.into_iter().filter_map(|(name, kind)| Some((name, kind.filter(|kind| kind != INPUT_TYPE)?)));
    Ok(typed.collect())
}

fn outputs(value: &Value) -> Read<Vec<DeploymentOutput>> {
    each(value, |map| {
        known_keys(map, &OUTPUT_KEYS)?;
        known_type(map)?;
        Ok(DeploymentOutput { name: named(map)?, error_output: flag(map, "error_output")? })
    })
}

fn parts(value: &Value) -> Read<Vec<ComponentPart>> {
    each(value, |map| {
        known_keys(map, &PART_KEYS)?;
        let key = |name: &str| map.get(name).filter(|value| !value.is_null());
        let tool = match key("tool") {
            Some(value) => group(value).map_err(|error| error.within_key("tool"))?,
            None => return Err(PropertyError::new("needs a 'tool'")),
        };
        if tool == ConfigGroup::OsNetConfig {
            let message = "os-net-config is no tool of a component: take an OS::Heat::SoftwareConfig";
            return Err(PropertyError::new(message).within_key("tool"));
        }
        let actions = match key("actions") {
            Some(value) => actions(value).map_err(|error| error.within_key("actions"))?,
            None => vec![ConfigAction::Create, ConfigAction::Update],
        };
        let config = key("config").map_or_else(|| Ok(String::new()), text);
        Ok(ComponentPart { actions, tool, config: config.map_err(|error| error.within_key("config"))? })
    })
}

/// A list of Heat's actions, each once.
pub(super) fn actions(value: &Value) -> Read<Vec<ConfigAction>> {
    let Value::Array(items) = value else { return Err(unwanted("a list of actions", value)) };
    let one = |(index, item): (usize, &Value)| {
        let name = item.as_str().unwrap_or_default();
        ConfigAction::ALL.into_iter().find(|action| action.name() == name).ok_or_else(|| {
            let near = suggestion_or_all(name, &ConfigAction::NAMES);
            PropertyError::new(format!("unknown action '{}'{near}", cut(name))).within(Step::Item(index))
        })
    };
    let known = items.iter().enumerate().filter(|(_, item)| !item.is_null());
    let mut actions = known.map(one).collect::<Read<Vec<_>>>()?;
    actions.sort_unstable();
    actions.dedup();
    Ok(actions)
}
