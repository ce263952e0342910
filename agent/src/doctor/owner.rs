//! The owner of a file, and the others who may use it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// The owner and the permissions of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub user: u32,
    /// The permissions, without the kind of the file.
    pub mode: u32,
}

impl Owner {
    pub fn of(metadata: &Metadata) -> Self {
        Self { user: metadata.uid(), mode: metadata.mode() & 0o7777 }
    }

    /// Whether somebody besides the owner may write.
    pub fn lets_others_write(self) -> bool {
        self.mode & 0o022 != 0
    }

    /// Whether somebody besides the owner may do anything.
    pub fn lets_others_in(self) -> bool {
        self.mode & 0o077 != 0
    }

    /// The owner is root, or the user as which doctor runs.
    pub fn is_trusted(self, own_user: u32) -> bool {
        self.user == 0 || self.user == own_user
    }
}
