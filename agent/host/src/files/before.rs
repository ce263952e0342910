//! The state before Muster, as the ledger keeps it.

use muster_shared::model::ContentDigest;
use serde::{Deserialize, Serialize};

/// The state of the path before Muster.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileBefore {
    Absent,
    Present {
        /// Permission bits.
        mode: u32,
        uid: u32,
        gid: u32,
        content: StoredContent,
    },
}

/// The place of previous content.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredContent {
    Inline(Vec<u8>),
    /// A file of this name in the state directory.
    File(ContentDigest),
}

impl FileBefore {
    /// Encodes the state for the ledger.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("these types have no map of unknown length")
    }

    /// Decodes the ledger's bytes; `None` if they are damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }

    /// The previous content, if the file existed.
    pub fn content(&self) -> Option<ContentDigest> {
        match self {
            FileBefore::Present { content: StoredContent::File(digest), .. } => Some(*digest),
            FileBefore::Present { content: StoredContent::Inline(bytes), .. } => {
                Some(ContentDigest::of(bytes))
            }
            FileBefore::Absent => None,
        }
    }

    /// The file in the state directory that a restore needs.
    pub fn aside(&self) -> Option<ContentDigest> {
        match self {
            FileBefore::Present { content: StoredContent::File(digest), .. } => Some(*digest),
            FileBefore::Present { content: StoredContent::Inline(_), .. } | FileBefore::Absent => None,
        }
    }
}
