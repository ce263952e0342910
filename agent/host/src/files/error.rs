//! The reasons why a file is not as desired, for the operator, and whether a further attempt can help.
//!
//! Absent: when that attempt comes (`controller/engine/src/job/next_attempt.rs`).

use std::io;
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Group, Uid, User};
use thiserror::Error;

use super::before::KEPT_MAX;

/// The reason why a file is not as desired.
#[derive(Debug, Error)]
pub enum FileError {
    #[error("{}: the directory {} does not exist: create it first", path.display(), directory.display())]
    NoDirectory { path: PathBuf, directory: PathBuf },
    /// Users other than root and the file's owner can influence the file's place.
    #[error("{}: {}", path.display(), led(place, *way))]
    Led {
        path: PathBuf,
        /// A directory or a symbolic link on the way to it.
        place: PathBuf,
        way: WriteHazard,
    },
    /// The path holds something other than a regular file.
    #[error("{}: there is {found}, which Muster leaves alone: move it away or name another path", path.display())]
    NotRegular { path: PathBuf, found: &'static str },
    /// The previous content is larger than the limit for copies.
    #[error(
        "{}: there is a file of more than {KEPT_MAX} bytes, too large to be kept aside: move it away or name \
         another path", path.display()
    )]
    TooLarge { path: PathBuf },
    /// The user or group does not exist on this node.
    #[error("{}: there is no {kind} '{name}' on this node", path.display())]
    NoOwner {
        path: PathBuf,
        /// User or group.
        kind: &'static str,
        name: String,
    },
    /// Reading the file back gave something else than was written.
    #[error("{}: read back, its {what} differs: something else writes this file", path.display())]
    Differs {
        path: PathBuf,
        /// Content, mode or owner.
        what: &'static str,
    },
    /// The content kept aside is gone or damaged.
    #[error("{}: what was there before Muster cannot be restored: {why}", path.display())]
    BeforeLost {
        path: PathBuf,
        /// A reason for the operator.
        why: String,
    },
    #[error("{}: cannot {action}: {source}", path.display())]
    Io { path: PathBuf, action: &'static str, source: io::Error },
}

/// A way in which users other than root and the file's owner could redirect the agent's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteHazard {
    /// The directory belongs to this user.
    Owner(u32),
    /// This group can write the directory.
    Group(u32),
    /// Everyone can write the directory, and it is not sticky.
    Everyone,
    /// A symbolic link that others can have made.
    Link,
}

fn led(place: &Path, way: WriteHazard) -> String {
    let place = place.display();
    let others = "could have root write elsewhere";
    match way {
        WriteHazard::Owner(user) => {
            let name = User::from_uid(Uid::from_raw(user)).ok().flatten().map(|user| user.name);
            let name = name.unwrap_or_else(|| user.to_string());
            format!(
                "the directory {place} belongs to user '{name}', who {others}: give the directory to root \
                 (chown root {place}), or the file to that user (owner: {name})"
            )
        }
        WriteHazard::Group(group) => {
            let name = Group::from_gid(Gid::from_raw(group)).ok().flatten().map(|group| group.name);
            let name = name.unwrap_or_else(|| group.to_string());
            format!(
                "group '{name}' can write the directory {place}, and {others}: take that away \
                 (chmod g-w {place}) or name another path"
            )
        }
        WriteHazard::Everyone => format!(
            "everyone can write the directory {place}, and {others}: take that away (chmod o-w {place}) or name \
             another path"
        ),
        WriteHazard::Link => format!(
            "{place} is a symbolic link that others than root can have made: name the path that it leads to"
        ),
    }
}

impl FileError {
    /// Trying the same again cannot help: an operator must change the node or the template.
    pub fn is_permanent(&self) -> bool {
        match self {
            FileError::NoDirectory { .. }
            | FileError::Led { .. }
            | FileError::NotRegular { .. }
            | FileError::TooLarge { .. }
            | FileError::NoOwner { .. }
            | FileError::BeforeLost { .. } => true,
            FileError::Differs { .. } | FileError::Io { .. } => false,
        }
    }
}
