//! Heat's types that the controller itself realises: values, random texts, test resources, nodes by name.
//!
//! Absent: types of Heat that Muster does not have (`unknown.rs`), how the controller realises these
//! (`controller/engine/src/traversal/virtual_resource.rs`), and which node a name means
//! (`controller/engine/src/node/server.rs`).

use muster_shared::NodeId;
use serde_json::Value;

use super::value::{integer, text, unwanted};
use super::{Place, Property, PropertyError, PropertyType, RenderedProperties, TypeInfo};
use crate::error::{cut, suggestion_or_all};
use crate::parameter::ParameterType;
use crate::virtual_resource::{RandomString, TestResource, TestTimes, VirtualResource};

type Read<T> = Result<T, PropertyError>;

/// Heat's bound.
const LENGTH_MAX: u64 = 512;
const LENGTH: u16 = 32;
/// Sources of a random text: more than there are kinds of characters.
const SOURCES_MAX: usize = 64;
const LETTERS_DIGITS: &str = "lettersdigits";
const CLASSES: [(&str, &str); 7] = [
    (LETTERS_DIGITS, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"),
    ("letters", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    ("lowercase", "abcdefghijklmnopqrstuvwxyz"),
    ("uppercase", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    ("digits", "0123456789"),
    ("hexdigits", "0123456789ABCDEF"),
    ("octdigits", "01234567"),
];
/// As long as a name of DNS.
const SERVER_NAME_MAX: usize = 255;
const TYPES: [ParameterType; 5] = [
    ParameterType::String,
    ParameterType::Number,
    ParameterType::Json,
    ParameterType::CommaDelimitedList,
    ParameterType::Boolean,
];

const CLASS_NAMES: [&str; 7] =
    ["lettersdigits", "letters", "lowercase", "uppercase", "digits", "hexdigits", "octdigits"];
const TYPE_NAMES: [&str; 5] = ["string", "number", "json", "comma_delimited_list", "boolean"];

pub(super) const NONE: TypeInfo = TypeInfo::new(
    "OS::Heat::None",
    "nothing, whatever its properties are; each attribute is null",
    &[],
    Place::Controller(|_| Ok(VirtualResource::None)),
)
.other_attributes("any name, which is null");

pub(super) const VALUE: TypeInfo =
    TypeInfo::new("OS::Heat::Value", "a value under a name", &VALUE_PROPERTIES, Place::Controller(value))
        .attributes(&[("value", "the value")]);

pub(super) const RANDOM: TypeInfo = TypeInfo::new(
    "OS::Heat::RandomString",
    "a random text, which stays over updates",
    &RANDOM_PROPERTIES,
    Place::Controller(random),
)
.attributes(&[("value", "the text, as get_resource has it")]);

pub(super) const TEST: TypeInfo = TypeInfo::new(
    "OS::Heat::TestResource",
    "makes nothing real: for what Heat's tests do",
    &TEST_PROPERTIES,
    Place::Controller(test),
)
.attributes(&[("output", "the property 'value'")]);

pub(super) const SERVER: TypeInfo = TypeInfo::new(
    "OS::Heat::DeployedServer",
    "a node under its name, for templates that were made for Heat",
    &SERVER_PROPERTIES,
    Place::Controller(deployed_server),
)
.attributes(&[
    ("name", "the name of the node, as get_resource has it"),
    ("os_collect_config", "an empty map: no server asks Heat for what it is to do"),
]);

static VALUE_PROPERTIES: [Property; 2] = [
    Property::optional("type", |value| value_type(value).map(drop))
        .is(PropertyType::String, "what the value is converted to, as a parameter's")
        .one_of(&TYPE_NAMES),
    Property::required("value", |_| Ok(())).is(PropertyType::Any, "the value"),
];

static RANDOM_PROPERTIES: [Property; 5] = [
    Property::optional("character_classes", |value| classes(value).map(drop))
        .is(
            PropertyType::List,
            "maps with 'class' and 'min': classes to draw from, and how many of each at least",
        )
        .replaces(),
    Property::optional("character_sequences", |value| sequences(value).map(drop))
        .is(PropertyType::List, "maps with 'sequence' and 'min': characters to draw from")
        .replaces(),
    Property::optional("length", |value| length(value).map(drop))
        .is(PropertyType::Integer, "how many characters")
        .default("32")
        .range(1, LENGTH_MAX)
        .replaces(),
    Property::optional("salt", |value| text(value).map(drop))
        .is(PropertyType::String, "means nothing: changed, it makes another text")
        .replaces(),
    Property::optional("sequence", |value| class(value).map(drop))
        .is(PropertyType::String, "one class to draw from, instead of the lists")
        .one_of(&CLASS_NAMES)
        .replaces(),
];

/// Seconds: thirty days, also for Heat's -1, an endless wait.
const WAIT_MAX: f64 = 30.0 * 86_400.0;
const ACTIONS: [&str; 3] = ["create", "update", "delete"];
const AT_ONCE: &str = "must be 0: what is known is given at once";

static TEST_PROPERTIES: [Property; 10] = [
    Property::optional("action_wait_secs", |value| times(value).map(drop))
        .is(PropertyType::Map, "how many seconds it takes to 'create', 'update' and 'delete' it"),
    Property::optional("attr_wait_secs", at_once)
        .is(PropertyType::Number, "how long an attribute takes")
        .limits(AT_ONCE),
    Property::optional("client_name", |value| text(value).map(drop))
        .is(PropertyType::String, "taken for Heat's sake: no service is asked while it waits"),
    Property::optional("constraint_prop_secs", at_once)
        .is(PropertyType::Number, "how long a constraint takes")
        .limits(AT_ONCE),
    Property::optional("entity_name", |value| text(value).map(drop))
        .is(PropertyType::String, "taken for Heat's sake: no service is asked while it waits"),
    Property::optional("fail", |value| flag(value).map(drop))
        .is(PropertyType::Boolean, "it cannot be made or changed")
        .default("false"),
    Property::optional("update_replace", |value| flag(value).map(drop))
        .is(PropertyType::Boolean, "whether any change replaces it")
        .default("false"),
    Property::optional("update_replace_value", |value| text(value).map(drop))
        .is(PropertyType::String, "a change of 'value' to this replaces it"),
    Property::optional("value", |value| text(value).map(drop))
        .is(PropertyType::String, "its output")
        .default("\"test_string\""),
    Property::optional("wait_secs", |value| wait(value).map(drop))
        .is(PropertyType::Number, "how many seconds each action takes that 'action_wait_secs' does not have")
        .default("0")
        .limits("-1: thirty days"),
];

static SERVER_PROPERTIES: [Property; 4] = [
    Property::optional("deployment_swift_data", swift_data)
        .is(PropertyType::Map, "taken for Heat's sake: what is told to a node goes by way of its agent"),
    Property::optional("metadata", |value| super::config::map(value).map(drop))
        .is(PropertyType::Map, "taken for Heat's sake: means nothing, there as here"),
    Property::required("name", |value| server_name(value).map(drop))
        .is(PropertyType::String, "the name of the node; nothing can be deployed where no node can have it")
        .replaces(),
    Property::optional("software_config_transport", |value| text(value).map(drop))
        .is(PropertyType::String, "taken for Heat's sake: what is told to a node goes by way of its agent"),
];

fn value(given: &RenderedProperties<'_>) -> Read<VirtualResource> {
    let kind = given.get("type", value_type)?;
    let value = given.get("value", |value| match (kind, value) {
        // As in Heat, only a text is taken apart; items of a list stay as they are.
        (Some(ParameterType::CommaDelimitedList), Value::Array(_)) | (None, _) => Ok(value.clone()),
        (Some(kind), _) => kind.convert(value).map_err(PropertyError::new),
    })?;
    // A property that renders to null is not among those given.
    let value = value.unwrap_or_else(|| kind.map_or(Value::Null, ParameterType::empty));
    Ok(VirtualResource::Value(value.to_string()))
}

fn value_type(value: &Value) -> Read<ParameterType> {
    let name = value.as_str().ok_or_else(|| unwanted("the name of a type", value))?;
    TYPES.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
        let near = suggestion_or_all(name, &TYPES.map(ParameterType::name));
        PropertyError::new(format!("unknown type '{}'{near}", cut(name)))
    })
}

fn random(given: &RenderedProperties<'_>) -> Read<VirtualResource> {
    let length = given.get("length", length)?.unwrap_or(LENGTH);
    let sequence = given.get("sequence", class)?;
    let mut sources = given.get("character_sequences", sequences)?.unwrap_or_default();
    sources.extend(given.get("character_classes", classes)?.unwrap_or_default());
    if sequence.is_some() && !sources.is_empty() {
        let message = "'sequence' cannot be given beside 'character_classes' or 'character_sequences'";
        return Err(PropertyError::new(message).within_key("sequence"));
    }
    if sources.is_empty() {
        sources.push((sequence.unwrap_or(CLASSES[0].1).to_owned(), 0));
    }
    let least: u64 = sources.iter().map(|(_, least)| u64::from(*least)).sum();
    if least > length.into() {
        let message = format!("the text has {length} characters, and its parts ask for {least} at least");
        return Err(PropertyError::new(message).within_key("length"));
    }
    Ok(VirtualResource::Random(RandomString { length, sources, salt: given.get("salt", text)? }))
}

fn length(value: &Value) -> Read<u16> {
    let length = integer(value, 1, LENGTH_MAX)?;
    u16::try_from(length).map_err(|_| PropertyError::new("too long"))
}

fn class(value: &Value) -> Read<&'static str> {
    let name = value.as_str().ok_or_else(|| unwanted("the name of a class of characters", value))?;
    CLASSES.iter().find(|(known, _)| *known == name).map(|(_, characters)| *characters).ok_or_else(|| {
        let near = suggestion_or_all(name, &CLASSES.map(|(name, _)| name));
        PropertyError::new(format!("unknown class of characters '{}'{near}", cut(name)))
    })
}

