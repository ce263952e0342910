//! Reads the part of YAML (and so JSON) that network documents use, with the place of each error.
//!
//! Plain `yes`, `no`, `on` and `off` are booleans, as in os-net-config's YAML 1.1. Absent: anchors, tags,
//! several documents in one file.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};
use serde_json::{Map, Value};

/// Deeper than any document is; the stack must not depend on the input.
const DEPTH_MAX: usize = 64;

/// Reads one document. An error is `LINE:COL: what`.
pub fn parse(text: &str) -> Result<Value, String> {
    let mut reader = Reader { parser: Parser::new_from_str(text) };
    loop {
        match reader.next()? {
            (Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _) => {}
            (Event::StreamEnd, _) => return Ok(Value::Null),
            (event, span) => {
                let value = reader.value(event, span, 0)?;
                return match reader.next()? {
                    (Event::DocumentEnd, _) => match reader.next()? {
                        (Event::StreamEnd, _) => Ok(value),
                        (_, span) => Err(at(&span, "a second document: one file, one document")),
                    },
                    (_, span) => Err(at(&span, "more than one value")),
                };
            }
        }
    }
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), String> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                let marker = error.marker();
                Err(format!("{}:{}: {}", marker.line(), marker.col() + 1, error.info()))
            }
            None => Err("it ends too early".into()),
        }
    }

    fn value(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Value, String> {
        if depth > DEPTH_MAX {
            return Err(at(&span, "nested too deeply"));
        }
        match event {
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => Err(at(&span, "tags are not supported here; leave it out")),
            Event::Scalar(text, ScalarStyle::Plain, ..) => Ok(plain(&text)),
            Event::Scalar(text, ..) => Ok(Value::String(text.into_owned())),
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => return Ok(Value::Array(items)),
                        (event, span) => items.push(self.value(event, span, depth + 1)?),
                    }
                }
            }
            Event::MappingStart(..) => self.mapping(depth),
            Event::Alias(_) => Err(at(&span, "anchors and aliases are not supported here")),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => Err(at(&span, "a value is missing")),
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, String> {
        let mut map = Map::new();
        loop {
            let key = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Value::Object(map)),
                (Event::Scalar(key, _, _, None), span) => match map.contains_key(key.as_ref()) {
                    true => return Err(at(&span, "this key is there twice")),
                    false => key.into_owned(),
                },
                (_, span) => return Err(at(&span, "a key must be text")),
            };
            let (event, span) = self.next()?;
            let value = self.value(event, span, depth + 1)?;
            map.insert(key, value);
        }
    }
}

fn plain(text: &str) -> Value {
    match text.to_ascii_lowercase().as_str() {
        "" | "~" | "null" => Value::Null,
        "true" | "yes" | "on" => Value::Bool(true),
        "false" | "no" | "off" => Value::Bool(false),
        _ => match serde_json::from_str(text) {
            Ok(number @ Value::Number(_)) => number,
            _ => Value::String(text.to_owned()),
        },
    }
}

fn at(span: &Span, what: &str) -> String {
    format!("{}:{}: {what}", span.start.line(), span.start.col() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let text = "a: [1, 1.5, yes, No, ~, 'yes', 10.0.0.1/24, \"1\", 0x1]\nb: {c: }\n";
        let want = r#"{"a":[1,1.5,true,false,null,"yes","10.0.0.1/24","1","0x1"],"b":{"c":null}}"#;
        assert_eq!(parse(text).unwrap().to_string(), want);
        assert_eq!(parse(want).unwrap().to_string(), want, "JSON is YAML");
        assert_eq!(parse("").unwrap(), Value::Null);
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        for (text, want) in [
            ("a: 1\na: 2\n", "2:1: this key is there twice"),
            ("a: &x 1\nb: *x\n", "2:4: anchors"),
            ("a: !!str 1\n", "1:4: tags"),
            ("a: 1\n---\nb: 1\n", "2:1: a second document"),
            ("a: [1\n", "2:1: "),
            ("[a]: 1\n", "1:1: a key must be text"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(want), "{text:?}: {error}");
        }
        let deep = "[".repeat(100_000);
        assert!(parse(&deep).is_err());
    }
}
