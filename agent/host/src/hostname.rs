//! `Muster::Hostname`: the name that the kernel has, and the file that gives it to the kernel at boot.
//!
//! The file changes by one rename, and the kernel after it. After a crash in between, the next boot or the
//! next run completes the change. systemd-hostnamed reads both itself.
//!
//! Absent on purpose: `/etc/hosts`, `/etc/machine-info` and what DNS or DHCP say; programs that read the name
//! at their start and still use it.

mod renames;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use muster_shared::ResourceId;
use muster_shared::model::{Content, File, HostnameError, OnDelete, check_hostname};
use nix::errno::Errno;
use nix::unistd::{getegid, geteuid, gethostname, sethostname};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

use crate::files::{FileBefore, FileError, Files, StoredContent};

pub(crate) use renames::Renames;

/// The file that systemd, and nearly every other init, reads at boot.
const ETC_HOSTNAME: &str = "/etc/hostname";
/// A server has one such file, so its temporary file has one name for all resources.
const OWNER: ResourceId = ResourceId(Uuid::nil());
/// The mode of a new file: everybody may read it.
const MODE: u32 = 0o644;

/// The server's name in the kernel and in the file.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameState {
    /// Any bytes but zero, at most 64.
    kernel: Vec<u8>,
    file: FileBefore,
}

/// The reason why the host name could not be set or read.
#[derive(Debug, Error)]
pub enum NameError {
    /// The name is not valid.
    #[error("the host name '{name}' {why}")]
    Name {
        /// The requested name.
        name: String,
        why: HostnameError,
    },
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is too large for a host name.
    #[error("{} is too large for a host name's file; look at what is in it and remove it", .0.display())]
    TooLarge(PathBuf),
    #[error("cannot {action} the kernel's host name: {errno}")]
    Kernel { action: &'static str, errno: Errno },
    /// The name was set and did not stay.
    #[error("after the change: {0}")]
    Differs(String),
}

impl NameError {
    /// Whether trying again cannot help.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Name { .. } | Self::TooLarge(_) => true,
            Self::File(error) => error.is_permanent(),
            Self::Kernel { errno, .. } => *errno == Errno::EPERM,
            Self::Differs(_) => false,
        }
    }
}

/// The name of this server, in the UTS namespace of the calling thread.
#[derive(Clone, Debug)]
pub struct ServerName {
    path: PathBuf,
    files: Files,
}

type Result<T> = std::result::Result<T, NameError>;

impl ServerName {
    /// `path`: the file, if not `/etc/hostname`.
    pub fn new(path: Option<PathBuf>, files: Files) -> Self {
        Self { path: path.unwrap_or_else(|| ETC_HOSTNAME.into()), files }
    }

    /// The kernel's name.
    ///
    /// # Errors
    /// The name cannot be read.
    pub fn name(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&kernel_name()?).into_owned())
    }

    /// Reads the whole state, which [`ServerName::reach`] can restore.
    ///
    /// # Errors
    /// The state cannot be read, or could not be restored.
    pub async fn observe(&self) -> Result<NameState> {
        let file = self.files.capture(&self.file()).await?;
        if file.aside().is_some() {
            return Err(NameError::TooLarge(self.path.clone()));
        }
        Ok(NameState { kernel: kernel_name()?, file })
    }

    /// The desired state, from the present one: the file keeps its mode and owner, and all of its bytes if it
    /// already has the name.
    ///
    /// # Errors
    /// [`NameError::Name`]
    pub fn plan(&self, name: &str, is: &NameState) -> Result<NameState> {
        check_hostname(name).map_err(|why| NameError::Name { name: name.escape_debug().to_string(), why })?;
        let content = StoredContent::Inline(format!("{name}\n").into_bytes());
        let file = match &is.file {
            there if name_in(there).as_deref() == Some(name) => there.clone(),
            FileBefore::Present { mode, uid, gid, .. } => {
                FileBefore::Present { mode: *mode, uid: *uid, gid: *gid, content }
            }
            FileBefore::Absent => {
                FileBefore::Present { mode: MODE, uid: geteuid().as_raw(), gid: getegid().as_raw(), content }
            }
        };
        Ok(NameState { kernel: name.as_bytes().to_vec(), file })
    }

    /// Makes the state and reads it back: first the file, durably, then the kernel. May be repeated at
    /// any point.
    ///
    /// # Errors
    /// The state was not fully reached.
    pub async fn reach(&self, wanted: &NameState) -> Result<()> {
        self.files.restore(OWNER, &self.file(), &wanted.file).await?;
        if kernel_name()? != wanted.kernel {
            let name = OsString::from_vec(wanted.kernel.clone());
            sethostname(&name).map_err(|errno| NameError::Kernel { action: "set", errno })?;
        }
        let is = self.observe().await?;
        if is == *wanted {
            return Ok(());
        }
        Err(NameError::Differs(self.differences(&is, wanted).join(", ")))
    }

    /// Leaves the name as it is, but removes the leftovers of a crash.
    ///
    /// # Errors
    /// The leftovers cannot be removed.
    pub async fn leave(&self) -> Result<()> {
        let file = File { on_delete: OnDelete::Keep, ..self.file() };
        Ok(self.files.restore(OWNER, &file, &FileBefore::Absent).await?)
    }

    /// Compares and changes nothing.
    ///
    /// # Errors
    /// The state cannot be read.
    pub async fn check(&self, name: &str) -> Result<Vec<String>> {
        let is = self.observe().await?;
        let wanted = self.plan(name, &is)?;
        Ok(self.differences(&is, &wanted))
    }

    /// The differences, in words for the operator.
    fn differences(&self, is: &NameState, wanted: &NameState) -> Vec<String> {
        let mut differ = Vec::new();
        if is.kernel != wanted.kernel {
            let [is, wanted] = [is, wanted].map(|state| shown(&state.kernel));
            differ.push(format!("the kernel's host name is '{is}', and should be '{wanted}'"));
        }
        if is.file != wanted.file {
            let [is, wanted] = [is, wanted].map(|state| match &state.file {
                FileBefore::Absent => "is not there".to_owned(),
                FileBefore::Present { mode, uid, gid, .. } => {
                    let name = name_in(&state.file).unwrap_or_default();
                    format!("has '{}' ({mode:04o}, {uid}:{gid})", shown(name.as_bytes()))
                }
            });
            differ.push(format!("{} {is}, and should be so: {wanted}", self.path.display()));
        }
        differ
    }

    fn file(&self) -> File {
        File {
            path: self.path.to_string_lossy().into_owned(),
            content: Content::Inline(Vec::new()),
            mode: MODE,
            owner: None,
            group: None,
            on_delete: OnDelete::Restore,
        }
    }
}

fn kernel_name() -> Result<Vec<u8>> {
    let name = gethostname().map_err(|errno| NameError::Kernel { action: "read", errno })?;
    Ok(name.into_vec())
}

/// The name as systemd reads it: the first line that is neither empty nor a comment.
fn name_in(file: &FileBefore) -> Option<String> {
    let FileBefore::Present { content: StoredContent::Inline(bytes), .. } = file else { return None };
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned)
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).escape_debug().to_string()
}

#[cfg(test)]
mod tests;