fn classes(value: &Value) -> Read<Vec<(String, u16)>> {
    let named = |value: &Value| {
        if let Value::Null = value { Ok(CLASSES[0].1.to_owned()) } else { class(value).map(str::to_owned) }
    };
    parts(value, "class", named)
}

fn sequences(value: &Value) -> Read<Vec<(String, u16)>> {
    let given = |value: &Value| match text(value)? {
        empty if empty.is_empty() => Err(PropertyError::new("want characters to draw from")),
        characters => Ok(characters),
    };
    parts(value, "sequence", given)
}

/// A list of maps with `key` and `min`.
fn parts(value: &Value, key: &str, read: impl Fn(&Value) -> Read<String>) -> Read<Vec<(String, u16)>> {
    let Value::Array(items) = value else { return Err(unwanted("a list", value)) };
    if items.len() > SOURCES_MAX {
        return Err(PropertyError::new(format!("at most {SOURCES_MAX} are taken")));
    }
    let part = |item: &Value| {
        let Value::Object(map) = item else { return Err(unwanted("a map", item)) };
        if let Some(other) = map.keys().find(|name| *name != key && *name != "min") {
            let near = suggestion_or_all(other, &[key, "min"]);
            return Err(PropertyError::new(format!("unknown key '{}'{near}", cut(other))));
        }
        let characters = read(map.get(key).unwrap_or(&Value::Null)).map_err(|error| error.within_key(key))?;
        let least = match map.get("min").filter(|min| !min.is_null()) {
            Some(min) => length(min).map_err(|error| error.within_key("min"))?,
            None => 1,
        };
        Ok((characters, least))
    };
    let each = |(index, item)| part(item).map_err(|error| error.within(crate::render::Step::Item(index)));
    items.iter().enumerate().map(each).collect()
}

