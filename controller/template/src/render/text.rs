//! `str_replace`, `str_replace_strict`, `str_replace_vstrict` and `list_join`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use super::{Fault, Scope, Step};
use crate::Limits;
use crate::error::{Place, cut};
use crate::expression::{Expr, Strictness, describe};
use crate::text::text_of;

/// The most texts in one message.
const SHOWN: usize = 5;

/// The cost of a replacement in addition to its text: ten million empty ones are not free.
const PIECE: usize = 16;

/// Part of a text in which keys are replaced.
enum Piece<'a> {
    /// Still to be looked at.
    Text(&'a str),
    /// Put in; not looked at again.
    Value(&'a str),
}

impl Scope<'_> {
    /// As Heat's `Replace`: the longest key first, and inserted text is not searched again.
    pub(super) fn str_replace(
        &self,
        at: Place,
        template: &Expr,
        params: &Expr,
        strictness: Strictness,
    ) -> Result<Value, Fault> {
        let text = self.value(template).map_err(|fault| fault.within_key("template"))?;
        let Value::String(text) = text else {
            let message = format!("want text as 'template', got {}", describe(&text));
            return Err(Fault::new(template.at, message));
        };
        let params_at = params.at;
        let params = self.value(params).map_err(|fault| fault.within_key("params"))?;
        let Value::Object(params) = params else {
            let message = format!("want a map as 'params', got {}", describe(&params));
            return Err(Fault::new(params_at, message));
        };
        if strictness == Strictness::Very
            && let Some((key, _)) = params.iter().find(|(_, value)| is_empty(value))
        {
            return Err(Fault::new(params_at, format!("'{}' has an empty value", cut(key))));
        }
        let mut keys: Vec<(&str, Cow<'_, str>)> =
            params.iter().map(|(key, value)| (key.as_str(), text_of(value))).collect();
        if keys.iter().any(|(key, _)| key.is_empty()) {
            return Err(Fault::new(at, "an empty text cannot be replaced"));
        }
        keys.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then(a.cmp(b)));
        let (replaced, found) = self.replace(at, &text, &keys)?;
        if strictness > Strictness::Lenient && found.len() < keys.len() {
            let absent = keys.iter().filter(|(key, _)| !found.contains(key));
            let absent: Vec<String> = absent.take(SHOWN).map(|(key, _)| format!("'{}'", cut(key))).collect();
            let message = format!("the template does not have {}", absent.join(", "));
            return Err(Fault::new(template.at, message));
        }
        Ok(Value::String(replaced))
    }

    /// The text with values in place of keys, and the keys that it contains.
    fn replace<'k>(
        &self,
        at: Place,
        text: &str,
        keys: &[(&'k str, Cow<'_, str>)],
    ) -> Result<(String, BTreeSet<&'k str>), Fault> {
        if text.len().saturating_mul(keys.len()) > Limits::SEARCHED {
            return Err(Fault::new(at, "too many params for a template of this size"));
        }
        let mut found = BTreeSet::new();
        let mut pieces = vec![Piece::Text(text)];
        for (key, value) in keys.iter().filter(|(key, _)| text.contains(key)) {
            let mut split = Vec::with_capacity(pieces.len() + 2);
            for piece in pieces {
                let Piece::Text(text) = piece else {
                    split.push(piece);
                    continue;
                };
                for (n, part) in text.split(key).enumerate() {
                    if n > 0 {
                        found.insert(*key);
                        self.spend(at, value.len() + PIECE)?;
                        split.push(Piece::Value(value));
                    }
                    split.push(Piece::Text(part));
                }
            }
            pieces = split;
        }
        self.spend(at, text.len())?;
        let pieces = pieces.into_iter().map(|(Piece::Text(part) | Piece::Value(part))| part);
        Ok((pieces.collect(), found))
    }

    pub(super) fn list_join(&self, at: Place, delimiter: &Expr, lists: &[Expr]) -> Result<Value, Fault> {
        let delimiter_at = delimiter.at;
        let delimiter = self.value(delimiter)?;
        let Value::String(delimiter) = delimiter else {
            let message = format!("want text as delimiter, got {}", describe(&delimiter));
            return Err(Fault::new(delimiter_at, message));
        };
        let mut out = String::new();
        let mut first = true;
        for (i, list) in lists.iter().enumerate() {
            let within = |fault: Fault| fault.within(|| Step::Item(i + 1));
            let items = self.value(list).map_err(within)?;
            // As in Heat, a value that is false in Python joins nothing, and is no error.
            if !is_true(&items) {
                continue;
            }
            let Value::Array(items) = items else {
                let message = format!("want a list to join, got {}", describe(&items));
                return Err(within(Fault::new(list.at, message)));
            };
            for item in &items {
                let text = text_of(item);
                self.spend(at, delimiter.len() + text.len())?;
                if !first {
                    out.push_str(&delimiter);
                }
                first = false;
                out.push_str(&text);
            }
        }
        Ok(Value::String(out))
    }
}

/// The truth value as in Python.
pub(crate) fn is_true(value: &Value) -> bool {
    match value {
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        other @ (Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_)) => !is_empty(other),
    }
}

/// As in Heat: zero and false are not empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
