//! The text of a document of ours, as the YAML parser gets it: what is left out of it, its largest size, and its beginning
//! and end as one document that is a map.
//!
//! Absent: the sections of a template (`parse.rs`), and the values in it (`build.rs`).

use std::borrow::Cow;
use std::cell::OnceCell;

use saphyr_parser::Event;

use crate::build::{Reader, Stop};
use crate::error::Place;
use crate::pyyaml_leniency::{self, Amended};

/// A document's text as the YAML parser gets it.
pub(crate) struct Source<'t> {
    pub text: Cow<'t, str>,
    /// Characters put before the first line.
    pub shift: u32,
    /// The text is a JSON document: numbers are JSON's, and no text is a number.
    pub is_json: bool,
    /// The text as PyYAML reads it, once the parser has refused it.
    pub amended: OnceCell<Amended>,
}

impl<'t> Source<'t> {
    /// The text of a template. heatclient strips it: a block of text at its end has no line break.
    pub fn template(text: &'t str) -> Self {
        Self::new(text.trim_end_matches([' ', '\t', '\r', '\n']))
    }

    pub fn new(text: &'t str) -> Self {
        const MARK: &str = "--- ";
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let amended = OnceCell::new();
        // For the parser, a whole JSON document could be a key, and it would keep every token until the end:
        // 0.5 GB for 12 MB. After a document mark no key can begin.
        if text.starts_with('{') {
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
            return Self { text: Cow::Owned([MARK, text].concat()), shift: 4, is_json, amended };
        }
        Self { text: Cow::Borrowed(text), shift: 0, is_json: false, amended }
    }

    /// After the parser has refused the text: whether it can be read once more, as PyYAML reads it.
    pub fn amend(&self) -> bool {
        if self.is_json || self.amended.get().is_some() {
            return false;
        }
        pyyaml_leniency::amend(&self.text).is_some_and(|amended| self.amended.set(amended).is_ok())
    }
}

/// The error for a text that is too large, if it is.
pub(crate) fn too_large(what: &str, text: &str, max: usize) -> Option<String> {
    let say = || format!("{what} has {} bytes; at most {} MiB are allowed", text.len(), max >> 20);
    (text.len() > max).then(say)
}

/// The word for a template in errors about another text.
pub(crate) const TEMPLATE: &str = "a template";

/// Reads up to the first section; `None` if the document is empty.
pub(crate) fn begin(reader: &mut Reader<'_>, what: &str) -> Result<Option<Place>, Stop> {
    reader.next()?;
    let (event, at) = reader.next()?;
    if event == Event::StreamEnd {
        return Ok(None);
    }
    debug_assert!(matches!(event, Event::DocumentStart(_)), "{event:?} at {at}");
    match reader.next()? {
        (Event::MappingStart(..), at) => Ok(Some(at)),
        (_, at) => {
            let example = if what == TEMPLATE {
                "; its first line is 'heat_template_version: 2018-08-31', then comes 'resources:'"
            } else {
                ""
            };
            reader.stop(at, format!("{what} is a map of sections; this is something else{example}"))
        }
    }
}

/// Reads what may follow the last section: nothing.
pub(crate) fn end(reader: &mut Reader<'_>, what: &str) -> Result<(), Stop> {
    reader.next()?;
    match reader.next()? {
        (Event::StreamEnd, _) => Ok(()),
        (_, at) => reader.stop(at, format!("{what} is one document; a second one begins here")),
    }
}
