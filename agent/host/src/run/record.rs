//! What is written down of a run: the order, that it began, and its end. Each file is there whole or not at all.

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

/// With another form comes another number: an agent may find what another version left.
const MAGIC: &[u8] = b"muster-run 1\n";
/// An order has what a message of 256 KiB can carry; an end less.
const SIZE_MAX: u64 = 1024 * 1024;
/// Room on the disk for an end, taken before the run begins: it may fill the disk itself. Two streams and the outputs,
/// each within its bound, and names.
pub(super) const ENDED_ROOM: u64 = 320 * 1024;

/// The order for the supervisor.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) description: String,
    arguments: Vec<Vec<u8>>,
    /// All of it.
    pub(super) environment: BTreeMap<String, String>,
    pub(super) outputs: Vec<String>,
    pub(super) timeout: Duration,
}

/// How a run ended, and what it told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub how: RunEnd,
    /// The end of what it wrote to its standard output, lossily as text.
    pub stdout: String,
    /// The same of its standard error.
    pub stderr: String,
    /// Outputs that it left, by name.
    pub outputs: BTreeMap<String, Output>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunEnd {
    /// By itself.
    Exited(i32),
    /// By a signal of somebody else.
    Killed(i32),
    /// The command took longer than its time.
    TimedOut,
    /// By [`Runner::stop`](super::Runner::stop).
    Stopped,
    /// There is no such program, or the file is no program.
    NotStarted(String),
}

/// What a run left for a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// Lossily as text.
    Text(String),
    /// So many bytes are more than is taken, of this output or of all.
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

/// A file that is there and on disk, whatever becomes of the server.
pub(super) fn write(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// An empty file that has `size` bytes of the disk to itself, where the file system can do that.
pub(super) fn reserve(path: &Path, size: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    match fallocate(&file, FallocateFlags::empty(), 0, size.cast_signed()) {
        Ok(()) | Err(Errno::EOPNOTSUPP) => file.sync_all(),
        Err(error) => Err(error.into()),
    }
}

/// Writes over what was reserved.
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

/// Nothing, if it is not what [`encode`] made.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(SIZE_MAX).read_to_end(&mut bytes)?;
    Ok(bytes.strip_prefix(MAGIC).and_then(|body| postcard::from_bytes(body).ok()))
}
