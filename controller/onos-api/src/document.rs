//! Reads documents of ONOS: each value knows its place, so that what is wrong is named with where it is. Decides that a
//! key which ONOS has not is refused, so that a typing error is never passed over.
//!
//! Absent: what each key means (`criterion.rs`, `instruction.rs`, `rule.rs` and their neighbours).

use std::fmt;

use serde_json::{Map, Value};

/// The most characters of a document's own text in a message.
const SHOWN_MAX: usize = 60;

/// A value of a document that means nothing here, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub path: String,
    pub why: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.why),
            path => write!(f, "{path}: {}", self.why),
        }
    }
}

pub type Read<T> = Result<T, Wrong>;

/// A value, and where it is in its document.
#[derive(Clone, Debug)]
pub struct Part<'v> {
    value: &'v Value,
    path: String,
}

impl<'v> Part<'v> {
    /// The document itself.
    pub fn whole(value: &'v Value) -> Self {
        Self::at(value, "")
    }

    pub fn at(value: &'v Value, path: impl Into<String>) -> Self {
        Self { value, path: path.into() }
    }

    pub fn value(&self) -> &'v Value {
        self.value
    }

    pub fn wrong(&self, why: impl Into<String>) -> Wrong {
        Wrong { path: self.path.clone(), why: why.into() }
    }

    /// The path of this part; empty for the document itself.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The place of a key in it.
    pub fn place_of(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    fn map(&self) -> Read<&'v Map<String, Value>> {
        self.value.as_object().ok_or_else(|| self.wrong(format!("want a map, got {}", kind(self.value))))
    }

    /// Refuses any other key than these.
    pub fn only(&self, known: &[&str]) -> Read<()> {
        match self.map()?.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => {
                let (shown, known) = (shown(key), known.join(", "));
                Err(self.wrong(format!("ONOS has no '{shown}' here; it has {known}")))
            }
        }
    }

    /// The value of a key; none, if it is not there, or null.
    pub fn get(&self, key: &str) -> Read<Option<Part<'v>>> {
        let value = self.map()?.get(key).filter(|value| !value.is_null());
        Ok(value.map(|value| Part { value, path: self.place_of(key) }))
    }

    /// The value of a key that must be there.
    pub fn need(&self, key: &str) -> Read<Part<'v>> {
        self.get(key)?.ok_or_else(|| self.wrong(format!("'{key}' must be given")))
    }

    pub fn items(&self) -> Read<Vec<Part<'v>>> {
        let list = self.value.as_array();
        let list = list.ok_or_else(|| self.wrong(format!("want a list, got {}", kind(self.value))))?;
        let item = |(n, value): (usize, &'v Value)| Part { value, path: format!("{}[{n}]", self.path) };
        Ok(list.iter().enumerate().map(item).collect())
    }

    pub fn text(&self) -> Read<&'v str> {
        self.value.as_str().ok_or_else(|| self.wrong(format!("want a text, got {}", kind(self.value))))
    }

    pub fn is_true(&self) -> Read<bool> {
        match self.value {
            Value::Bool(is_true) => Ok(*is_true),
            Value::String(text) if text == "true" => Ok(true),
            Value::String(text) if text == "false" => Ok(false),
            other => Err(self.wrong(format!("want true or false, got {}", kind(other)))),
        }
    }

    /// A whole number up to `most`, also as text, decimal or 0x….
    pub fn number(&self, most: u64) -> Read<u64> {
        let number = match self.value {
            Value::Number(number) => number.as_u64(),
            Value::String(text) => number_of(text),
            _ => None,
        };
        number.filter(|number| *number <= most).ok_or_else(|| {
            self.wrong(format!("want a whole number from 0 to {most}, got {}", kind(self.value)))
        })
    }

    /// A negative number as the 16 bits that Java has of it.
    pub fn negative_16_bits(&self) -> Option<u16> {
        let number = match self.value {
            Value::String(text) => text.parse().ok(),
            other => other.as_i64(),
        };
        let short = i16::try_from(number?).ok().filter(|short| *short < 0)?;
        Some(u16::from_ne_bytes(short.to_ne_bytes()))
    }
}

/// A number in text, decimal or 0x….
pub fn number_of(text: &str) -> Option<u64> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) if digits(hex) => u64::from_str_radix(hex, 16).ok(),
        None if digits(text) => text.parse().ok(),
        Some(_) | None => None,
    }
}

/// A text of a document as a message has it.
pub fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).flat_map(char::escape_default).collect()
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(is_true) => is_true.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("'{}'", shown(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
    }
}
