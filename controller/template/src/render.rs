//! Renders expressions to values, with bound parameters and with references.
//!
//! As in Heat, a path that leads nowhere gives an empty text for `get_param` and null for `get_attr`. Unlike
//! in Heat, a path into a text is an error instead of a character.
//!
//! Absent: values across nested stacks, groups and sets (`tree/value.rs`), and the check of what was rendered
//! (`types.rs`).

mod condition;
pub(crate) mod plain;
mod repeat;
mod text;
pub(crate) mod url;
mod yaql;

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

pub(crate) use muster_shared::property::Step;
use serde_json::{Map, Value};
pub(crate) use text::is_true;
use thiserror::Error;

use crate::Limits;
use crate::bind::{ParameterValue, Parameters, Values};
use crate::error::{Place, cut, push_key};
use crate::expression::{Call, Entry, Expr, ExprKind, describe};
use crate::template::Template;
use crate::text::{text_of, weight};

/// The present values of the template's resources, by their index in [`Template::resources`].
pub trait References {
    /// The physical id; `None` while it is unknown.
    fn resource_id(&self, index: u32) -> Option<String>;
    /// An attribute; `None` while its value is unknown, or if there is no attribute of that name.
    fn attribute(&self, index: u32, name: &str) -> Option<Value>;
    /// Whether all attributes are known: a missing attribute is then an error.
    fn is_ready(&self, index: u32) -> bool {
        let _ = index;
        false
    }
    /// As [`References::resource_id`], where the value may be of another type than text.
    ///
    /// # Errors
    /// The reason why there is no value.
    fn reference(&self, index: u32) -> Result<Option<Value>, Unresolved> {
        Ok(self.resource_id(index).map(Value::String))
    }
    /// As [`References::attribute`], with the number of parts of the path that were followed already.
    ///
    /// # Errors
    /// The reason why there is no value.
    fn resolve(
        &self,
        index: u32,
        name: &str,
        path: &[String],
    ) -> Result<Option<(Rc<Value>, usize)>, Unresolved> {
        let _ = path;
        Ok(self.attribute(index, name).map(|value| (Rc::new(value), 0)))
    }
    /// `name`, `labels` or a [`crate::fact`] of a node, or the value under a path in it; `None` while it
    /// is unknown.
    ///
    /// # Errors
    /// The reason why there is no value.
    fn of_node(&self, node: &str, path: &[String]) -> Result<Option<Value>, Unresolved> {
        let _ = (node, path);
        Ok(None)
    }
    /// The node of the resource, if a `for_each` makes it.
    fn own_node(&self) -> Option<String> {
        None
    }
}

/// The reason why a reference to a resource or a node has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// An error, to be reported at the reference.
    Wrong(String),
    /// An error from another place, which it has.
    Elsewhere(RenderError),
}

impl From<RenderError> for Unresolved {
    fn from(error: RenderError) -> Self {
        Self::Elsewhere(error)
    }
}

/// The reason why there is no value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RenderError {
    /// The value depends on a resource that is not ready.
    #[error("waits for the resource '{resource}'")]
    NotYet {
        /// Name of the resource.
        resource: Box<str>,
        /// The index in [`Template::resources`].
        index: u32,
    },
    /// The value depends on facts that a node has not sent yet.
    #[error("waits for the facts of the node '{node}'")]
    UnknownNode {
        /// The node's name in the template.
        node: Box<str>,
    },
    /// The value cannot exist.
    #[error("{file}:{line}:{column}: {path}: {message}")]
    Failed {
        /// Name of the template.
        file: String,
        /// Counts from 1.
        line: u32,
        /// Counts from 1.
        column: u32,
        /// A path such as `resources.motd.properties.content`.
        path: String,
        message: String,
    },
}

