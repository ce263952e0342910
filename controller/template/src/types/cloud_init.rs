//! `OS::Heat::CloudConfig` and `OS::Heat::MultipartMime`: what cloud-init would do on a server that boots for the first
//! time. Servers here are installed, so both have an id that templates hand around, and nothing runs.
//!
//! Absent: the config itself (`controller/template/src/config.rs`).

use serde_json::{Map, Value};

use super::config::map;
use super::value::{text, unwanted};
use super::{Place, Property, PropertyError, PropertyType, RenderedProperties, TypeInfo};
use crate::config::{ConfigBody, ConfigGroup, SoftwareConfig};
use crate::error::{cut, suggestion_or_all};
use crate::render::Step;
use crate::virtual_resource::VirtualResource;

type Read<T> = Result<T, PropertyError>;

const PART_KEYS: [&str; 4] = ["config", "filename", "subtype", "type"];
const PART_TYPES: [&str; 2] = ["text", "multipart"];

pub(super) const CLOUD_CONFIG: TypeInfo = TypeInfo::new(
    "OS::Heat::CloudConfig",
    "what cloud-init would do on a new server: an id, and nothing runs",
    &CLOUD_CONFIG_PROPERTIES,
    Place::Controller(cloud_config),
)
.attributes(&[("config", "the property 'cloud_config' as text for cloud-init")]);

pub(super) const MULTIPART: TypeInfo = TypeInfo::new(
    "OS::Heat::MultipartMime",
    "several configs for cloud-init on a new server: an id, and nothing runs",
    &MULTIPART_PROPERTIES,
    Place::Controller(multipart),
);

static CLOUD_CONFIG_PROPERTIES: [Property; 1] =
    [Property::optional("cloud_config", |value| map(value).map(drop))
        .is(PropertyType::Map, "what cloud-init reads")];

static MULTIPART_PROPERTIES: [Property; 2] = [
    Property::optional("group", |value| text(value).map(drop))
        .is(PropertyType::String, "taken for Heat's sake: means nothing here"),
    Property::optional("parts", |value| parts(value).map(drop))
        .is(PropertyType::List, "maps with config (a text or a config's id), type, subtype, filename"),
];

fn cloud_config(given: &RenderedProperties<'_>) -> Read<VirtualResource> {
    let config = given.get("cloud_config", |value| map(value).cloned())?.unwrap_or_default();
    // JSON is YAML.
    Ok(inert(format!("#cloud-config\n{}\n", Value::Object(config))))
}

fn multipart(given: &RenderedProperties<'_>) -> Read<VirtualResource> {
    let parts = given.get("parts", parts)?.unwrap_or_default();
    Ok(inert(Value::from(parts).to_string()))
}

/// A config that is kept and shown.
fn inert(text: String) -> VirtualResource {
    VirtualResource::Config(SoftwareConfig {
        body: ConfigBody::Text(ConfigGroup::ApplyConfig, text),
        inputs: Vec::new(),
        outputs: Vec::new(),
        options: None,
    })
}

fn parts(value: &Value) -> Read<Vec<Value>> {
    let Value::Array(items) = value else { return Err(unwanted("a list of maps", value)) };
    // Null stands for an unknown value.
    let known = items.iter().enumerate().filter(|(_, item)| !item.is_null());
    known.map(|(index, item)| part(item).map_err(|error| error.within(Step::Item(index)))).collect()
}

fn part(item: &Value) -> Read<Value> {
    let given = map(item)?;
    if let Some(other) = given.keys().find(|key| !PART_KEYS.contains(&key.as_str())) {
        let near = suggestion_or_all(other, &PART_KEYS);
        return Err(PropertyError::new(format!("unknown key '{}'{near}", cut(other))));
    }
    if !given.contains_key("config") {
        return Err(PropertyError::new("needs a 'config'"));
    }
    for (key, value) in given.iter().filter(|(_, value)| !value.is_null()) {
        let text = text(value).map_err(|error| error.within_key(key))?;
        if key == "type" && !PART_TYPES.contains(&text.as_str()) {
            let near = suggestion_or_all(&text, &PART_TYPES);
            return Err(PropertyError::new(format!("unknown type '{}'{near}", cut(&text))).within_key(key));
        }
    }
    Ok(Value::Object(Map::clone(given)))
}
