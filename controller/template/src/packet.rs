//! The packet of a trace, from a text in YAML or JSON: a selector in the words of a flow rule, without a port. The
//! braces around it may be left out.
//!
//! Absent: the words themselves (`shared/src/model/flow/parse.rs`).

use muster_shared::model::flow::{Packet, Step, traffic_selector};
use serde_json::{Map, Value};

use crate::build::{Reader, Stop};
use crate::error::{Errors, Place, Sink, push_item, push_key};
use crate::source::{Source, begin, end};

const WHAT: &str = "a packet";
/// Bytes of the text: each field of a packet with the longest value.
const TEXT_MAX: usize = 16 * 1024;

/// Reads a packet: the lowest that the selector takes.
///
/// # Errors
/// Errors with their place.
pub fn packet(text: &str) -> Result<Packet, Errors> {
    let at = Place { line: 1, column: 1 };
    let fail = |path: &str, message: String| {
        let mut errors = Sink::new("packet");
        errors.push(at, path, message);
        Err(errors.into_errors())
    };
    if text.len() > TEXT_MAX {
        return fail("", format!("a packet has at most {TEXT_MAX} bytes, this one has {}", text.len()));
    }
    let text = text.trim();
    let braced = if text.starts_with('{') { text.to_owned() } else { format!("{{{text}}}") };
    let source = Source::new(&braced);
    let mut reader = Reader::new("packet", &source.text, source.shift);
    reader.functions = false;
    let mut fields = Map::new();
    // The errors contain the reason of a stop.
    let _stopped = read(&mut reader, &mut fields);
    if !reader.errors.is_empty() {
        return Err(reader.errors.into_errors());
    }
    match traffic_selector(&Value::Object(fields)) {
        Ok(selector) => Ok(Packet::of(&selector)),
        Err(bad) => {
            let mut path = String::new();
            for step in &bad.path {
                match step {
                    Step::Key(key) => push_key(&mut path, key),
                    Step::Item(index) => push_item(&mut path, *index),
                }
            }
            fail(&path, bad.message)
        }
    }
}

fn read(reader: &mut Reader<'_>, fields: &mut Map<String, Value>) -> Result<(), Stop> {
    if begin(reader, WHAT)?.is_none() {
        return Ok(());
    }
    while let Some((key, at)) = reader.key()? {
        let before = reader.path.key(&key);
        let value = reader.expr(1)?.sketch();
        if fields.insert(key.clone().into_owned(), value).is_some() {
            reader.errors.push(at, reader.path.as_str(), "this is given twice");
        }
        reader.path.leave(before);
    }
    end(reader, WHAT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_a_selector_with_or_without_braces() {
        let wanted = serde_json::json!({"eth_type": 2048, "ipv4_dst": "10.0.0.0", "ip_proto": 6});
        for text in [
            "{eth_type: ipv4, ipv4_dst: 10.0.0.0/24, ip_proto: tcp}",
            " eth_type: 0x0800, ipv4_dst: 10.0.0.0, ip_proto: 6 ",
            r#"{"eth_type": "0x0800", "ipv4_dst": "10.0.0.0", "ip_proto": 6}"#,
        ] {
            assert_eq!(packet(text).map(|packet| packet.to_json()), Ok(wanted.clone()), "{text}");
        }
        assert_eq!(packet(""), Ok(Packet::default()));
    }

    #[test]
    fn what_is_no_packet_is_refused() {
        for (text, wanted) in [
            ("in_port: p1", "in_port: packets come in at the port of 'from'"),
            ("ipv4_dst: 10.0.0.1", "eth_type"),
            ("eth_tpye: 5", "eth_type"),
            ("eth_type: 5, eth_type: 6", "twice"),
            ("[1]", "packet"),
            ("a: {", "packet"),
            ("{}\n---\n{}", "one document"),
            ("eth_dst: {get_param: x}", "eth_dst"),
        ] {
            let error = packet(text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{text:?}: {error}");
        }
        assert!(packet(&"x".repeat(TEXT_MAX + 1)).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = packet(&text);
        }
    }
}
