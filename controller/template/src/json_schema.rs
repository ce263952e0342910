//! The schema of templates as JSON Schema, for editors. Sections, keys, types, properties and functions are those of the
//! tables that templates are read with, so a new one appears by itself.
//!
//! Absent: what environments map, which version of HOT has a feature, which names there are, and the arguments of
//! functions. An editor shows no error there; `muster stack validate` does.

mod about;
mod property;
mod resource;

use muster_shared::model::network::NetworkDocument;
use serde_json::{Map, Value, json};

use crate::function_list::{Function, functions};
use crate::parameter::{self, ParameterType};
use crate::parse::{OUTPUT_KEYS, SECTIONS};
use crate::types::Kind;
use crate::version::Version;
use crate::{Limits, parameter_groups};

/// A number, also written as text.
const NUMBER: &str = r"^\s*[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?\s*$";

/// The JSON Schema (draft 2020-12) of a template.
pub fn template_schema() -> Value {
    let mut schema = map_of("template", &SECTIONS, section);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Muster template");
    schema["required"] = json!(["heat_template_version"]);
    schema["$defs"] = Value::Object(definitions());
    schema
}

fn definitions() -> Map<String, Value> {
    let mut all = NetworkDocument::json_definitions(Some(reference("function")));
    let own = [
        ("condition", condition()),
        ("function", function(|function| function.since)),
        ("output", output()),
        ("parameter", parameter()),
        ("resource", resource::resource()),
    ];
    all.extend(own.map(|(name, schema)| (name.to_owned(), schema)));
    all.extend(Kind::ALL.map(|kind| (kind.name().to_owned(), property::properties(kind))));
    all
}

fn section(name: &str) -> Value {
    match name {
        "heat_template_version" => json!({"enum": Version::names()}),
        "description" => text(),
        "parameters" => named("parameter"),
        "parameter_groups" => {
            let mut group = map_of("group", &parameter_groups::KEYS, |key| match key {
                "parameters" => json!({"type": "array", "items": {"type": ["string", "number"]}}),
                _ => text(),
            });
            group["required"] = json!(["parameters"]);
            json!({"type": ["array", "null"], "items": group})
        }
        "conditions" => named("condition"),
        "resources" => {
            let mut resources = named("resource");
            resources["propertyNames"] = json!({"pattern": "^[^/\\[\\]]+$", "maxLength": Limits::NAME});
            resources
        }
        "outputs" => named("output"),
        _ => json!({}),
    }
}

fn parameter() -> Value {
    let mut parameter = map_of("parameter", &parameter::KEYS, |key| match key {
        "type" => json!({"enum": parameter::TYPES.map(|(name, _)| name)}),
        "description" | "label" => scalar(),
        "hidden" | "immutable" => boolean(),
        "tags" => json!({"type": "array", "items": {"type": "string"}}),
        "constraints" => json!({"type": ["array", "null"], "items": constraint()}),
        _ => json!({}),
    });
    parameter["required"] = json!(["type"]);
    parameter
}

fn constraint() -> Value {
    let number = || json!({"type": ["number", "string", "null"], "pattern": NUMBER});
    let bounds = |keys: [&str; 2]| map_of("constraint", &keys, |_| number());
    let keys: Vec<&str> = parameter::RULES.into_iter().chain(["description"]).collect();
    map_of("constraint", &keys, |key| match key {
        "length" | "range" => bounds(["min", "max"]),
        "modulo" => bounds(["step", "offset"]),
        "allowed_values" => json!({"type": "array"}),
        "allowed_pattern" => json!({"type": "string"}),
        "custom_constraint" => json!({"enum": parameter::custom_constraints()}),
        "description" => text(),
        _ => json!({}),
    })
}

fn output() -> Value {
    let mut output = map_of("output", &OUTPUT_KEYS, |key| match key {
        "description" => text(),
        "condition" => reference("condition"),
        _ => json!({}),
    });
    output["required"] = json!(["value"]);
    output
}

/// A condition's name, true, false or a function; null where there need be none.
fn condition() -> Value {
    let function = function(|function| function.in_conditions);
    json!({"anyOf": [{"type": ["string", "boolean"]}, function]})
}

/// A function that has a version here, or null: both may stand for any value of a property.
fn function(since: fn(&Function) -> Option<Version>) -> Value {
    let one = |function: &Function| {
        let since = since(function)?;
        let about = format!("{}: {}; since {since}", function.syntax, function.meaning);
        Some((function.name.to_owned(), json!({ "description": about })))
    };
    json!({
        "description": "a function",
        "type": ["object", "null"],
        "properties": functions().iter().filter_map(one).collect::<Map<_, _>>(),
        "additionalProperties": false,
        "minProperties": 1,
        "maxProperties": 1,
    })
}

/// A map with these keys alone, each described.
fn map_of(owner: &str, keys: &[&str], schema: impl Fn(&str) -> Value) -> Value {
    let entry = |key: &&str| ((*key).to_owned(), described(about::of(owner, key), schema(key)));
    json!({
        "description": about::of(owner, ""),
        "type": "object",
        "properties": keys.iter().map(entry).collect::<Map<_, _>>(),
        "additionalProperties": false,
    })
}

/// A map of entries with names of the template's own.
fn named(definition: &str) -> Value {
    json!({"type": ["object", "null"], "additionalProperties": reference(definition)})
}

fn reference(definition: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{definition}") })
}

/// The schema, or a function of the template.
fn or_function(schema: Value) -> Value {
    json!({"anyOf": [schema, reference("function")]})
}

fn described(about: &str, mut schema: Value) -> Value {
    // Until the draft of 2019 a reference had no other keys beside it.
    if schema.get("$ref").is_some() {
        schema = json!({"allOf": [schema]});
    }
    schema["description"] = json!(about);
    schema
}

fn text() -> Value {
    json!({"type": ["string", "number", "null"]})
}

fn scalar() -> Value {
    json!({"type": ["string", "number", "boolean", "null"]})
}

fn boolean() -> Value {
    let words = boolean_words(|value| ParameterType::Boolean.convert(value).is_ok());
    json!({"type": ["boolean", "string", "number"], "pattern": words})
}

/// A pattern of the words that are taken as true or false, in upper and lower case. It fits no word if none is taken.
fn boolean_words(is_taken: impl Fn(&Value) -> bool) -> String {
    let either = |c: char| match c.is_ascii_alphabetic() {
        true => format!("[{}{c}]", c.to_ascii_uppercase()),
        false => c.to_string(),
    };
    let words = ["true", "false", "yes", "no", "on", "off", "t", "f", "y", "n", "1", "0"];
    let taken = words.into_iter().filter(|word| is_taken(&json!(word)));
    let patterns: Vec<String> = taken.map(|word| word.chars().map(either).collect()).collect();
    format!("^({})$", patterns.join("|"))
}
