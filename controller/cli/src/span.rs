//! Spans of time as operators write them: `90`, `90s`, `5m`, `1h`, `2d`.

use std::ops::RangeInclusive;

use clap::builder::TypedValueParser;

/// A year: a longer time is a typing error.
pub const YEAR: u64 = 365 * 86_400;

/// Parses a time span into seconds; those out of range are refused.
pub fn within(range: RangeInclusive<u64>) -> impl TypedValueParser<Value = u64> {
    clap::builder::NonEmptyStringValueParser::new().try_map(move |text| match seconds(&text)? {
        span if range.contains(&span) => Ok(span),
        _ => Err(format!("takes {} to {} seconds", range.start(), range.end())),
    })
}

/// Parses a number of seconds, at least one.
pub fn seconds(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h', 'd']) {
        Some(number) => (number, &text[number.len()..]),
        None => (text, "s"),
    };
    let factor = match unit {
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => 1,
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| "takes seconds, or a time such as 90s, 5m or 1h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, wanted) in [
            ("90", Some(90)),
            ("90s", Some(90)),
            ("5m", Some(300)),
            ("1h", Some(3600)),
            ("2d", Some(172_800)),
            ("0", None),
            ("", None),
            ("h", None),
            ("-1h", None),
            ("1w", None),
            ("1hh", None),
            ("18446744073709551615d", None),
            ("é", None),
        ] {
            assert_eq!(seconds(text).ok(), wanted, "{text}");
        }
    }
}