impl Template {
    /// The properties of a resource, as an object. Properties that render to null are left out: as in Heat
    /// they are not given.
    pub fn render(
        &self,
        index: usize,
        parameters: &Parameters,
        refs: &dyn References,
    ) -> Result<Value, RenderError> {
        let resource = &self.resources[index];
        self.rendered(&resource.properties, parameters, refs, &["resources", &resource.name, "properties"])
            .map(|value| {
                if let Value::Object(map) = value {
                    Value::Object(map.into_iter().filter(|(_, value)| !value.is_null()).collect())
                } else {
                    value
                }
            })
    }

    /// A single property; `None` if it is not given.
    pub fn render_property(
        &self,
        index: usize,
        name: &str,
        parameters: &Parameters,
        refs: &dyn References,
    ) -> Result<Option<Value>, RenderError> {
        let resource = &self.resources[index];
        let Some(entry) = resource.properties.entry(name) else { return Ok(None) };
        self.rendered(&entry.value, parameters, refs, &["resources", &resource.name, "properties", name])
            .map(|value| Some(value).filter(|value| !value.is_null()))
    }

    /// The value of an output; null where its condition does not hold.
    pub fn render_output(
        &self,
        index: usize,
        parameters: &Parameters,
        refs: &dyn References,
    ) -> Result<Value, RenderError> {
        self.output_with(index, parameters, refs).map(Rc::unwrap_or_clone)
    }

    pub(crate) fn output_with(
        &self,
        index: usize,
        parameters: &dyn Values,
        refs: &dyn References,
    ) -> Result<Rc<Value>, RenderError> {
        let output = &self.outputs[index];
        if let Some(condition) = &output.condition
            && !self.holds(condition, parameters, &["outputs", &output.key, "condition"])?
        {
            return Ok(Rc::new(Value::Null));
        }
        self.shared(&output.value, parameters, refs, &["outputs", &output.key, "value"])
    }

    pub(crate) fn rendered(
        &self,
        expr: &Expr,
        parameters: &dyn Values,
        refs: &dyn References,
        place: &[&str],
    ) -> Result<Value, RenderError> {
        let scope = Scope { template: self, parameters, refs, left: Cell::new(Limits::RENDERED) };
        scope.value(expr).map_err(|fault| self.placed(fault, place))
    }

    /// As [`Template::rendered`]. A whole parameter or attribute that the rendering keeps is not copied.
    pub(crate) fn shared(
        &self,
        expr: &Expr,
        parameters: &dyn Values,
        refs: &dyn References,
        place: &[&str],
    ) -> Result<Rc<Value>, RenderError> {
        let scope = Scope { template: self, parameters, refs, left: Cell::new(Limits::RENDERED) };
        scope.shared(expr).map_err(|fault| self.placed(fault, place))
    }

    /// Whether a condition holds.
    pub(crate) fn holds(
        &self,
        condition: &Expr,
        parameters: &dyn Values,
        place: &[&str],
    ) -> Result<bool, RenderError> {
        let scope = Scope { template: self, parameters, refs: &Unknown, left: Cell::new(Limits::RENDERED) };
        scope.holds(condition).map_err(|fault| self.placed(fault, place))
    }

    fn placed(&self, fault: Fault, place: &[&str]) -> RenderError {
        match fault {
            Fault::NotYet(index) => {
                RenderError::NotYet { resource: self.resources[index as usize].name.clone(), index }
            }
            Fault::UnknownNode(node) => RenderError::UnknownNode { node },
            Fault::Elsewhere(error) => *error,
            Fault::Failed(failure) => {
                let mut path = String::new();
                place.iter().for_each(|key| push_key(&mut path, key));
                failure.steps.iter().rev().for_each(|step| step.push(&mut path));
                self.failed_at(failure.at, path, failure.message)
            }
        }
    }

    /// An error about the text at this place.
    pub(crate) fn failed(&self, at: Place, place: &[&str], message: String) -> RenderError {
        let mut path = String::new();
        place.iter().for_each(|key| push_key(&mut path, key));
        self.failed_at(at, path, message)
    }

    fn failed_at(&self, at: Place, path: String, message: String) -> RenderError {
        RenderError::Failed { file: self.file.to_string(), line: at.line, column: at.column, path, message }
    }
}

