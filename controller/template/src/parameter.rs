//! The `parameters` section: definitions, and values checked and converted by type as Heat does it.
//!
//! Absent: which value a parameter gets (`bind.rs`), and the masking of hidden ones (`masking.rs`).

mod constraint;
mod cron;
mod custom;
mod pattern;

use std::rc::Rc;

use serde::Serialize;
use serde_json::{Map, Number, Value};

use crate::Limits;
use crate::build::Reader;
use crate::error::{Error, Path, Place, cut, suggestion, suggestion_or_all};
use crate::expression::{Entry, Expr, ExprKind, describe};
use crate::scalar;
use crate::text::{python, python_text, text_of};
use crate::version::Version;
pub(crate) use constraint::{Constraint, RULES};
pub(crate) use custom::names as custom_constraints;

/// HOT's types of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterType {
    /// Text; numbers and booleans become text.
    String,
    /// An integer or a float, also as text.
    Number,
    /// A map or a list, also as JSON text.
    Json,
    /// A list of texts, also as `a,b,c`.
    CommaDelimitedList,
    /// True or false, or one of Heat's words for them.
    Boolean,
}

/// An entry of `parameters`.
#[derive(Clone, Debug)]
pub struct ParameterDef {
    pub name: Box<str>,
    /// The type of the values.
    pub kind: ParameterType,
    /// A text for operators.
    pub description: Option<Box<str>>,
    /// A text for operators.
    pub label: Option<Box<str>>,
    /// The value is masked wherever it is shown.
    pub hidden: bool,
    /// An update may not change the value; the engine enforces this.
    pub immutable: bool,
    /// Keywords for operators who search for parameters.
    pub tags: Vec<Box<str>>,
    /// The converted default; a parameter without one must be given.
    pub default: Option<Value>,
    /// The error of a default that is not of the type: as in Heat, it matters where no value is given.
    pub(crate) wrong_default: Option<WrongDefault>,
    /// The error of a default that the constraints do not allow: it matters whatever is given, but where an
    /// environment's `parameter_defaults` replace the default of a nested template
    /// (`heat/engine/hot/template.py`, `param_schemata`).
    pub(crate) forbidden_default: Option<WrongDefault>,
    pub(crate) constraints: Vec<Constraint>,
    pub(crate) at: Place,
}

/// A default that is not of its parameter's type.
#[derive(Clone, Debug)]
pub(crate) struct WrongDefault {
    pub at: Place,
    pub message: Box<str>,
}

pub(crate) const TYPES: [(&str, ParameterType); 5] = [
    ("string", ParameterType::String),
    ("number", ParameterType::Number),
    ("json", ParameterType::Json),
    ("comma_delimited_list", ParameterType::CommaDelimitedList),
    ("boolean", ParameterType::Boolean),
];
pub(crate) const KEYS: [&str; 8] =
    ["type", "default", "description", "label", "hidden", "immutable", "constraints", "tags"];

