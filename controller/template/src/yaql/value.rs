//! Values while an expression is evaluated: cheap to copy, never deeper than [`DEPTH`](super::DEPTH).

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Number, Value};

#[derive(Clone, Debug)]
pub(super) enum Y {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Arc<str>),
    List(Arc<List>),
    Map(Arc<Map>),
    /// The pattern, which is known to be valid.
    Regex(Arc<str>),
}

#[derive(Debug)]
pub(super) struct List {
    pub items: Vec<Y>,
    pub depth: usize,
    weight: usize,
    pub form: Form,
}

/// The kind of a list in yaql.
#[derive(Debug)]
pub(super) enum Form {
    List,
    /// An iterator, made by a step of the expression: `list` expands it.
    Stream,
    /// A set, with its items in the order of [`Y::total`].
    Set(Vec<Y>),
}

#[derive(Debug)]
pub(super) struct Map {
    pub entries: BTreeMap<Arc<str>, Y>,
    pub depth: usize,
    weight: usize,
}

impl List {
    /// The items as they are compared: the order of a set means nothing.
    fn ordered(&self) -> &[Y] {
        match &self.form {
            Form::List | Form::Stream => &self.items,
            Form::Set(ordered) => ordered,
        }
    }

    /// The items of a set in order.
    pub fn set(&self) -> Option<&[Y]> {
        if let Form::Set(ordered) = &self.form { Some(ordered) } else { None }
    }
}

impl Y {
    pub fn text(text: &str) -> Self {
        Y::Text(text.into())
    }

    /// Data is bounded in depth before: by the template's text, and by the reader of JSON.
    pub fn from_json(value: &Value) -> Self {
        match value {
            Value::Null => Y::Null,
            Value::Bool(value) => Y::Bool(*value),
            Value::Number(number) => Self::from_number(number),
            Value::String(text) => Y::text(text),
            Value::Array(items) => Y::unbounded_list(items.iter().map(Y::from_json).collect(), Form::List),
            Value::Object(map) => Y::unbounded_map(
                map.iter().map(|(key, value)| (key.as_str().into(), Y::from_json(value))).collect(),
            ),
        }
    }