/// Nothing is known of resources, and nothing is asked.
pub(crate) struct Unknown;

impl References for Unknown {
    fn resource_id(&self, _: u32) -> Option<String> {
        None
    }

    fn attribute(&self, _: u32, _: &str) -> Option<Value> {
        None
    }
}

enum Fault {
    NotYet(u32),
    UnknownNode(Box<str>),
    /// An error with its place in another template.
    Elsewhere(Box<RenderError>),
    Failed(Box<Failure>),
}

struct Failure {
    at: Place,
    message: String,
    /// The steps from the leaf up: added only on a failure, so that success costs nothing.
    steps: Vec<Step>,
}

impl Fault {
    fn new(at: Place, message: impl Into<String>) -> Self {
        Self::Failed(Box::new(Failure { at, message: message.into(), steps: Vec::new() }))
    }

    fn unresolved(at: Place, why: Unresolved) -> Self {
        match why {
            Unresolved::Wrong(message) => Self::new(at, message),
            Unresolved::Elsewhere(error) => Self::Elsewhere(Box::new(error)),
        }
    }

    fn within(mut self, step: impl FnOnce() -> Step) -> Self {
        if let Self::Failed(failure) = &mut self {
            failure.steps.push(step());
        }
        self
    }

    fn within_key(self, key: &str) -> Self {
        self.within(|| Step::Key(key.into()))
    }
}

struct Scope<'a> {
    template: &'a Template,
    parameters: &'a dyn Values,
    refs: &'a dyn References,
    /// Bytes that may still be made, of [`Limits::RENDERED`].
    left: Cell<usize>,
}

