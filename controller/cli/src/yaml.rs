//! JSON values as YAML. Strings that could be read as anything else are quoted, as JSON quotes them.

use std::fmt::Write;

use serde_json::Value;

/// Writes a value as a document.
pub fn document(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => block(&mut out, value, 0),
        Value::Array(list) if !list.is_empty() => block(&mut out, value, 0),
        _ => {
            scalar(&mut out, value);
            out.push('\n');
        }
    }
    out
}

/// A map or list that is not empty, from the start of its first line (indented already) to its last.
fn block(out: &mut String, value: &Value, depth: usize) {
    let mut first = true;
    let mut indent = |out: &mut String| {
        if !std::mem::take(&mut first) {
            out.extend(std::iter::repeat_n("  ", depth));
        }
    };
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                indent(out);
                string(out, key);
                out.push(':');
                if is_block(value) {
                    out.push('\n');
                    out.extend(std::iter::repeat_n("  ", depth + 1));
                    block(out, value, depth + 1);
                } else {
                    out.push(' ');
                    scalar(out, value);
                    out.push('\n');
                }
            }
        }
        Value::Array(list) => {
            for value in list {
                indent(out);
                out.push_str("- ");
                if is_block(value) {
                    block(out, value, depth + 1);
                } else {
                    scalar(out, value);
                    out.push('\n');
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            scalar(out, value);
            out.push('\n');
        }
    }
}

fn is_block(value: &Value) -> bool {
    value.as_object().is_some_and(|map| !map.is_empty())
        || value.as_array().is_some_and(|list| !list.is_empty())
}

fn scalar(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => string(out, text),
        // Empty maps and lists are the same in both languages.
        other => write!(out, "{other}").expect("writing to a String does not fail"),
    }
}

fn string(out: &mut String, text: &str) {
    if is_plain(text) {
        out.push_str(text);
    } else {
        write!(out, "{}", Value::from(text)).expect("writing to a String does not fail");
    }
}

/// Whether every YAML reader takes the text as this string: it begins with a letter, and has no syntax and no
/// reserved word.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
        && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nested() {
        let value = json!({
            "name": "web-1",
            "labels": {},
            "list": [1, "a b", [true, null], {"k": "v", "l": [2.5]}],
            "map": {"deep": {"er": "2026-01-01"}},
        });
        assert_eq!(
            document(&value),
            "labels: {}\nlist:\n  - 1\n  - \"a b\"\n  - - true\n    - null\n  - k: v\n    l:\n      - 2.5\nmap:\n  \
             deep:\n    er: \"2026-01-01\"\nname: web-1\n"
        );
    }

    #[test]
    fn what_could_be_read_otherwise_is_quoted() {
        for text in
            ["yes", "No", "null", "~", "", "1", "1e3", "0x1f", "a: b", "- a", "#c", "é", "a\nb", "on", ".inf"]
        {
            assert_eq!(document(&json!(text)), format!("{}\n", json!(text)), "{text}");
        }
        for text in ["web-1.example.org", "/etc", "Muster", "a_b"] {
            let plain = !text.starts_with('/');
            assert_eq!(document(&json!(text)) == format!("{text}\n"), plain, "{text}");
        }
    }
}
