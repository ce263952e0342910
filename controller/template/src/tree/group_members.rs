//! The members of groups and chains: their number, their types, and their batches.
//!
//! Absent: the wait between two batches (`controller/engine/src/traversal/waiting_rows.rs`), and rollouts of a `for_each`
//! (`controller/template/src/rollout.rs`).

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::parts::{Below, Body, CurrentResources, NONE, Parts, Removed};
use super::value::{Context, index_var, want_text};
use crate::Limits;
use crate::digest;
use crate::error::{cut, suggestion_or_all};
use crate::expression::describe;
use crate::parameter::ParameterType;
use crate::render::RenderError;
use crate::rollout::seconds;
use crate::types::Kind;

const DEFINITION_KEYS: [&str; 3] = ["metadata", "properties", "type"];
const MODES: [&str; 2] = ["append", "update"];
pub(crate) const POLICIES: [&str; 2] = ["batch_create", "rolling_update"];
pub(crate) const POLICY_KEYS: [&str; 3] = ["max_batch_size", "min_in_service", "pause_time"];

/// The settings of a group or chain.
pub(super) struct Decided {
    /// The type of each member; a group has a single one for all.
    pub types: Vec<String>,
    pub count: usize,
    /// Names of members that are given and not counted.
    pub keys: Option<Vec<String>>,
    pub index_var: Box<str>,
    /// Members to be removed, by name or by what refers to them.
    pub listed: Vec<String>,
    /// Members that were removed before stay removed.
    pub appends: bool,
    /// Each member waits for the one before.
    pub in_turn: bool,
}

impl Decided {
    /// The digest of all settings that decide on members.
    pub fn digest(&self) -> u128 {
        digest::of_value(&json!([
            self.types,
            self.count,
            self.keys,
            self.index_var,
            self.listed,
            self.appends,
            self.in_turn
        ]))
    }

    /// The names of a group's members, and the names that are not given again.
    pub fn names(&self, path: &str, known: &dyn CurrentResources) -> (Vec<String>, Removed) {
        if let Some(keys) = &self.keys {
            return (keys.clone(), Removed::new());
        }
        let mut removed = known.removed(path);
        // A member removed by reference no longer exists, so the reference cannot be looked up again.
        let is_listed = |by: &String| self.listed.contains(by);
        removed.retain(|_, by| self.appends || by.as_ref().is_some_and(is_listed));
        let is_name = |text: &&String| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        for name in self.listed.iter().filter(is_name) {
            removed.entry(name.clone()).or_default();
        }
        let mut others: BTreeSet<&str> =
            self.listed.iter().filter(|text| !is_name(text)).map(String::as_str).collect();
        for by in removed.values().flatten() {
            others.remove(&**by);
        }
        // An existing member has an index below the sum of all existing and removed ones.
        for at in 0..self.count + removed.len() + others.len() {
            if others.is_empty() {
                break;
            }
            let reference = known.reference(&format!("{path}/{at}"));
            if let Some(reference) = reference.filter(|reference| others.remove(&**reference)) {
                removed.insert(at.to_string(), Some(reference));
            }
        }
        let names = (0u64..).map(|at| at.to_string()).filter(|name| !removed.contains_key(name));
        (names.take(self.count).collect(), removed)
    }
}

/// Reads the properties of a group or chain.
pub(super) fn decide(context: &Context<'_>, index: u32) -> Result<Decided, RenderError> {
    let kind = context.parts.instances[index as usize].kind;
    if kind == Kind::Chain {
        chain(context, index)
    } else if kind.is_deployment_group() {
        deployments(context, index, kind)
    } else {
        group(context, index, None)
    }
}

fn chain(context: &Context<'_>, index: u32) -> Result<Decided, RenderError> {
    let wrong = |name: &'static str| move |message: String| context.said_of(index, Some(name), &message);
    let types = match context.property(index, &["resources"])? {
        Some(Value::Array(items)) => {
            let each = |item: &Value| want_text(item).map(str::to_owned);
            items.iter().map(each).collect::<Result<Vec<String>, String>>().map_err(wrong("resources"))?
        }
        Some(other) => {
            return Err(wrong("resources")(format!("want a list of types, got {}", describe(&other))));
        }
        None => {
            return Err(context.said_of(
                index,
                None,
                "OS::Heat::ResourceChain needs the property 'resources'",
            ));
        }
    };
    let concurrent = context.property(index, &["concurrent"])?.unwrap_or(Value::Bool(false));
    let concurrent = ParameterType::Boolean.convert(&concurrent).map_err(wrong("concurrent"))?;
    Ok(Decided {
        count: types.len(),
        keys: None,
        types,
        index_var: Box::default(),
        listed: Vec::new(),
        appends: false,
        in_turn: concurrent == Value::Bool(false),
    })
}

