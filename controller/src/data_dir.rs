//! The data directory: made with tight permissions, used by one controller at a time.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::Context as _;

/// Makes the directory if need be and locks it for as long as the result lives.
///
/// # Errors
/// It cannot be made, or another controller uses it.
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
