//! Finds what a template or environment says that is read, as PyYAML reads it for Heat, but in another way than it
//! looks: `muster template lint`.
//!
//! Absent: what is wrong with it (`parse.rs`), and what it means (`validate.rs`).

use std::collections::BTreeMap;

use saphyr_parser::{Event, ScalarStyle};
use serde::Serialize;

use crate::Limits;
use crate::build::{MERGE, Reader, Stop};
use crate::error::{Error, Errors, Place, cut};
use crate::expression::{Expr, ExprKind};
use crate::parse::check_size;
use crate::pyyaml_leniency::Cause;
use crate::scalar::{self, Dialect};
use crate::source::Source;

/// More than anybody reads; a text of 16 MiB could have millions.
const FINDINGS_MAX: usize = 10_000;

/// A surprise in a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub kind: FindingKind,
    #[serde(flatten)]
    pub at: Error,
}

/// The kind of a surprise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// `yes`, `no`, `on`, `off`.
    Boolean,
    /// `0644`
    Octal,
    /// `12:30:45`
    Sexagesimal,
    /// `1_000`, `0b101`, and other forms of numbers that YAML 1.2 lacks.
    Number,
    /// `1e3`, `0o17`: numbers of YAML 1.2.
    Text,
    /// A key that is another text than it looks.
    Key,
    /// A key that is given again.
    DuplicateKey,
    /// `<<`
    MergeKey,
    GluedComment,
    /// Quoted text or a flow collection at the left margin.
    Margin,
    /// A tab after `key:`.
    Tab,
    /// A block of text that loses its last line break.
    LastLine,
}

/// Everything that surprises in a text, by place; the first [`FINDINGS_MAX`], and whether there are more.
///
/// # Errors
/// The text is no YAML, with the place.
pub fn lint(name: &str, text: &str) -> Result<(Vec<Finding>, bool), Errors> {
    check_size(name, text, Limits::TEXT)?;
    let source = Source::template(text);
    let mut linter = Linter { name, found: Vec::new(), is_cut: false };
    if source.is_json {
        return Ok((linter.found, false)); // JSON has one meaning
    }
    let read = match linter.read(&source) {
        Err(reader) if reader.is_amendable && source.amend() => {
            linter.found.clear();
            linter.read(&source)
        }
        read => read,
    };
    read.map_err(|reader| reader.errors.into_errors())?;
    for (place, cause) in source.amended.get().into_iter().flat_map(|amended| &amended.places) {
        let (kind, message) = match cause {
            Cause::GluedComment => {
                (FindingKind::GluedComment, "a comment begins here, though no blank is before '#'")
            }
            Cause::QuotedMargin | Cause::QuotedTab => (
                FindingKind::Margin,
                "quoted text goes on here, though it is less indented than what is around it",
            ),
            Cause::FlowMargin => (
                FindingKind::Margin,
                "a {…} or […] goes on here, though it is less indented than what is around it",
            ),
            Cause::Tab => (FindingKind::Tab, "a tab stands for a blank here"),
        };
        linter.say(kind, *place, "", message);
    }
    let Linter { mut found, is_cut, .. } = linter;
    found.sort_by(|a, b| (&a.at, a.kind).cmp(&(&b.at, b.kind)));
    Ok((found, is_cut))
}

struct Linter<'n> {
    name: &'n str,
    found: Vec<Finding>,
    is_cut: bool,
}

