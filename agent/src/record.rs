//! One file, one record: written whole or not at all, and known to be whole when it is read.
//!
//! ```text
//!   record = "muster1\n" · BLAKE3 of the rest, 16 bytes · postcard
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

const MAGIC: &[u8] = b"muster1\n";
const CHECKSUM: usize = 16;
/// An entry of the ledger with two jobs of a whole message each is far smaller. What was there before Muster may
/// not be: a network with tens of thousands of routes.
pub const SIZE_MAX: u64 = 16 * 1024 * 1024;

/// What a file holds.
#[derive(Debug, PartialEq, Eq)]
pub enum Read<T> {
    /// A whole record.
    Whole(T),
    /// There is no such file.
    Absent,
    /// Not a record, cut off, altered, or of another version.
    Corrupt,
}

/// Where it is written before it gets its name.
pub fn temporary(path: &Path) -> PathBuf {
    path.with_added_extension("new")
}

/// Replaces the file by a rename. It survives a power cut once [`sync_directory`] has returned as well.
///
/// # Errors
/// The file is as it was.
pub fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let body = postcard::to_stdvec(value).map_err(io::Error::other)?;
    if (MAGIC.len() + CHECKSUM + body.len()) as u64 > SIZE_MAX {
        return Err(io::Error::other(format!(
            "a record of {} bytes is over the limit of {SIZE_MAX}",
            body.len()
        )));
    }
    let temporary = temporary(path);
    let written = (|| {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(&[MAGIC, &checksum(&body), &body].concat())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // The next write of this record begins anew anyway.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Makes renames in this directory durable.
///
/// # Errors
/// They may not be.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Reads one.
///
/// # Errors
/// The system cannot read it; what it holds is unknown.
pub fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Read<T>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(SIZE_MAX).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Read::Absent),
        Err(error) => return Err(error),
    };
    let whole = || {
        let (sum, body) = bytes.strip_prefix(MAGIC)?.split_at_checked(CHECKSUM)?;
        if sum != checksum(body) {
            return None;
        }
        postcard::from_bytes(body).ok()
    };
    Ok(whole().map_or(Read::Corrupt, Read::Whole))
}

fn checksum(body: &[u8]) -> [u8; CHECKSUM] {
    let mut sum = [0; CHECKSUM];
    sum.copy_from_slice(&blake3::hash(body).as_bytes()[..CHECKSUM]);
    sum
}
