//! A template's text as a plain map, for those who show it whole: `openstack stack template show`.
//!
//! Absent: what it means (`parse.rs`).

use saphyr_parser::Event;
use serde_json::Value;

use crate::Limits;
use crate::build::{Reader, Stop};
use crate::error::Errors;
use crate::parse::check_size;
use crate::source::{Source, begin, end};

const WHAT: &str = "a template";

/// The document as it is written; a function is a map of one key.
///
/// # Errors
/// The text is no map in YAML; the error has the place.
pub fn document(name: &str, text: &str) -> Result<Value, Errors> {
    check_size(name, text, Limits::TEXT)?;
    let source = Source::template(text);
    let (mut reader, mut read) = read_once(name, &source);
    if read.is_err() && reader.is_amendable && source.amend() {
        (reader, read) = read_once(name, &source);
    }
    match read {
        Ok(value) if reader.errors.is_empty() => Ok(value),
        Ok(_) | Err(Stop) => Err(reader.errors.into_errors()),
    }
}

fn read_once<'t>(name: &str, source: &'t Source<'_>) -> (Reader<'t>, Result<Value, Stop>) {
    let mut reader = Reader::of_heat(name, source);
    reader.functions = false;
    let read = whole(&mut reader);
    (reader, read)
}

fn whole(reader: &mut Reader<'_>) -> Result<Value, Stop> {
    let Some(at) = begin(reader, WHAT)? else { return Ok(Value::Object(serde_json::Map::new())) };
    let value = reader.expr_from(Event::MappingStart(0, None), at, 1)?.sketch();
    end(reader, WHAT)?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn functions_and_aliases_are_shown_as_they_are_meant() {
        let text = "resources:\n  a: &a {type: X, properties: {p: {get_param: q}}}\n  b: *a\n";
        let one = json!({"type": "X", "properties": {"p": {"get_param": "q"}}});
        assert_eq!(document("t", text).unwrap(), json!({"resources": {"a": one, "b": one}}));
        assert_eq!(document("t", "").unwrap(), json!({}));
        assert_eq!(document("t", "{\"a\": [1, null, true]}").unwrap(), json!({"a": [1, null, true]}));
    }

    #[test]
    fn bad_texts_are_errors() {
        for text in ["- a\n", "a: [", "a: 1\n---\nb: 2\n"] {
            assert!(!document("t", text).unwrap_err().0.is_empty(), "{text}");
        }
        let deep = format!("a: {}{}", "[".repeat(100), "]".repeat(100));
        assert!(document("t", &deep).is_err());
    }
}
