//! A stack's environment as files: parameters and types in one, hidden values in another.

use std::collections::BTreeSet;

use muster_template::MASK;
use serde_json::{Map, Value};

use crate::place::Places;
use crate::reference::Source;
use crate::{Content, ENVIRONMENT, HIDDEN, Imported, reference};

/// The text that Heat shows in place of a hidden value.
const MASK_OF_HEAT: &str = "******";
/// The parameters that Heat itself gives a value.
const PSEUDO: &str = "OS::";

/// Adds the files of an environment.
pub fn import(environment: Value, hidden: &BTreeSet<String>, places: &Places, imported: &mut Imported) {
    let Value::Object(mut environment) = environment else { return };
    let encrypted = texts(environment.remove("encrypted_param_names"));
    let (mut shown, mut secret) = (Map::new(), Map::new());
    for section in ["parameters", "parameter_defaults"] {
        let Some(Value::Object(values)) = environment.remove(section) else { continue };
        let (mut of_shown, mut of_secret) = (Map::new(), Map::new());
        for (name, value) in values {
            if name.starts_with(PSEUDO) {
                continue;
            }
            let is_encrypted = encrypted.contains(&name);
            if !hidden.contains(&name) && !is_encrypted {
                of_shown.insert(name, value);
            } else if is_encrypted || is_masked(&value) {
                imported.to_give.push(name);
            } else {
                of_secret.insert(name, value);
            }
        }
        for (into, values) in [(&mut shown, of_shown), (&mut secret, of_secret)] {
            if !values.is_empty() {
                into.insert(section.to_owned(), Value::Object(values));
            }
        }
    }
    if let Some(mut registry) = environment.remove("resource_registry") {
        let source = Source { place: ENVIRONMENT, key: "" };
        reference::registry(&mut registry, source, places, &mut imported.left_out);
        if let Value::Object(map) = &mut registry {
            // Heat also has a type for each nested template, by the name that its file had.
            map.retain(|key, value| {
                let is_none = key == "resources" && value.as_object().is_some_and(Map::is_empty);
                !is_none && places.of(key).is_none()
            });
            if !map.is_empty() {
                shown.insert("resource_registry".to_owned(), registry);
            }
        }
    }
    for (section, value) in environment {
        let is_empty = match &value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        };
        if !is_empty {
            imported.left_out.push(format!("{section} of the environment: Muster's have no such section"));
        }
    }
    imported.to_give.sort();
    imported.to_give.dedup();
    for (file, values) in [(ENVIRONMENT, shown), (HIDDEN, secret)] {
        if !values.is_empty() {
            imported.files.insert(file.to_owned(), Content::Document(Value::Object(values)));
        }
    }
}

fn is_masked(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text == MASK_OF_HEAT || text == MASK)
}

fn texts(value: Option<Value>) -> BTreeSet<String> {
    let Some(Value::Array(items)) = value else { return BTreeSet::new() };
    items.into_iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}
