//! What desired states of all types are made of: actions, contents, claims, lanes.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::types::ClaimKind;

/// What is to be done with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Action {
    /// Make it; it has not been applied by this resource before.
    Create,
    /// Bring it to a new desired state, in place.
    Update,
    /// Take it away, and put back what was there before.
    Delete,
    /// Compare what is there with the desired state; nothing changes, neither there nor in the ledger's last state.
    Check,
    /// Forget the resource and leave what is there.
    Retain,
}

/// BLAKE3 of a content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContentDigest(pub [u8; 32]);

/// Content of a file, in the job or, where it is larger than [`Content::INLINE_MAX`], fetched in chunks.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// In the job itself.
    Inline(Vec<u8>),
    /// Asked for by digest, chunk by chunk, and verified.
    Stored {
        /// BLAKE3 of the whole.
        digest: ContentDigest,
        /// Bytes.
        size: u64,
    },
}

/// What is left when a resource is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnDelete {
    /// What was there before Muster is put back; nothing, if there was nothing.
    #[default]
    Restore,
    /// What Muster made stays.
    Keep,
}

/// What a resource owns on its node. One owner in the whole site.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// The kind of thing.
    pub kind: ClaimKind,
    /// Its name within the kind.
    pub key: String,
}

/// Jobs of one lane run one after the other; lanes do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Addresses, links, bridges, the host name.
    Network,
    /// Files and services.
    Service,
    /// Packages: apt and dnf let one at a time change anything, which takes minutes.
    Package,
    /// Software deployments: one after the other as in Heat, and nothing else waits for a long script.
    Deployment,
}

impl Lane {
    /// All of them.
    pub const ALL: [Lane; 4] = [Lane::Network, Lane::Service, Lane::Package, Lane::Deployment];
}

impl Content {
    /// Larger contents are fetched: a job with one must fit a message of 256 KiB.
    pub const INLINE_MAX: usize = 64 * 1024;

    /// The largest content that is fetched: a template with all its files is at most this.
    pub const SIZE_MAX: u64 = 256 * 1024 * 1024;

    /// Longer contents are shown by digest and size.
    const SHOWN: usize = 4096;

    /// Bytes of the whole content.
    pub fn size(&self) -> u64 {
        match self {
            Content::Inline(bytes) => bytes.len() as u64,
            Content::Stored { size, .. } => *size,
        }
    }

    /// Of the whole content.
    pub fn digest(&self) -> ContentDigest {
        match self {
            Content::Inline(bytes) => ContentDigest::of(bytes),
            Content::Stored { digest, .. } => *digest,
        }
    }

    /// Digest and size of a content that must be fetched.
    pub fn stored(&self) -> Option<(ContentDigest, u64)> {
        match self {
            Content::Inline(_) => None,
            Content::Stored { digest, size } => Some((*digest, *size)),
        }
    }

    /// For people: the text, or digest and size of a long text or of binary content.
    pub fn shown(&self) -> Value {
        let text = match self {
            Content::Inline(bytes) if bytes.len() <= Self::SHOWN => std::str::from_utf8(bytes).ok(),
            Content::Inline(_) | Content::Stored { .. } => None,
        };
        match text {
            Some(text) => json!(text),
            None => json!({"digest": self.digest().to_string(), "size": self.size()}),
        }
    }

    /// Bytes in memory.
    pub(super) fn weight(&self) -> usize {
        match self {
            Content::Inline(bytes) => bytes.len(),
            Content::Stored { .. } => 0,
        }
    }

    /// Leaves digest and size of it.
    pub(super) fn strip(&mut self) {
        if let Content::Inline(_) = self {
            *self = Content::Stored { digest: self.digest(), size: self.size() };
        }
    }
}

impl OnDelete {
    /// As templates have it.
    pub fn as_str(self) -> &'static str {
        match self {
            OnDelete::Restore => "restore",
            OnDelete::Keep => "keep",
        }
    }
}

impl Claim {
    /// A thing of this kind under its name.
    pub fn new(kind: ClaimKind, key: impl Into<String>) -> Self {
        Self { kind, key: key.into() }
    }
}

impl ContentDigest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

/// Content may be secret: only its size is shown.
impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.size())
    }
}

impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key)
    }
}

impl Action {
    /// Brings the thing to its desired state.
    pub fn applies(self) -> bool {
        match self {
            Action::Create | Action::Update => true,
            Action::Delete | Action::Check | Action::Retain => false,
        }
    }

    /// The resource is gone afterwards, with its thing or without.
    pub fn removes(self) -> bool {
        match self {
            Action::Delete | Action::Retain => true,
            Action::Create | Action::Update | Action::Check => false,
        }
    }
}
