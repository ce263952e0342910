//! A map of the file, which knows the keys that were read. The others are named as left out.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::Malformed;

/// A map of the file.
pub(crate) struct Part<'a> {
    pub path: String,
    /// `None`: the file has nothing there, as in `eth0:`.
    map: Option<&'a Map<String, Value>>,
    read: BTreeSet<&'a str>,
}

impl<'a> Part<'a> {
    pub fn of(path: impl Into<String>, value: &'a Value) -> Result<Self, Malformed> {
        let path = path.into();
        let map = match value {
            Value::Object(map) => Some(map),
            Value::Null => None,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                let path = if path.is_empty() { "the file".to_owned() } else { path };
                return Err(Malformed::new(path, "a map is wanted"));
            }
        };
        Ok(Self { path, map, read: BTreeSet::new() })
    }

    /// The place of a key.
    pub fn at(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub fn take(&mut self, key: &str) -> Option<&'a Value> {
        let (key, value) = self.map?.get_key_value(key)?;
        self.read.insert(key);
        Some(value).filter(|value| !value.is_null())
    }

    /// The keys that are there.
    pub fn keys(&self) -> Vec<&'a str> {
        self.map.into_iter().flatten().map(|(key, _)| key.as_str()).collect()
    }

    /// The keys of a map with their values.
    pub fn named_values(&mut self, key: &str) -> Result<Vec<(&'a str, &'a Value)>, Malformed> {
        let map = self.part(key)?.and_then(|part| part.map);
        Ok(map.into_iter().flatten().map(|(name, value)| (name.as_str(), value)).collect())
    }

    /// A text; numbers count as one.
    pub fn text(&mut self, key: &str) -> Result<Option<String>, Malformed> {
        let path = self.at(key);
        self.take(key).map(|value| text(&path, value)).transpose()
    }

    pub fn truth(&mut self, key: &str) -> Result<Option<bool>, Malformed> {
        let path = self.at(key);
        let truth = |value: &Value| match value {
            Value::Bool(truth) => Ok(*truth),
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                Err(Malformed::new(path, "true or false is wanted"))
            }
        };
        self.take(key).map(truth).transpose()
    }

    /// A whole number, also as text, and with a prefix of `0x`.
    pub fn number(&mut self, key: &str) -> Result<Option<u32>, Malformed> {
        let Some(written) = self.text(key)? else { return Ok(None) };
        let number = match written.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => written.parse().ok(),
        };
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(Malformed::new(self.at(key), "a number from 0 to 4294967295 is wanted")),
        }
    }

    /// A list of texts.
    pub fn texts(&mut self, key: &str) -> Result<Vec<String>, Malformed> {
        self.items(key)?.into_iter().map(|(path, value)| text(&path, value)).collect()
    }

    /// A list, with the place of each item.
    pub fn items(&mut self, key: &str) -> Result<Vec<(String, &'a Value)>, Malformed> {
        let path = self.at(key);
        match self.take(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                Ok(items.iter().enumerate().map(|(at, value)| (format!("{path}[{at}]"), value)).collect())
            }
            Some(_) => Err(Malformed::new(path, "a list is wanted")),
        }
    }

    /// A list of maps.
    pub fn parts(&mut self, key: &str) -> Result<Vec<Part<'a>>, Malformed> {
        self.items(key)?.into_iter().map(|(path, value)| Part::of(path, value)).collect()
    }

    pub fn part(&mut self, key: &str) -> Result<Option<Part<'a>>, Malformed> {
        let path = self.at(key);
        self.take(key).map(|value| Part::of(path, value)).transpose()
    }

    /// A map of maps.
    pub fn named(&mut self, key: &str) -> Result<Vec<(&'a str, Part<'a>)>, Malformed> {
        let Some(part) = self.part(key)? else { return Ok(Vec::new()) };
        let Some(map) = part.map else { return Ok(Vec::new()) };
        map.iter().map(|(name, value)| Ok((name.as_str(), Part::of(part.at(name), value)?))).collect()
    }

    /// Keys that say nothing which a document needs.
    pub fn skip(&mut self, keys: &[&str]) {
        for key in keys {
            self.take(key);
        }
    }

    /// The keys that were not read, by place.
    pub fn unread(&self) -> Vec<String> {
        let Some(map) = self.map else { return Vec::new() };
        map.keys().filter(|key| !self.read.contains(key.as_str())).map(|key| self.at(key)).collect()
    }

    /// Names the keys that were not read.
    pub fn end(self, left_out: &mut Vec<String>) {
        left_out.extend(
            self.unread().into_iter().map(|path| format!("{path}: a network document has no such setting")),
        );
    }
}

pub(crate) fn text(path: &str, value: &Value) -> Result<String, Malformed> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            Err(Malformed::new(path, "a text is wanted"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_that_nobody_reads_are_named() {
        let value = json!({"a": 1, "b": {"c": true, "d": null}, "e": [{"f": 2}], "0x": "0x30", "g": "x"});
        let mut part = Part::of("top", &value).unwrap();
        assert_eq!(part.number("a").unwrap(), Some(1));
        assert_eq!(part.number("0x").unwrap(), Some(0x30));
        let mut b = part.part("b").unwrap().unwrap();
        assert_eq!(b.truth("c").unwrap(), Some(true));
        assert_eq!(b.unread(), ["top.b.d"]);
        let e = part.parts("e").unwrap();
        assert_eq!(e[0].unread(), ["top.e[0].f"]);
        assert_eq!(part.unread(), ["top.g"]);
        assert_eq!(part.truth("g").unwrap_err().to_string(), "top.g: true or false is wanted");
        assert_eq!(part.texts("g").unwrap_err().to_string(), "top.g: a list is wanted");
        assert_eq!(
            part.number("g").unwrap_err().to_string(),
            "top.g: a number from 0 to 4294967295 is wanted"
        );
        assert!(part.named("a").is_err() && Part::of("", &json!([])).is_err());
    }
}
