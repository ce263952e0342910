//! Contents on their way from the controller, one file each.
//!
//! Absent: which content is fetched next, and how long it is kept (`agent/core/src/fetch.rs`).

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use muster_agent_core::{ContentState, Retry, RunError};
use muster_shared::model::ContentDigest;

use crate::host::lacks_room;

/// Hashed at a time; other work goes on in between.
const PIECE: u64 = 1024 * 1024;

/// The directory of contents.
#[derive(Clone, Debug)]
pub struct Contents {
    directory: PathBuf,
}

impl Contents {
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    fn path(&self, digest: ContentDigest) -> PathBuf {
        self.directory.join(digest.to_string())
    }

    /// Finds how many bytes are present.
    ///
    /// # Errors
    /// A reason for the operator.
    pub fn find(&self, digest: ContentDigest) -> Result<ContentState, RunError> {
        let path = self.path(digest);
        match fs::metadata(&path) {
            Ok(meta) => Ok(ContentState::Have(meta.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(ContentState::Have(0)),
            Err(error) => Err(failed(&path, &error)),
        }
    }

    /// Writes at `offset`, which must be the file's end. If the bytes do not fit, none are left. Not made
    /// durable: the digest shows the loss of a power cut.
    ///
    /// # Errors
    /// A reason for the operator.
    pub fn append(&self, digest: ContentDigest, offset: u64, bytes: &[u8]) -> Result<ContentState, RunError> {
        let path = self.path(digest);
        let write = || {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
            file.seek(SeekFrom::Start(offset))?;
            // The last free bytes of a disk are for the agent's records.
            file.write_all(bytes).inspect_err(|_| drop(file.set_len(offset)))
        };
        write().map_err(|error: io::Error| failed(&path, &error))?;
        Ok(ContentState::Have(offset + bytes.len() as u64))
    }

    /// Compares the digest; removes a content with a wrong one.
    ///
    /// # Errors
    /// A reason for the operator.
    pub async fn verify(&self, digest: ContentDigest) -> Result<ContentState, RunError> {
        let path = self.path(digest);
        let is_right = async {
            let mut file = File::open(&path)?;
            let mut hasher = blake3::Hasher::new();
            let mut piece = Vec::new();
            while (&mut file).take(PIECE).read_to_end(&mut piece)? > 0 {
                hasher.update(&piece);
                piece.clear();
                tokio::task::yield_now().await;
            }
            io::Result::Ok(*hasher.finalize().as_bytes() == digest.0)
        };
        if is_right.await.map_err(|error| failed(&path, &error))? {
            return Ok(ContentState::Verified);
        }
        fs::remove_file(&path).map_err(|error| failed(&path, &error))?;
        Ok(ContentState::Corrupt)
    }

    /// Removes a content; if that fails, the next start removes it.
    pub fn remove(&self, digest: ContentDigest) {
        let _ = fs::remove_file(self.path(digest));
    }

    /// Removes all but these.
    pub fn keep_only(&self, digests: &[ContentDigest]) {
        let names: Vec<String> = digests.iter().map(ToString::to_string).collect();
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            if !names.iter().any(|name| entry.file_name() == name.as_str()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> RunError {
    let retry = if lacks_room(error) { Retry::WhenRoom } else { Retry::Later };
    RunError { reason: format!("cannot fetch the content to {}: {error}", path.display()), retry }
}
