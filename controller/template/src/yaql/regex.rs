//! The functions of yaql that take a regex: `search`, `replace`, `split` and their kin.
//!
//! Absent: what Rust's `regex` cannot do, which an expression refuses while it is read: look-around and back
//! references.

use regex::{Captures, Regex, RegexBuilder};

use super::arguments::Arguments;
use super::evaluate::{Evaluated, Evaluator};
use super::parse::Node;
use super::query::size;
use super::value::Y;
use crate::Limits;
use crate::error::cut;

/// Steps charged for building a regex, which is built for each text: up to a millisecond.
const BUILT: usize = 1000;

/// The flags of `regex(…)`, with those of the pattern's own syntax.
const FLAGS: [(&str, char); 3] = [("ignoreCase", 'i'), ("multiLine", 'm'), ("dotAll", 's')];

/// `None`: the function takes no regex here.
pub(super) fn call(args: &Arguments<'_>) -> Option<Evaluated> {
    Some(match args.name {
        "regex" => args.want(1, 4).and_then(|()| made(args)),
        "isRegex" => super::collection::is(args, |value| matches!(value, Y::Regex(_))),
        "escapeRegex" => {
            args.want(1, 1).and_then(|()| args.text(0)).and_then(|text| args.evaluator.text(escaped(&text)))
        }
        "matches" => args.want(2, 2).and_then(|()| {
            let (regex, text) = of_both(args)?;
            matches(args.evaluator, &pattern(&regex)?, &text).map(Y::Bool)
        }),
        "search" | "searchAll" => args.want(2, 3).and_then(|()| search(args)),
        "replaceBy" => args.want(3, 4).and_then(|()| replace_by(args)),
        "replace" if has_regex(args) => args.want(3, 4).and_then(|()| replace(args)),
        "split" if has_regex(args) => args.want(2, 3).and_then(|()| split(args)),
        _ => return None,
    })
}

/// Whether the first or the second argument is a regex, where the first decides on the function.
fn has_regex(args: &Arguments<'_>) -> bool {
    match &args.of {
        Some(Y::Regex(_)) => true,
        Some(Y::Text(_)) if matches!(args.node(1), Some(Node::Literal(_))) => false,
        Some(Y::Text(_)) => args.calls(1, "regex") || matches!(args.value(1), Ok(Y::Regex(_))),
        _ => false,
    }
}

/// `regex.f(text)` and `text.f(regex)`
fn of_both(args: &Arguments<'_>) -> Result<(Y, Y), String> {
    let (first, second) = (args.value(0)?, args.value(1)?);
    Ok(if matches!(first, Y::Regex(_)) { (first, second) } else { (second, first) })
}

fn made(args: &Arguments<'_>) -> Evaluated {
    let mut flags = String::new();
    for index in 1..args.count() {
        let flag = match args.name_of(index)? {
            Some(name) => FLAGS.iter().find(|(known, _)| *known == &*name),
            None => FLAGS.get(index - 1),
        };
        let Some((_, flag)) = flag else {
            return Err(args.wants("ignoreCase, multiLine or dotAll", &Y::Null));
        };
        if args.value(index)?.is_true() {
            flags.push(*flag);
        }
    }
    args.evaluator.step(BUILT)?;
    let written = args.text(0)?;
    let text = if flags.is_empty() { written } else { format!("(?{flags}){written}").into() };
    pattern(&Y::Text(text)).map(|regex| Y::Regex(regex.as_str().into()))
}

/// Makes a pattern from a text or a regex; its automaton is bounded in size, and so is its time for
/// each character.
pub(super) fn pattern(value: &Y) -> Result<Regex, String> {
    if let Y::Regex(text) | Y::Text(text) = value {
        let built = RegexBuilder::new(text).size_limit(Limits::REGEX).dfa_size_limit(Limits::REGEX).build();
        built.map_err(|error| format!("yaql: the regex '{}' is not valid: {error}", cut(text)))
    } else {
        Err(format!("yaql: want a regex, got {}", value.describe()))
    }
}

/// Whether it is found anywhere in the text, as in yaql.
pub(super) fn matches(evaluator: &Evaluator, regex: &Regex, text: &Y) -> Result<bool, String> {
    let Y::Text(text) = text else {
        return Err(format!("yaql: a regex is matched with text, got {}", text.describe()));
    };
    evaluator.step(BUILT + text.len())?;
    Ok(regex.is_match(text))
}

/// The regex and the text of a call, and what both cost.
fn opened(args: &Arguments<'_>) -> Result<(Regex, std::sync::Arc<str>), String> {
    let (regex, text) = of_both(args)?;
    let Y::Text(text) = text else { return Err(args.wants("text", &text)) };
    args.evaluator.step(BUILT + text.len())?;
    Ok((pattern(&regex)?, text))
}

