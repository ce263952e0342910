//! Text that PyYAML reads and the YAML parser refuses: a comment glued to a token (`}# …`), quoted text and flow
//! collections that go on at the left margin, and a tab after `:`.
//!
//! The parser says where it stops. Blanks put in there change no value, and the text is read again. Places are mapped
//! back, so that errors name those of the text as it was written.
//!
//! Absent: everything else that both read in another way (`scalar.rs`, `build.rs`).

use std::collections::BTreeMap;

use saphyr_parser::{Parser, ScanError};

use crate::error::Place;

/// Bytes that are read again, in all: 1,000 such places in a template of TripleO, or two in one of 16 MiB.
const READ_AGAIN_MAX: usize = 32 << 20;

/// A text with blanks put in.
#[derive(Debug)]
pub(crate) struct Amended {
    pub text: String,
    /// By line: column from 0 in this text, and number of blanks.
    blanks: BTreeMap<u32, Vec<(u32, u32)>>,
    /// The causes of amendments, each with its first place in the text as it was written.
    pub places: Vec<(Place, Cause)>,
}

/// The reason of an amendment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// `}# comment`
    GluedComment,
    /// A line of quoted text at the left of what is around it.
    QuotedMargin,
    /// The same, with a tab before the text.
    QuotedTab,
    /// A line of `{…}` or `[…]` at the left of what is around it.
    FlowMargin,
    /// A tab after `key:`.
    Tab,
}

impl Cause {
    /// By the parser's message.
    pub fn of(error: &ScanError) -> Option<Self> {
        match error.info() {
            "comments must be separated from other tokens by whitespace" => Some(Self::GluedComment),
            "invalid indentation in quoted scalar" => Some(Self::QuotedMargin),
            "tab cannot be used as indentation" => Some(Self::QuotedTab),
            "invalid indentation" | "invalid indentation in flow construct" => Some(Self::FlowMargin),
            "':' must be followed by a valid YAML whitespace" => Some(Self::Tab),
            _ => None,
        }
    }
}

/// The text as PyYAML would read it; `None` where nothing can be amended.
pub(crate) fn amend(text: &str) -> Option<Amended> {
    let mut amended = Amended { text: text.to_owned(), blanks: BTreeMap::new(), places: Vec::new() };
    let mut left = READ_AGAIN_MAX;
    while left >= amended.text.len() {
        left -= amended.text.len();
        let Some(error) = first_error(&amended.text) else { break };
        let Some(cause) = Cause::of(&error) else { break };
        let (line, column) = (error.marker().line(), error.marker().col());
        if !amended.put(cause, line, column) {
            break;
        }
    }
    (!amended.places.is_empty()).then_some(amended)
}

fn first_error(text: &str) -> Option<ScanError> {
    Parser::new_from_str(text).find_map(Result::err)
}

impl Amended {
    /// The place in the text as it was written.
    pub fn original(&self, place: Place) -> Place {
        let Some(blanks) = self.blanks.get(&place.line) else { return place };
        let column = place.column.saturating_sub(1);
        let before = blanks.iter().map(|(at, count)| column.saturating_sub(*at).min(*count)).sum();
        Place { line: place.line, column: place.column.saturating_sub(before) }
    }

    /// Puts in blanks for an error at this line, from 1, and column, from 0. False where they would not help.
    fn put(&mut self, cause: Cause, line: usize, column: usize) -> bool {
        let lines = Lines::of(&self.text);
        let edits: Vec<(usize, usize, usize)> = match cause {
            Cause::GluedComment => vec![(line, column, 1)],
            // The parser has passed the tabs.
            Cause::Tab => {
                let Some(before) = lines.before(&self.text, line, column) else { return false };
                let tabs = before.chars().rev().take_while(|c| *c == '\t').count();
                vec![(line, column.saturating_sub(tabs), 1)]
            }
            // Each earlier line is less indented than that, and so is what is around this one.
            Cause::FlowMargin | Cause::QuotedTab => vec![(line, 0, lines.indent_max(&self.text, line) + 1)],
            Cause::QuotedMargin => lines.of_quoted(&self.text, line, column),
        };
        let Some(text) = with_blanks(&self.text, &lines, &edits) else { return false };
        self.text = text;
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        if let Some((line, column, _)) = edits.first() {
            let place = Place { line: number(*line), column: number(*column).saturating_add(1) };
            self.places.push((self.original(place), cause));
        }
        for (line, column, count) in edits {
            let (line, column, count) = (number(line), number(column), number(count));
            let of_line = self.blanks.entry(line).or_default();
            for (at, _) in of_line.iter_mut().filter(|(at, _)| *at >= column) {
                *at = at.saturating_add(count);
            }
            of_line.push((column, count));
            of_line.sort_unstable();
        }
        true
    }
}

