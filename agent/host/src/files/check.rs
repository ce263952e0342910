//! Whether a file is as desired. Nothing is changed.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use muster_shared::model::{Content, ContentDigest, File};

use super::{Directory, FileError, Files, PERMISSION_BITS, digest, io_error, open_regular, owners};

/// A difference between a file and its desired state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileDifference {
    Missing,
    /// The path holds something other than a regular file.
    Kind(&'static str),
    Content,
    /// Other permission bits.
    Mode {
        /// The present value.
        is: u32,
    },
    /// The file belongs to another user or group.
    Owner {
        /// The present values.
        is: (u32, u32),
    },
}

impl Files {
    /// The differences from the desired file; empty if there are none. A fetched content is compared by
    /// its digest.
    ///
    /// # Errors
    /// [`FileError`]: the file cannot be read.
    pub async fn check(&self, file: &File) -> Result<Vec<FileDifference>, FileError> {
        let path = Path::new(&file.path);
        let owner = owners(path, file)?;
        let opened = Directory::of(path, Some(owner.0)).and_then(|directory| open_regular(&directory, path));
        let (mut handle, meta) = match opened {
            Ok(Some(found)) => found,
            Ok(None) | Err(FileError::NoDirectory { .. }) => return Ok(vec![FileDifference::Missing]),
            Err(FileError::NotRegular { found, .. }) => return Ok(vec![FileDifference::Kind(found)]),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        let wanted = match &file.content {
            Content::Inline(bytes) => ContentDigest::of(bytes),
            Content::Stored { digest, .. } => *digest,
        };
        let same = meta.len() == file.content.size()
            && digest(&mut handle).await.map_err(io_error(path, "read it"))? == wanted;
        if !same {
            found.push(FileDifference::Content);
        }
        let mode = meta.mode() & PERMISSION_BITS;
        if mode != file.mode & PERMISSION_BITS {
            found.push(FileDifference::Mode { is: mode });
        }
        if (meta.uid(), meta.gid()) != owner {
            found.push(FileDifference::Owner { is: (meta.uid(), meta.gid()) });
        }
        Ok(found)
    }
}

impl std::fmt::Display for FileDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FileDifference::Missing => f.write_str("it is not there"),
            FileDifference::Kind(found) => write!(f, "there is {found}"),
            FileDifference::Content => f.write_str("its content differs"),
            FileDifference::Mode { is } => write!(f, "its mode is {is:04o}"),
            FileDifference::Owner { is: (user, group) } => write!(f, "it belongs to {user}:{group}"),
        }
    }
}