impl Scope<'_> {
    fn value(&self, expr: &Expr) -> Result<Value, Fault> {
        match &expr.kind {
            ExprKind::Null | ExprKind::Invalid => Ok(Value::Null),
            ExprKind::Bool(value) => Ok(Value::Bool(*value)),
            ExprKind::Number(number) => Ok(Value::Number(number.clone())),
            ExprKind::Text(text) => {
                self.spend(expr.at, text.len())?;
                Ok(Value::String(text.to_string()))
            }
            ExprKind::List(items) => self.list(items),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Call(call) => self.call(expr.at, call),
        }
    }

    /// As [`Scope::value`], without a copy of what the rendering keeps.
    fn shared(&self, expr: &Expr) -> Result<Rc<Value>, Fault> {
        if let ExprKind::Call(call) = &expr.kind {
            if let Call::GetParam { parameter, path } = &**call {
                return self.get_param(expr.at, *parameter, path);
            }
            if let Call::GetAttr { resource, attribute, path } = &**call
                && self.exists(*resource)?
            {
                return self.get_attr(expr.at, *resource, attribute, path);
            }
        }
        self.value(expr).map(Rc::new)
    }

    fn list(&self, items: &[Expr]) -> Result<Value, Fault> {
        let mut list = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            list.extend(self.optional(item).map_err(|fault| fault.within(|| Step::Item(i)))?);
        }
        Ok(Value::Array(list))
    }

    fn map(&self, entries: &[Entry]) -> Result<Value, Fault> {
        let mut map = Map::new();
        for Entry { key, value, .. } in entries {
            if let Some(value) = self.optional(value).map_err(|fault| fault.within_key(key))? {
                map.insert(key.to_string(), value);
            }
        }
        Ok(Value::Object(map))
    }

    /// `None` for an `if` without a third item whose condition does not hold: the item or the key is
    /// left out.
    fn optional(&self, expr: &Expr) -> Result<Option<Value>, Fault> {
        if let ExprKind::Call(call) = &expr.kind
            && let Call::If { condition, values } = &**call
        {
            self.choice(condition, values).map_err(|fault| fault.within_key("if"))
        } else {
            self.value(expr).map(Some)
        }
    }

    fn call(&self, at: Place, call: &Call) -> Result<Value, Fault> {
        match call {
            Call::GetParam { parameter, path } => {
                self.get_param(at, *parameter, path).map(Rc::unwrap_or_clone)
            }
            Call::GetResource { resource } if !self.exists(*resource)? => Ok(Value::Null),
            Call::GetAttr { resource, .. } if !self.exists(*resource)? => Ok(Value::Null),
            Call::GetResource { resource } => {
                let found = self.refs.reference(*resource).map_err(|why| Fault::unresolved(at, why))?;
                found.ok_or(Fault::NotYet(*resource))
            }
            Call::GetAttr { resource, attribute, path } => {
                self.get_attr(at, *resource, attribute, path).map(Rc::unwrap_or_clone)
            }
            Call::GetNode { parts } => {
                self.get_node(at, parts).map_err(|fault| fault.within_key(call.name()))
            }
            Call::GetFile { file } => {
                let content = &self.template.files[*file as usize].content;
                self.spend(at, content.len())?;
                Ok(Value::String(content.to_string()))
            }
            Call::Pseudo(pseudo) => self.pseudo(at, *pseudo),
            Call::Absent { function: "", message } => Err(Fault::new(at, &**message)),
            Call::Absent { function, message } => Err(Fault::new(at, &**message).within_key(function)),
            Call::Condition { .. } => self.holds_call(at, call).map(Value::Bool),
            Call::Facade(_)
            | Call::StrReplace { .. }
            | Call::ListJoin { .. }
            | Call::Repeat { .. }
            | Call::Plain { .. }
            | Call::Yaql { .. }
            | Call::If { .. }
            | Call::Logic { .. } => self.function(at, call).map_err(|fault| fault.within_key(call.name())),
        }
    }

    /// Evaluates a call that depends on other values.
    fn function(&self, at: Place, call: &Call) -> Result<Value, Fault> {
        match call {
            Call::StrReplace { template, params, strictness } => {
                self.str_replace(at, template, params, *strictness)
            }
            Call::ListJoin { delimiter, lists } => self.list_join(at, delimiter, lists),
            Call::Repeat { template, for_each, permutations } => {
                self.repeat(at, template, for_each, *permutations)
            }
            Call::Plain { function, argument } => self.plain(at, *function, argument),
            Call::Yaql { expression, data, parsed } => self.yaql(expression, data, parsed.as_deref()),
            Call::If { condition, values } => Ok(self.choice(condition, values)?.unwrap_or_default()),
            Call::Facade(part) => self.facade(at, *part),
            Call::Logic { .. } => self.holds_call(at, call).map(Value::Bool),
            Call::GetParam { .. }
            | Call::GetResource { .. }
            | Call::GetAttr { .. }
            | Call::GetFile { .. }
            | Call::GetNode { .. }
            | Call::Pseudo(_)
            | Call::Absent { .. }
            | Call::Condition { .. } => Ok(Value::Null), // not one of these
        }
    }

    fn get_param(&self, at: Place, parameter: u32, path: &[Expr]) -> Result<Rc<Value>, Fault> {
        let found = self.parameters.value(parameter);
        let value = found.ok_or_else(|| Fault::new(at, "these parameters belong to another template"))?;
        let value = value.map_err(|error| Fault::Elsewhere(Box::new(error)))?;
        let what = || format!("the parameter '{}'", self.template.parameters[parameter as usize].name);
        let found = self.select(at, &value, path, what).map_err(|fault| fault.within_key("get_param"))?;
        let Some(found) = found else { return Ok(Rc::new(Value::String(String::new()))) };
        self.spend(at, weight(found))?;
        Ok(match &value {
            ParameterValue::Kept(value) if path.is_empty() => value.clone(),
            ParameterValue::Kept(_) | ParameterValue::Bound(_) => Rc::new(found.clone()),
        })
    }

    fn get_attr(&self, at: Place, resource: u32, attribute: &str, path: &[Expr]) -> Result<Rc<Value>, Fault> {
        let name = &self.template.resources[resource as usize].name;
        let keys = self.keys(path).map_err(|fault| fault.within_key("get_attr"))?;
        let found = self.refs.resolve(resource, attribute, &keys);
        let found = found.map_err(|why| Fault::unresolved(at, why).within_key("get_attr"))?;
        let Some((value, used)) = found else {
            return Err(if self.refs.is_ready(resource) {
                let message = format!("the resource '{name}' has no attribute '{}'", cut(attribute));
                Fault::new(at, message).within_key("get_attr")
            } else {
                Fault::NotYet(resource)
            });
        };
        let what = || format!("the attribute '{}' of '{name}'", cut(attribute));
        let found = self.select(at, &value, &path[used..], what);
        let Some(found) = found.map_err(|fault| fault.within_key("get_attr"))? else {
            return Ok(Rc::new(Value::Null));
        };
        self.spend(at, weight(found))?;
        Ok(if used == path.len() { value } else { Rc::new(found.clone()) })
    }

    fn get_node(&self, at: Place, parts: &[Expr]) -> Result<Value, Fault> {
        let mut keys = self.keys(parts)?;
        if let [fact] = &*keys {
            let own = self.refs.own_node().ok_or_else(|| Fault::new(at, "there is no for_each here"))?;
            if fact == "name" {
                return Ok(Value::String(own));
            }
            keys.insert(0, own);
        }
        let [node, path @ ..] = &*keys else { return Ok(Value::Null) }; // which was refused
        let found = self.refs.of_node(node, path).map_err(|why| Fault::unresolved(at, why))?;
        let Some(value) = found else { return Err(Fault::UnknownNode(node.as_str().into())) };
        self.spend(at, weight(&value))?;
        Ok(value)
    }

    /// The parts of a path as text.
    fn keys(&self, path: &[Expr]) -> Result<Vec<String>, Fault> {
        let key = |part: &Expr| match self.value(part)? {
            key @ (Value::String(_) | Value::Number(_)) => {
                Ok(self.parameters.indexed(text_of(&key)).into_owned())
            }
            other @ (Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
                Err(Fault::new(part.at, format!("want a key or an index, got {}", describe(&other))))
            }
        };
        path.iter().map(key).collect()
    }

    /// The value that a path leads to; `None` if it leads nowhere.
    fn select<'v>(
        &self,
        at: Place,
        mut value: &'v Value,
        path: &[Expr],
        what: impl Fn() -> String,
    ) -> Result<Option<&'v Value>, Fault> {
        for part in path {
            let key = match self.value(part)? {
                Value::Null => return Ok(None),
                key @ (Value::String(_) | Value::Number(_)) => key,
                other @ (Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
                    let message = format!("want a key or an index, got {}", describe(&other));
                    return Err(Fault::new(part.at, message));
                }
            };
            let written = text_of(&key);
            let key = self.parameters.indexed(Cow::Borrowed(&*written));
            let found = match value {
                Value::Object(map) => map.get(&*key),
                Value::Array(items) => item(items, &key),
                // Heat gives one character.
                Value::String(text) if !text.is_empty() && key.parse::<i64>().is_ok() => {
                    let message = format!("{} is text here, it has no '{}'", what(), cut(&key));
                    return Err(Fault::new(at, message));
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
            };
            match found {
                Some(found) => value = found,
                // Heat replaces no index in paths: a list that is too short for its group is an error.
                None if key != written => {
                    return Err(Fault::new(part.at, format!("{} has no '{}'", what(), cut(&key))));
                }
                None => return Ok(None),
            }
        }
        Ok(Some(value))
    }

    fn spend(&self, at: Place, bytes: usize) -> Result<(), Fault> {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(Fault::new(at, format!("this renders to more than {} MiB", Limits::RENDERED >> 20))),
        }
    }
}

/// The item at this position, counted from the end if negative.
fn item<'v>(items: &'v [Value], key: &str) -> Option<&'v Value> {
    match key.parse::<i64>().ok()? {
        place @ 0.. => items.get(usize::try_from(place).ok()?),
        place => items.get(items.len().checked_sub(usize::try_from(place.unsigned_abs()).ok()?)?),
    }
}