/// The text with these blanks, which are in its order: line, column, number. `None` if there are none, or more than
/// [`READ_AGAIN_MAX`]: quoted text far to the right takes as many on each of its lines.
fn with_blanks(text: &str, lines: &Lines, edits: &[(usize, usize, usize)]) -> Option<String> {
    let blanks = edits.iter().fold(0usize, |sum, (_, _, count)| sum.saturating_add(*count));
    if blanks == 0 || blanks > READ_AGAIN_MAX {
        return None;
    }
    let mut amended = String::with_capacity(text.len() + blanks);
    let mut done = 0;
    for (line, column, count) in edits {
        let at = lines.offset(text, *line, *column)?;
        amended.push_str(text.get(done..at)?);
        amended.extend(std::iter::repeat_n(' ', *count));
        done = at;
    }
    amended.push_str(text.get(done..)?);
    Some(amended)
}

/// The begins of a text's lines, in bytes.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let ends = |(at, byte): (usize, &u8)| match byte {
            b'\n' => Some(at + 1),
            b'\r' if bytes.get(at + 1) != Some(&b'\n') => Some(at + 1),
            _ => None,
        };
        Self(std::iter::once(0).chain(bytes.iter().enumerate().filter_map(ends)).collect())
    }

    /// A line from 1, with its line break.
    fn line<'t>(&self, text: &'t str, line: usize) -> Option<&'t str> {
        let index = line.checked_sub(1)?;
        let start = *self.0.get(index)?;
        text.get(start..self.0.get(index + 1).copied().unwrap_or(text.len()))
    }

    fn offset(&self, text: &str, line: usize, column: usize) -> Option<usize> {
        let start = *self.0.get(line.checked_sub(1)?)?;
        let line = self.line(text, line)?;
        let within = line.char_indices().map(|(at, _)| at).chain([line.len()]).nth(column)?;
        Some(start + within)
    }

    fn before<'t>(&self, text: &'t str, line: usize, column: usize) -> Option<&'t str> {
        let start = self.offset(text, line, 0)?;
        text.get(start..self.offset(text, line, column)?)
    }

    /// The deepest indentation of the lines before this one, where flow collections do not count.
    fn indent_max(&self, text: &str, line: usize) -> usize {
        let earlier = (1..line).filter_map(|earlier| self.line(text, earlier));
        earlier.map(indentation).max().unwrap_or(0)
    }

    /// Blanks for the lines of a quoted text that begins there, up to the column of its quote.
    fn of_quoted(&self, text: &str, line: usize, column: usize) -> Vec<(usize, usize, usize)> {
        let Some(start) = self.offset(text, line, column) else { return Vec::new() };
        let Some(end) = text.get(start..).and_then(quoted).map(|length| start + length) else {
            return Vec::new();
        };
        let mut edits = Vec::new();
        for next in line + 1.. {
            let (Some(at), Some(whole)) = (self.0.get(next - 1), self.line(text, next)) else { break };
            if *at >= end {
                break;
            }
            let indent = indentation(whole);
            let is_empty = whole.trim().is_empty();
            // These end a document, in PyYAML too.
            let is_mark = whole.starts_with("---") || whole.starts_with("...");
            if indent < column && !is_empty && !is_mark {
                edits.push((next, 0, column - indent));
            }
        }
        edits
    }
}

fn indentation(line: &str) -> usize {
    line.bytes().take_while(|byte| *byte == b' ').count()
}

