//! The source of a stack from the command line: a template, environments, the files these name,
//! and parameters.
//!
//! The controller never reads the operator's disk: this program reads all files and sends them unchanged,
//! each under its key (see [`muster_template::files`]).
//!
//! Absent: which values and files an update keeps (`controller/src/api/existing.rs`), and which names a template mentions
//! (`controller/template/src/files/mention.rs`).

mod place;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use muster_api::stack::{self, TemplateFile};
use muster_template::files::gather;
use muster_template::{Environment, EnvironmentFile};
use serde_json::Value;

use crate::failure::Failure;
use place::Base;

/// The most bytes of all texts of a stack together: the controller's default limit for a request.
pub const FILES_MAX: usize = 256 << 20;

/// Everything that is sent to make a stack of, parameters apart.
pub struct Source {
    /// `None` if the stack keeps its present template.
    pub template: Option<Text>,
    /// Environments in the order given.
    pub environments: Vec<Text>,
    /// The files that these texts name, directly or through templates, by key.
    pub files: BTreeMap<String, String>,
    /// The environments combined.
    pub environment: Environment,
}

/// A file that the operator names.
#[derive(Debug)]
pub struct Text {
    /// The name as the operator wrote it, for the places of errors.
    pub name: String,
    /// The key of the text.
    pub key: String,
    /// The content.
    pub text: String,
}

/// The parts of a source in a request.
pub struct Sent {
    pub template: Option<TemplateFile>,
    pub environments: Vec<stack::EnvironmentFile>,
    pub files: BTreeMap<String, String>,
}

/// Parses one `-P key=value`.
pub fn parameter(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("want KEY=VALUE".to_owned()),
    }
}

/// The values of `-P`, in the form of the API and the template. The last one of a name counts.
pub fn parameters(given: &[(String, String)]) -> BTreeMap<String, Value> {
    given.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect()
}

impl Source {
    /// Reads a template, environments, and all that they name.
    pub fn read(template: Option<&Path>, environments: &[PathBuf]) -> Result<Self, Failure> {
        let base = Base::of(template);
        let mut room = FILES_MAX;
        let mut given = |path: &PathBuf, key: String| {
            let (name, text) = named_within(path, room)?;
            room -= text.len();
            Ok(Text { name, key, text })
        };
        let template = template.map(|path| given(&path.to_path_buf(), String::new())).transpose()?;
        let environments: Vec<Text> = environments
            .iter()
            .map(|path| given(path, base.key_of(path)?))
            .collect::<Result<_, Failure>>()?;
        let environment = Environment::parse(environments.iter().map(Text::environment))?;
        let root = template.as_ref().map(|template| (&*template.name, &*template.text));
        let files = gather(
            root,
            &environment,
            |key| base.shown(key),
            |key| {
                let path = base.path_of(key)?;
                let text = regular(&path, room)
                    .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
                room -= text.len();
                Ok(text)
            },
        )?;
        Ok(Self { template, environments, files, environment })
    }

    /// The template of a command that must have one.
    pub fn template(&self) -> Result<&Text, Failure> {
        self.template.as_ref().ok_or_else(no_template)
    }

    /// The form for the API. Files go with the template, or alone if the stack keeps its template.
    pub fn sent(self) -> Sent {
        let Self { template, environments, mut files, environment: _ } = self;
        let environment = |Text { name, key, text }| stack::EnvironmentFile { name, key: Some(key), text };
        let environments = environments.into_iter().map(environment).collect();
        let template = template.map(|Text { name, text, .. }| TemplateFile {
            name,
            text,
            files: std::mem::take(&mut files),
        });
        Sent { template, environments, files }
    }
}

/// The failure of a command without its required template.
pub fn no_template() -> Failure {
    Failure::usage("a template must be given")
}

impl Text {
    fn environment(&self) -> EnvironmentFile<'_> {
        EnvironmentFile { name: &self.name, key: &self.key, text: &self.text }
    }
}

/// Reads a file that a text names: a regular file, or a link to one. Only the operator may name other files
/// (`-t /dev/stdin`), since a template may come from elsewhere.
fn regular(path: &Path, limit: usize) -> Result<String, String> {
    let kind = fs::metadata(path).map_err(|error| error.to_string())?.file_type();
    if !kind.is_file() {
        let what = if kind.is_dir() { "a directory" } else { "no regular file" };
        return Err(format!("it is {what}"));
    }
    text_of(path, limit).map_err(|error| match error.strip_prefix(TOO_LARGE) {
        Some(_) => format!("with it there are more than {} MiB of files", FILES_MAX >> 20),
        None => error,
    })
}

const TOO_LARGE: &str = "it is too large";

/// A file's name for errors, and its text; `-` is standard input.
pub fn named(file: &Path) -> Result<(String, String), Failure> {
    named_within(file, FILES_MAX)
}

fn named_within(file: &Path, limit: usize) -> Result<(String, String), Failure> {
    let (name, text) = match file.as_os_str().to_str() {
        Some("-") => ("stdin".to_owned(), text_from(std::io::stdin().lock(), limit)),
        _ => (file.display().to_string(), text_of(file, limit)),
    };
    match text {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(Failure::usage(format!("{name}: {error}"))),
    }
}

/// Reads a text of at most so many bytes.
pub fn text_of(path: &Path, limit: usize) -> Result<String, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err("it is a directory; name a file in it".to_owned());
    }
    text_from(file, limit)
}

/// As [`text_of`]; a longer text is refused, since its beginning alone may well be valid.
pub fn text_from(source: impl Read, limit: usize) -> Result<String, String> {
    let mut text = String::new();
    // Reads one byte more than allowed, to detect a longer text.
    let bound = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    source.take(bound).read_to_string(&mut text).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        _ => error.to_string(),
    })?;
    if text.len() > limit {
        return Err(format!("{TOO_LARGE}; at most {} MiB are allowed", limit >> 20));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
