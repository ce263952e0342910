//! Properties of resources in templates: the form of a type's table of properties, and readers that types share.
//! [`CONFIRM_TIMEOUT`] is the default of `confirm_timeout`.
//!
//! The same readers serve literals while a template is parsed, and rendered properties. Null stands for unknown
//! or absent values; readers accept null inside a value.
//!
//! Absent: the properties of each type (`model/types.rs`), and that an unknown or missing one is refused
//! (`controller/template/src/check_properties.rs`).

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Map, Value};
use thiserror::Error;

use crate::NodeId;
use crate::model::OnDelete;
pub use crate::model::flow::Step;
use crate::near::suggestion;

/// A property of a type.
#[derive(Debug)]
pub struct Property {
    pub name: &'static str,
    /// Whether it must be given.
    pub required: bool,
    /// Whether a value will do, as far as that is known without the other properties.
    pub check: fn(&Value) -> Result<(), PropertyError>,
    /// The type of the values.
    pub kind: PropertyType,
    /// A description of one line.
    pub about: &'static str,
    /// The default, as JSON; empty if there is none, or none that JSON can express.
    pub default: &'static str,
    /// Limits of the values beyond their type.
    pub constraint: Constraint,
    /// The changes that replace the resource: empty for none, `always`, or a description.
    pub replaces: &'static str,
}

/// The type of a property's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertyType {
    Any,
    Boolean,
    Integer,
    List,
    Map,
    Number,
    String,
}

/// Limits of a value beyond its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// No limits that can be described briefly.
    None,
    /// The least and the greatest value.
    Range(u64, u64),
    /// The permitted words.
    OneOf(&'static [&'static str]),
    /// A description for people.
    Text(&'static str),
}

/// A value that a property does not take.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path}: {message}")]
pub struct PropertyError {
    /// Below `properties`, such as `network_config[0].type`.
    pub path: String,
    /// The problem and the expected value.
    pub message: String,
    /// The path, step by step.
    pub steps: Vec<Step>,
    /// The single key of a map in an unexpected place: most often a misspelt function.
    pub lone_key: Option<Box<str>>,
}

/// The rendered properties of one resource.
pub struct RenderedProperties<'a>(pub &'a Map<String, Value>);

type Read<T> = Result<T, PropertyError>;

impl Property {
    /// A property that must be given.
    pub const fn required(name: &'static str, check: fn(&Value) -> Read<()>) -> Self {
        Self {
            name,
            required: true,
            check,
            kind: PropertyType::Any,
            about: "",
            default: "",
            constraint: Constraint::None,
            replaces: "",
        }
    }

    /// A property that may be left out.
    pub const fn optional(name: &'static str, check: fn(&Value) -> Read<()>) -> Self {
        Self { required: false, ..Self::required(name, check) }
    }

    /// `node`, for all types with an object on a node.
    pub const fn node() -> Self {
        Self::required("node", |value| node(value).map(drop))
            .is(PropertyType::String, "the node it is on")
            .replaces()
    }

    /// `on_delete`, for all types that can restore the state before Muster.
    pub const fn on_delete() -> Self {
        Self::optional("on_delete", |value| on_delete(value).map(drop))
            .is(PropertyType::String, "what a delete leaves: what was there before, or what is there")
            .default("\"restore\"")
            .one_of(&["restore", "keep"])
    }

    /// `confirm_timeout`, for all types that can cut a node off.
    pub const fn confirm_timeout() -> Self {
        Self::optional("confirm_timeout", |value| confirm_timeout(value).map(drop))
            .is(
                PropertyType::Integer,
                "seconds to reach the controller again after a change; otherwise the agent undoes it",
            )
            .default("120")
            .range(1, CONFIRM_TIMEOUT_MAX)
    }

    /// Sets the type and the description.
    pub const fn is(mut self, kind: PropertyType, about: &'static str) -> Self {
        self.kind = kind;
        self.about = about;
        self
    }

    /// Sets the default, as JSON.
    pub const fn default(mut self, value: &'static str) -> Self {
        self.default = value;
        self
    }

