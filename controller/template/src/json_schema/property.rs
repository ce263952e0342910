//! The properties of a type. What a value may be follows from the property's own entry in its type's table, and from its
//! check where the entry does not say it.

use serde_json::{Map, Value, json};

use super::{NUMBER, boolean_words, or_function, reference};
use crate::types::{Constraint, FORMER_PROPERTIES, Kind, Property, PropertyType};

/// An integer, also written as text.
const INTEGER: &str = r"^\s*[-+]?(0x[0-9A-Fa-f]+|[0-9]+)\s*$";

/// The map of properties of a type.
pub(super) fn properties(kind: Kind) -> Value {
    let each = |it: &Property| (it.name.to_owned(), property(kind, it));
    let former = FORMER_PROPERTIES.iter().filter(|(of, ..)| *of == kind);
    let former = former.filter_map(|(_, former, name)| {
        let today = kind.properties().iter().find(|it| it.name == *name)?;
        Some(((*former).to_owned(), property(kind, today)))
    });
    let mut schema = json!({
        "description": kind.about(),
        "type": ["object", "null"],
        "properties": kind.properties().iter().map(each).chain(former).collect::<Map<_, _>>(),
    });
    // Some types take any property, even one without a name.
    if kind.property("").is_err() {
        schema["additionalProperties"] = json!(false);
    }
    schema
}

fn property(kind: Kind, property: &Property) -> Value {
    let value = match (kind, property.name) {
        (Kind::NetworkConfig, "network_config") => reference("network_document"),
        (Kind::NetworkConfig, "fallback_config") => reference("network_objects"),
        _ => value(property),
    };
    let mut schema = or_function(value);
    schema["description"] = json!(description(property));
    if let Some(default) = property.default_value() {
        schema["default"] = default;
    }
    schema
}

/// The schema of the values that the property takes.
fn value(property: &Property) -> Value {
    let is_taken = |value: &Value| (property.check)(value).is_ok();
    if let Constraint::OneOf(words) = property.constraint {
        return json!({ "enum": words.iter().flat_map(|word| spellings(word, is_taken)).collect::<Vec<_>>() });
    }
    let mut schema = match property.kind {
        PropertyType::Any => return json!({}),
        // Scalars become text.
        PropertyType::String => json!({"type": ["string", "number", "boolean"]}),
        PropertyType::Integer => json!({"type": ["integer", "string"], "pattern": INTEGER}),
        PropertyType::Number => json!({"type": ["number", "string"], "pattern": NUMBER}),
        PropertyType::Boolean => {
            let types: &[&str] =
                if is_taken(&json!(1)) { &["boolean", "string", "number"] } else { &["boolean", "string"] };
            json!({"type": types, "pattern": boolean_words(is_taken)})
        }
        PropertyType::List | PropertyType::Map => {
            let empty = [("array", json!([])), ("object", json!({})), ("string", json!(""))];
            let own = if property.kind == PropertyType::List { "array" } else { "object" };
            let types = empty.iter().filter(|(name, empty)| *name == own || is_taken(empty));
            json!({"type": types.map(|(name, _)| *name).collect::<Vec<_>>()})
        }
    };
    if let Constraint::Range(least, most) = property.constraint {
        schema["minimum"] = json!(least);
        schema["maximum"] = json!(most);
    }
    schema
}

/// A word, and what YAML makes of it without quotes if the property takes that as well.
fn spellings(word: &str, is_taken: impl Fn(&Value) -> bool) -> impl Iterator<Item = Value> {
    let plain: Option<Value> = serde_json::from_str(word).ok().filter(is_taken);
    std::iter::once(json!(word)).chain(plain)
}

fn description(property: &Property) -> String {
    let limits = match property.constraint {
        Constraint::Range(least, most) => format!(" ({least} to {most})"),
        Constraint::Text(text) => format!(" ({text})"),
        Constraint::OneOf(_) | Constraint::None => String::new(),
    };
    let required = if property.required { "; required" } else { "" };
    let change = match property.replaces {
        "" => String::new(),
        "always" => "; a change replaces the resource".to_owned(),
        which => format!("; the resource is replaced where {which}"),
    };
    format!("{}{limits}{required}{change}", property.about)
}
