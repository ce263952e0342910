//! Why a file is not as desired, for the operator.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::KEPT_MAX;

/// Why a file is not as desired.
#[derive(Debug, Error)]
pub enum FileError {
    /// It lies nowhere.
    #[error("{}: the directory {} does not exist: create it first", path.display(), directory.display())]
    NoDirectory {
        /// The file.
        path: PathBuf,
        /// Its directory.
        directory: PathBuf,
    },
    /// Something else is there.
    #[error("{}: there is {found}, which Muster leaves alone: move it away or name another path", path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// More than may be kept aside.
    #[error(
        "{}: there is a file of more than {KEPT_MAX} bytes, too large to be kept aside: move it away or name \
         another path", path.display()
    )]
    TooLarge {
        /// The path.
        path: PathBuf,
    },
    /// No such user or group on this node.
    #[error("{}: there is no {kind} '{name}' on this node", path.display())]
    NoOwner {
        /// The file.
        path: PathBuf,
        /// User or group.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// Read back, it is not what was written.
    #[error("{}: read back, its {what} differs: something else writes this file", path.display())]
    Differs {
        /// The file.
        path: PathBuf,
        /// Content, mode or owner.
        what: &'static str,
    },
    /// The content kept aside is gone or damaged.
    #[error("{}: what was there before Muster cannot be put back: {why}", path.display())]
    BeforeLost {
        /// The file.
        path: PathBuf,
        /// For the operator.
        why: String,
    },
    /// The system refuses.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl FileError {
    /// Trying the same again cannot help: an operator must change the node or the template.
    pub fn is_permanent(&self) -> bool {
        match self {
            FileError::NoDirectory { .. }
            | FileError::NotRegular { .. }
            | FileError::TooLarge { .. }
            | FileError::NoOwner { .. }
            | FileError::BeforeLost { .. } => true,
            FileError::Differs { .. } | FileError::Io { .. } => false,
        }
    }
}
