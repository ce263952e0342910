//! Errors of templates and files with their place, collected and bounded.
//!
//! Absent: errors of one property (`shared/src/property.rs`), and their status for a client
//! (`controller/src/api/error.rs`).

use std::fmt;

use saphyr_parser::Marker;
use serde::{Deserialize, Serialize};

use crate::Limits;
use crate::render::RenderError;
pub use muster_shared::near::suggestion;
pub(crate) use muster_shared::near::suggestion_or_all;
pub(crate) use muster_shared::property::{cut, push_item, push_key};

/// A place in the template's text; both numbers count from 1, columns in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub line: u32,
    pub column: u32,
}

impl From<Marker> for Place {
    fn from(mark: Marker) -> Self {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { line: count(mark.line()), column: count(mark.col()).saturating_add(1) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// An error. `line` is 0 if there is no place, as for a parameter from a command line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Error {
    /// Name of the template as it was given.
    pub file: String,
    /// Counts from 1.
    pub line: u32,
    /// Counts from 1, in characters.
    pub column: u32,
    /// A path such as `resources.motd.properties.content`; empty for the whole document.
    pub path: String,
    /// The error, and its remedy.
    pub message: String,
}

impl Error {
    pub(crate) fn new(file: &str, at: Place, path: &str, message: &str) -> Self {
        Self {
            file: file.to_owned(),
            line: at.line,
            column: at.column,
            path: printable(path),
            message: printable(message),
        }
    }
}

impl Error {
    /// The number of errors that this item of [`Errors`] stands for, if it does.
    fn counted(&self) -> Option<usize> {
        let text = self.message.strip_prefix("and ").filter(|_| self.line == 0 && self.path.is_empty())?;
        if text.starts_with("more than ") {
            return Some(COUNTED_MAX);
        }
        text.strip_suffix(" more errors").or_else(|| text.strip_suffix(" more error"))?.parse().ok()
    }
}

impl From<Error> for RenderError {
    fn from(error: Error) -> Self {
        let Error { file, line, column, path, message } = error;
        RenderError::Failed { file, line, column, path, message }
    }
}

impl From<RenderError> for Error {
    fn from(error: RenderError) -> Self {
        match error {
            RenderError::Failed { file, line, column, path, message } => {
                Error { file, line, column, path, message }
            }
            RenderError::NotYet { .. } | RenderError::UnknownNode { .. } => {
                Error::new("", Place::default(), "", &error.to_string())
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for Error {}

/// Errors that are counted beyond those that are shown.
const COUNTED_MAX: usize = 10_000;

/// The errors of a template, by place: at most [`Limits::ERRORS`], and an item that counts the others. Displays
/// one per line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Errors(pub Vec<Error>);

impl Errors {
    /// The errors of several files: the first [`Limits::ERRORS`] of them, and how many more there are.
    pub(crate) fn of(file: &str, found: Vec<Error>) -> Self {
        let mut sink = Sink::new(file);
        for error in found {
            match error.counted() {
                Some(more) => sink.more += more,
                None => sink.take(error),
            }
        }
        let Sink { mut errors, more, .. } = sink;
        errors.extend(and_more(file, more));
        Self(errors)
    }

    /// The errors without those that `drop` takes. `hidden` is how many such errors there are in all, also
    /// among those that are only counted.
    pub fn without(self, drop: impl Fn(&Error) -> bool, hidden: usize) -> Self {
        let mut more = 0;
        let (mut kept, mut dropped) = (Vec::new(), 0);
        for error in self.0 {
            match error.counted() {
                Some(count) => more += count,
                None if drop(&error) => dropped += 1,
                None => kept.push(error),
            }
        }
        let file = kept.first().map_or_else(String::new, |error| error.file.clone());
        kept.extend(and_more(&file, more.saturating_sub(hidden.saturating_sub(dropped))));
        Self(kept)
    }
}

/// The item that counts the errors that are not shown.
fn and_more(file: &str, more: usize) -> Option<Error> {
    let message = match more {
        0 => return None,
        1 => "and 1 more error".to_owned(),
        COUNTED_MAX.. => format!("and more than {COUNTED_MAX} more errors"),
        more => format!("and {more} more errors"),
    };
    Some(Error::new(file, Place::default(), "", &message))
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

/// Takes errors as they are found: keeps the first [`Limits::ERRORS`], and counts the others.
pub(crate) struct Sink {
    file: String,
    errors: Vec<Error>,
    more: usize,
}

impl Sink {
    pub fn new(file: &str) -> Self {
        Self { file: file.to_owned(), errors: Vec::new(), more: 0 }
    }

    pub fn push(&mut self, at: Place, path: &str, message: impl AsRef<str>) {
        self.take(Error::new(&self.file, at, path, message.as_ref()));
    }

    /// Adds an error that already has its place, perhaps in another file. The same error is added once: stacks
    /// of one nested template have the same ones.
    pub fn take(&mut self, error: Error) {
        if self.errors.contains(&error) {
            return;
        }
        if self.is_full() {
            self.more += 1;
        } else {
            self.errors.push(error);
        }
    }

    /// Drops the errors so far.
    pub fn forget(&mut self) {
        self.errors.clear();
        self.more = 0;
    }

    /// Whether nobody would count on: a text of nothing but errors is not read to its end.
    pub fn is_over(&self) -> bool {
        self.more >= COUNTED_MAX
    }

    pub fn is_full(&self) -> bool {
        self.errors.len() >= Limits::ERRORS
    }

    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    pub fn count(&self) -> usize {
        self.errors.len() + self.more
    }

    pub fn into_errors(mut self) -> Errors {
        let file = &self.file;
        self.errors.sort_by(|a, b| {
            let (a, b) = ((a.file != *file, a), (b.file != *file, b)); // its own file's first
            a.cmp(&b)
        });
        self.errors.extend(and_more(&self.file, self.more));
        Errors(self.errors)
    }
}

/// A place in the tree, as text that grows and shrinks while the tree is walked.
#[derive(Debug, Default)]
pub(crate) struct Path(String);

impl Path {
    /// Enters a key; the answer goes to [`Path::leave`].
    pub fn key(&mut self, key: &str) -> usize {
        let before = self.0.len();
        push_key(&mut self.0, key);
        before
    }

    /// Enters an item of a list; the answer goes to [`Path::leave`].
    pub fn item(&mut self, index: usize) -> usize {
        let before = self.0.len();
        push_item(&mut self.0, index);
        before
    }

    pub fn leave(&mut self, before: usize) {
        self.0.truncate(before);
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Control characters escaped: an error goes to a terminal.
fn printable(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}