impl ParameterType {
    /// The name in templates.
    pub fn name(self) -> &'static str {
        TYPES.iter().find(|(_, kind)| *kind == self).expect("every type is in the table").0
    }

    /// Converts a given value to this type, or returns the error.
    pub(crate) fn convert(self, given: &Value) -> Result<Value, String> {
        let wrong = || format!("want {}, got {}", self.wanted(), shown(given));
        match (self, given) {
            (_, Value::Null) => Err(format!("want {}, got nothing", self.wanted())),
            (Self::String, Value::String(_) | Value::Number(_) | Value::Bool(_)) => {
                Ok(Value::String(text_of(given).into_owned()))
            }
            // As in Heat, a boolean stays one.
            (Self::Number, Value::Number(_) | Value::Bool(_)) => Ok(given.clone()),
            (Self::Number, Value::String(text)) => number(text).map(Value::Number).ok_or_else(wrong),
            // As in Heat: an empty text stays one, and any other is JSON of any kind.
            (Self::Json, Value::String(text)) if text.is_empty() => Ok(given.clone()),
            (Self::Json, Value::String(text)) => {
                serde_json::from_str(text).map_err(|error| format!("want {}: {error}", self.wanted()))
            }
            (Self::Json, _) => Ok(given.clone()),
            (Self::CommaDelimitedList, Value::Array(items)) => {
                Ok(items.iter().map(|item| Value::String(python_text(item))).collect())
            }
            (Self::CommaDelimitedList, Value::String(text)) if text.is_empty() => {
                Ok(Value::Array(Vec::new()))
            }
            // As in Heat, spaces around a comma are part of the items.
            (Self::CommaDelimitedList, Value::String(text)) => Ok(text.split(',').map(Value::from).collect()),
            (Self::CommaDelimitedList, Value::Number(_)) => {
                Ok(Value::Array(vec![Value::String(text_of(given).into_owned())]))
            }
            (Self::Boolean, Value::Bool(_)) => Ok(given.clone()),
            (Self::Boolean, Value::String(_) | Value::Number(_)) => {
                boolean(&text_of(given)).map(Value::Bool).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }

    /// The value of this type that stands for null where a nested stack or an OS::Heat::Value is given one.
    pub(crate) fn empty(self) -> Value {
        match self {
            Self::String => Value::from(""),
            Self::Number => Value::from(0),
            Self::Json => Value::Object(Map::new()),
            Self::CommaDelimitedList => Value::Array(Vec::new()),
            Self::Boolean => Value::Bool(false),
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Self::String => "text",
            Self::Number => "a number",
            Self::Json => "a map or a list, or JSON text of one",
            Self::CommaDelimitedList => "a list, or text such as 'a,b'",
            Self::Boolean => "true or false",
        }
    }
}

impl ParameterDef {
    /// Converts a given value, if all constraints allow it.
    pub(crate) fn take(&self, given: &Value) -> Result<Value, String> {
        self.converted(given).and_then(|value| self.allowed(value))
    }

    /// As [`ParameterDef::take`], without a copy of what needs no conversion.
    pub(crate) fn take_shared(&self, given: Rc<Value>) -> Result<Rc<Value>, String> {
        match (self.kind, &*given) {
            (ParameterType::Json, Value::Object(_) | Value::Array(_)) => match self.refusal(&given) {
                None => Ok(given),
                Some(message) => Err(message),
            },
            _ => self.take(&given).map(Rc::new),
        }
    }

    /// As [`ParameterDef::take`], of a value from outside of templates.
    pub(crate) fn take_outer(&self, given: &Value) -> Result<Value, String> {
        self.converted_outer(given).and_then(|value| self.allowed(value))
    }

    /// As [`ParameterDef::converted`], of a value from outside of templates: Heat makes a text of any value for
    /// a `string` there, and a property of a nested stack must be a text.
    pub(crate) fn converted_outer(&self, given: &Value) -> Result<Value, String> {
        match (self.kind, given) {
            (ParameterType::String, Value::Array(_) | Value::Object(_)) => Ok(Value::String(python(given))),
            _ => self.converted(given),
        }
    }

    /// Converts a given value to the parameter's type. Errors do not show the value of a hidden parameter.
    pub(crate) fn converted(&self, given: &Value) -> Result<Value, String> {
        let hidden = |message| match self.hidden {
            true => format!("want {}, got {}", self.kind.wanted(), describe(given)),
            false => message,
        };
        self.kind.convert(given).map_err(hidden)
    }

    /// The default; `None` if there is none.
    ///
    /// # Errors
    /// A default that is not of the parameter's type.
    pub(crate) fn default_value(&self, file: &str) -> Result<Option<Value>, Error> {
        match &self.wrong_default {
            Some(found) => Err(self.default_error(file, found)),
            None => Ok(self.default.clone()),
        }
    }

    /// # Errors
    /// A default that the constraints do not allow.
    pub(crate) fn check_default(&self, file: &str) -> Result<(), Error> {
        match &self.forbidden_default {
            Some(found) => Err(self.default_error(file, found)),
            None => Ok(()),
        }
    }

    fn default_error(&self, file: &str, wrong: &WrongDefault) -> Error {
        let mut path = Path::default();
        for key in ["parameters", &*self.name, "default"] {
            path.key(key);
        }
        Error::new(file, wrong.at, path.as_str(), &wrong.message)
    }

    /// A value of its type, if all constraints allow it.
    pub(crate) fn allowed(&self, value: Value) -> Result<Value, String> {
        match self.refusal(&value) {
            None => Ok(value),
            Some(message) => Err(message),
        }
    }

    fn refusal(&self, value: &Value) -> Option<String> {
        self.constraints.iter().find_map(|constraint| constraint.refusal(value, self.hidden))
    }
}

fn shown(given: &Value) -> String {
    match given {
        Value::Number(_) | Value::Bool(_) => format!("'{given}'"),
        // Not the text itself, since the parameter may be hidden.
        Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => describe(given).to_owned(),
    }
}

/// Parses as Python's `int()` and `float()`, as far as JSON has such a number.
fn number(text: &str) -> Option<Number> {
    let text = text.trim();
    if let Ok(Some(number)) = scalar::number(text) {
        return Some(number);
    }
    // A leading zero is allowed here: the type says that this is a number.
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse::<i64>().ok()).flatten().map(Number::from)
}

/// Parses as `strutils.bool_from_string(strict=True)` in Heat.
fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "t" | "true" | "on" | "y" | "yes" | "1" => Some(true),
        "f" | "false" | "off" | "n" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// Reads one definition. A wrong definition still defines the name, so that its uses are not errors too.
