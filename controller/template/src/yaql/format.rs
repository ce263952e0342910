//! `format`: a text with values in place of `{0}`, `{}` and `{name}`, as Python's `str.format` does it.
//!
//! Absent: conversions (`{0!r}`), parts of a value (`{0[a]}`), and forms of a number other than its width.

use super::arguments::Arguments;
use super::evaluate::Evaluated;
use super::value::Y;
use crate::error::cut;

/// The widest field: wider ones would make any amount of text of nothing.
const WIDTH_MAX: usize = 1000;

/// `format(text, …)` and `text.format(…)`
pub(super) fn format(args: &Arguments<'_>) -> Evaluated {
    args.want(1, usize::MAX)?;
    let text = args.text(0)?;
    let mut given = Vec::new();
    let mut named = Vec::new();
    for index in 1..args.count() {
        match args.name_of(index)? {
            Some(name) => named.push((name, args.value(index)?)),
            None => given.push(args.value(index)?),
        }
    }
    let mut out = String::new();
    let mut rest = &*text;
    let mut next = 0;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let (mark, after) = rest[at..].split_at(1);
        if let Some(after) = after.strip_prefix(mark) {
            out.push_str(mark);
            rest = after;
            continue;
        }
        let end = after.find('}').filter(|_| mark == "{");
        let Some(end) = end else { return Err(format!("yaql: 'format': a single '{mark}' in the text")) };
        let (field, form) = after[..end].split_once(':').unwrap_or((&after[..end], ""));
        let value = match field.parse::<usize>() {
            Ok(index) => given.get(index),
            Err(_) if field.is_empty() => {
                next += 1;
                given.get(next - 1)
            }
            Err(_) => named.iter().find(|(name, _)| **name == *field).map(|(_, value)| value),
        };
        let value =
            value.ok_or_else(|| format!("yaql: 'format': there is no value for '{{{}}}'", cut(field)))?;
        let made = formed(value, form)?;
        args.evaluator.spend(made.len())?;
        out.push_str(&made);
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    args.evaluator.text(out)
}

/// The value in a field of a form such as `>8`, `08` or `.3`.
fn formed(value: &Y, form: &str) -> Result<String, String> {
    let refused = || format!("yaql: 'format': the form '{}' is not supported", cut(form));
    let (fill, align, rest) = aligned(form);
    let (rest, kind) = match rest.strip_suffix(['s', 'd']) {
        Some(shorter) => (shorter, rest.chars().next_back()),
        None => (rest, None),
    };
    let fits = match kind {
        Some('s') => matches!(value, Y::Text(_)),
        Some(_) => matches!(value, Y::Int(_)),
        None => form.is_empty() || matches!(value, Y::Text(_) | Y::Int(_)),
    };
    if !fits {
        return Err(refused());
    }
    let (fill, align) = match (rest.strip_prefix('0'), align) {
        (Some(_), None) if matches!(value, Y::Int(_)) => ('0', Some('=')),
        _ => (fill, align),
    };
    let (width, most) = rest.split_once('.').map_or((rest, None), |(width, most)| (width, Some(most)));
    let number = |digits: &str| match digits {
        "" => Ok(0),
        digits => digits.parse::<usize>().ok().filter(|n| *n <= WIDTH_MAX).ok_or_else(refused),
    };
    let width = number(width)?;
    let mut text = value.python_text();
    if let Some(most) = most {
        if !matches!(value, Y::Text(_)) {
            return Err(refused());
        }
        text = text.chars().take(number(most)?).collect();
    }
    let space = width.saturating_sub(text.chars().count());
    let fills = |count: usize| fill.to_string().repeat(count);
    let is_number = matches!(value, Y::Int(_));
    Ok(match align.unwrap_or(if is_number { '>' } else { '<' }) {
        '<' => text + &fills(space),
        '^' => fills(space / 2) + &text + &fills(space - space / 2),
        '=' => match text.strip_prefix('-') {
            Some(digits) => format!("-{}{digits}", fills(space)),
            None => fills(space) + &text,
        },
        _ => fills(space) + &text,
    })
}

/// The character that fills, the side, and the rest of a form.
fn aligned(form: &str) -> (char, Option<char>, &str) {
    let mut chars = form.chars();
    let is_side = |c: char| matches!(c, '<' | '>' | '^' | '=');
    match (chars.next(), chars.next()) {
        (Some(fill), Some(side)) if is_side(side) => (fill, Some(side), chars.as_str()),
        (Some(side), _) if is_side(side) => (' ', Some(side), &form[1..]),
        _ => (' ', None, form),
    }
}