    pub fn from_number(number: &Number) -> Self {
        match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(n), ..) => Y::Int(n.into()),
            (_, Some(n), _) => Y::Int(n.into()),
            (.., Some(n)) => Y::Float(n),
            _ => Y::Null,
        }
    }

    pub fn unbounded_list(items: Vec<Y>, form: Form) -> Self {
        let depth = 1 + items.iter().map(Y::depth).max().unwrap_or(0);
        let weight =
            items.iter().fold(8, |sum: usize, item| sum.saturating_add(8).saturating_add(item.weight()));
        Y::List(Arc::new(List { items, depth, weight, form }))
    }

    pub fn unbounded_map(entries: BTreeMap<Arc<str>, Y>) -> Self {
        let depth = 1 + entries.values().map(Y::depth).max().unwrap_or(0);
        let weight = entries.iter().fold(8, |sum: usize, (key, value)| {
            sum.saturating_add(8 + key.len()).saturating_add(value.weight())
        });
        Y::Map(Arc::new(Map { entries, depth, weight }))
    }

    pub fn depth(&self) -> usize {
        match self {
            Y::List(list) => list.depth,
            Y::Map(map) => map.depth,
            Y::Null | Y::Bool(_) | Y::Int(_) | Y::Float(_) | Y::Text(_) | Y::Regex(_) => 0,
        }
    }

    /// The approximate number of bytes of its JSON. Each list and map keeps its weight: one value may contain
    /// another many times, and counting those would take as long as writing them.
    pub fn weight(&self) -> usize {
        match self {
            Y::Null | Y::Bool(_) | Y::Int(_) | Y::Float(_) | Y::Regex(_) => 8,
            Y::Text(text) => text.len(),
            Y::List(list) => list.weight,
            Y::Map(map) => map.weight,
        }
    }

    pub fn to_json(&self) -> Result<Value, String> {
        Ok(match self {
            Y::Null => Value::Null,
            Y::Bool(value) => Value::Bool(*value),
            Y::Int(n) => match (i64::try_from(*n), u64::try_from(*n)) {
                (Ok(n), _) => Value::from(n),
                (_, Ok(n)) => Value::from(n),
                _ => return Err("yaql: the number is too large".into()),
            },
            Y::Float(n) => Number::from_f64(*n).map(Value::Number).ok_or("yaql: the number is too large")?,
            Y::Text(text) => Value::from(&**text),
            Y::List(list) => list.items.iter().map(Y::to_json).collect::<Result<_, _>>()?,
            Y::Map(map) => {
                let entry = |(key, value): (&Arc<str>, &Y)| Ok((key.to_string(), value.to_json()?));
                Value::Object(map.entries.iter().map(entry).collect::<Result<_, String>>()?)
            }
            Y::Regex(_) => return Err("yaql: a regex is no value of a template".into()),
        })
    }

    /// The truth value as in Python.
    pub fn is_true(&self) -> bool {
        match self {
            Y::Null => false,
            Y::Bool(value) => *value,
            Y::Int(n) => *n != 0,
            Y::Float(n) => *n != 0.0,
            Y::Text(text) => !text.is_empty(),
            Y::List(list) => !list.items.is_empty(),
            Y::Map(map) => !map.entries.is_empty(),
            Y::Regex(_) => true,
        }
    }

    /// An order of all values, in which values that are equal in Python are equal: for sets.
    pub fn total(&self, other: &Y) -> Ordering {
        let rank = |value: &Y| match value {
            Y::Null => 0,
            Y::Bool(_) | Y::Int(_) | Y::Float(_) => 1,
            Y::Text(_) => 2,
            Y::List(list) if !matches!(list.form, Form::Set(_)) => 3,
            Y::List(_) => 4,
            Y::Map(_) => 5,
            Y::Regex(_) => 6,
        };
        match (self, other) {
            (Y::Text(a), Y::Text(b)) => a.cmp(b),
            (Y::List(a), Y::List(b)) if rank(self) == rank(other) => {
                let (a, b) = (a.ordered(), b.ordered());
                let pairs = a.iter().zip(b).map(|(a, b)| a.total(b));
                pairs.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
            }
            (Y::Map(a), Y::Map(b)) => {
                let pairs = a.entries.iter().zip(&b.entries);
                let pairs = pairs.map(|((k, a), (l, b))| k.cmp(l).then_with(|| a.total(b)));
                pairs.fold(Ordering::Equal, Ordering::then).then(a.entries.len().cmp(&b.entries.len()))
            }
            (Y::Regex(a), Y::Regex(b)) => a.cmp(b),
            _ => match (self.number(), other.number()) {
                (Some(a), Some(b)) => a.order(&b),
                _ => rank(self).cmp(&rank(other)),
            },
        }
    }

    pub fn equals(&self, other: &Y) -> bool {
        self.total(other) == Ordering::Equal
    }

    fn number(&self) -> Option<Y> {
        match self {
            Y::Bool(value) => Some(Y::Int(i128::from(*value))),
            Y::Int(_) | Y::Float(_) => Some(self.clone()),
            Y::Null | Y::Text(_) | Y::List(_) | Y::Map(_) | Y::Regex(_) => None,
        }
    }

    fn order(&self, other: &Y) -> Ordering {
        match (self, other) {
            (Y::Int(a), Y::Int(b)) => a.cmp(b),
            (a, b) => a.float().total_cmp(&b.float()),
        }
    }

    /// The value of a number.
    pub fn float(&self) -> f64 {
        match self {
            // Beyond 2^53 the nearest one, as in Python.
            Y::Int(n) => *n as f64,
            Y::Float(n) => *n + 0.0, // -0.0 is 0.0
            Y::Null | Y::Bool(_) | Y::Text(_) | Y::List(_) | Y::Map(_) | Y::Regex(_) => 0.0,
        }
    }

    /// The text as yaql's `str` writes it.
    pub fn shown(&self) -> String {
        match self {
            Y::Null => "null".into(),
            Y::Bool(value) => value.to_string(),
            Y::Int(n) => n.to_string(),
            Y::Float(n) => Number::from_f64(*n).map_or_else(String::new, |number| number.to_string()),
            Y::Text(text) => text.to_string(),
            Y::List(_) | Y::Map(_) => self.python(),
            Y::Regex(pattern) => pattern.to_string(),
        }
    }

    /// The text as Python's `str` writes it.
    pub fn python_text(&self) -> String {
        if let Y::Text(text) = self { text.to_string() } else { self.python() }
    }

    /// As Python's `repr` writes it, where yaql's lists are tuples.
    fn python(&self) -> String {
        match self {
            Y::Null | Y::Bool(_) | Y::Text(_) | Y::Int(_) | Y::Float(_) => {
                self.to_json().map(|value| crate::text::python(&value)).unwrap_or_default()
            }
            Y::List(list) => {
                let items: Vec<String> = list.items.iter().map(Y::python).collect();
                format!("({}{})", items.join(", "), if items.len() == 1 { "," } else { "" })
            }
            Y::Map(map) => {
                let entry =
                    |(key, value): (&Arc<str>, &Y)| format!("{}: {}", Y::text(key).python(), value.python());
                let entries: Vec<String> = map.entries.iter().map(entry).collect();
                format!("{{{}}}", entries.join(", "))
            }
            Y::Regex(pattern) => pattern.to_string(),
        }
    }

    /// A description for messages.
    pub fn describe(&self) -> &'static str {
        match self {
            Y::Null => "nothing",
            Y::Bool(_) => "a boolean",
            Y::Int(_) | Y::Float(_) => "a number",
            Y::Text(_) => "text",
            Y::List(_) => "a list",
            Y::Map(_) => "a map",
            Y::Regex(_) => "a regex",
        }
    }
}

/// An item in a set.
#[derive(Clone, Debug)]
pub(super) struct Key(pub Y);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(&other.0)
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total(&other.0)
    }
}
