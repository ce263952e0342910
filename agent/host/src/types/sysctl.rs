//! `Muster::Sysctl`: a setting of the kernel, and the file in `/etc/sysctl.d` that gives it to the kernel
//! at boot.
//!
//! The file changes first, by one rename, and the kernel after it; if the kernel refuses the value, the file
//! is restored. The file's name sorts after those that others use, `/etc/sysctl.conf` included.
//!
//! Absent on purpose: the same key in other files there, and the loading of modules.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use muster_shared::ResourceId;
use muster_shared::model::{Content, File, OnDelete, Sysctl};
use nix::unistd::{getegid, geteuid};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Tools;
use crate::files::{FileBefore, FileError, Files, StoredContent};
use crate::resource::{Applied, Fault, Resource};
use crate::run::RunId;
use crate::watch::Places;

/// The directory that systemd-sysctl and procps read at boot.
const FOLDER: &str = "/etc/sysctl.d";
const PROC: &str = "/proc/sys";
/// Everybody reads it.
const MODE: u32 = 0o644;

/// Settings of this node's kernel.
#[derive(Clone, Debug)]
pub struct Sysctls {
    folder: PathBuf,
    files: Files,
}

/// A setting, in the kernel and in Muster's file.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SysctlState {
    value: String,
    file: FileBefore,
}

/// The reason why a setting is not as desired.
#[derive(Debug, Error)]
pub enum SysctlFault {
    /// The kernel has no setting of that name.
    #[error(
        "the kernel has no setting {0}: look at its name; if a module brings it, that has to be loaded first"
    )]
    Missing(String),
    #[error("the kernel does not let {key} be {action}: {source}")]
    Kernel { key: String, action: &'static str, source: io::Error },
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is no such file.
    #[error("{} is too large for a setting's file; look at what is in it and remove it", .0.display())]
    TooLarge(PathBuf),
    /// The value was set and did not stay.
    #[error("after the change: {0}")]
    Differs(String),
}

type Result<T> = std::result::Result<T, SysctlFault>;

impl Fault for SysctlFault {
    fn is_permanent(&self) -> bool {
        match self {
            Self::Kernel { source, .. } => {
                matches!(source.kind(), ErrorKind::InvalidInput | ErrorKind::PermissionDenied)
            }
            Self::File(error) => error.is_permanent(),
            Self::TooLarge(_) => true,
            Self::Missing(_) | Self::Differs(_) => false,
        }
    }
}

impl Resource for Sysctl {
    type Before = SysctlState;
    type Fault = SysctlFault;

    async fn observe(&self, tools: &Tools) -> Result<SysctlState> {
        tools.sysctls.observe(self).await
    }

    async fn apply(&self, tools: &Tools, run: &RunId, _before: SysctlState) -> Result<Applied<SysctlState>> {
        tools.sysctls.reach(run.resource, self, &tools.sysctls.wanted(self)).await?;
        Ok(Applied::new([("value", self.value.clone())]))
    }

    async fn restore(&self, tools: &Tools, run: &RunId, before: SysctlState) -> Result<()> {
        match self.on_delete {
            OnDelete::Keep => tools.sysctls.leave(run.resource, self).await,
            OnDelete::Restore => tools.sysctls.reach(run.resource, self, &before).await.map(drop),
        }
    }

    async fn check(&self, tools: &Tools) -> Result<Vec<String>> {
        tools.sysctls.check(self).await
    }

    fn places(&self, tools: &Tools) -> Places {
        Places { files: tools.sysctls.places(self), unit: None }
    }
}

impl Sysctls {
    /// `folder`: that of the files, if not `/etc/sysctl.d`.
    pub fn new(folder: Option<PathBuf>, files: Files) -> Self {
        Self { folder: folder.unwrap_or_else(|| FOLDER.into()), files }
    }

    /// The present state, for [`Sysctls::reach`].
    ///
    /// # Errors
    /// The state cannot be read, or could not be restored.
    pub async fn observe(&self, sysctl: &Sysctl) -> Result<SysctlState> {
        let value = read(sysctl)?;
        let file = self.files.capture(&self.file(sysctl)).await?;
        if file.aside().is_some() {
            return Err(SysctlFault::TooLarge(self.path(sysctl)));
        }
        Ok(SysctlState { value, file })
    }