/// The settings of a group whose count cannot be known.
pub(super) fn decide_all_but_count(
    context: &Context<'_>,
    index: u32,
    count: usize,
) -> Result<Decided, RenderError> {
    let kind = context.parts.instances[index as usize].kind;
    if kind == Kind::Chain {
        chain(context, index)
    } else if kind.is_deployment_group() {
        Ok(deployments_of(kind, count, None))
    } else {
        group(context, index, Some(count))
    }
}

/// A member for each of `servers`, by its name there.
fn deployments(context: &Context<'_>, index: u32, kind: Kind) -> Result<Decided, RenderError> {
    let wrong = |message: String| context.said_of(index, Some("servers"), &message);
    let servers = match context.property(index, &["servers"])? {
        Some(Value::Object(servers)) => servers,
        Some(other) => return Err(wrong(format!("want a map of names to nodes, got {}", describe(&other)))),
        None => return Err(context.said_of(index, None, &format!("{kind} needs the property 'servers'"))),
    };
    if let Some(name) = servers.keys().find(|name| name.is_empty() || name.contains('/')) {
        return Err(wrong(format!("'{}' is no name for a member: it is empty or has a '/'", cut(name))));
    }
    let keys: Vec<String> = servers.into_iter().map(|(name, _)| name).collect();
    Ok(deployments_of(kind, keys.len(), Some(keys)))
}

fn deployments_of(kind: Kind, count: usize, keys: Option<Vec<String>>) -> Decided {
    let member = if kind == Kind::StructuredDeploymentGroup {
        Kind::StructuredDeployment
    } else {
        Kind::SoftwareDeployment
    };
    Decided {
        types: vec![member.name().to_owned()],
        count,
        keys,
        index_var: Box::default(),
        listed: Vec::new(),
        appends: false,
        in_turn: false,
    }
}

fn group(context: &Context<'_>, index: u32, count: Option<usize>) -> Result<Decided, RenderError> {
    let wrong = |name: &'static str| move |message: String| context.said_of(index, Some(name), &message);
    let count = match count {
        Some(count) => count,
        None => match context.property(index, &["count"])? {
            Some(value) => whole_number(&value, Limits::COUNT).map_err(wrong("count"))?,
            None => 1,
        },
    };
    let variable = index_var(context.property(index, &["index_var"])?).map_err(wrong("index_var"))?;
    let listed = match context.property(index, &["removal_policies"])? {
        Some(value) => removal_list(&value).map_err(wrong("removal_policies"))?,
        None => Vec::new(),
    };
    let appends = match context.property(index, &["removal_policies_mode"])? {
        Some(value) => match want_text(&value).map_err(wrong("removal_policies_mode"))? {
            "append" => true,
            "update" => false,
            other => {
                let near = suggestion_or_all(other, &MODES);
                return Err(wrong("removal_policies_mode")(format!("unknown mode '{}'{near}", cut(other))));
            }
        },
        None => true,
    };
    check_definition(context, index).map_err(wrong("resource_def"))?;
    let kind = match context.property(index, &["resource_def", "type"])? {
        Some(value) => want_text(&value).map_err(wrong("resource_def"))?.to_owned(),
        None => return Err(wrong("resource_def")("a definition needs a 'type'".to_owned())),
    };
    Ok(Decided { types: vec![kind], count, keys: None, index_var: variable, listed, appends, in_turn: false })
}

/// Names that a definition lacks, as far as it is a literal.
fn check_definition(context: &Context<'_>, index: u32) -> Result<(), String> {
    let (scope, resource, mut way) = context.parts.written(index);
    way.push("resource_def");
    let Some(names) = super::value::source(&context.parts.scopes[scope as usize].template, resource, &way)
        .and_then(|expr| expr.keys())
    else {
        return Ok(());
    };
    match names.into_iter().find(|name| !DEFINITION_KEYS.contains(name)) {
        Some(name) => {
            let near = suggestion_or_all(name, &DEFINITION_KEYS);
            Err(format!("unknown key '{}' of a definition{near}", cut(name)))
        }
        None => Ok(()),
    }
}

fn whole_number(value: &Value, most: u64) -> Result<usize, String> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            return Err(format!("want a whole number, got {}", describe(value)));
        }
    };
    let number = number.filter(|number| *number <= most);
    let number = number.and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| format!("want a whole number from 0 to {most}"))
}

