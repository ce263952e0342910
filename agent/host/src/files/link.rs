//! A symbolic link at a path, replaced like a file: by one rename, and only where others cannot redirect
//! the path.

use std::path::{Path, PathBuf};

use muster_shared::ResourceId;

use super::directory::Directory;
use super::{FileError, Files, LEFT_BEHIND, io_error, name, temporary};

impl Files {
    /// The target of the symbolic link at the path; `None` if there is no link.
    ///
    /// # Errors
    /// [`FileError`]
    pub fn link(&self, path: &Path) -> Result<Option<PathBuf>, FileError> {
        let directory = Directory::of(path, None)?;
        let target = directory.read_link(name(path)).map_err(io_error(path, "read the link"))?;
        Ok(target.map(PathBuf::from))
    }

    /// Makes the path a symbolic link, durably; without a target, removes the entry. An existing entry of the
    /// name is replaced, unless it is a directory.
    ///
    /// # Errors
    /// [`FileError`]; the path is unchanged.
    pub fn set_link(
        &self,
        resource: ResourceId,
        path: &Path,
        target: Option<&Path>,
    ) -> Result<(), FileError> {
        let directory = Directory::of(path, None)?;
        let temporary = temporary(path, resource);
        directory.remove(&temporary).map_err(io_error(path, LEFT_BEHIND))?;
        let changed = match target.map(Path::as_os_str) {
            Some(target) => directory
                .make_link(target, &temporary)
                .and_then(|()| directory.rename(&temporary, name(path))),
            None => directory.remove(name(path)),
        };
        changed.and_then(|()| directory.sync()).map_err(io_error(path, "write the link"))
    }
}