pub(crate) fn define(reader: &mut Reader<'_>, name: &str, at: Place, body: Expr) -> ParameterDef {
    let mut definition = ParameterDef {
        name: name.into(),
        kind: ParameterType::String,
        description: None,
        label: None,
        hidden: false,
        immutable: false,
        tags: Vec::new(),
        default: None,
        wrong_default: None,
        forbidden_default: None,
        constraints: Vec::new(),
        at,
    };
    if name.is_empty() || name.chars().count() > Limits::NAME {
        reader.error(at, format!("a parameter's name has 1 to {} characters", Limits::NAME));
    }
    let ExprKind::Map(entries) = body.kind else {
        reader.error(body.at, format!("want a map with a 'type', got {}", body.describe()));
        return definition;
    };
    let (mut kind, mut default, mut constraints) = (None, None, None);
    for entry in entries {
        let before = reader.path.key(&entry.key);
        match &*entry.key {
            "type" => kind = Some(type_of(reader, &entry.value)),
            "default" => default = Some(entry.value),
            "description" => definition.description = text(reader, entry.value),
            "label" => definition.label = text(reader, entry.value),
            "hidden" => definition.hidden = flag(reader, &entry.value),
            "immutable" => definition.immutable = flag(reader, &entry.value),
            "constraints" => constraints = Some(entry.value),
            "tags" => {
                reader.needs(entry.at, "'tags' of a parameter", Version::Queens);
                definition.tags = tags(reader, &entry.value);
            }
            _ => unknown_key(reader, &entry),
        }
        reader.path.leave(before);
    }
    match kind {
        None => reader.error(at, "a parameter needs a 'type'"),
        Some(None) => {}
        Some(Some(kind)) => {
            definition.kind = kind;
            if let Some(constraints) = constraints {
                let before = reader.path.key("constraints");
                definition.constraints = constraint::read(reader, kind, constraints);
                reader.path.leave(before);
            }
            definition.default = default.and_then(|default| default_value(&mut definition, &default));
        }
    }
    definition
}

fn type_of(reader: &mut Reader<'_>, value: &Expr) -> Option<ParameterType> {
    let ExprKind::Text(name) = &value.kind else {
        reader.error(value.at, format!("want the name of a type, got {}", value.describe()));
        return None;
    };
    let found = TYPES.iter().find(|(known, _)| *known == &**name).map(|(_, kind)| *kind);
    if found.is_none() {
        let near = suggestion_or_all(name, &TYPES.map(|(name, _)| name));
        reader.error(value.at, format!("unknown type '{}'{near}", cut(name)));
    }
    found
}

fn default_value(definition: &mut ParameterDef, default: &Expr) -> Option<Value> {
    // As in Heat: a default of null is no default.
    if matches!(default.kind, ExprKind::Null) {
        return None;
    }
    let value = match definition.converted_outer(&default.sketch()) {
        Ok(value) => value,
        Err(message) => {
            definition.wrong_default = Some(WrongDefault { at: default.at, message: message.into() });
            return None;
        }
    };
    match definition.allowed(value) {
        Ok(value) => Some(value),
        Err(message) => {
            definition.forbidden_default = Some(WrongDefault { at: default.at, message: message.into() });
            None
        }
    }
}

fn text(reader: &mut Reader<'_>, value: Expr) -> Option<Box<str>> {
    match value.kind {
        ExprKind::Text(text) => Some(text),
        ExprKind::Null => None,
        ExprKind::Number(_) | ExprKind::Bool(_) => Some(text_of(&value.sketch()).into()),
        ExprKind::List(_) | ExprKind::Map(_) | ExprKind::Call(_) | ExprKind::Invalid => {
            reader.error(value.at, format!("want text, got {}", value.describe()));
            None
        }
    }
}

fn flag(reader: &mut Reader<'_>, value: &Expr) -> bool {
    match ParameterType::Boolean.convert(&value.sketch()) {
        Ok(value) => value == Value::Bool(true),
        Err(message) => {
            reader.error(value.at, message);
            false
        }
    }
}

fn tags(reader: &mut Reader<'_>, value: &Expr) -> Vec<Box<str>> {
    let ExprKind::List(items) = &value.kind else {
        reader.error(value.at, format!("want a list of texts, got {}", value.describe()));
        return Vec::new();
    };
    let mut found = Vec::with_capacity(items.len());
    for item in items {
        if let ExprKind::Text(tag) = &item.kind {
            found.push(tag.clone())
        } else {
            reader.error(item.at, format!("want text, got {}", item.describe()))
        }
    }
    found
}

fn unknown_key(reader: &mut Reader<'_>, entry: &Entry) {
    let key = &*entry.key;
    let message = format!("unknown key '{}' of a parameter{}", cut(key), suggestion(key, KEYS));
    reader.error(entry.at, message);
}
