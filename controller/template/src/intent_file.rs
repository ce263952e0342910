//! Intent files: requested connectivity, each intent under its key, from YAML or JSON.
//!
//! ```text
//!   text ──YAML events──► one item as a value ─► item.rs ─► key, Wish ─► no key twice
//! ```
//!
//! Absent: the network, the path (`controller/intent/src/compile/constrained_path.rs`), and the state of earlier intents
//! (`controller/engine/src/intent/mod.rs`).

mod constraint;
mod item;
mod print;

use std::collections::BTreeMap;

use muster_intent::manager::Wish;
use muster_shared::model::flow::{BadEntry, Step};
use saphyr_parser::Event;

use crate::build::{Reader, Stop};
use crate::error::{Errors, Place, Sink, cut, push_item, push_key, suggestion_or_all};
use crate::flow_file::{FlowLimits, place_of};
use crate::source::{Source, begin, end, too_large};

pub(crate) use constraint::{BANDWIDTH_MAX, bandwidth, latency};
pub(crate) use item::{TYPES, host, part, point, wish};
pub(crate) use print::seconds;
pub use print::{point_json, wish_json};

const WHAT: &str = "an intent file";
/// The only section.
const INTENTS: &str = "intents";

/// The content of an intent file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntentFile {
    /// Intents in the order of the file; no key occurs twice.
    pub intents: Vec<(Box<str>, Wish)>,
}

/// Bounds on an intent file.
#[derive(Clone, Copy, Debug)]
pub struct IntentLimits {
    /// Bytes of its text.
    pub text: usize,
    /// Intents in it.
    pub intents: usize,
}

impl Default for IntentLimits {
    /// A hundred thousand intents: each is a walk through the network.
    fn default() -> Self {
        Self { text: FlowLimits::default().text, intents: 100_000 }
    }
}

impl IntentFile {
    /// Reads an intent file; `name` is the file's, for errors.
    ///
    /// # Errors
    /// Many errors at once, with line, column and path.
    pub fn parse(name: &str, text: &str, limits: IntentLimits) -> Result<Self, Errors> {
        if let Some(message) = too_large("the intent file", text, limits.text) {
            let mut errors = Sink::new(name);
            errors.push(Place::default(), "", message);
            return Err(errors.into_errors());
        }
        let source = Source::new(text.strip_prefix('\u{feff}').unwrap_or(text));
        let mut reader = Reader::new(name, &source.text, source.shift);
        reader.functions = false;
        let mut file = Self::default();
        // The errors contain the reason of a stop.
        let _stopped = file.read(&mut reader, limits.intents);
        match reader.errors.is_empty() {
            true => Ok(file),
            false => Err(reader.errors.into_errors()),
        }
    }

    fn read(&mut self, reader: &mut Reader<'_>, most: usize) -> Result<(), Stop> {
        let start = Place { line: 1, column: 1 };
        if begin(reader, WHAT)?.is_none() {
            return reader.stop(start, "the intent file is empty");
        }
        let mut first = None;
        while let Some((key, at)) = reader.key()? {
            let before = reader.path.key(&key);
            match (&*key == INTENTS, first) {
                (true, None) => {
                    first = Some(at);
                    self.items(reader, most)?;
                }
                (true, Some(first)) => {
                    reader.path.leave(before);
                    let message = format!("the section '{INTENTS}' is given twice; the first is at {first}");
                    return reader.stop(at, message);
                }
                (false, _) => {
                    let near = suggestion_or_all(&key, &[INTENTS]);
                    reader.errors.push(at, "", format!("{WHAT} has no section '{}'{near}", cut(&key)));
                    drop(reader.expr(1)?);
                }
            }
            reader.path.leave(before);
        }
        if first.is_none() && reader.errors.is_empty() {
            return reader.stop(start, "the intent file has no intents: give 'intents: [...]'");
        }
        end(reader, WHAT)
    }

    fn items(&mut self, reader: &mut Reader<'_>, most: usize) -> Result<(), Stop> {
        match reader.next()? {
            (Event::SequenceStart(..), _) => {}
            (Event::Scalar(ref text, ..), _) if matches!(&**text, "" | "~" | "null") => return Ok(()),
            (_, at) => return reader.stop(at, "want a list of intents; this is something else"),
        }
        let mut lines: BTreeMap<Box<str>, u32> = BTreeMap::new();
        for index in 0.. {
            let (event, at) = reader.next()?;
            if event == Event::SequenceEnd {
                break;
            }
            if index >= most {
                return reader.stop(at, format!("more than {most} intents; split the file"));
            }
            let (before, said) = (reader.path.item(index), reader.errors.count());
            let expr = reader.expr_from(event, at, 2)?;
            reader.path.leave(before);
            if reader.errors.count() > said {
                continue;
            }
            let found = wish(&expr.sketch()).and_then(|(key, wish)| match lines.get(&key) {
                Some(line) => Err(fault(&["key"], format!("this is the key of the intent at line {line}"))),
                None => Ok((key, wish)),
            });
            match found {
                Ok((key, wish)) => {
                    lines.insert(key.clone(), expr.at.line);
                    self.intents.push((key, wish));
                }
                Err(bad) => {
                    reader.errors.push(place_of(&expr, &bad.path), &path(index, &bad.path), bad.message)
                }
            }
        }
        Ok(())
    }
}

/// `intents[3].from.port`
fn path(index: usize, steps: &[Step]) -> String {
    let mut path = INTENTS.to_owned();
    push_item(&mut path, index);
    for step in steps {
        match step {
            Step::Key(key) => push_key(&mut path, key),
            Step::Item(index) => push_item(&mut path, *index),
        }
    }
    path
}

/// An error below these keys.
fn fault(keys: &[&str], message: impl Into<String>) -> BadEntry {
    BadEntry { path: keys.iter().map(|key| Step::Key((*key).into())).collect(), message: message.into() }
}

/// Moves an error below one more step.
fn below(step: Step) -> impl Fn(BadEntry) -> BadEntry {
    move |mut bad| {
        bad.path.insert(0, step.clone());
        bad
    }
}

fn key(key: &str) -> Step {
    Step::Key(cut(key).into())
}
