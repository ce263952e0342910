//! Values as text, in Heat's form: `True` and `False` for booleans, JSON with sorted keys for maps and lists,
//! empty for null.
//!
//! Absent: functions that make texts (`render/text.rs`).

use std::borrow::Cow;

use muster_shared::property::scalar_text;
use serde_json::Value;

/// About as many bytes as a copy of the value takes.
pub(crate) fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| 8 + weight(item)).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| 8 + key.len() + weight(value)).sum(),
    }
}

/// A value as text, in Heat's form.
pub(crate) fn text_of(value: &Value) -> Cow<'_, str> {
    scalar_text(value).unwrap_or_else(|| Cow::Owned(json(value)))
}

/// A value as Python prints it: `{'a': [1, True, None]}`.
pub(crate) fn python(value: &Value) -> String {
    let items = |items: Vec<String>| items.join(", ");
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(_) | Value::Number(_) => text_of(value).into_owned(),
        Value::String(text) => quoted(text),
        Value::Array(all) => format!("[{}]", items(all.iter().map(python).collect())),
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| format!("{}: {}", quoted(key), python(value));
            format!("{{{}}}", items(map.iter().map(entry).collect()))
        }
    }
}

/// A value as Python's `str` writes it: a text is itself.
pub(crate) fn python_text(value: &Value) -> String {
    if let Value::String(text) = value { text.clone() } else { python(value) }
}

fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// JSON with the spaces and the escapes of Python's `json.dumps`, so that text made from it equals Heat's.
pub fn json(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (i, (key, item)) in map.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write_text(key, out);
                out.push_str(": ");
                write_json(item, out);
            }
            out.push('}');
        }
        Value::String(text) => write_text(text, out),
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
}

/// A text in ASCII, as Python's `json.dumps` writes it: other characters are escaped.
fn write_text(text: &str, out: &mut String) {
    let json = Value::from(text).to_string();
    let mut units = [0; 2];
    for c in json.chars() {
        match c {
            ' '..='~' => out.push(c),
            c => c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
        }
    }
}
