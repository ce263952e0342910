//! Deployments without a script: JSON files (group `json-file`), and the documents that `os-apply-config`
//! reads (group `apply-config`).
//!
//! ```text
//!   apply-config/<resource>.json   a deployment's document; they count in the order of these names
//!   json-files/<resource>          what was there before Muster at the paths that a deployment writes
//!   json-files/aside/<digest>      of that, what is large
//! ```
//!
//! The state before Muster is durable before a file changes, path by path, so that a deployment whose paths
//! change can still restore all files that it ever took.
//!
//! Absent: removing a directory that was made for a file; merging the documents, which their readers do.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use muster_shared::ResourceId;
use muster_shared::model::{Content, File, OnDelete};
use serde::Serialize;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::files::{FileBefore, FileDifference, FileError, Files, Source};
use crate::packed;

/// The mode of a new file, as Heat's `json-file` leaves it; an existing file keeps its mode and owner.
const MODE: u32 = 0o644;
/// A document may hold secrets.
const PRIVATE: u32 = 0o600;
/// The mode of directories that Muster makes.
const DIRECTORY_MODE: u32 = 0o700;

type Taken = BTreeMap<String, FileBefore>;

/// The reason why a document is not where it should be.
#[derive(Debug, Error)]
pub enum DocumentError {
    #[error("the config is no JSON object: {0}")]
    Json(String),
    /// A key of it is no path.
    #[error("'{}' is no absolute path of a file", .0.escape_default())]
    Path(String),
    /// A file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The record of the former state cannot be read or written.
    #[error("cannot record what was there before on the node's disk: {0}")]
    Disk(#[from] io::Error),
    /// The record of the state before Muster makes no sense.
    #[error("the record of what was there before Muster is damaged: restore it by hand")]
    Damaged,
}

/// Documents of this node.
#[derive(Clone, Debug)]
pub struct Documents {
    state: PathBuf,
    files: Files,
}

impl Documents {
    /// `state` is the agent's own directory.
    pub fn new(state: PathBuf) -> Self {
        let files = Files::new(state.join("json-files/aside"));
        Self { state, files }
    }

    /// Has `os-apply-config` answer from this document.
    ///
    /// # Errors
    /// [`DocumentError`]; it answers as before.
    pub async fn apply_config(&self, resource: ResourceId, config: &[u8]) -> Result<(), DocumentError> {
        let text = indented(&Value::Object(object(config)?));
        make(&self.state.join("apply-config"))?;
        let file = self.applied(resource);
        Ok(self.files.apply(resource, &file, Source::Bytes(&text)).await?)
    }

    /// Takes the document away.
    ///
    /// # Errors
    /// [`DocumentError`]; it is still there.
    pub async fn withdraw(&self, resource: ResourceId) -> Result<(), DocumentError> {
        match self.files.restore(resource, &self.applied(resource), &FileBefore::Absent).await {
            Err(FileError::NoDirectory { .. }) => Ok(()),
            restored => Ok(restored?),
        }
    }

    /// Makes the files that a deployment of group `json-file` names; other files that it had written
    /// are restored.
    ///
    /// # Errors
    /// [`DocumentError`]; some files may be written, and are restored with the resource.
    pub async fn write(&self, resource: ResourceId, config: &[u8]) -> Result<(), DocumentError> {
        let documents = documents(config)?;
        let mut taken = self.taken(resource)?;
        for path in documents.keys().filter(|path| !taken.contains_key(*path)).cloned().collect::<Vec<_>>() {
            let new = file(&path, &FileBefore::Absent, Vec::new());
            self.files.make_directory_of(&new)?;
            make(&self.state.join("json-files/aside"))?;
            let before = self.files.capture(&new).await?;
            taken.insert(path, before);
        }
        self.record(resource, &taken)?;
        for (path, document) in &documents {
            let text = indented(document);
            let file = file(path, &taken[path], text.clone());
            self.files.apply(resource, &file, Source::Bytes(&text)).await?;
        }
        let gone: Vec<String> = taken.keys().filter(|path| !documents.contains_key(*path)).cloned().collect();
        self.put_back(resource, taken, &gone).await
    }

    /// Restores the state before Muster at all paths that the resource has written.
    ///
    /// # Errors
    /// [`DocumentError`]; paths that are not restored yet stay recorded.
    pub async fn restore(&self, resource: ResourceId) -> Result<(), DocumentError> {
        let taken = self.taken(resource)?;
        let all: Vec<String> = taken.keys().cloned().collect();
        if all.is_empty() { Ok(()) } else { self.put_back(resource, taken, &all).await }
    }

    /// The differences between the host and the state that [`Documents::apply_config`] makes of this.
    ///
    /// # Errors
    /// The state cannot be read.
    pub async fn check_applied(
        &self,
        resource: ResourceId,
        config: &[u8],
    ) -> Result<Vec<String>, DocumentError> {
        let text = indented(&Value::Object(object(config)?));
        let file = File { content: Content::Inline(text), ..self.applied(resource) };
        self.differences(&[file]).await
    }

