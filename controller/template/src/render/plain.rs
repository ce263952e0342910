//! Functions that depend on one value alone. Arguments without a call are evaluated while a template is read.

use std::collections::BTreeSet;

use data_encoding::HEXLOWER;
use md5::{Digest, Md5};
use serde_json::{Map, Value};
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::{Fault, Scope, Step, url};
use crate::error::{Place, cut, suggestion_or_all};
use crate::expression::{Expr, ExprKind, Plain, describe};
use crate::text::{text_of, weight};

/// The error in an argument, and the item with the error.
pub(crate) struct Wrong {
    pub item: Option<usize>,
    pub message: String,
}

type Applied = Result<Value, Wrong>;

const ALGORITHMS: [&str; 6] = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"];

impl Scope<'_> {
    pub(super) fn plain(&self, at: Place, function: Plain, argument: &Expr) -> Result<Value, Fault> {
        let value = self.value(argument)?;
        let wrong = |Wrong { item, message }| match (&argument.kind, item) {
            (ExprKind::List(items), Some(index)) if index < items.len() => {
                Fault::new(items[index].at, message).within(|| Step::Item(index))
            }
            _ => Fault::new(at, message),
        };
        let made = apply(function, value, self.left.get()).map_err(wrong)?;
        self.spend(at, weight(&made))?;
        Ok(made)
    }
}

/// Applies a function to its argument, with a result of at most about `most` bytes.
pub(crate) fn apply(function: Plain, argument: Value, most: usize) -> Applied {
    match function {
        Plain::Contains => contains(argument),
        Plain::Digest => digest(argument),
        Plain::Equals => two(argument, "[VALUE, VALUE]").map(|(a, b)| Value::Bool(same(&a, &b))),
        Plain::Filter => filter(argument),
        Plain::ListConcat => list_concat(argument).map(Value::Array),
        Plain::ListConcatUnique => list_concat(argument).map(|list| Value::Array(unique(list))),
        Plain::MakeUrl => url::make(argument).map(Value::String).map_err(Wrong::whole),
        Plain::MapMerge => map_merge(argument),
        Plain::MapReplace => map_replace(argument),
        Plain::StrSplit => str_split(argument, most),
    }
}

impl Wrong {
    fn whole(message: impl Into<String>) -> Self {
        Self { item: None, message: message.into() }
    }

    fn item(index: usize, message: impl Into<String>) -> Self {
        Self { item: Some(index), message: message.into() }
    }
}

/// Equality as in Python: 1 is 1.0, and true is 1.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::Bool(on) => Some(f64::from(u8::from(*on))),
        Value::Number(number) => number.as_f64(),
        Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => None,
    };
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (Value::Number(a), Value::Number(b)) if !a.is_f64() && !b.is_f64() => a == b,
        _ => match (number(a), number(b)) {
            (Some(a), Some(b)) => a == b,
            _ => a == b,
        },
    }
}

/// A key that is equal for equal values, for lookups among many.
pub(crate) fn key_of(value: &Value) -> String {
    match value {
        Value::Bool(on) => u8::from(*on).to_string(),
        Value::Number(number) => match number.as_f64() {
            // Written as a whole number if a float holds that exactly.
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => {
                format!("{float:.0}")
            }
            _ => number.to_string(),
        },
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(key_of).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(map) => {
            let mut entries: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), key_of(value)))
                .collect();
            entries.sort_unstable();
            format!("{{{}}}", entries.join(","))
        }
        Value::Null | Value::String(_) => value.to_string(),
    }
}

fn two(argument: Value, wanted: &str) -> Result<(Value, Value), Wrong> {
    let got = if let Value::Array(items) = argument {
        match <[Value; 2]>::try_from(items) {
            Ok([first, second]) => return Ok((first, second)),
            Err(items) if items.len() < 2 => "too few items",
            Err(_) => "too many items",
        }
    } else {
        describe(&argument)
    };
    Err(Wrong::whole(format!("want {wanted}, got {got}")))
}

