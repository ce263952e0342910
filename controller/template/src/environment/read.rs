//! One environment's text → what it says.

use std::collections::BTreeMap;

use super::{Environment, Given};
use crate::Limits;
use crate::build::{Reader, Stop};
use crate::error::{Errors, Place, Sink, cut, suggestion, suggestion_or_all};
use crate::expression::{Expr, ExprKind};
use crate::parse::{Source, begin, end, entries, too_large};
use crate::policy::{Hook, Policies, Restriction, Rule};

const SECTIONS: [&str; 3] = ["parameters", "parameter_defaults", "resource_registry"];
const SECTIONS_NOT_YET: [&str; 3] = ["encrypted_param_names", "event_sinks", "parameter_merge_strategies"];
const RESOURCE_KEYS: [&str; 2] = ["hooks", "restricted_actions"];

/// `file` is its place among the environments of the stack.
pub(super) fn read(name: &str, text: &str, file: usize) -> Result<Environment, Errors> {
    let source = Source::new(text);
    if let Some(message) = too_large("the environment", text, Limits::TEXT) {
        let mut errors = Sink::new(name);
        errors.push(Place::default(), "", message);
        return Err(errors.into_errors());
    }
    let mut reader = Reader::new(name, &source.text, source.shift);
    reader.functions = false; // an environment is data
    let mut environment = Environment::default();
    let read = document(&mut reader, &mut environment, file);
    if read.is_ok() && reader.errors.is_empty() { Ok(environment) } else { Err(reader.errors.into_errors()) }
}

fn document(reader: &mut Reader<'_>, environment: &mut Environment, file: usize) -> Result<(), Stop> {
    if begin(reader, "an environment")?.is_none() {
        return Ok(()); // nothing in it says nothing
    }
    let mut seen = BTreeMap::new();
    while let Some((key, at)) = reader.key()? {
        if let Some(first) = seen.insert(key.to_string(), at) {
            let message = format!("the section '{}' is given twice; the first is at {first}", cut(&key));
            reader.error(at, message);
        }
        let before = reader.path.key(&key);
        match &*key {
            "parameters" => values(reader, &mut environment.parameters, file)?,
            "parameter_defaults" => values(reader, &mut environment.defaults, file)?,
            "resource_registry" => registry(reader, &mut environment.policies)?,
            _ => {
                reader.error(at, unknown_section(&key));
                reader.expr(1)?; // read for the syntax alone
            }
        }
        reader.path.leave(before);
    }
    end(reader, "an environment")
}

fn unknown_section(key: &str) -> String {
    if SECTIONS_NOT_YET.contains(&key) {
        format!("the section '{key}' is not supported by this version yet")
    } else {
        format!("unknown section '{}'{}", cut(key), suggestion_or_all(key, &SECTIONS))
    }
}

fn values(reader: &mut Reader<'_>, found: &mut BTreeMap<Box<str>, Given>, file: usize) -> Result<(), Stop> {
    entries(reader, |_, name, _, body| {
        // As in Heat: what is null was not given.
        if !matches!(body.kind, ExprKind::Null) {
            found.insert(name.into(), Given { value: body.sketch(), file, at: body.at });
        }
    })
}

fn registry(reader: &mut Reader<'_>, policies: &mut Policies) -> Result<(), Stop> {
    entries(reader, |reader, key, at, body| match (key, body.kind) {
        ("resources", ExprKind::Null) => {}
        ("resources", ExprKind::Map(resources)) => {
            for entry in resources {
                let before = reader.path.key(&entry.key);
                resource(reader, policies, &entry.key, entry.at, &entry.value);
                reader.path.leave(before);
            }
        }
        ("resources", kind) => {
            let message = format!("want a map of resources, got {}", Expr::new(at, kind).describe());
            reader.error(body.at, message);
        }
        _ => {
            let message = match suggestion(key, ["resources"]) {
                near if near.is_empty() => {
                    format!(
                        "'{}' in the registry is not supported by this version yet: types cannot be mapped; 'resources' can be given",
                        cut(key)
                    )
                }
                near => format!("unknown key '{}' of the registry{near}", cut(key)),
            };
            reader.error(at, message);
        }
    })
}

fn resource(reader: &mut Reader<'_>, policies: &mut Policies, name: &str, at: Place, body: &Expr) {
    if name.is_empty() || name.chars().count() > Limits::NAME || name.contains(['?', '[', ']']) {
        let message = format!(
            "want a resource's name of 1 to {} characters, or a pattern in which '*' stands for any characters; '?', '[' and ']' are not supported",
            Limits::NAME
        );
        return reader.error(at, message);
    }
    let entries = match &body.kind {
        ExprKind::Map(entries) => &**entries,
        ExprKind::Null => &[],
        _ => {
            let message = format!("want a map of {}, got {}", RESOURCE_KEYS.join(" and "), body.describe());
            return reader.error(body.at, message);
        }
    };
    let mut rule = Rule::default();
    for entry in entries {
        let before = reader.path.key(&entry.key);
        match &*entry.key {
            "hooks" => rule.hooks = words(reader, &entry.value, &Hook::ALL.map(|h| (h.as_str(), h.bit()))),
            "restricted_actions" => {
                let known = Restriction::ALL.map(|action| (action.as_str(), action.bit()));
                rule.restricted = words(reader, &entry.value, &known);
            }
            key => {
                let message = match suggestion(key, RESOURCE_KEYS) {
                    near if near.is_empty() => {
                        format!(
                            "'{}' of a resource in the registry is not supported by this version yet; known are {}",
                            cut(key),
                            RESOURCE_KEYS.join(", ")
                        )
                    }
                    near => format!("unknown key '{}' of a resource in the registry{near}", cut(key)),
                };
                reader.error(entry.at, message);
            }
        }
        reader.path.leave(before);
    }
    let rules = if name.contains('*') { &mut policies.patterns } else { &mut policies.named };
    rules.insert(name.into(), rule);
    if policies.patterns.len() > Limits::PATTERNS {
        reader.error(at, format!("at most {} patterns are taken", Limits::PATTERNS));
        policies.patterns.clear();
    }
}

/// One word or a list of them, as a set of bits.
fn words(reader: &mut Reader<'_>, value: &Expr, known: &[(&str, u8)]) -> Option<u8> {
    let items = match &value.kind {
        ExprKind::List(items) => &**items,
        ExprKind::Null => return None,
        _ => std::slice::from_ref(value),
    };
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let mut found = 0;
    for item in items {
        let ExprKind::Text(word) = &item.kind else {
            reader.error(item.at, format!("want {}, got {}", names.join(", "), item.describe()));
            continue;
        };
        match known.iter().find(|(name, _)| *name == &**word) {
            Some((_, bit)) => found |= bit,
            None => {
                reader.error(item.at, format!("unknown '{}'{}", cut(word), suggestion_or_all(word, &names)));
            }
        }
    }
    Some(found)
}