/// A match as yaql publishes it: `$` or `$1` the whole, `$2` the first group, and each named group, as maps of
/// `value`, `start` and `end`.
fn published(
    args: &Arguments<'_>,
    regex: &Regex,
    text: &str,
    found: &Captures<'_>,
) -> Result<Vec<(Box<str>, Y)>, String> {
    let chars = |byte: usize| size(text[..byte].chars().count());
    let mut names = Vec::new();
    for (index, name) in regex.capture_names().enumerate() {
        args.evaluator.step(1 + text.len() / 64)?;
        let (value, start, end) = match found.get(index) {
            Some(part) => (Y::text(part.as_str()), chars(part.start()), chars(part.end())),
            None => (Y::Null, Y::Int(-1), Y::Int(-1)),
        };
        let entries = [("value", value), ("start", start), ("end", end)];
        let map =
            args.evaluator.map(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())?;
        if index == 0 {
            names.push(("".into(), map.clone()));
        }
        names.push(((index + 1).to_string().into(), map.clone()));
        names.extend(name.map(|name| (name.into(), map)));
    }
    Ok(names)
}

fn search(args: &Arguments<'_>) -> Evaluated {
    let (regex, text) = opened(args)?;
    let each = |found: Captures<'_>| match args.node(2) {
        Some(_) => args.apply_named(2, published(args, &regex, &text, &found)?),
        None => args.evaluator.text(found.get(0).map_or("", |whole| whole.as_str()).to_owned()),
    };
    if args.name == "search" {
        return regex.captures(&text).map_or(Ok(Y::Null), each);
    }
    let all: Result<Vec<Y>, String> = regex.captures_iter(&text).map(each).collect();
    args.stream(all?)
}

/// The most replacements: a number that is 0 or not given means all.
fn most(args: &Arguments<'_>, index: usize) -> Result<usize, String> {
    match args.optional(index)? {
        Some(Y::Int(n)) if n > 0 => Ok(usize::try_from(n).unwrap_or(usize::MAX)),
        Some(Y::Int(_)) | None => Ok(usize::MAX),
        Some(other) => Err(args.wants("a whole number", &other)),
    }
}

fn replace(args: &Arguments<'_>) -> Evaluated {
    let template = args.text(2)?;
    replaced(args, |_, _, found| expanded(&template, found))
}

fn replace_by(args: &Arguments<'_>) -> Evaluated {
    replaced(args, |regex, text, found| {
        Ok(args.apply_named(2, published(args, regex, text, found)?)?.python_text())
    })
}

fn replaced(
    args: &Arguments<'_>,
    make: impl Fn(&Regex, &str, &Captures<'_>) -> Result<String, String>,
) -> Evaluated {
    let (regex, text) = opened(args)?;
    let (mut out, mut end) = (String::new(), 0);
    for found in regex.captures_iter(&text).take(most(args, 3)?) {
        let Some(whole) = found.get(0) else { continue };
        let made = make(&regex, &text, &found)?;
        args.evaluator.step(1)?;
        args.evaluator.spend(made.len() + whole.start() - end)?;
        out.push_str(&text[end..whole.start()]);
        out.push_str(&made);
        end = whole.end();
    }
    args.evaluator.spend(text.len() - end)?;
    out.push_str(&text[end..]);
    Ok(Y::Text(out.into()))
}

/// The replacement of a match: `\1` and `\g<name>` are groups, as in Python.
fn expanded(template: &str, found: &Captures<'_>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (group, after) = match rest.strip_prefix("g<").and_then(|name| name.split_once('>')) {
            Some((name, after)) => (Some(name), after),
            None if digits > 0 => (Some(&rest[..digits.min(2)]), &rest[digits.min(2)..]),
            None => (None, rest),
        };
        let Some(group) = group else {
            let Some(next) = rest.chars().next() else {
                return Err("yaql: a replacement ends with '\\'".into());
            };
            match next {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                '\\' => out.push('\\'),
                other if other.is_ascii_alphabetic() => {
                    return Err(format!("yaql: '\\{other}' means nothing in a replacement"));
                }
                other => out.extend(['\\', other]),
            }
            rest = &rest[next.len_utf8()..];
            continue;
        };
        let part = match group.parse::<usize>() {
            Ok(index) if index < found.len() => found.get(index),
            Err(_) => found.name(group),
            Ok(_) => return Err(format!("yaql: the regex has no group {}", cut(group))),
        };
        out.push_str(part.map_or("", |part| part.as_str()));
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// As in Python: the pieces between matches, each followed by the groups of the match after it.
fn split(args: &Arguments<'_>) -> Evaluated {
    let (regex, text) = opened(args)?;
    let (mut parts, mut end) = (Vec::new(), 0);
    for found in regex.captures_iter(&text).take(most(args, 2)?) {
        args.evaluator.step(found.len())?;
        let Some(whole) = found.get(0) else { continue };
        let groups = found.iter().skip(1).map(|group| group.map(|group| group.as_str()));
        for part in std::iter::once(Some(&text[end..whole.start()])).chain(groups) {
            args.evaluator.spend(part.map_or(0, str::len))?;
            parts.push(part.map_or(Y::Null, Y::text));
        }
        end = whole.end();
    }
    args.evaluator.spend(text.len() - end)?;
    parts.push(Y::text(&text[end..]));
    args.evaluator.list(parts)
}

/// As Python's `re.escape`.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "()[]{}?*+-|^$\\.&~# \t\n\r\u{b}\u{c}".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