/// The bytes of a quoted text, with its quotes; `None` where it does not end.
fn quoted(text: &str) -> Option<usize> {
    let mut bytes = text.bytes().enumerate();
    let (_, quote) = bytes.next()?;
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' if quote == b'"' => drop(bytes.next()),
            byte if byte == quote => match text.as_bytes().get(at + 1) {
                Some(b'\'') if quote == b'\'' => drop(bytes.next()),
                _ => return Some(at + 1),
            },
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<serde_json::Value, String> {
        crate::document("t", text).map_err(|errors| errors.to_string())
    }

    #[test]
    fn blanks_change_no_value() {
        let rows = [
            ("a: {b: c}# x", "a: {b: c} # x"),
            ("a: [{b: c}#x\n, d]#y\n", "a: [{b: c}, d]\n"),
            ("a: {b: 'c'#x\n}# y\n", "a: {b: c}\n"),
            ("a: \"b\"#x\nc: 'd'#y\n", "a: b\nc: d\n"),
            ("a:\n  b: \"c\nd\n\n\\\ne '\\\"\nf\"\n", "a:\n  b: \"c\n   d\n\n   \\\n   e '\\\"\n   f\"\n"),
            ("a:\n  b: 'c\nit''s\n\"'\n", "a:\n  b: 'c it''s \"'\n"),
            ("a:\n  b: {c: d,\ne: f\n}\n", "a:\n  b: {c: d, e: f}\n"),
            ("a:\n  b: [\nc,\n  d\n]\n", "a:\n  b: [c, d]\n"),
            ("a:\n  b:\tc\n  d:\t\te\n", "a:\n  b: c\n  d: e\n"),
            ("a:\n  b: \"c\n\td\"\n", "a:\n  b: c d\n"),
            ("é: {ü: ö}#ä\nb: {}#c\n", "é: {ü: ö}\nb: {}\n"),
        ];
        for (given, plain) in rows {
            assert!(value(plain).is_ok(), "{plain}");
            assert_eq!(value(given), value(plain), "{given}");
        }
    }

    #[test]
    fn errors_name_places_of_the_text_as_it_was() {
        let rows = [
            ("a: {b: c}# x\nd: [e}\n", "2:6"),
            ("a: [{b: c}# x\n, {d: e}# y\n, <<: {}, é ] ]\n", "3:15"),
            ("a:\n  b: \"c\n\td\", e: f\n", "3:4"),
            ("a:\n  b: \"c\nd\"\n c: d\n", "4:2"),
            ("a:\n  b: [c,\nd]]\n", "3:3"),
        ];
        for (text, place) in rows {
            let error = value(text).unwrap_err();
            assert!(error.starts_with(&format!("t:{place}:")), "{text}: {error}");
        }
    }

    #[test]
    fn blanks_are_bounded() {
        let far = format!("a: {}'b\n{}'\n", " ".repeat(100_000), "c\n".repeat(100_000));
        assert!(amend(&far).is_none());
        let near = format!("a:\n  b: 'c\n{}'\n", "d\n".repeat(100_000));
        assert_eq!(amend(&near).unwrap().text.len(), near.len() + 5 * 100_000 + 5);
    }

    #[test]
    fn what_pyyaml_refuses_stays_refused() {
        for text in ["a:\n  b: \"c\n---\nd\"\n", "a:\n  b: \"c\nd\n", "a: {b: c}# }\nd: }#\n", "a: b: {}#c\n"]
        {
            assert!(value(text).is_err(), "{text}");
        }
    }

    #[test]
    fn amending_is_bounded() {
        let text = "a: {}#\n".repeat(400_000);
        assert!(value(&text).unwrap_err().contains("comments must be separated"));
    }

    #[test]
    fn places_are_those_of_the_text_as_it_was() {
        let amended = amend("a: [{b: c}#x\n, {d: e}#y\n]\n  \n").unwrap();
        let places: Vec<(String, Cause)> =
            amended.places.iter().map(|(place, cause)| (place.to_string(), *cause)).collect();
        assert_eq!(
            places,
            [("1:11".to_owned(), Cause::GluedComment), ("2:9".to_owned(), Cause::GluedComment)]
        );
        assert!(amend("a: b\n").is_none());
        assert!(amend("a: [\n").is_none());
    }
}
