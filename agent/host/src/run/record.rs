//! The records of a run: its order, its beginning, and its end. Each file is written completely or not
//! at all.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A new format needs a new number: an agent may find the files of another version.
const MAGIC: &[u8] = b"muster-run 1\n";
/// The most bytes of an order: as many as a message of 256 KiB can carry. An end has fewer.
const SIZE_MAX: u64 = 1024 * 1024;
/// Disk space for the record of the end, reserved before the run begins, since the run itself may fill the
/// disk. Two streams and the outputs, each within its bound, and names.
pub(super) const ENDED_ROOM: u64 = 320 * 1024;

/// The order for the supervisor.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) description: String,
    arguments: Vec<Vec<u8>>,
    /// The complete environment.
    pub(super) environment: BTreeMap<String, String>,
    pub(super) outputs: Vec<String>,
    pub(super) timeout: Duration,
}

/// The end of a run, and its outputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub how: RunEnd,
    /// The end of its standard output, lossily as text.
    pub stdout: String,
    /// The end of its standard error, lossily as text.
    pub stderr: String,
    /// The outputs, by name.
    pub outputs: BTreeMap<String, Output>,
}

/// The way in which a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunEnd {
    /// The command exited by itself.
    Exited(i32),
    /// A signal from outside killed the command.
    Killed(i32),
    /// The command took longer than its time.
    TimedOut,
    /// [`Runner::stop`](super::Runner::stop) ended the run.
    Stopped,
    /// The program does not exist, or is not executable.
    NotStarted(String),
    /// A hook ended well, and its answer tells no end.
    BadAnswer(String),
}

/// The output for one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// The content, lossily as text.
    Text(String),
    /// The size of an output that exceeds the limit, its own or that of all outputs.
    TooLarge(u64),
}

impl Order {
    pub(super) fn new(
        description: String,
        arguments: &[OsString],
        environment: BTreeMap<String, String>,
        outputs: Vec<String>,
        timeout: Duration,
    ) -> Self {
        let arguments = arguments.iter().map(|argument| argument.as_bytes().to_vec()).collect();
        Self { description, arguments, environment, outputs, timeout }
    }

    pub(super) fn arguments(&self) -> Vec<OsString> {
        self.arguments.iter().cloned().map(OsString::from_vec).collect()
    }
}

/// Writes a new file durably.
pub(super) fn write(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// An empty file with `size` bytes of disk space reserved, if the file system supports that.
pub(super) fn reserve(path: &Path, size: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    match fallocate(&file, FallocateFlags::empty(), 0, size.cast_signed()) {
        Ok(()) | Err(Errno::EOPNOTSUPP) => file.sync_all(),
        Err(error) => Err(error.into()),
    }
}

/// Fills the reserved file.
pub(super) fn fill(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)?;
    file.sync_all()
}

/// The name is on disk as well.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    sync_parent(to)
}

pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

pub(super) fn encode(what: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_extend(what, MAGIC.to_vec()).map_err(io::Error::other)
}

/// `None` if the file is not from [`encode`].
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(SIZE_MAX).read_to_end(&mut bytes)?;
    Ok(bytes.strip_prefix(MAGIC).and_then(|body| postcard::from_bytes(body).ok()))
}