    /// The differences between the host and the state that [`Documents::write`] makes of this.
    ///
    /// # Errors
    /// The state cannot be read.
    pub async fn check_written(
        &self,
        resource: ResourceId,
        config: &[u8],
    ) -> Result<Vec<String>, DocumentError> {
        let taken = self.taken(resource)?;
        let documents = documents(config)?;
        let before = |path| taken.get(path).unwrap_or(&FileBefore::Absent);
        let files: Vec<File> =
            documents.iter().map(|(path, document)| file(path, before(path), indented(document))).collect();
        self.differences(&files).await
    }

    /// Forgets the records of resources that are gone, without restoring anything.
    ///
    /// # Errors
    /// Some records are still there.
    pub fn sweep(&self, is_known: impl Fn(ResourceId) -> bool) -> io::Result<()> {
        let files = match fs::read_dir(self.state.join("json-files")) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            files => files?,
        };
        for file in files {
            let name = file?.file_name();
            let resource = name.to_str().and_then(|name| name.parse().ok()).map(ResourceId);
            if let Some(resource) = resource.filter(|resource| !is_known(*resource)) {
                fs::remove_file(self.record_path(resource))?;
            }
        }
        Ok(())
    }

    async fn differences(&self, files: &[File]) -> Result<Vec<String>, DocumentError> {
        let mut differ = Vec::new();
        for file in files {
            let found: Vec<FileDifference> = self.files.check(file).await?;
            differ.extend(found.iter().map(|difference| format!("{}: {difference}", file.path)));
        }
        Ok(differ)
    }

    async fn put_back(
        &self,
        resource: ResourceId,
        mut taken: Taken,
        paths: &[String],
    ) -> Result<(), DocumentError> {
        for path in paths {
            let Some(before) = taken.get(path) else { continue };
            match self.files.restore(resource, &file(path, before, Vec::new()), before).await {
                // Others removed the directory, so nothing of ours is left.
                Err(FileError::NoDirectory { .. }) if *before == FileBefore::Absent => {}
                restored => restored?,
            }
            taken.remove(path);
        }
        self.record(resource, &taken)
    }

    fn applied(&self, resource: ResourceId) -> File {
        let path = self.state.join("apply-config").join(format!("{resource}.json"));
        File { mode: PRIVATE, ..file(&path.display().to_string(), &FileBefore::Absent, Vec::new()) }
    }

    fn record_path(&self, resource: ResourceId) -> PathBuf {
        self.state.join("json-files").join(resource.to_string())
    }

    fn taken(&self, resource: ResourceId) -> Result<Taken, DocumentError> {
        match fs::read(self.record_path(resource)) {
            Ok(bytes) => packed::unpack(&bytes).ok_or(DocumentError::Damaged),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Taken::new()),
            Err(error) => Err(error.into()),
        }
    }

    fn record(&self, resource: ResourceId, taken: &Taken) -> Result<(), DocumentError> {
        let path = self.record_path(resource);
        if taken.is_empty() {
            return match fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
                _ => Ok(()),
            };
        }
        make(&self.state.join("json-files"))?;
        Ok(crate::durable::replace(&path, &packed::pack(taken)?)?)
    }
}

/// An existing file keeps its owner and mode.
fn file(path: &str, before: &FileBefore, content: Vec<u8>) -> File {
    let (mode, owner, group) = match before {
        FileBefore::Present { mode, uid, gid, .. } => (*mode, Some(uid.to_string()), Some(gid.to_string())),
        FileBefore::Absent => (MODE, None, None),
    };
    let content = Content::Inline(content);
    File { path: path.to_owned(), content, mode, owner, group, on_delete: OnDelete::Restore }
}

fn object(config: &[u8]) -> Result<Map<String, Value>, DocumentError> {
    serde_json::from_slice(config).map_err(|error| DocumentError::Json(place(&error)))
}

/// The place of the error, without content, which may be secret.
fn place(error: &serde_json::Error) -> String {
    format!("line {}, column {}", error.line(), error.column())
}

fn documents(config: &[u8]) -> Result<BTreeMap<String, Value>, DocumentError> {
    let documents: BTreeMap<String, Value> = object(config)?.into_iter().collect();
    let is_path = |path: &str| {
        let is_name = |part: &str| !matches!(part, "" | "." | "..");
        !path.contains('\0') && path.strip_prefix('/').is_some_and(|path| path.split('/').all(is_name))
    };
    match documents.keys().find(|path| !is_path(path)) {
        Some(wrong) => Err(DocumentError::Path(wrong.clone())),
        None => Ok(documents),
    }
}

fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory)
}

/// Indents with four spaces, as Heat's own hook does.
fn indented(document: &Value) -> Vec<u8> {
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, formatter);
    document.serialize(&mut serializer).expect("JSON is written as JSON, into memory");
    text
}

#[cfg(test)]
mod tests;