    /// Sets the least and the greatest value.
    pub const fn range(mut self, least: u64, most: u64) -> Self {
        self.constraint = Constraint::Range(least, most);
        self
    }

    /// Sets the permitted words.
    pub const fn one_of(mut self, words: &'static [&'static str]) -> Self {
        self.constraint = Constraint::OneOf(words);
        self
    }

    /// Sets the description of the limits, for people.
    pub const fn limits(mut self, text: &'static str) -> Self {
        self.constraint = Constraint::Text(text);
        self
    }

    /// Changing the property makes another object, which replaces this one.
    pub const fn replaces(self) -> Self {
        self.replaces_where("always")
    }

    /// The same for some changes of it.
    pub const fn replaces_where(mut self, which: &'static str) -> Self {
        self.replaces = which;
        self
    }

    /// The default as a value; `None` if there is no default, or none that a single value can express.
    pub fn default_value(&self) -> Option<Value> {
        serde_json::from_str(self.default).ok()
    }
}

impl PropertyType {
    /// Heat's names for them.
    pub fn as_str(self) -> &'static str {
        match self {
            PropertyType::Any => "any",
            PropertyType::Boolean => "boolean",
            PropertyType::Integer => "integer",
            PropertyType::List => "list",
            PropertyType::Map => "map",
            PropertyType::Number => "number",
            PropertyType::String => "string",
        }
    }
}

impl PropertyError {
    /// An error about the value itself.
    pub fn new(message: impl Into<String>) -> Self {
        Self { path: String::new(), message: message.into(), steps: Vec::new(), lone_key: None }
    }

    /// The same a step further up.
    #[must_use]
    pub fn within(mut self, step: Step) -> Self {
        self.steps.insert(0, step);
        self.path.clear();
        for step in &self.steps {
            step.push(&mut self.path);
        }
        self
    }

    /// Below a path as text: `[0].members[1].name`.
    #[must_use]
    pub fn within_path(mut self, path: &str) -> Self {
        let keys = path.split('.').flat_map(|part| part.split('[')).filter(|part| !part.is_empty());
        self.steps = keys
            .map(|part| match part.strip_suffix(']').and_then(|index| index.parse().ok()) {
                Some(index) => Step::Item(index),
                None => Step::Key(part.into()),
            })
            .collect();
        self.path = path.to_owned();
        self
    }

    /// The same below a key.
    #[must_use]
    pub fn within_key(self, key: &str) -> Self {
        self.within(Step::Key(key.into()))
    }
}

impl RenderedProperties<'_> {
    /// A property that may be left out.
    ///
    /// # Errors
    /// The value is invalid.
    pub fn get<T>(&self, name: &str, read: impl FnOnce(&Value) -> Read<T>) -> Read<Option<T>> {
        let value = self.0.get(name).filter(|value| !value.is_null());
        value.map(read).transpose().map_err(|error| error.within_key(name))
    }

    /// A property that must be given.
    ///
    /// # Errors
    /// The value is invalid or absent.
    pub fn required<T>(&self, name: &str, read: impl FnOnce(&Value) -> Read<T>) -> Read<T> {
        self.get(name, read)?
            .ok_or_else(|| PropertyError::new("this property must be given").within_key(name))
    }
}

impl Step {
    /// Puts it behind a path as text.
    pub fn push(&self, path: &mut String) {
        match self {
            Step::Key(key) => push_key(path, key),
            Step::Item(index) => push_item(path, *index),
        }
    }
}

/// Puts a key behind a path as text.
pub fn push_key(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(cut(key));
}

/// Puts an item of a list behind a path as text.
pub fn push_item(path: &mut String, index: usize) {
    write!(path, "[{index}]").expect("writing to a String does not fail");
}

/// The first part of a text, for messages: a whole file may be in it.
pub fn cut(text: &str) -> &str {
    const SHOWN: usize = 80;
    text.char_indices().nth(SHOWN).map_or(text, |(end, _)| &text[..end])
}

