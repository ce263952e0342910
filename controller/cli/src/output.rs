//! Output on stdout: a table for people, one JSON or YAML document for machines.

pub use muster_picture::words::{count, printable, word};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::yaml;

/// `-o`: for people, or one document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Table,
    Json,
    Yaml,
}

/// The value of `-o`: a format, or a picture or file where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Document(Format),
    File(PathBuf),
    Dot,
    Svg,
}

impl Output {
    /// Reads `-o`; pictures are not shown among the values, and refused later by name.
    pub fn of_documents() -> impl TypedValueParser<Value = Self> {
        Self::parser(true)
    }

    /// Reads `-o` where there are pictures.
    pub fn of_graphs() -> impl TypedValueParser<Value = Self> {
        Self::parser(false)
    }

    /// Reads `-o` where a file is written: what is no format is its path.
    pub fn of_files() -> impl TypedValueParser<Value = Self> {
        PathBufValueParser::new().map(|path| {
            let format = path.to_str().and_then(|text| Format::from_str(text, false).ok());
            format.map_or(Self::File(path), Self::Document)
        })
    }

    /// The failure of a command that has no such output.
    pub fn is_for_others() -> Failure {
        Failure::usage("-o dot and -o svg are for 'muster stack graph' and 'muster topology show' alone")
    }

    fn parser(hide: bool) -> impl TypedValueParser<Value = Self> {
        let documents = Format::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let pictures = ["dot", "svg"].map(|name| PossibleValue::new(name).hide(hide));
        PossibleValuesParser::new(documents.chain(pictures)).try_map(|text| match text.as_str() {
            "dot" => Ok(Self::Dot),
            "svg" => Ok(Self::Svg),
            text => Format::from_str(text, false).map(Self::Document),
        })
    }
}

/// The JSON key of a field of the API. A field that the type lacks does not compile; a key that differs from
/// the field's name follows `as`.
macro_rules! key {
    ($type:ident . $field:ident) => {
        key!($type.$field as stringify!($field))
    };
    ($type:ident . $field:ident as $key:expr) => {{
        const _: fn(&$type) = |view| {
            let _ = &view.$field;
        };
        $key
    }};
}
pub(crate) use key;

/// A column of a table: the heading, and the cell of a row.
pub type Column<T> = (&'static str, fn(&T) -> String);

/// Prints a document, or its text from `table`.
pub fn document(format: Format, value: &Value, table: impl FnOnce(&Value) -> String) -> Result<(), Failure> {
    match format {
        Format::Table => print(&table(value)),
        Format::Json => print(&format!("{value:#}\n")),
        Format::Yaml => print(&yaml::document(value)),
    }
}

/// Prints a document, or the text that `table` makes of its type in the API.
pub fn view<T: DeserializeOwned>(
    format: Format,
    answer: &Value,
    table: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    match format {
        Format::Table => print(&table(&read(answer)?)),
        Format::Json | Format::Yaml => document(format, answer, |_| String::new()),
    }
}

/// Prints a document, or its text, which needs keys that this version may not know.
pub fn written(
    format: Format,
    answer: &Value,
    text: impl FnOnce(&Value) -> Result<String, Failure>,
) -> Result<(), Failure> {
    match format {
        Format::Table => print(&text(answer)?),
        Format::Json | Format::Yaml => document(format, answer, |_| String::new()),
    }
}

/// Parses an answer of the API. Fields that a controller of another version does not send are empty.
pub fn read<T: DeserializeOwned>(answer: &Value) -> Result<T, Failure> {
    T::deserialize(answer).map_err(|error| {
        Failure::failed(format!("the controller's answer is not that of this version's API: {error}"))
    })
}

/// Writes to stdout. A reader that has seen enough (`| head`) is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot write to stdout: {error}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A list as rows under headings.
pub fn table<T>(columns: &[Column<T>], list: &[T]) -> String {
    Rows::default().table(columns, list, true)
}

/// The keys of a document as received; empty if it is no object.
pub fn object(document: &Value) -> Map<String, Value> {
    document.as_object().cloned().unwrap_or_default()
}

/// An object as one line per key, in the given order; other keys come last.
pub fn fields(order: &[&str], map: &Map<String, Value>) -> String {
    let rest = map.keys().map(String::as_str).filter(|key| !order.contains(key));
    let keys = order.iter().copied().filter(|key| map.contains_key(*key)).chain(rest);
    // A text of several lines has them below one another.
    let values = |value: &Value| match value.as_str().map(|text| lines(text, "")) {
        Some(text) if text.contains('\n') => text.lines().map(ToOwned::to_owned).collect(),
        _ => vec![on_one_line(value)],
    };
    let of = |key: &str, value: String, first: bool| {
        vec![if first { printable(key) } else { String::new() }, value]
    };
    rows(keys.flat_map(|key| {
        values(&map[key]).into_iter().enumerate().map(move |(index, value)| of(key, value, index == 0))
    }))
}

/// Any value on one line.
pub fn cell(value: &(impl Serialize + ?Sized)) -> String {
    on_one_line(&json!(value))
}

fn on_one_line(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => word(text),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(list) if list.is_empty() => "-".to_owned(),
        Value::Array(list) => list.iter().map(on_one_line).collect::<Vec<_>>().join(","),
        Value::Object(map) if map.is_empty() => "-".to_owned(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| format!("{}={}", printable(key), on_one_line(value)))
            .collect::<Vec<_>>()
            .join(","),
    }
}

