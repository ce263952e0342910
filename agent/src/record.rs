//! One file holds one record, written completely or not at all, and verified when it is read.
//!
//! ```text
//!   record = "muster1\n" · BLAKE3 of the rest, 16 bytes · postcard
//! ```
//!
//! Absent: which records there are (`state_dir.rs`), and when they become durable (`driver/records.rs`).

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::disk_calls::{Call, before};

const MAGIC: &[u8] = b"muster1\n";
const CHECKSUM: usize = 16;
/// The most bytes of a record. A ledger entry with two jobs of a full message each is far smaller, but the
/// state before Muster may be large: a network with tens of thousands of routes.
pub const SIZE_MAX: u64 = 16 * 1024 * 1024;

/// The content of a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Read<T> {
    Whole(T),
    /// There is no such file.
    Absent,
    /// The file is not a record, or is truncated, altered, or of another version.
    Corrupt,
}

/// The path at which the file is written before its rename.
pub fn temporary(path: &Path) -> PathBuf {
    path.with_added_extension("new")
}

/// Replaces the file by a rename. The file survives a power cut only after [`sync_directory`] has returned.
///
/// # Errors
/// The file is unchanged.
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
        // The next write of this record replaces the file anyway.
        let _ = before(Call::Remove(&temporary)).and_then(|()| fs::remove_file(&temporary));
    }
    written
}

/// Streams the part after the checksum to the disk: a large network's record is not in memory once more.
struct Body {
    file: BufWriter<File>,
    sum: blake3::Hasher,
    size: u64,
    /// The first error, which postcard does not keep.
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

    /// A small record first reaches the disk here.
    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.file.flush();
        self.keeping(flushed)
    }
}

/// Makes renames in this directory durable.
///
/// # Errors
/// The renames may not be durable.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    before(Call::SyncDirectory(path))?;
    File::open(path)?.sync_all()
}

/// Reads a record.
///
/// # Errors
/// The system cannot read the file; its content is unknown.
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
