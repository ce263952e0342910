//! Runs nft: the commands go through its standard input, never through a shell.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, Command};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::list::{Picture, read};
use super::{FAMILY, TABLE};
use crate::openflow::Lost;

/// The paths of distributions. The search path is not used: a user who can write there could run code
/// as root.
const PROGRAMS: [&str; 4] = ["/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft", "/usr/local/sbin/nft"];
/// 50,000 rules take two seconds to write and four to list; a loaded node is ten times as slow.
const TIME_MAX: Duration = Duration::from_secs(120);
/// The most bytes of a listing: 100,000 rules of 700 bytes, and as much again. It is never in memory as
/// a whole.
const LISTING_MAX: u64 = 160 * 1024 * 1024;
/// The most bytes of nft's errors that are kept; the first error counts.
const ERRORS_MAX: usize = 4096;

/// An error of nft.
pub(super) struct Bad {
    /// The line to blame, from 1.
    pub line: Option<usize>,
    pub reason: String,
}

#[derive(Clone, Debug)]
pub(super) struct Program(PathBuf);

impl Program {
    pub fn find() -> Result<Self, Lost> {
        Self::first_of(PROGRAMS.into_iter().map(PathBuf::from))
    }

    pub fn first_of(paths: impl Iterator<Item = PathBuf>) -> Result<Self, Lost> {
        let found = paths.into_iter().find(|path| path.is_file());
        found.map(Self).ok_or_else(|| {
            Lost::Filter("nft is not installed on this node: install nftables (apt install nftables)".into())
        })
    }

    fn start(&self, arguments: &[&str], stdin: Stdio, stdout: Stdio) -> Result<Child, Lost> {
        let mut command = Command::new(&self.0);
        command.args(arguments).env_clear().env("LC_ALL", "C").kill_on_drop(true);
        let started = command.stdin(stdin).stdout(stdout).stderr(Stdio::piped()).spawn();
        started.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Lost::Filter("nft is not installed on this node any more: install nftables".into())
            }
            _ => Lost::Filter(format!("cannot run {}: {error}", self.0.display())),
        })
    }

    /// Does all of a script or nothing. `started` learns the process.
    pub async fn transaction(
        &self,
        script: &str,
        started: impl FnOnce(u32),
    ) -> Result<Result<(), Bad>, Lost> {
        let mut child = self.start(&["-f", "-"], Stdio::piped(), Stdio::null())?;
        if let Some(process) = child.id() {
            started(process);
        }
        let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
        let write = async {
            if let Some(mut stdin) = stdin {
                // nft itself reports why it stopped reading.
                let _ = stdin.write_all(script.as_bytes()).await;
            }
        };
        let work = async {
            let ((), said) = join(write, errors(stderr)).await;
            (child.wait().await, said)
        };
        let (status, said) = timeout(TIME_MAX, work).await.map_err(|_| Lost::Silent(TIME_MAX))?;
        let status = status.map_err(Lost::Broken)?;
        Ok(if status.success() { Ok(()) } else { Err(bad(&said)) })
    }

    /// Our table as it is.
    pub async fn list(&self) -> Result<Picture, Lost> {
        let arguments = ["-j", "-n", "list", "table", FAMILY, TABLE];
        let mut child = self.start(&arguments, Stdio::null(), Stdio::piped())?;
        let Some(stdout) = child.stdout.take() else { return Err(Lost::Garbled("no output")) };
        let stdout = File::from(stdout.into_owned_fd().map_err(Lost::Broken)?);
        // The reader ends with the process, which is killed when this is dropped.
        let reader =
            spawn_blocking(move || read(BufReader::with_capacity(64 * 1024, stdout.take(LISTING_MAX))));
        let stderr = child.stderr.take();
        let work = async {
            let (picture, said) = join(reader, errors(stderr)).await;
            (picture, child.wait().await, said)
        };
        let (picture, status, said) = timeout(TIME_MAX, work).await.map_err(|_| Lost::Silent(TIME_MAX))?;
        match status.map_err(Lost::Broken)?.success() {
            true => picture.map_err(|error| Lost::Broken(io::Error::other(error)))?,
            false if said.contains("No such file or directory") => Ok(Picture::default()),
            false => {
                Err(Lost::Filter(format!("nft cannot list table {FAMILY} {TABLE}: {}", bad(&said).reason)))
            }
        }
    }
}

async fn errors(stderr: Option<ChildStderr>) -> String {
    let mut said = Vec::new();
    if let Some(mut stderr) = stderr {
        let mut piece = [0; 1024];
        while let Ok(1..) = stderr.read(&mut piece).await.inspect(|read| {
            let room = ERRORS_MAX.saturating_sub(said.len());
            said.extend_from_slice(&piece[..(*read).min(room)]);
        }) {}
    }
    String::from_utf8_lossy(&said).into_owned()
}

/// `/dev/stdin:3:14-18: Error: …`
fn bad(said: &str) -> Bad {
    let first = said.lines().find(|line| line.contains("rror: ")).or(said.lines().next()).unwrap_or_default();
    let (place, reason) = first.split_once(": Error: ").unwrap_or(("", first));
    let line = place.rsplit(':').nth(1).and_then(|line| line.parse().ok());
    let reason: String = reason.chars().take(300).collect();
    Bad { line, reason: if reason.is_empty() { "nft failed without a word".into() } else { reason } }
}
