//! One file, one record: written whole or not at all, and known to be whole when it is read.
//!
//! ```text
//!   record = "muster1\n" · BLAKE3 of the rest, 16 bytes · postcard
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::calls::{Call, before};

const MAGIC: &[u8] = b"muster1\n";
const CHECKSUM: usize = 16;
/// An entry of the ledger with two jobs of a whole message each is far smaller. What was there before Muster may
/// not be: a network with tens of thousands of routes.
pub const SIZE_MAX: u64 = 16 * 1024 * 1024;

/// What a file holds.
#[derive(Debug, PartialEq, Eq)]
pub enum Read<T> {
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
    let temporary = temporary(path);
    let written = (|| {
        before(Call::Create(&temporary))?;
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        let mut body = Body { file: BufWriter::new(file), sum: blake3::Hasher::new(), size: 0, error: None };
        let body = match postcard::to_io(value, body.begin()?) {
            Ok(_) => body,
            Err(error) => return Err(body.error.unwrap_or_else(|| io::Error::other(error))),
        };
        let sum = shortened(body.sum.finalize());
        before(Call::Write(&temporary))?;
        let mut file = body.file.into_inner()?;
        file.seek(SeekFrom::Start(MAGIC.len() as u64))?;
        file.write_all(&sum)?;
        before(Call::Sync(&temporary))?;
        file.sync_all()?;
        before(Call::Rename(&temporary, path))?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // The next write of this record begins anew anyway.
        let _ = before(Call::Remove(&temporary)).and_then(|()| fs::remove_file(&temporary));
    }
    written
}

/// What comes after the checksum, on its way to the disk: a large network's is not held in memory once more.
struct Body {
    file: BufWriter<File>,
    sum: blake3::Hasher,
    size: u64,
    /// Postcard keeps none.
    error: Option<io::Error>,
}

impl Body {
    /// Leaves room for the checksum.
    fn begin(&mut self) -> io::Result<&mut Self> {
        self.file.write_all(MAGIC)?;
        self.file.write_all(&[0; CHECKSUM])?;
        self.size = (MAGIC.len() + CHECKSUM) as u64;
        Ok(self)
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.size += bytes.len() as u64;
        if self.size > SIZE_MAX {
            return Err(io::Error::other(format!("a record is over the limit of {SIZE_MAX} bytes")));
        }
        self.sum.update(bytes);
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }
}

impl Body {
    /// Keeps the reason.
    fn keeping<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let kind = error.kind();
            self.error = Some(error);
            kind.into()
        })
    }
}

impl io::Write for Body {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let added = self.add(bytes);
        self.keeping(added)
    }

    /// Where a small record first meets the disk.
    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.file.flush();
        self.keeping(flushed)
    }
}

/// Makes renames in this directory durable.
///
/// # Errors
/// They may not be.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    before(Call::SyncDirectory(path))?;
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
    shortened(blake3::hash(body))
}

fn shortened(hash: blake3::Hash) -> [u8; CHECKSUM] {
    let mut sum = [0; CHECKSUM];
    sum.copy_from_slice(&hash.as_bytes()[..CHECKSUM]);
    sum
}
