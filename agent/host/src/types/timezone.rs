//! `Muster::Timezone`: the link `/etc/localtime`, which the C library and systemd read, and `/etc/timezone`
//! where a server has that file, as Debian does.
//!
//! The link changes by one rename, and the file after it; if the file cannot be written, the link
//! is restored.
//!
//! Absent: the kernel's own zone, the hardware clock, and programs that read the zone at their start and
//! still use it.

use std::fs::File as Handle;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use muster_shared::ResourceId;
use muster_shared::model::{Content, File, OnDelete, Timezone};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Tools;
use crate::files::{FileBefore, FileError, Files, StoredContent};
use crate::resource::{Applied, Fault, Resource};
use crate::run::RunId;
use crate::watch::Places;

const LOCALTIME: &str = "etc/localtime";
const NAME_FILE: &str = "etc/timezone";
const ZONES: &str = "usr/share/zoneinfo";
/// The first bytes of a compiled zone (RFC 8536).
const MAGIC: [u8; 4] = *b"TZif";

/// The time zone that this server has.
///
/// # Errors
/// `/etc/localtime` is no link to a zone, or cannot be read.
pub async fn present(tools: &Tools) -> Result<String> {
    match Zone::of(tools).observe().await?.localtime {
        Localtime::Link(target) => Ok(zone_in(&target)),
        Localtime::File(_) => Err(ZoneFault::NoLink),
    }
}

/// The time zone settings of a server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneState {
    localtime: Localtime,
    name: FileBefore,
}

/// The content of `/etc/localtime`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Localtime {
    Link(PathBuf),
    /// A copy of a zone, or nothing at all.
    File(FileBefore),
}

/// The reason why a time zone is not as desired.
#[derive(Debug, Error)]
pub enum ZoneFault {
    /// The server does not know the zone.
    #[error(
        "this server has no time zone {0} in /usr/share/zoneinfo: look at its name, or install the package tzdata"
    )]
    Missing(String),
    /// A file or the link.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file is no such file.
    #[error("{} is too large for a time zone's file; look at what is in it and remove it", .0.display())]
    TooLarge(PathBuf),
    /// The server's zone has no name.
    #[error("/etc/localtime is no link, so its zone has no name")]
    NoLink,
    /// The zone was set and did not stay.
    #[error("after the change: {0}")]
    Differs(String),
}

type Result<T> = std::result::Result<T, ZoneFault>;

impl Fault for ZoneFault {
    fn is_permanent(&self) -> bool {
        match self {
            Self::File(error) => error.is_permanent(),
            Self::TooLarge(_) | Self::NoLink => true,
            // A package may provide the zone later.
            Self::Missing(_) | Self::Differs(_) => false,
        }
    }
}

impl Resource for Timezone {
    type Before = ZoneState;
    type Fault = ZoneFault;

    async fn observe(&self, tools: &Tools) -> Result<ZoneState> {
        Zone::of(tools).observe().await
    }

    async fn apply(&self, tools: &Tools, run: &RunId, _before: ZoneState) -> Result<Applied<ZoneState>> {
        Zone::of(tools).apply(run.resource, &self.timezone).await?;
        Ok(Applied::new([("timezone", self.timezone.clone())]))
    }

    async fn restore(&self, tools: &Tools, run: &RunId, before: ZoneState) -> Result<()> {
        match self.on_delete {
            OnDelete::Keep => Zone::of(tools).leave(run.resource).await,
            OnDelete::Restore => Zone::of(tools).reach(run.resource, &before).await,
        }
    }

    async fn check(&self, tools: &Tools) -> Result<Vec<String>> {
        let zone = Zone::of(tools);
        Ok(zone.differences(&zone.observe().await?, &self.timezone))
    }

    fn places(&self, _tools: &Tools) -> Places {
        Places { files: Resource::decisive(self), unit: None }
    }

    fn decisive(&self) -> Vec<PathBuf> {
        [LOCALTIME, NAME_FILE].map(|path| Path::new("/").join(path)).into()
    }
}

/// The time zone of the server below a root.
struct Zone<'a> {
    root: &'a Path,
    files: &'a Files,
}

impl<'a> Zone<'a> {
    fn of(tools: &'a Tools) -> Self {
        Self { root: Path::new("/"), files: &tools.files }
    }

    async fn observe(&self) -> Result<ZoneState> {
        let localtime = match self.files.link(&self.root.join(LOCALTIME))? {
            Some(target) => Localtime::Link(target),
            None => Localtime::File(self.capture(LOCALTIME).await?),
        };
        Ok(ZoneState { localtime, name: self.capture(NAME_FILE).await? })
    }