fn test(given: &RenderedProperties<'_>) -> Read<VirtualResource> {
    let test = TestResource {
        value: given.get("value", text)?.unwrap_or_else(|| "test_string".to_owned()),
        fail: given.get("fail", flag)?.unwrap_or(false),
        update_replace: given.get("update_replace", flag)?.unwrap_or(false),
        update_replace_value: given.get("update_replace_value", text)?.unwrap_or_default(),
    };
    let each = given.get("wait_secs", wait)?.unwrap_or(0);
    let [create, update, delete] =
        given.get("action_wait_secs", times)?.unwrap_or_default().map(|time| time.unwrap_or(each));
    let times = TestTimes { create, update, delete };
    // The form from before times existed, for stored resources.
    Ok(if times == TestTimes::default() {
        VirtualResource::Test(test)
    } else {
        VirtualResource::SlowTest(test, times)
    })
}

/// Seconds as milliseconds; -1: without end.
fn wait(value: &Value) -> Read<u32> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let millis = match number {
        Some(-1.0) => WAIT_MAX * 1000.0,
        Some(number) if (0.0..=WAIT_MAX).contains(&number) => (number * 1000.0).round(),
        _ => return Err(unwanted(&format!("seconds, from 0 to {WAIT_MAX}, or -1"), value)),
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to WAIT_MAX")]
    Ok(millis as u32)
}

