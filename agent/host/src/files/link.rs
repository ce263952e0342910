//! A symbolic link at a path, replaced as a file is: by one rename, and where others cannot lead the way elsewhere.

use std::path::{Path, PathBuf};

use muster_shared::ResourceId;

use super::directory::Directory;
use super::{FileError, Files, LEFT_BEHIND, io, name, temporary};

impl Files {
    /// Where the symbolic link at the path leads; none if there is no link.
    ///
    /// # Errors
    /// [`FileError`]
    pub fn link(&self, path: &Path) -> Result<Option<PathBuf>, FileError> {
        let directory = Directory::of(path, None)?;
        let target = directory.read_link(name(path)).map_err(io(path, "read the link"))?;
        Ok(target.map(PathBuf::from))
    }

    /// Makes the path a symbolic link, durably; nothing of it, where there is no target. What is there by its name goes,
    /// unless it is a directory.
    ///
    /// # Errors
    /// [`FileError`]; what was there is there.
    pub fn set_link(
        &self,
        resource: ResourceId,
        path: &Path,
        target: Option<&Path>,
    ) -> Result<(), FileError> {
        let directory = Directory::of(path, None)?;
        let temporary = temporary(path, resource);
        directory.remove(&temporary).map_err(io(path, LEFT_BEHIND))?;
        let changed = match target.map(Path::as_os_str) {
            Some(target) => directory
                .make_link(target, &temporary)
                .and_then(|()| directory.rename(&temporary, name(path))),
            None => directory.remove(name(path)),
        };
        changed.and_then(|()| directory.sync()).map_err(io(path, "write the link"))
    }
}