/// A text of several lines, such as a script's output: each line printable, those below the first
/// after `indent`.
pub fn lines(text: &str, indent: &str) -> String {
    text.trim_end().lines().map(printable).collect::<Vec<_>>().join(&format!("\n{indent}"))
}

/// Cells, aligned; they are printable.
pub fn rows(rows: impl Iterator<Item = Vec<String>>) -> String {
    Rows::default().lines(rows)
}

/// Rows that are printed in parts: no column becomes narrower.
#[derive(Default)]
pub struct Rows {
    widths: Vec<usize>,
}

impl Rows {
    /// The next rows, under their headings where these are the first.
    pub fn table<T>(&mut self, columns: &[Column<T>], list: &[T], is_first: bool) -> String {
        let headings = || columns.iter().map(|(heading, _)| (*heading).to_owned()).collect();
        let cells = |row: &T| columns.iter().map(|(_, cell)| cell(row)).collect();
        self.lines(is_first.then(headings).into_iter().chain(list.iter().map(cells)))
    }

    fn lines(&mut self, rows: impl Iterator<Item = Vec<String>>) -> String {
        const GAP: usize = 2;
        let rows: Vec<Vec<String>> = rows.collect();
        for row in &rows {
            self.widths.resize(self.widths.len().max(row.len()), 0);
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut out = String::new();
        for row in &rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&self.widths) {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + GAP));
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use muster_api::node::NodeView;

    use super::*;

    #[test]
    fn columns_are_aligned_and_gaps_filled() {
        let list = json!([{"name": "web-1", "labels": {"role": "web"}}, {"name": "a", "labels": {}}]);
        let list: Vec<NodeView> = read(&list).unwrap();
        let columns: [Column<NodeView>; 3] = [
            ("NAME", |node| cell(&node.name)),
            ("LABELS", |node| cell(&node.labels)),
            ("SEEN", |node| cell(&node.last_seen)),
        ];
        assert_eq!(table(&columns, &list), "NAME   LABELS    SEEN\nweb-1  role=web  -\na      -         -\n");
    }

    #[test]
    fn fields_come_in_the_order_asked_for() {
        let object = json!({"b": 1, "a": ["x", "y"], "c": null});
        assert_eq!(fields(&["c", "b", "absent"], &super::object(&object)), "c  -\nb  1\na  x,y\n");
    }

    #[test]
    fn lines_of_a_text_stand_below_one_another() {
        let object = json!({"reason": "status 7:\none\n\u{1b}two\n", "a": "x"});
        assert_eq!(
            fields(&["reason"], &super::object(&object)),
            "reason  status 7:\n        one\n        \\u{1b}two\na       x\n"
        );
        assert_eq!(lines("one\ntwo\r\n\n", "  "), "one\n  two");
        assert_eq!(lines("", "  "), "");
    }

    #[test]
    fn nothing_drives_the_terminal() {
        let list = ["a\u{1b}[2Jb\n"];
        assert_eq!(table(&[("NAME", |name| cell(name))], &list), "NAME\na\\u{1b}[2Jb\\n\n");
    }
}