fn contains(argument: Value) -> Applied {
    let (value, sequence) = two(argument, "[VALUE, LIST]")?;
    match (&value, &sequence) {
        (_, Value::Array(items)) => Ok(Value::Bool(items.iter().any(|item| same(item, &value)))),
        (Value::String(part), Value::String(text)) => Ok(Value::Bool(text.contains(part.as_str()))),
        (_, Value::String(_)) => {
            Err(Wrong::item(0, format!("only text can be in a text, got {}", describe(&value))))
        }
        _ => Err(Wrong::item(1, format!("want a list to look in, got {}", describe(&sequence)))),
    }
}

fn digest(argument: Value) -> Applied {
    let (algorithm, value) = two(argument, "[ALGORITHM, TEXT]")?;
    let Value::String(algorithm) = algorithm else {
        return Err(Wrong::item(0, format!("want an algorithm, got {}", describe(&algorithm))));
    };
    let Value::String(text) = value else {
        return Err(Wrong::item(1, format!("want text to digest, got {}", describe(&value))));
    };
    let hex = match algorithm.to_ascii_lowercase().as_str() {
        "md5" => HEXLOWER.encode(&Md5::digest(&text)),
        "sha1" => HEXLOWER.encode(&Sha1::digest(&text)),
        "sha224" => HEXLOWER.encode(&Sha224::digest(&text)),
        "sha256" => HEXLOWER.encode(&Sha256::digest(&text)),
        "sha384" => HEXLOWER.encode(&Sha384::digest(&text)),
        "sha512" => HEXLOWER.encode(&Sha512::digest(&text)),
        _ => {
            let near = suggestion_or_all(&algorithm, &ALGORITHMS);
            return Err(Wrong::item(0, format!("unknown algorithm '{}'{near}", cut(&algorithm))));
        }
    };
    Ok(Value::String(hex))
}

fn filter(argument: Value) -> Applied {
    let (values, list) = two(argument, "[VALUES, LIST]")?;
    let items = match list {
        Value::Array(items) => items,
        Value::Null => return Ok(Value::Null),
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            return Err(Wrong::item(1, format!("want a list to filter, got {}", describe(&other))));
        }
    };
    let unwanted: BTreeSet<String> = match &values {
        Value::Array(values) => values.iter().map(key_of).collect(),
        Value::Null => BTreeSet::new(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            return Err(Wrong::item(0, format!("want a list of values, got {}", describe(other))));
        }
    };
    Ok(items.into_iter().filter(|item| !unwanted.contains(&key_of(item))).collect())
}

fn list_concat(argument: Value) -> Result<Vec<Value>, Wrong> {
    let Value::Array(lists) = argument else {
        return Err(Wrong::whole(format!("want a list of lists, got {}", describe(&argument))));
    };
    let mut all = Vec::new();
    for (index, list) in lists.into_iter().enumerate() {
        match list {
            Value::Array(items) => all.extend(items),
            Value::Null => {}
            other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
                return Err(Wrong::item(index, format!("want a list, got {}", describe(&other))));
            }
        }
    }
    Ok(all)
}

/// The first of equal ones stays, as in Heat since 2021.
fn unique(list: Vec<Value>) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    list.into_iter().filter(|item| seen.insert(key_of(item))).collect()
}

fn map_merge(argument: Value) -> Applied {
    let Value::Array(maps) = argument else {
        return Err(Wrong::whole(format!("want a list of maps, got {}", describe(&argument))));
    };
    let mut all = Map::new();
    for (index, map) in maps.into_iter().enumerate() {
        match map {
            Value::Object(map) => all.extend(map),
            Value::Null => {}
            other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                return Err(Wrong::item(index, format!("want a map, got {}", describe(&other))));
            }
        }
    }
    Ok(Value::Object(all))
}

