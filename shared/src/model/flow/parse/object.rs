//! Maps with known keys, lists with a bound.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::near::cut;
use super::value::number;
use super::{BadEntry, Read};
use crate::near::suggestion_or_all;

/// A map of which every key is known. Null is as good as not given.
pub(super) struct Object<'a>(&'a Map<String, Value>);

impl<'a> Object<'a> {
    pub fn new(what: &str, map: &'a Map<String, Value>, known: &[&str]) -> Read<Self> {
        match map.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(Self(map)),
            Some(key) => {
                let near = suggestion_or_all(key, known);
                Err(BadEntry::new(format!("{what} has no '{}'{near}", cut(key))).key(key))
            }
        }
    }

    pub fn read<T>(&self, key: &str, read: impl FnOnce(&Value) -> Read<T>) -> Read<Option<T>> {
        let value = self.0.get(key).filter(|value| !value.is_null());
        value.map(read).transpose().map_err(|bad| bad.key(key))
    }

    pub fn number<T: TryFrom<u64>>(&self, key: &str, bounds: RangeInclusive<u64>) -> Read<Option<T>> {
        self.read(key, |value| number(value, bounds))
    }

    /// `true` where it is given; `false` is as good as not given.
    pub fn flag(&self, key: &str) -> Read<bool> {
        Ok(self.read(key, flag)?.unwrap_or(false))
    }

    pub fn list<T>(&self, key: &str, most: usize, read: impl Fn(&Value) -> Read<T>) -> Read<Option<Vec<T>>> {
        self.read(key, |value| list(value, most, read))
    }
}

pub(super) fn list<T>(value: &Value, most: usize, read: impl Fn(&Value) -> Read<T>) -> Read<Vec<T>> {
    let Value::Array(items) = value else { return Err(unwanted("a list", value)) };
    if items.len() > most {
        return Err(BadEntry::new(format!("{} items; at most {most} are allowed", items.len())));
    }
    items.iter().enumerate().map(|(n, item)| read(item).map_err(|bad| bad.item(n))).collect()
}

pub(super) fn flag(value: &Value) -> Read<bool> {
    value.as_bool().ok_or_else(|| unwanted("true or false", value))
}

pub(super) fn unwanted(wanted: &str, value: &Value) -> BadEntry {
    let found = match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(it) => it.to_string(),
        Value::Number(it) => format!("the number {it}"),
        Value::String(text) => format!("'{}'", cut(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
    };
    BadEntry::new(format!("want {wanted}, got {found}"))
}