    /// The desired state of a key.
    pub fn wanted(&self, sysctl: &Sysctl) -> SysctlState {
        let content =
            format!("# Muster's; changes here are undone.\n{} = {}\n", sysctl.key, sysctl.value.trim());
        let content = StoredContent::Inline(content.into_bytes());
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        SysctlState {
            value: sysctl.value.clone(),
            file: FileBefore::Present { mode: MODE, uid, gid, content },
        }
    }

    /// Makes the state and reads it back. Returns whether anything changed. May be repeated at any point.
    ///
    /// # Errors
    /// The state was not fully reached; a value that the kernel refused is not in the file either.
    pub async fn reach(&self, owner: ResourceId, sysctl: &Sysctl, wanted: &SysctlState) -> Result<bool> {
        let is = self.observe(sysctl).await?;
        if same(&is.value, &wanted.value) && is.file == wanted.file {
            return Ok(false);
        }
        let file = self.file(sysctl);
        self.files.restore(owner, &file, &wanted.file).await?;
        if !same(&is.value, &wanted.value)
            && let Err(fault) = write(sysctl, &wanted.value)
        {
            self.files.restore(owner, &file, &is.file).await?;
            return Err(fault);
        }
        let differ = self.differences(&self.observe(sysctl).await?, sysctl, wanted);
        if differ.is_empty() { Ok(true) } else { Err(SysctlFault::Differs(differ.join(", "))) }
    }

    /// Leaves the setting as it is, but removes the leftovers of a crash.
    ///
    /// # Errors
    /// The leftovers cannot be removed.
    pub async fn leave(&self, owner: ResourceId, sysctl: &Sysctl) -> Result<()> {
        let file = File { on_delete: OnDelete::Keep, ..self.file(sysctl) };
        Ok(self.files.restore(owner, &file, &FileBefore::Absent).await?)
    }

    /// Compares and changes nothing. Returns the differences in words.
    ///
    /// # Errors
    /// The state cannot be read.
    pub async fn check(&self, sysctl: &Sysctl) -> Result<Vec<String>> {
        Ok(self.differences(&self.observe(sysctl).await?, sysctl, &self.wanted(sysctl)))
    }

    fn differences(&self, is: &SysctlState, sysctl: &Sysctl, wanted: &SysctlState) -> Vec<String> {
        let mut differ = Vec::new();
        if !same(&is.value, &wanted.value) {
            differ.push(format!("{} is '{}', and should be '{}'", sysctl.key, is.value, wanted.value));
        }
        if is.file != wanted.file {
            differ.push(format!("{} is not as it should be", self.path(sysctl).display()));
        }
        differ
    }

    /// The places whose changes can be watched.
    pub fn places(&self, sysctl: &Sysctl) -> Vec<PathBuf> {
        vec![self.path(sysctl), PathBuf::from(PROC).join(sysctl.path())]
    }

    fn path(&self, sysctl: &Sysctl) -> PathBuf {
        self.folder.join(format!("99-zz-muster-{}.conf", sysctl.key.replace('/', "~")))
    }

    fn file(&self, sysctl: &Sysctl) -> File {
        File {
            path: self.path(sysctl).to_string_lossy().into_owned(),
            content: Content::Inline(Vec::new()),
            mode: MODE,
            owner: None,
            group: None,
            on_delete: OnDelete::Restore,
        }
    }
}

/// The kernel gives several numbers back with tabs between them.
fn same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

fn read(sysctl: &Sysctl) -> Result<String> {
    let text = fs::read_to_string(PathBuf::from(PROC).join(sysctl.path()));
    text.map(|text| text.trim_end().to_owned()).map_err(|error| failed(sysctl, "read", error))
}

fn write(sysctl: &Sysctl, value: &str) -> Result<()> {
    // The file is never created: /proc has only the kernel's own files.
    let path = PathBuf::from(PROC).join(sysctl.path());
    fs::write(path, format!("{value}\n")).map_err(|error| failed(sysctl, "changed", error))
}

fn failed(sysctl: &Sysctl, action: &'static str, source: io::Error) -> SysctlFault {
    match source.kind() {
        ErrorKind::NotFound | ErrorKind::IsADirectory => SysctlFault::Missing(sysctl.key.clone()),
        _ => SysctlFault::Kernel { key: sysctl.key.clone(), action, source },
    }
}

#[cfg(test)]
mod tests;
