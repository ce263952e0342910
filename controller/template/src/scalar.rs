//! The value of a YAML scalar: the core schema of YAML 1.2, on the side of caution.
//!
//! A number with a leading zero (`0644`) stays text. YAML 1.1 reads it as octal and 1.2 as decimal,
//! and for a mode either would be wrong. Dates stay text, as do `yes` and `no`.

use std::borrow::Cow;

use saphyr_parser::{ScalarStyle, Tag};
use serde_json::Number;

use crate::expression::ExprKind;

/// The value, or its error.
pub(crate) fn value(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>) -> Result<ExprKind, String> {
    match tag.map(core_tag).transpose()? {
        Some("str") => Ok(ExprKind::Text(text.into())),
        Some(name) => {
            let value = plain(&text)?;
            let fits = match name {
                "int" => matches!(&value, ExprKind::Number(n) if !n.is_f64()),
                "float" => matches!(&value, ExprKind::Number(_)),
                "bool" => matches!(&value, ExprKind::Bool(_)),
                _ => matches!(&value, ExprKind::Null),
            };
            if fits { Ok(value) } else { Err(format!("this is not what the tag '!!{name}' says")) }
        }
        None if style == ScalarStyle::Plain => plain(&text),
        None => Ok(ExprKind::Text(text.into())),
    }
}

fn core_tag(tag: &Tag) -> Result<&str, String> {
    let known = ["str", "int", "float", "bool", "null"];
    match known.into_iter().find(|name| tag.is_yaml_core_schema() && *name == tag.suffix) {
        Some(name) => Ok(name),
        None if tag.handle.is_empty() && tag.suffix == "!" => Ok("str"),
        None => Err(format!("the tag '{tag}' is not supported here; leave it out")),
    }
}

/// Whether a collection may carry this tag.
pub(crate) fn collection_tag(tag: Option<&Tag>, name: &str) -> Result<(), String> {
    match tag {
        None => Ok(()),
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == name => Ok(()),
        Some(tag) => Err(format!("the tag '{tag}' is not supported here; leave it out")),
    }
}

fn plain(text: &str) -> Result<ExprKind, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => ExprKind::Null,
        "true" | "True" | "TRUE" => ExprKind::Bool(true),
        "false" | "False" | "FALSE" => ExprKind::Bool(false),
        _ => match number(text)? {
            Some(number) => ExprKind::Number(number),
            None => ExprKind::Text(text.into()),
        },
    })
}

/// A plain number: `5`, `-5`, `0x0800`, `0o17`, `1.5`, `1e3`; `None` for text.
pub(crate) fn number(text: &str) -> Result<Option<Number>, String> {
    let too_large =
        || Err(format!("the number {} is too large; quote it to make it text", crate::error::cut(text)));
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let Some(first) = digits.bytes().next().filter(|b| b.is_ascii_digit() || *b == b'.') else {
        return Ok(None);
    };
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(rest) = text.strip_prefix(prefix) {
            if rest.is_empty() || !rest.chars().all(|c| c.is_digit(radix)) {
                return Ok(None);
            }
            return u64::from_str_radix(rest, radix).map_or_else(|_| too_large(), |n| Ok(Some(n.into())));
        }
    }
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        if first == b'0' && digits.len() > 1 {
            return Ok(None);
        }
        let unsigned = text.strip_prefix('+').unwrap_or(text);
        return match (unsigned.parse::<u64>(), unsigned.parse::<i64>()) {
            (Ok(n), _) => Ok(Some(n.into())),
            (_, Ok(n)) => Ok(Some(n.into())),
            _ => too_large(),
        };
    }
    if !is_float(digits) {
        return Ok(None);
    }
    match text.parse::<f64>().ok().and_then(Number::from_f64) {
        Some(number) => Ok(Some(number)),
        None => too_large(),
    }
}

/// `( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|e| {
            let e = e.strip_prefix(['-', '+']).unwrap_or(e);
            !e.is_empty() && digits(e)
        })
}
