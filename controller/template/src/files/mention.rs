//! Finds the files that a text names, in the text itself: a template whose functions or types are wrong, or
//! unknown to this build, still names its files.

use super::{is_template, resolve};
use crate::build::Reader;
use crate::error::{Error, Errors, Place};
use crate::expression::{Expr, ExprKind};
use crate::source::{Source, TEMPLATE, begin};

/// The type whose property `resources` lists types.
const CHAIN: &str = "OS::Heat::ResourceChain";

/// A file that a text names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// The key of the file.
    pub key: String,
    /// Whether the file is a template, which may name files itself; otherwise only its content is needed.
    pub is_template: bool,
    /// The place of the mention; [`Mention::error`] sets the message.
    pub(crate) at: Error,
}

impl Mention {
    pub(crate) fn new(key: String, is_template: bool, at: Error) -> Self {
        Self { key, is_template, at }
    }

    /// An error at its place.
    pub fn error(&self, message: &str) -> Error {
        let Error { file, line, column, path, .. } = &self.at;
        Error::new(file, Place { line: *line, column: *column }, path, message)
    }
}

/// The files that a template's text names, by place: arguments of `get_file`, and every `type` that is a
/// template's file, anywhere in the text, as Heat's client does. `name` is for the places of errors.
///
/// # Errors
/// The text is no YAML.
pub(crate) fn mentions(name: &str, key: &str, text: &str) -> Result<Vec<Mention>, Errors> {
    let source = Source::template(text);
    let mut found = match mentions_once(name, key, &source) {
        Err(reader) if reader.is_amendable && source.amend() => mentions_once(name, key, &source),
        found => found,
    }
    .map_err(|reader| reader.errors.into_errors())?;
    found.sort_by(|a, b| a.at.cmp(&b.at));
    Ok(found)
}

fn mentions_once<'t>(name: &str, key: &str, source: &'t Source<'_>) -> Result<Vec<Mention>, Box<Reader<'t>>> {
    let mut reader = Reader::of_heat(name, source);
    reader.functions = false; // whatever is in it: the parser complains of that later
    let mut finder = Finder { name, key, found: Vec::new() };
    match sections(&mut reader, &mut finder) {
        Ok(()) => Ok(finder.found),
        Err(_) => Err(Box::new(reader)),
    }
}

fn sections(reader: &mut Reader<'_>, finder: &mut Finder<'_>) -> Result<(), crate::build::Stop> {
    if begin(reader, TEMPLATE)?.is_none() {
        return Ok(());
    }
    while let Some((key, _)) = reader.key()? {
        let before = reader.path.key(&key);
        let section = reader.expr(1)?;
        finder.walk(&section, &mut reader.path);
        reader.path.leave(before);
        // The parser reports errors beyond the syntax.
        reader.errors.forget();
    }
    Ok(())
}

struct Finder<'a> {
    name: &'a str,
    key: &'a str,
    found: Vec<Mention>,
}

impl Finder<'_> {
    fn walk(&mut self, expr: &Expr, path: &mut crate::error::Path) {
        match &expr.kind {
            ExprKind::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    let before = path.item(i);
                    self.walk(item, path);
                    path.leave(before);
                }
            }
            ExprKind::Map(entries) => {
                let is_chain = expr.entry("type").is_some_and(|entry| is_text(&entry.value, CHAIN));
                for entry in entries {
                    let before = path.key(&entry.key);
                    match (&*entry.key, &entry.value.kind) {
                        ("get_file", ExprKind::Text(name)) => self.take(name, false, entry.value.at, path),
                        ("type", ExprKind::Text(name)) if is_template(name) => {
                            self.take(name, true, entry.value.at, path);
                        }
                        ("properties", _) if is_chain => {
                            self.chain(&entry.value, path);
                            self.walk(&entry.value, path);
                        }
                        _ => self.walk(&entry.value, path),
                    }
                    path.leave(before);
                }
            }
            ExprKind::Null
            | ExprKind::Bool(_)
            | ExprKind::Number(_)
            | ExprKind::Text(_)
            | ExprKind::Call(_)
            | ExprKind::Invalid => {}
        }
    }

    /// Types in the list of a chain, which have no key `type`.
    fn chain(&mut self, properties: &Expr, path: &mut crate::error::Path) {
        let Some(entry) = properties.entry("resources") else { return };
        let ExprKind::List(items) = &entry.value.kind else { return };
        let before = path.key(&entry.key);
        for (i, item) in items.iter().enumerate() {
            let inner = path.item(i);
            if let ExprKind::Text(name) = &item.kind
                && is_template(name)
            {
                self.take(name, true, item.at, path);
            }
            path.leave(inner);
        }
        path.leave(before);
    }

    fn take(&mut self, name: &str, is_template: bool, at: Place, path: &crate::error::Path) {
        let at = Error::new(self.name, at, path.as_str(), "");
        self.found.push(Mention::new(resolve(self.key, name), is_template, at));
    }
}

fn is_text(expr: &Expr, wanted: &str) -> bool {
    matches!(&expr.kind, ExprKind::Text(text) if &**text == wanted)
}
