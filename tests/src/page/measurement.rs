//! A measurement: one line of JSON.

use anyhow::{Context as _, bail};
use serde_json::{Map, Value};

/// Two lines that agree in these fields measure the same.
const KIND: [&str; 20] = [
    "part",
    "bench",
    "what",
    "change",
    "after",
    "template",
    "group",
    "store",
    "shape",
    "link",
    "agents",
    "nodes",
    "members",
    "resources",
    "devices",
    "intents",
    "rules",
    "table",
    "routes",
    "vlan_ports",
];

/// A line of figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The line as it was printed.
    line: String,
    fields: Map<String, Value>,
}

impl Measurement {
    /// Reads a measurement from each line that is not empty. `name` is where the text is from.
    ///
    /// # Errors
    /// A line is not a JSON object.
    pub fn read_all(name: &str, text: &str) -> anyhow::Result<Vec<Self>> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let read = |(index, line): (usize, &str)| {
            Self::read(line.trim()).with_context(|| format!("{name}, line {}", index + 1))
        };
        lines.map(read).collect()
    }

    fn read(line: &str) -> anyhow::Result<Self> {
        match serde_json::from_str(line) {
            Ok(Value::Object(fields)) => Ok(Self { line: line.to_owned(), fields }),
            Ok(_) => bail!("a measurement is a JSON object"),
            Err(error) => Err(error).context("this is not JSON"),
        }
    }

    pub fn line(&self) -> &str {
        &self.line
    }

    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    /// The number at a path such as `acknowledged.p50_ms`.
    pub fn number(&self, path: &str) -> Option<f64> {
        let mut names = path.split('.');
        let first = self.fields.get(names.next()?)?;
        names.try_fold(first, |value, name| value.get(name))?.as_f64()
    }

    /// The text of a field; empty if there is none.
    pub fn text(&self, name: &str) -> &str {
        self.field(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn is_of_the_kind_of(&self, other: &Self) -> bool {
        KIND.iter().all(|name| self.field(name) == other.field(name))
    }
}

/// Returns `new`, and what `old` has of other kinds, sorted by part.
pub fn merge(mut old: Vec<Measurement>, new: Vec<Measurement>) -> Vec<Measurement> {
    old.retain(|measurement| !new.iter().any(|newer| newer.is_of_the_kind_of(measurement)));
    old.extend(new);
    old.sort_by(|one, other| one.text("part").cmp(other.text("part")));
    old
}
