//! A resource: its keys, its type, and the properties that follow from the type.

use serde_json::{Value, json};

use super::{map_of, or_function, reference, text};
use crate::drift_policy::DriftPolicy;
use crate::files::TEMPLATE_ENDINGS;
use crate::ownership::DELETION_POLICIES;
use crate::parse::RESOURCE_KEYS;
use crate::tree::group_members::{POLICIES, POLICY_KEYS};
use crate::types::unknown::OWN;
use crate::types::{FORMER, FORMER_PROPERTIES, Kind, Property};
use crate::{for_each, rollout};

/// A whole number, or a percentage.
const SHARE: &str = r"^\s*[0-9]+\s*%?\s*$";

pub(super) fn resource() -> Value {
    let mut resource = map_of("resource", &RESOURCE_KEYS, key);
    resource["required"] = json!(["type"]);
    resource["allOf"] = Kind::ALL.into_iter().map(of_kind).collect();
    resource
}

fn key(name: &str) -> Value {
    match name {
        "type" => types(),
        "properties" => json!({"type": ["object", "null"]}),
        "depends_on" => depends_on(),
        "for_each" => {
            let mut for_each =
                map_of("for_each", &["nodes"], |_| or_function(json!({"type": "string", "minLength": 1})));
            for_each["required"] = json!(["nodes"]);
            for_each
        }
        "rollout" => or_function(rollout()),
        "deletion_policy" => or_function(json!({"enum": DELETION_POLICIES.map(|(name, _)| name)})),
        "drift_policy" => json!({"enum": DriftPolicy::ALL.map(DriftPolicy::as_str)}),
        "external_id" => or_function(json!({"type": ["string", "number"]})),
        "condition" => reference("condition"),
        // A nested template reads them, whatever they are.
        "metadata" | "update_policy" => json!({"type": ["object", "null"]}),
        "description" => text(),
        _ => json!({}),
    }
}

/// Every type by name. What an environment maps is not known, so any other name will do, but for a typing error in one of
/// ours.
fn types() -> Value {
    let known = |name: &str, kind: Kind| json!({"const": name, "description": kind.about()});
    let own = Kind::ALL.map(|kind| known(kind.name(), kind));
    let former = FORMER.map(|(name, kind)| known(name, kind));
    let endings = TEMPLATE_ENDINGS.map(|ending| format!("{}$", ending.replace('.', "\\.")));
    let mapped = json!({
        "description": "a template's file, or a type that an environment maps",
        "type": "string",
        "pattern": format!("::|{}", endings.join("|")),
        "not": {"pattern": format!("^({})", OWN.join("|"))},
    });
    json!({"anyOf": own.into_iter().chain(former).chain([mapped]).collect::<Vec<_>>()})
}

fn depends_on() -> Value {
    let mut need = map_of("need", &for_each::NEED_KEYS, |key| match key {
        "scope" => json!({"enum": for_each::SCOPES}),
        _ => json!({"type": ["string", "number"]}),
    });
    need["required"] = json!(["resource"]);
    let name = json!({"type": ["string", "number"]});
    let one = json!({"anyOf": [name, need]});
    json!({"anyOf": [one, {"type": "array", "items": one}, {"type": "null"}]})
}

fn rollout() -> Value {
    map_of("rollout", &rollout::KEYS, |key| {
        or_function(match key {
            "away" => json!({"enum": rollout::AWAYS}),
            "pause" => json!({"type": ["number", "string"], "minimum": 0}),
            _ => json!({"type": ["integer", "string"], "minimum": 0, "pattern": SHARE}),
        })
    })
}

fn update_policy() -> Value {
    let batches = || {
        map_of("batches", &POLICY_KEYS, |_| or_function(json!({"type": ["number", "string"], "minimum": 0})))
    };
    or_function(map_of("update_policy", &POLICIES, |_| or_function(batches())))
}

/// The schema that follows from a type.
fn of_kind(kind: Kind) -> Value {
    let former = FORMER.iter().filter(|(_, it)| *it == kind).map(|(name, _)| *name);
    let names: Vec<&str> = std::iter::once(kind.name()).chain(former).collect();
    let is_kind = json!({"properties": {"type": {"enum": names}}, "required": ["type"]});
    let mut rules = vec![json!({"properties": {"properties": reference(kind.name())}})];
    let with = |required: &[&str]| with(kind, required);
    let required: Vec<&str> =
        kind.properties().iter().filter(|it| it.required).map(|it: &Property| it.name).collect();
    rules.push(match kind.node_property() {
        // A for_each gives the node.
        Some(node) if required.contains(&node) => {
            let others: Vec<&str> = required.iter().copied().filter(|name| *name != node).collect();
            json!({"if": {"required": ["for_each"]}, "then": with(&others), "else": with(&required)})
        }
        _ => with(&required),
    });
    if kind == Kind::Group || kind.is_deployment_group() {
        rules.push(json!({"properties": {"update_policy": update_policy()}}));
    }
    json!({"if": is_kind, "then": {"allOf": rules}})
}

/// These properties must be given.
fn with(kind: Kind, required: &[&str]) -> Value {
    let former = |name: &str| FORMER_PROPERTIES.iter().find(|it| (it.0, it.2) == (kind, name));
    let either = required.iter().filter_map(|name| former(name));
    let either =
        either.map(|(_, former, name)| json!({"anyOf": [{"required": [name]}, {"required": [former]}]}));
    let either: Vec<Value> = either.collect();
    let others: Vec<&str> = required.iter().copied().filter(|name| former(name).is_none()).collect();
    let mut properties = json!({"type": "object", "required": others});
    if !either.is_empty() {
        properties["allOf"] = json!(either);
    }
    match required {
        [] => json!({}),
        _ => json!({"required": ["properties"], "properties": {"properties": properties}}),
    }
}
