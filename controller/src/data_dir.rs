//! The data directory: private, used by one controller at a time, and owned by one user.
//!
//! Absent: which controller of several is active (`lease.rs`), and the files of the folder `pki` (`pki.rs`).

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, lchown};
use std::path::Path;

use anyhow::Context as _;

/// Makes the directory if needed and locks it for as long as the result lives.
///
/// # Errors
/// The directory cannot be made, or another controller uses it.
pub fn open(path: &Path) -> anyhow::Result<File> {
    let shown = path.display();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot make {shown}"))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
        .with_context(|| format!("cannot use {shown}"))?;
    let lock = File::create(path.join("lock")).with_context(|| format!("cannot write in {shown}"))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => anyhow::bail!("another controller uses {shown}"),
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("cannot lock {shown}")),
    }
}

/// Gives files that root made in the directory to the directory's owner, as which the controller runs.
///
/// # Errors
/// [`io::Error`]: a file cannot be read or given to the owner.
pub fn give_to_owner(path: &Path) -> io::Result<()> {
    let owner = fs::metadata(path)?;
    give(path, owner.uid(), owner.gid())
}

fn give(folder: &Path, user: u32, group: u32) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.metadata()?; // of a link itself
        if (found.uid(), found.gid()) != (user, group) {
            lchown(entry.path(), Some(user), Some(group))?;
        }
        if found.is_dir() {
            give(&entry.path(), user, group)?;
        }
    }
    Ok(())
}
