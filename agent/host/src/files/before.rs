//! The file before Muster: it is captured before the first change, large content aside, and restored with its bytes,
//! mode and owner.
//!
//! Absent: where the captured state lies (`agent/core/src/ledger.rs`), and who owns a path that two resources had in
//! turn (`agent/src/host/owners.rs`).

use std::fs::{self, File as Handle, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use muster_shared::ResourceId;
use muster_shared::model::{ContentDigest, File, OnDelete};
use serde::{Deserialize, Serialize};

use super::directory::Directory;
use super::error::FileError;
use super::{
    Files, LEFT_BEHIND, PERMISSION_BITS, Source, Wanted, copy_pieces, io_error, named_owner, open_regular,
    reach, remove, remove_if_there, temporary,
};

/// Previous content up to this size is kept in the ledger's record, larger content in a file of its own.
pub(super) const INLINE_MAX: u64 = 64 * 1024;
/// The most previous content that is copied aside: more would fill the ledger's disk.
pub(super) const KEPT_MAX: u64 = 256 * 1024 * 1024;

/// The state of the path before Muster.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileBefore {
    Absent,
    Present {
        /// Permission bits.
        mode: u32,
        uid: u32,
        gid: u32,
        content: StoredContent,
    },
}

/// The place of previous content.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredContent {
    Inline(Vec<u8>),
    /// A file of this name in the state directory.
    File(ContentDigest),
}

impl FileBefore {
    /// Encodes the state for the ledger.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("these types have no map of unknown length")
    }

    /// Decodes the ledger's bytes; `None` if they are damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }

    /// The previous content, if the file existed.
    pub fn content(&self) -> Option<ContentDigest> {
        match self {
            FileBefore::Present { content: StoredContent::File(digest), .. } => Some(*digest),
            FileBefore::Present { content: StoredContent::Inline(bytes), .. } => {
                Some(ContentDigest::of(bytes))
            }
            FileBefore::Absent => None,
        }
    }

    /// The file in the state directory that a restore needs.
    pub fn aside(&self) -> Option<ContentDigest> {
        match self {
            FileBefore::Present { content: StoredContent::File(digest), .. } => Some(*digest),
            FileBefore::Present { content: StoredContent::Inline(_), .. } | FileBefore::Absent => None,
        }
    }
}

impl Files {
    /// Reads the present file; a content too large for the ledger is copied aside, durably.
    ///
    /// # Errors
    /// [`FileError`]; nothing was changed.
    pub async fn capture(&self, file: &File) -> Result<FileBefore, FileError> {
        let path = Path::new(&file.path);
        let directory = Directory::of(path, named_owner(file))?;
        let Some((mut handle, meta)) = open_regular(&directory, path)? else { return Ok(FileBefore::Absent) };
        let content = if meta.len() > KEPT_MAX {
            return Err(FileError::TooLarge { path: path.to_owned() });
        } else if meta.len() <= INLINE_MAX {
            let mut bytes = Vec::new();
            (&mut handle).take(INLINE_MAX + 1).read_to_end(&mut bytes).map_err(io_error(path, "read it"))?;
            StoredContent::Inline(bytes)
        } else {
            StoredContent::File(self.keep_aside(path, &mut handle).await?)
        };
        let mode = meta.mode() & PERMISSION_BITS;
        Ok(FileBefore::Present { mode, uid: meta.uid(), gid: meta.gid(), content })
    }

    /// Restores the file before Muster, or leaves the file if the desired state asks for that.
    ///
    /// # Errors
    /// [`FileError`]; the file is unchanged.
    pub async fn restore(
        &self,
        resource: ResourceId,
        file: &File,
        before: &FileBefore,
    ) -> Result<(), FileError> {
        let path = Path::new(&file.path);
        let opened = Directory::of(path, named_owner(file));
        let directory = match (opened, before) {
            (Ok(directory), _) => directory,
            // The file must stay as it is.
            (Err(_), _) if file.on_delete == OnDelete::Keep => return Ok(()),
            (Err(FileError::NoDirectory { .. }), FileBefore::Absent) => return Ok(()),
            (Err(error), _) => return Err(error),
        };
        let temporary = temporary(path, resource);
        directory.remove(&temporary).map_err(io_error(path, LEFT_BEHIND))?;
        match before {
            _ if file.on_delete == OnDelete::Keep => Ok(()),
            FileBefore::Absent => remove(&directory, path),
            FileBefore::Present { mode, uid, gid, content } => {
                let aside;
                let content = match content {
                    StoredContent::Inline(bytes) => Source::Bytes(bytes),
                    StoredContent::File(digest) => {
                        aside = self.verified_aside(path, *digest).await?;
                        Source::File(&aside)
                    }
                };
                let wanted = Wanted { content, mode: *mode, uid: *uid, gid: *gid };
                reach(resource, &directory, path, &wanted).await
            }
        }
    }

    /// Removes contents kept aside, except these.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn keep_only(&self, digests: &[ContentDigest]) -> io::Result<()> {
        let names: Vec<String> = digests.iter().map(ToString::to_string).collect();
        for entry in fs::read_dir(&self.aside)? {
            let entry = entry?;
            if !names.iter().any(|name| entry.file_name() == name.as_str()) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    pub(super) async fn keep_aside(
        &self,
        path: &Path,
        from: &mut impl Read,
    ) -> Result<ContentDigest, FileError> {
        let temporary = self.aside.join("new");
        let kept = async {
            let mut copy =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
            // The file may grow meanwhile, without end.
            let digest = copy_pieces(&mut from.take(KEPT_MAX + 1), &mut copy).await?;
            if copy.metadata()?.len() > KEPT_MAX {
                return Err(ErrorKind::FileTooLarge.into());
            }
            copy.sync_all()?;
            fs::rename(&temporary, self.aside.join(digest.to_string()))?;
            Handle::open(&self.aside)?.sync_all()?;
            Ok(digest)
        };
        let kept = kept.await;
        if kept.is_err() {
            // The ledger is on the same disk and needs the room.
            let _ = remove_if_there(&temporary);
        }
        kept.map_err(io_error(path, "keep what is there aside"))
    }

    async fn verified_aside(&self, path: &Path, digest: ContentDigest) -> Result<PathBuf, FileError> {
        let aside = self.aside.join(digest.to_string());
        let lost = |why: String| FileError::BeforeLost { path: path.to_owned(), why };
        let mut handle =
            Handle::open(&aside).map_err(|error| lost(format!("{}: {error}", aside.display())))?;
        match copy_pieces(&mut handle, &mut io::sink()).await {
            Ok(read) if read == digest => Ok(aside),
            Ok(_) => Err(lost(format!("{} is damaged", aside.display()))),
            Err(error) => Err(lost(format!("{}: {error}", aside.display()))),
        }
    }
}