/// The kind of a value, for messages.
pub fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// The value is not of the type that is wanted.
pub fn unwanted(wanted: &str, value: &Value) -> PropertyError {
    let mut error = PropertyError::new(format!("want {wanted}, got {}", describe(value)));
    if let Value::Object(map) = value
        && let (Some(key), 1) = (map.keys().next(), map.len())
    {
        error.lone_key = Some(key.as_str().into());
    }
    error
}

/// Default of the seconds that the agent waits to reach the controller over a new connection after
/// a change.
pub const CONFIRM_TIMEOUT: u32 = 120;
/// An hour without a way back is no protection any more.
pub const CONFIRM_TIMEOUT_MAX: u64 = 3600;

/// Text; numbers and booleans become text as in Heat.
///
/// # Errors
/// The value is a list or a map.
pub fn text(value: &Value) -> Read<String> {
    scalar_text(value).map(Cow::into_owned).ok_or_else(|| unwanted("text", value))
}

/// A value as text, as in Heat: `True` and `False` for booleans, empty for null; `None` for a list or a map.
pub fn scalar_text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::Null => Some(Cow::Borrowed("")),
        Value::Bool(true) => Some(Cow::Borrowed("True")),
        Value::Bool(false) => Some(Cow::Borrowed("False")),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// A whole number, also as text.
///
/// # Errors
/// The value is not a whole number, or out of bounds.
pub fn integer(value: &Value, least: u64, most: u64) -> Read<u64> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            return Err(unwanted("a number", value));
        }
    };
    number
        .filter(|n| (least..=most).contains(n))
        .ok_or_else(|| PropertyError::new(format!("want a whole number from {least} to {most}")))
}

/// The seconds of a guarded change.
///
/// # Errors
/// The value is no number, or out of bounds.
pub fn confirm_timeout(value: &Value) -> Read<u32> {
    let seconds = integer(value, 1, CONFIRM_TIMEOUT_MAX)?;
    u32::try_from(seconds).map_err(|_| PropertyError::new("too many seconds"))
}

/// The name of a node.
///
/// # Errors
/// No node can be called so.
pub fn node(value: &Value) -> Read<NodeId> {
    let Value::String(text) = value else { return Err(unwanted("the name of a node", value)) };
    text.parse().map_err(|error| PropertyError::new(format!("{error}")))
}

/// The state that a delete leaves.
///
/// # Errors
/// The value is neither word.
pub fn on_delete(value: &Value) -> Read<OnDelete> {
    let restores = one_of_two(value, ["restore", "keep"])?;
    Ok(if restores { OnDelete::Restore } else { OnDelete::Keep })
}

/// Whether a word is the first of two; it must be one of them.
///
/// # Errors
/// The value is neither word.
pub fn one_of_two(value: &Value, [first, second]: [&str; 2]) -> Read<bool> {
    match value.as_str() {
        Some(word) if word == first || word == second => Ok(word == first),
        Some(other) => {
            let near = suggestion(other, [first, second]);
            Err(PropertyError::new(format!("want {first} or {second}, got '{}'{near}", cut(other))))
        }
        None => Err(unwanted(&format!("{first} or {second}"), value)),
    }
}

/// A boolean; text is refused.
///
/// # Errors
/// The value is no boolean.
pub fn flag(value: &Value) -> Read<bool> {
    value.as_bool().ok_or_else(|| unwanted("true or false", value))
}

/// A text that one of the model's checks accepts; the check's error gives the reason otherwise.
///
/// # Errors
/// The value is no text, or the check refuses it: then the error begins with the text.
pub fn checked<E: std::fmt::Display>(
    wanted: &str,
    value: &Value,
    check: impl FnOnce(&str) -> Result<(), E>,
) -> Read<String> {
    let Value::String(text) = value else { return Err(unwanted(wanted, value)) };
    match check(text) {
        Ok(()) => Ok(text.clone()),
        Err(error) => Err(PropertyError::new(format!("'{}': {error}", cut(text)))),
    }
}

/// Whether a value, or anything in it, is null: a function's value will be there.
pub fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(map) => map.values().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