/// `[{resource_list: [NAME, …]}, …]`
fn removal_list(value: &Value) -> Result<Vec<String>, String> {
    let Value::Array(policies) = value else {
        return Err(format!("want a list, got {}", describe(value)));
    };
    let mut listed = Vec::new();
    for policy in policies {
        let Value::Object(policy) = policy else {
            return Err(format!("want maps with a 'resource_list', got {}", describe(policy)));
        };
        for (key, value) in policy {
            match (&**key, value) {
                ("resource_list", Value::Array(items)) => {
                    for item in items {
                        match item {
                            Value::String(text) => listed.push(text.clone()),
                            Value::Number(number) => listed.push(number.to_string()),
                            other @ (Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
                                return Err(format!("want names of members, got {}", describe(other)));
                            }
                        }
                    }
                }
                ("resource_list", Value::Null) => {}
                ("resource_list", other) => return Err(format!("want a list, got {}", describe(other))),
                _ => return Err(format!("unknown key '{}'; known is resource_list", cut(key))),
            }
        }
    }
    Ok(listed)
}

/// The most members of a group under way at once, and the pause before the next ones.
#[derive(Clone, Copy)]
pub(super) struct Batches {
    pub size: usize,
    pub pause: Duration,
}

/// The batches in which the members of a group are made or changed; `None`: all at once.
pub(super) fn batches(
    context: &Context<'_>,
    index: u32,
    count: usize,
    policy: &str,
) -> Result<Option<Batches>, RenderError> {
    let Body::Own { scope, resource } = context.parts.instances[index as usize].body else { return Ok(None) };
    let template = &context.parts.scopes[scope as usize].template;
    let resource = &template.resources[resource as usize];
    let Some(expr) = resource.update_policy() else { return Ok(None) };
    let within = context.within(scope);
    let place = ["resources", &resource.name, "update_policy"];
    let policies = template.rendered(expr, &within, &within, &place)?;
    let wrong = |message: String| template.failed(expr.at, &place, message);
    let given = match &policies {
        Value::Null => return Ok(None),
        Value::Object(map) => map,
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            return Err(wrong(format!("want a map, got {}", describe(other))));
        }
    };
    if let Some(other) = given.keys().find(|name| !POLICIES.contains(&&***name)) {
        let near = suggestion_or_all(other, &POLICIES);
        return Err(wrong(format!("unknown policy '{}'{near}", cut(other))));
    }
    let mut batches = None;
    for (name, value) in given {
        let Value::Object(map) = value else {
            if value.is_null() {
                continue;
            }
            return Err(wrong(format!("want a map as '{name}', got {}", describe(value))));
        };
        let found = one_policy(map, count).map_err(|message| wrong(format!("{name}: {message}")))?;
        if name == policy {
            batches = Some(found);
        }
    }
    Ok(batches)
}

fn one_policy(given: &Map<String, Value>, count: usize) -> Result<Batches, String> {
    if let Some(other) = given.keys().find(|name| !POLICY_KEYS.contains(&&***name)) {
        let near = suggestion_or_all(other, &POLICY_KEYS);
        return Err(format!("unknown key '{}'{near}", cut(other)));
    }
    let number = |name: &str, default: usize| match given.get(name).filter(|value| !value.is_null()) {
        Some(value) => whole_number(value, Limits::COUNT).map_err(|message| format!("{name}: {message}")),
        None => Ok(default),
    };
    let (size, in_service) = (number("max_batch_size", 1)?, number("min_in_service", 0)?);
    if size == 0 {
        return Err("max_batch_size: want at least 1".into());
    }
    // Leaves `in_service` members in service, but one must be under way.
    let size = size.min(count.saturating_sub(in_service)).max(1);
    let pause = match given.get("pause_time").filter(|value| !value.is_null()) {
        Some(value) => seconds(value).map_err(|message| format!("pause_time: {message}"))?,
        None => Duration::ZERO,
    };
    Ok(Batches { size, pause })
}

/// Whether the inputs that decided on an instance, and on all that enclose it, are as they were when the tree
/// was made. Unknown inputs count as unchanged.
pub(super) fn is_as_decided(context: &Context<'_>, parts: &Parts, index: u32) -> Result<bool, RenderError> {
    let mut at = index;
    while at != NONE {
        if let Below::Scope(scope) = parts.instances[at as usize].below
            && parts.scopes[scope as usize].late
        {
            match context.existence(scope) {
                Ok(there) => {
                    let was = parts.scopes[scope as usize].map.iter().map(|at| *at != NONE);
                    if !was.eq(there) {
                        return Ok(false);
                    }
                }
                Err(RenderError::NotYet { .. } | RenderError::UnknownNode { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if let Below::Group(group) = parts.instances[at as usize].below {
            let group = &parts.groups[group as usize];
            if group.late {
                match decide(context, at) {
                    Ok(decided) if group.seen != Some(decided.digest()) => return Ok(false),
                    Ok(_) | Err(RenderError::NotYet { .. } | RenderError::UnknownNode { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        at = parts.enclosing(at);
    }
    Ok(true)
}
