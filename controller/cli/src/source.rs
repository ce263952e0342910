//! What an operator gives on the command line to make a stack of: a template, the files it names, parameters.
//!
//! The controller never reads the operator's disk; all of it is read here and sent along.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use muster_template::{Errors, parse, referenced_files};
use serde_json::Value;

use crate::failure::Failure;

/// All files of a template in all: the controller's default limit for a request.
pub const FILES_MAX: usize = 256 << 20;

/// A template as read from disk.
#[derive(Debug)]
pub struct Source {
    /// As the operator wrote it, for the places of errors.
    pub name: String,
    /// The template.
    pub text: String,
    /// What its `get_file`s name.
    pub files: BTreeMap<String, String>,
}

/// One `-P key=value`.
pub fn parameter(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("want KEY=VALUE".to_owned()),
    }
}

/// All `-P`, as the API and the template take them. The last one of a name counts.
pub fn parameters(given: &[(String, String)]) -> BTreeMap<String, Value> {
    given.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect()
}

/// All `-e`: the name of each, as the operator wrote it, and its text.
pub fn environments(files: &[PathBuf]) -> Result<Vec<(String, String)>, Failure> {
    let read = |file: &PathBuf| {
        let name = file.display().to_string();
        let text = text_of(file, FILES_MAX).map_err(|error| Failure::usage(format!("{name}: {error}")))?;
        Ok((name, text))
    };
    files.iter().map(read).collect()
}

/// Reads a template and all that it names, relative to its own place.
pub fn read(template: &Path) -> Result<Source, Failure> {
    let name = template.display().to_string();
    let text = text_of(template, FILES_MAX).map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    let keys = referenced_files(&name, &text)?;
    let folder = template.parent().unwrap_or(Path::new(""));
    let mut files = BTreeMap::new();
    let mut unreadable = BTreeMap::new();
    let mut room = FILES_MAX;
    for key in keys {
        match located(folder, &key).and_then(|path| {
            text_of(&path, room).map_err(|error| format!("cannot read {}: {error}", path.display()))
        }) {
            Ok(content) => {
                room = room.saturating_sub(content.len());
                files.insert(key, content);
            }
            Err(error) => {
                unreadable.insert(key, error);
            }
        }
    }
    let source = Source { name, text, files };
    if unreadable.is_empty() { Ok(source) } else { Err(placed(&source, &unreadable)) }
}

/// The place of each `get_file` that names an unreadable file is found by the parser, which misses the file.
fn placed(source: &Source, unreadable: &BTreeMap<String, String>) -> Failure {
    let mut errors = parse(&source.name, &source.text, &source.files).err().unwrap_or(Errors(Vec::new()));
    for error in errors.0.iter_mut().filter(|error| error.path.ends_with("get_file")) {
        let named = |key: &&String| error.message.contains(&format!("'{key}'"));
        if let Some(reason) = unreadable.keys().find(named).and_then(|key| unreadable.get(key)) {
            error.message.clone_from(reason);
        }
    }
    if errors.0.is_empty() {
        return Failure { lines: unreadable.values().cloned().collect(), ..Failure::usage("") };
    }
    errors.into()
}

fn located(folder: &Path, key: &str) -> Result<PathBuf, String> {
    let path = key.strip_prefix("file://").unwrap_or(key);
    if path.contains("://") {
        return Err(format!("'{key}' is a URL; copy the file beside the template and name it there"));
    }
    Ok(folder.join(path))
}

/// Reads a text of at most so many bytes.
pub fn text_of(path: &Path, limit: usize) -> Result<String, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err("it is a directory".to_owned());
    }
    text_from(file, limit)
}

/// As [`text_of`]; what is longer is refused, for the beginning of it may well be valid.
pub fn text_from(source: impl Read, limit: usize) -> Result<String, String> {
    let mut text = String::new();
    // One byte more than allowed tells that there is more.
    let bound = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    source.take(bound).read_to_string(&mut text).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        _ => error.to_string(),
    })?;
    if text.len() > limit {
        return Err(format!("it is too large; at most {} MiB are allowed", limit >> 20));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