/// The times of `create`, `update` and `delete`.
fn times(value: &Value) -> Read<[Option<u32>; 3]> {
    let Value::Object(map) = value else { return Err(unwanted("a map", value)) };
    let mut times = [None; 3];
    for (action, value) in map {
        let Some(at) = ACTIONS.iter().position(|known| known == action) else {
            let near = suggestion_or_all(action, &ACTIONS);
            return Err(PropertyError::new(format!("unknown action '{}'{near}", cut(action))));
        };
        if !value.is_null() {
            times[at] = Some(wait(value).map_err(|error| error.within_key(ACTIONS[at]))?);
        }
    }
    Ok(times)
}

fn at_once(value: &Value) -> Read<()> {
    let nothing = match value {
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.trim() == "0",
        Value::Null => true,
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    };
    if nothing { Ok(()) } else { Err(PropertyError::new(AT_ONCE)) }
}

fn flag(value: &Value) -> Read<bool> {
    match ParameterType::Boolean.convert(value) {
        Ok(flag) => Ok(flag == Value::Bool(true)),
        Err(message) => Err(PropertyError::new(message)),
    }
}

fn deployed_server(given: &RenderedProperties<'_>) -> Read<VirtualResource> {
    let name = given.required("name", server_name)?;
    Ok(match name.parse::<NodeId>() {
        Ok(node) => VirtualResource::Server(node),
        Err(_) => VirtualResource::Stranger(name),
    })
}

/// As Heat, which takes any name: one that no node can have matters where something is deployed.
fn server_name(value: &Value) -> Read<String> {
    let Value::String(name) = value else { return Err(unwanted("the name of a node", value)) };
    let length = name.chars().count();
    if length == 0 || length > SERVER_NAME_MAX || name.contains(char::is_control) {
        let message = format!(
            "a server's name has 1 to {SERVER_NAME_MAX} characters, none of them a control character"
        );
        return Err(PropertyError::new(message));
    }
    Ok(name.clone())
}

fn swift_data(value: &Value) -> Read<()> {
    let known = ["container", "object"];
    for (key, value) in super::config::map(value)? {
        if !known.contains(&key.as_str()) {
            let near = suggestion_or_all(key, &known);
            return Err(PropertyError::new(format!("unknown key '{}'{near}", cut(key))));
        }
        text(value).map_err(|error| error.within_key(key))?;
    }
    Ok(())
}