impl Linter<'_> {
    fn say(&mut self, kind: FindingKind, at: Place, path: &str, message: &str) {
        if self.found.len() < FINDINGS_MAX {
            self.found.push(Finding { kind, at: Error::new(self.name, at, path, message) });
        } else {
            self.is_cut = true;
        }
    }

    fn read<'t>(&mut self, source: &'t Source<'_>) -> Result<(), Box<Reader<'t>>> {
        let mut reader = Reader::of_heat(self.name, source);
        match self.whole(&mut reader) {
            Ok(()) => Ok(()),
            Err(Stop) => Err(Box::new(reader)),
        }
    }

    fn whole(&mut self, reader: &mut Reader<'_>) -> Result<(), Stop> {
        loop {
            match reader.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd, _) => {}
                (event, at) => self.node(reader, event, at, 1)?,
            }
        }
    }

    fn node(
        &mut self,
        reader: &mut Reader<'_>,
        event: Event<'_>,
        at: Place,
        depth: usize,
    ) -> Result<(), Stop> {
        if depth > Limits::DEPTH {
            return reader.stop(at, format!("nested more than {} levels deep", Limits::DEPTH));
        }
        match event {
            Event::Scalar(text, ScalarStyle::Plain, _, None) => self.plain(reader.path.as_str(), &text, at),
            Event::Scalar(_, ScalarStyle::Literal | ScalarStyle::Folded, ..) if reader.lost_line_break => {
                let message = "the line break at the end of this text is not part of it, for nothing follows";
                self.say(FindingKind::LastLine, at, reader.path.as_str(), message);
            }
            Event::SequenceStart(..) => {
                for index in 0.. {
                    let (event, at) = reader.next()?;
                    if event == Event::SequenceEnd {
                        break;
                    }
                    let before = reader.path.item(index);
                    self.node(reader, event, at, depth + 1)?;
                    reader.path.leave(before);
                }
            }
            Event::MappingStart(..) => self.map(reader, depth)?,
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::Alias(_)
            | Event::Scalar(..)
            | Event::SequenceEnd
            | Event::MappingEnd => {}
        }
        Ok(())
    }

    fn map(&mut self, reader: &mut Reader<'_>, depth: usize) -> Result<(), Stop> {
        let mut seen: BTreeMap<String, Place> = BTreeMap::new();
        loop {
            let (text, style, at) = match reader.next()? {
                (Event::MappingEnd, _) => return Ok(()),
                (Event::Scalar(text, style, ..), at) => (text, style, at),
                (_, at) => return reader.stop(at, "a key must be plain text"),
            };
            let is_merge = style == ScalarStyle::Plain && &*text == MERGE;
            let key = reader.key_text(text.clone(), style, at).into_owned();
            let before = reader.path.key(&key);
            let path = reader.path.as_str().to_owned();
            if is_merge {
                let message = "the keys of another map are merged here; keys of this map go before them";
                self.say(FindingKind::MergeKey, at, &path, message);
            } else if *text != *key {
                let message =
                    format!("the key '{}' is '{}'; quote it if this text is meant", cut(&text), cut(&key));
                self.say(FindingKind::Key, at, &path, &message);
            }
            if let Some(first) = seen.insert(key, at).filter(|_| !is_merge) {
                let message =
                    format!("this key is given twice, and this one counts; the first is at {first}");
                self.say(FindingKind::DuplicateKey, at, &path, &message);
            }
            let (event, at) = reader.next()?;
            self.node(reader, event, at, depth + 1)?;
            reader.path.leave(before);
        }
    }

    /// Unquoted text that YAML 1.1 and YAML 1.2 read in different ways.
    fn plain(&mut self, path: &str, text: &str, at: Place) {
        let read = |dialect| scalar::plain(text, dialect).map(|kind| Expr::new(at, kind));
        let (Ok(heats), Ok(other)) = (read(Dialect::PyYaml), read(Dialect::Core)) else { return };
        if heats.sketch() == other.sketch() {
            return;
        }
        let shown = cut(text);
        let quote = "quote it if text is meant";
        let (kind, message) = match &heats.kind {
            ExprKind::Bool(value) => (FindingKind::Boolean, format!("{shown} is {value}; {quote}")),
            ExprKind::Number(number) if scalar::is_octal(text) => {
                let mode = if path.ends_with("mode") { ", but for the mode of a Muster::File" } else { "" };
                (FindingKind::Octal, format!("{shown} is the octal number {number}{mode}; {quote}"))
            }
            ExprKind::Number(number) if text.contains(':') => {
                (FindingKind::Sexagesimal, format!("{shown} is the number {number}, of base 60; {quote}"))
            }
            ExprKind::Number(number) => {
                (FindingKind::Number, format!("{shown} is the number {number}; {quote}"))
            }
            ExprKind::Null
            | ExprKind::Text(_)
            | ExprKind::List(_)
            | ExprKind::Map(_)
            | ExprKind::Call(_)
            | ExprKind::Invalid => {
                let value = other.sketch();
                (FindingKind::Text, format!("{shown} is text, and no number; write {value} if that is meant"))
            }
        };
        self.say(kind, at, path, &message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let (found, is_cut) = lint("t", text).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(!is_cut);
        let kind = |kind: FindingKind| serde_json::to_value(kind).unwrap().as_str().unwrap().to_owned();
        found.iter().map(|it| format!("{} {}", kind(it.kind), it.at)).collect()
    }

    #[test]
    fn each_surprise_is_named_with_its_place() {
        let rows = [
            ("a: yes\n", "boolean t:1:4: a: yes is true; quote it if text is meant"),
            ("a: [b, Off]\n", "boolean t:1:8: a[1]: Off is false; quote it if text is meant"),
            ("a: 0644\n", "octal t:1:4: a: 0644 is the octal number 420; quote it if text is meant"),
            (
                "mode: 0644\n",
                "octal t:1:7: mode: 0644 is the octal number 420, but for the mode of a Muster::File; quote it if text is meant",
            ),
            (
                "a: 12:30:45\n",
                "sexagesimal t:1:4: a: 12:30:45 is the number 45045, of base 60; quote it if text is meant",
            ),
            ("a: 1_000\n", "number t:1:4: a: 1_000 is the number 1000; quote it if text is meant"),
            ("a: 0b11\n", "number t:1:4: a: 0b11 is the number 3; quote it if text is meant"),
            ("a: 1e3\n", "text t:1:4: a: 1e3 is text, and no number; write 1000.0 if that is meant"),
            ("a: 0o17\n", "text t:1:4: a: 0o17 is text, and no number; write 15 if that is meant"),
            ("a: {on: b}\n", "key t:1:5: a.true: the key 'on' is 'true'; quote it if this text is meant"),
            (
                "a: 1\nb: 2\na: 3\n",
                "duplicate_key t:3:1: a: this key is given twice, and this one counts; the first is at 1:1",
            ),
            (
                "a: &a {b: c}\nd: {<<: *a}\n",
                "merge_key t:2:5: d.<<: the keys of another map are merged here; keys of this map go before them",
            ),
            ("a: {b: c}# d\n", "glued_comment t:1:10: a comment begins here, though no blank is before '#'"),
            (
                "a:\n  b: \"c\nd\ne\"\n",
                "margin t:3:1: quoted text goes on here, though it is less indented than what is around it",
            ),
            (
                "a:\n  b: {\nc: d}\n",
                "margin t:3:1: a {…} or […] goes on here, though it is less indented than what is around it",
            ),
            ("a:\tb\n", "tab t:1:3: a tab stands for a blank here"),
            (
                "a: |\n  b\n",
                "last_line t:2:3: a: the line break at the end of this text is not part of it, for nothing follows",
            ),
        ];
        for (text, wanted) in rows {
            assert_eq!(found(text), [wanted], "{text}");
        }
    }

    #[test]
    fn what_does_not_surprise_is_not_named() {
        let rows = [
            "a: true\nb: 5\nc: 0\nd: 1.5\ne: 0x1F\nf: ~\ng: 2018-08-31\nh: 10.0.0.1\n",
            "a: 'yes'\nb: \"0644\"\nc: !!str 0644\n",
            "a: |\n  yes\n  0644\nb: c\n",
            "a: {yes_c: 1}\n",
            "{\"a\": 1e3, \"b\": \"yes\"}",
            "",
        ];
        for text in rows {
            assert!(found(text).is_empty(), "{text}: {:?}", found(text));
        }
    }

    #[test]
    fn what_is_no_yaml_is_an_error() {
        for text in ["a: [b\n", "a: b: c\n", "{a: b}: c: {d\n"] {
            assert!(lint("t", text).is_err(), "{text}");
        }
        let deep = format!("a: {}{}", "[".repeat(100), "]".repeat(100));
        assert!(lint("t", &deep).is_err());
    }

    #[test]
    fn findings_are_bounded_and_in_order() {
        let (found, is_cut) = lint("t", &"- yes\n".repeat(FINDINGS_MAX + 1)).unwrap();
        assert_eq!((found.len(), is_cut), (FINDINGS_MAX, true));
        assert!(found.is_sorted_by_key(|it| it.at.line));
    }
}