fn map_replace(argument: Value) -> Applied {
    const WANTED: &str = "[MAP, {keys: …, values: …}]";
    let (map, replacements) = two(argument, WANTED)?;
    let map = or_empty(map, "a map").map_err(|message| Wrong::item(0, message))?;
    let mut replacements =
        or_empty(replacements, "a map of 'keys' and 'values'").map_err(|message| Wrong::item(1, message))?;
    let mut part = |name: &str| {
        let wrong = |message| Wrong::item(1, format!("'{name}': {message}"));
        or_empty(replacements.remove(name).unwrap_or_default(), "a map").map_err(wrong)
    };
    let (keys, values) = (part("keys")?, part("values")?);
    if let Some(key) = replacements.keys().next() {
        let near = suggestion_or_all(key, &["keys", "values"]);
        return Err(Wrong::item(1, format!("unknown key '{}' of map_replace{near}", cut(key))));
    }
    let mut out = Map::new();
    for (key, value) in &map {
        let new = match keys.get(key) {
            None | Some(Value::Null) => key.clone(),
            Some(new @ (Value::String(_) | Value::Number(_) | Value::Bool(_))) => text_of(new).into_owned(),
            Some(other) => {
                let message = format!("want text as the new key for '{}', got {}", cut(key), describe(other));
                return Err(Wrong::item(1, message));
            }
        };
        if (new != *key && map.contains_key(&new)) || out.contains_key(&new) {
            let message =
                format!("the key '{}' cannot become '{}': there is such a key", cut(key), cut(&new));
            return Err(Wrong::item(1, message));
        }
        // As in Heat, the number 5 is not the text '5', and keys of JSON are texts.
        let value = value.as_str().and_then(|text| values.get(text)).unwrap_or(value);
        out.insert(new, value.clone());
    }
    Ok(Value::Object(out))
}

fn or_empty(value: Value, wanted: &str) -> Result<Map<String, Value>, String> {
    match value {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Err(format!("want {wanted}, got {}", describe(&other)))
        }
    }
}

fn str_split(argument: Value, most: usize) -> Applied {
    const WANTED: &str = "[DELIMITER, TEXT, INDEX]";
    let (delimiter, text, index) = if let Value::Array(items) = &argument {
        match items.as_slice() {
            [delimiter, text] => (delimiter, text, None),
            [delimiter, text, index] => (delimiter, text, Some(index)),
            _ => {
                let number = if items.len() < 2 { "few" } else { "many" };
                return Err(Wrong::whole(format!("want {WANTED}, got too {number} items")));
            }
        }
    } else {
        return Err(Wrong::whole(format!("want {WANTED}, got {}", describe(&argument))));
    };
    let delimiter = match delimiter {
        Value::String(delimiter) if !delimiter.is_empty() => delimiter,
        Value::String(_) => return Err(Wrong::item(0, "the delimiter is empty")),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            return Err(Wrong::item(0, format!("want text as delimiter, got {}", describe(other))));
        }
    };
    let text = match text {
        Value::String(text) => text,
        Value::Null => return Ok(Value::Null),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            return Err(Wrong::item(1, format!("want text to split, got {}", describe(other))));
        }
    };
    let parts = || text.split(delimiter.as_str());
    let count = parts().count();
    let Some(index) = index else {
        // A text with many commas becomes values much larger than the text.
        if count.saturating_mul(size_of::<Value>()) > most.max(text.len()) {
            return Err(Wrong::item(1, format!("it has {count} parts, which is too many")));
        }
        return Ok(parts().map(Value::from).collect());
    };
    let number = match index {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let Some(number) = number else {
        return Err(Wrong::item(2, format!("want an index, got {}", describe(index))));
    };
    // As in Python: -1 is the last.
    let from_start = usize::try_from(number).ok();
    let from_end = usize::try_from(number.unsigned_abs()).ok().and_then(|back| count.checked_sub(back));
    match if number < 0 { from_end } else { from_start }.and_then(|index| parts().nth(index)) {
        Some(part) => Ok(Value::from(part)),
        None => Err(Wrong::item(2, format!("the index is {number}; want 0 to {}", count - 1))),
    }
}