    async fn capture(&self, path: &str) -> Result<FileBefore> {
        let before = self.files.capture(&self.file(path)).await?;
        if before.aside().is_some() { Err(ZoneFault::TooLarge(self.root.join(path))) } else { Ok(before) }
    }

    /// After a failure in the middle, the former state is restored.
    async fn apply(&self, owner: ResourceId, timezone: &str) -> Result<()> {
        if !self.has(timezone) {
            return Err(ZoneFault::Missing(timezone.to_owned()));
        }
        let is = self.observe().await?;
        if self.differences(&is, timezone).is_empty() {
            return Ok(());
        }
        // The form that systemd writes.
        let localtime = Localtime::Link(Path::new("..").join(ZONES).join(timezone));
        let wanted = ZoneState { localtime, name: named(&is.name, timezone) };
        let reached = self.reach(owner, &wanted).await;
        if reached.is_err() {
            // The first fault is the one to report.
            let _ = self.reach(owner, &is).await;
        }
        reached
    }

    /// Makes the state and reads it back. May be repeated at any point.
    async fn reach(&self, owner: ResourceId, wanted: &ZoneState) -> Result<()> {
        let path = self.root.join(LOCALTIME);
        let is = self.observe().await?;
        if is.localtime != wanted.localtime {
            match (&is.localtime, &wanted.localtime) {
                (_, Localtime::Link(target)) => self.files.set_link(owner, &path, Some(target))?,
                (from, Localtime::File(file)) => {
                    // A file is never written over a link.
                    if let Localtime::Link(_) = from {
                        self.files.set_link(owner, &path, None)?;
                    }
                    self.files.restore(owner, &self.file(LOCALTIME), file).await?;
                }
            }
        }
        // A file that appeared or vanished since is not managed.
        if let (FileBefore::Present { .. }, FileBefore::Present { .. }) = (&is.name, &wanted.name) {
            self.files.restore(owner, &self.file(NAME_FILE), &wanted.name).await?;
        }
        if self.observe().await?.localtime == wanted.localtime {
            return Ok(());
        }
        Err(ZoneFault::Differs(format!("something else writes {}", path.display())))
    }

    /// Leaves the zone as it is, but removes the leftovers of a crash.
    async fn leave(&self, owner: ResourceId) -> Result<()> {
        for path in [LOCALTIME, NAME_FILE] {
            let file = File { on_delete: OnDelete::Keep, ..self.file(path) };
            self.files.restore(owner, &file, &FileBefore::Absent).await?;
        }
        Ok(())
    }

    fn differences(&self, is: &ZoneState, timezone: &str) -> Vec<String> {
        let mut differ = Vec::new();
        let zone = match &is.localtime {
            Localtime::Link(target) => zone_in(target),
            Localtime::File(FileBefore::Present { .. }) => "a file".to_owned(),
            Localtime::File(FileBefore::Absent) => "not there".to_owned(),
        };
        if zone != timezone {
            differ.push(format!("/{LOCALTIME} is {zone}, and should be {timezone}"));
        }
        if is.name != named(&is.name, timezone) {
            differ.push(format!("/{NAME_FILE} does not name {timezone}"));
        }
        differ
    }

    fn has(&self, timezone: &str) -> bool {
        let mut magic = [0; MAGIC.len()];
        let read = Handle::open(self.root.join(ZONES).join(timezone))
            .and_then(|mut file| file.read_exact(&mut magic));
        read.is_ok() && magic == MAGIC
    }

    fn file(&self, path: &str) -> File {
        File {
            path: self.root.join(path).to_string_lossy().into_owned(),
            content: Content::Inline(Vec::new()),
            mode: 0o644,
            owner: None,
            group: None,
            on_delete: OnDelete::Restore,
        }
    }
}

/// `/etc/timezone` with this zone, if the file exists: its mode and owner stay.
fn named(is: &FileBefore, timezone: &str) -> FileBefore {
    match is {
        FileBefore::Absent => FileBefore::Absent,
        FileBefore::Present { mode, uid, gid, content } => {
            let has =
                matches!(content, StoredContent::Inline(bytes) if bytes.trim_ascii() == timezone.as_bytes());
            let content = if has {
                content.clone()
            } else {
                StoredContent::Inline(format!("{timezone}\n").into_bytes())
            };
            FileBefore::Present { mode: *mode, uid: *uid, gid: *gid, content }
        }
    }
}

/// The zone that a link leads to, from `/` or from `/etc`; the target itself if it leads elsewhere.
fn zone_in(target: &Path) -> String {
    let below = target.strip_prefix("..").or_else(|_| target.strip_prefix("/")).unwrap_or(target);
    below.strip_prefix(ZONES).unwrap_or(target).to_string_lossy().escape_debug().to_string()
}

#[cfg(test)]
mod tests;
