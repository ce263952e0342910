//! The value of a YAML scalar, by the dialect of its document.
//!
//! Templates and environments are in the YAML 1.1 of PyYAML, as Heat reads them: `yes` is true, `0644` is 420,
//! `12:30` is 750, `1_000` is 1000, and `1e3` is text. Other documents, and JSON, are in the core schema of YAML 1.2,
//! on the side of caution: there `0644`, `yes` and `no` stay text. Dates stay text in both.
//!
//! Absent: keys of maps (`build.rs`), and which mode of a file `0644` is (`parse.rs`).

use std::borrow::Cow;

use saphyr_parser::{ScalarStyle, Tag};
use serde_json::Number;

use crate::expression::ExprKind;

/// The rules by which unquoted text becomes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// YAML 1.2's core schema.
    Core,
    /// YAML 1.1 as PyYAML has it.
    PyYaml,
}

/// The value, or its error.
pub(crate) fn value(
    text: Cow<'_, str>,
    style: ScalarStyle,
    tag: Option<&Tag>,
    dialect: Dialect,
) -> Result<ExprKind, String> {
    match tag.map(core_tag).transpose()? {
        Some("str") => Ok(ExprKind::Text(text.into())),
        Some(name) => {
            let value = plain(&text, dialect)?;
            let fits = match name {
                "int" => matches!(&value, ExprKind::Number(n) if !n.is_f64()),
                "float" => matches!(&value, ExprKind::Number(_)),
                "bool" => matches!(&value, ExprKind::Bool(_)),
                _ => matches!(&value, ExprKind::Null),
            };
            if fits { Ok(value) } else { Err(format!("this is not what the tag '!!{name}' says")) }
        }
        None if style == ScalarStyle::Plain => plain(&text, dialect),
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

/// The value of unquoted text.
pub(crate) fn plain(text: &str, dialect: Dialect) -> Result<ExprKind, String> {
    let found = match dialect {
        Dialect::Core => number(text)?,
        Dialect::PyYaml => number_of_1_1(text)?,
    };
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => ExprKind::Null,
        "true" | "True" | "TRUE" => ExprKind::Bool(true),
        "false" | "False" | "FALSE" => ExprKind::Bool(false),
        "yes" | "Yes" | "YES" | "on" | "On" | "ON" if dialect == Dialect::PyYaml => ExprKind::Bool(true),
        "no" | "No" | "NO" | "off" | "Off" | "OFF" if dialect == Dialect::PyYaml => ExprKind::Bool(false),
        _ => match found {
            Some(number) => ExprKind::Number(number),
            None => ExprKind::Text(text.into()),
        },
    })
}

/// Whether a number of YAML 1.1 is octal by its leading zero alone: what people write for the mode of a file.
pub(crate) fn is_octal(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let rest = digits.strip_prefix('0').unwrap_or_default();
    !rest.is_empty() && rest.bytes().all(|b| matches!(b, b'0'..=b'7' | b'_'))
}

/// A number by the patterns of PyYAML: `0644`, `0x1F`, `0b101`, `1_000`, `12:30:45`, `1.5e+3`; `None` for text, as
/// `1e3`, `08` and `0o17` are.
fn number_of_1_1(text: &str) -> Result<Option<Number>, String> {
    let too_large =
        || format!("the number {} is too large; quote it to make it text", crate::error::cut(text));
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let negative = text.starts_with('-');
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Ok(None);
    }
    let digits: String = unsigned.chars().filter(|c| *c != '_').collect();
    let made = |whole: Option<i128>| {
        let signed = whole.map(|whole| if negative { -whole } else { whole });
        let number = signed.and_then(|n| {
            i64::try_from(n).map(Number::from).or_else(|_| u64::try_from(n).map(Number::from)).ok()
        });
        number.map(Some).ok_or_else(too_large)
    };
    let radix = |digits: &str, radix: u32| i128::from_str_radix(digits, radix).ok();
    for (prefix, base) in [("0x", 16), ("0b", 2)] {
        if let Some(rest) = unsigned.strip_prefix(prefix) {
            let fits = !rest.is_empty() && rest.chars().all(|c| c.is_digit(base) || c == '_');
            return if fits { made(radix(&digits[2..], base)) } else { Ok(None) };
        }
    }
    if is_octal(text) {
        return made(radix(&digits, 8));
    }
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    if is_digits(unsigned) && (unsigned == "0" || !unsigned.starts_with('0')) {
        return made(digits.parse().ok());
    }
    let (whole, fraction) = unsigned.split_once('.').map_or((unsigned, None), |(a, b)| (a, Some(b)));
    if whole.contains(':') {
        return sixty(whole, fraction, negative).transpose().map_or(Ok(None), |found| match found {
            Ok(number) => Ok(Some(number)),
            Err(()) => Err(too_large()),
        });
    }
    let Some(fraction) = fraction else { return Ok(None) };
    let (fraction, exponent) = match fraction.split_once(['e', 'E']) {
        Some((fraction, exponent)) => (fraction, Some(exponent)),
        None => (fraction, None),
    };
    // `.5` has no sign, and an exponent has one.
    let has_form = match whole {
        "" => unsigned == text && is_digits(fraction) && !fraction.starts_with('_'),
        whole => {
            is_digits(whole)
                && !whole.starts_with('_')
                && fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_')
        }
    };
    let signed = |exponent: &str| {
        exponent
            .strip_prefix(['-', '+'])
            .is_some_and(|e| !e.is_empty() && e.bytes().all(|b| b.is_ascii_digit()))
    };
    if !has_form || !exponent.is_none_or(signed) {
        return Ok(None);
    }
    let sign = if negative { "-" } else { "" };
    let number = format!("{sign}{digits}").parse::<f64>().ok().and_then(Number::from_f64);
    number.map(Some).ok_or_else(too_large)
}

/// A number of base 60, such as `12:30:45`; `None` for text, an error for one that is too large.
fn sixty(whole: &str, fraction: Option<&str>, negative: bool) -> Result<Option<Number>, ()> {
    let mut parts = whole.split(':');
    let first = parts.next().unwrap_or_default();
    let leads = if fraction.is_some() { '0'..='9' } else { '1'..='9' };
    let is_first =
        first.starts_with(|c| leads.contains(&c)) && first.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let is_part = |part: &str| {
        (1..=2).contains(&part.len())
            && part.bytes().all(|b| b.is_ascii_digit())
            && (part.len() == 1 || part.as_bytes()[0] <= b'5')
    };
    let fraction_fits = fraction.is_none_or(|part| part.bytes().all(|b| b.is_ascii_digit() || b == b'_'));
    if !is_first || !fraction_fits || !parts.clone().all(is_part) {
        return Ok(None);
    }
    let value = |part: &str| part.replace('_', "").parse::<i128>().ok();
    let sum = parts.try_fold(value(first), |sum, part| {
        Some(sum.and_then(|sum| sum.checked_mul(60)?.checked_add(value(part)?)))
    });
    let sum = sum.flatten().map(|sum| if negative { -sum } else { sum }).ok_or(())?;
    match fraction {
        None => i64::try_from(sum).map(|n| Some(n.into())).map_err(|_| ()),
        Some(fraction) => {
            let fraction: f64 = format!("0.{}", fraction.replace('_', "")).parse().map_err(|_| ())?;
            let sum = i64::try_from(sum).map_err(|_| ())? as f64;
            Number::from_f64(if negative { sum - fraction } else { sum + fraction }).map(Some).ok_or(())
        }
    }
}

/// A plain number of YAML 1.2: `5`, `-5`, `0x0800`, `0o17`, `1.5`, `1e3`; `None` for text.
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
