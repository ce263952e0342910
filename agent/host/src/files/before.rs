//! What was there before Muster, as the ledger keeps it.

use muster_shared::model::ContentDigest;
use serde::{Deserialize, Serialize};

/// What was at the path before Muster.
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

/// Where previous content is kept.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredContent {
    Inline(Vec<u8>),
    /// In a file of that name in the state directory.
    File(ContentDigest),
}

impl FileBefore {
    /// As bytes for the ledger.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("these types have no map of unknown length")
    }

    /// From the ledger; nothing if it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }

    /// What was in it, if it was there.
    pub fn content(&self) -> Option<ContentDigest> {
        match self {
            FileBefore::Present { content: StoredContent::File(digest), .. } => Some(*digest),
            FileBefore::Present { content: StoredContent::Inline(bytes), .. } => {
                Some(ContentDigest::of(bytes))
            }
            FileBefore::Absent => None,
        }
    }

    /// The file in the state directory that it needs.
    pub fn aside(&self) -> Option<ContentDigest> {
        match self {
            FileBefore::Present { content: StoredContent::File(digest), .. } => Some(*digest),
            FileBefore::Present { content: StoredContent::Inline(_), .. } | FileBefore::Absent => None,
        }
    }
}
