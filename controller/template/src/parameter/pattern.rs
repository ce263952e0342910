//! Regular expressions of `allowed_pattern`, which Python reads in Heat.

use regex::{Regex, RegexBuilder};

use crate::Limits;

/// A regular expression that begins where the text does.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// The time is the text's length.
    Plain(Box<Regex>),
    /// A pattern with look-around or back references, whose time is not linear: a count of steps bounds it.
    Looking(Box<fancy_regex::Regex>),
}

impl Pattern {
    /// # Errors
    /// The reason why the pattern is refused.
    pub fn read(pattern: &str) -> Result<Self, String> {
        let pattern = &ends(pattern);
        let anchored = format!(r"\A(?:{pattern})");
        let built =
            RegexBuilder::new(&anchored).size_limit(Limits::REGEX).dfa_size_limit(Limits::REGEX).build();
        match built {
            Ok(regex) => Ok(Self::Plain(Box::new(regex))),
            Err(regex::Error::CompiledTooBig(_)) => Err("it needs too much memory".into()),
            Err(error) => looking(pattern, &anchored).ok_or_else(|| said(&error)),
        }
    }

    /// Whether the first match is the whole text, as in Heat. A match that takes too many steps
    /// counts as none.
    pub fn is_whole(&self, text: &str) -> bool {
        let end = match self {
            Self::Plain(regex) => regex.find(text).map(|found| found.end()),
            Self::Looking(_) if text.len() > Limits::LOOKED_AT => None,
            Self::Looking(regex) => regex.find(text).ok().flatten().map(|found| found.end()),
        };
        end == Some(text.len())
    }
}

/// The pattern with `\z` for Python's `\Z`, the end of the text.
fn ends(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        out.push(c);
        if c == '\\' {
            out.extend(chars.next().map(|next| if next == 'Z' { 'z' } else { next }));
        }
    }
    out
}

/// A pattern that uses parts of Python's language that plain ones lack: look-around and back references. Its
/// plain parts are compiled separately, so patterns are kept short.
fn looking(pattern: &str, anchored: &str) -> Option<Pattern> {
    if pattern.len() > Limits::LOOKING || !is_pythons(pattern) {
        return None;
    }
    let mut builder = fancy_regex::RegexBuilder::new(anchored);
    builder.backtrack_limit(Limits::LOOKING_STEPS).seek(false);
    builder.delegate_size_limit(Limits::REGEX / 16).delegate_dfa_size_limit(Limits::REGEX);
    builder.build().ok().map(|regex| Pattern::Looking(Box::new(regex)))
}

/// Whether the pattern has no syntax of other languages: subroutines, for one, take any amount of memory.
fn is_pythons(pattern: &str) -> bool {
    const ESCAPES: &str = "AabBdDfnrsStuUvwWxz";
    const GROUPS: [&str; 7] = [":", "=", "!", "<=", "<!", "P<", "P="];
    let mut rest = pattern;
    while let Some(at) = rest.find(['\\', '(']) {
        let (is_escape, after) = (rest.as_bytes()[at] == b'\\', &rest[at + 1..]);
        let Some(next) = after.chars().next() else { return false };
        let fits = match next {
            _ if is_escape => !next.is_ascii_alphabetic() || ESCAPES.contains(next),
            '?' => GROUPS.iter().any(|group| after[1..].starts_with(group)),
            '*' => false,
            _ => true,
        };
        if !fits {
            return false;
        }
        rest = if is_escape { &after[next.len_utf8()..] } else { after };
    }
    true
}

/// The error of the regex crate: its message is a drawing over several lines, of which the last has
/// the error.
fn said(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}
