//! The common parts of desired states: actions, contents, claims, lanes.
//!
//! Absent: the claims and the lane of each type (`types.rs`), and who owns a claim
//! (`controller/engine/src/claim.rs`).

use std::fmt;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::types::ClaimKind;

/// The action of a job on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Action {
    /// Make the resource; this resource was not applied before.
    Create,
    /// Bring the resource to a new desired state, in place.
    Update,
    /// Remove the resource, and restore the state before Muster.
    Delete,
    /// Compare the host with the desired state. Neither the host nor the ledger's last state changes.
    Check,
    /// Forget the resource and leave the host's state.
    Retain,
    /// Hold the resource as [`Action::Create`] does, but only if applying it changes nothing: otherwise the
    /// answer is [`Outcome::Differs`](super::Outcome::Differs). Sent only to an agent that
    /// [reads](super::Hello::reads) it.
    Adopt,
}

/// BLAKE3 of a content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContentDigest(pub [u8; 32]);

/// Content of a file, in the job or, where it is larger than [`Content::INLINE_MAX`], fetched in chunks.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// The content is in the job itself.
    Inline(Vec<u8>),
    /// The content is requested by digest, chunk by chunk, and verified.
    Stored {
        /// BLAKE3 of the whole.
        digest: ContentDigest,
        /// The size in bytes.
        size: u64,
    },
}

/// The state that a delete leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnDelete {
    /// The state before Muster is restored; if there was nothing, nothing is left.
    #[default]
    Restore,
    /// Muster's state stays.
    Keep,
}

/// A claim of a resource on its node. A claim has one owner in the whole site.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// The kind of the claimed object.
    pub kind: ClaimKind,
    /// The object's name within the kind.
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
    /// Software deployments: one after the other as in Heat, so that no other job waits for a long script.
    Deployment,
}

impl Lane {
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

    /// The digest of the whole content.
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

    /// A form for people: the text, or digest and size of a long text or of binary content.
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
    /// The word in templates.
    pub fn as_str(self) -> &'static str {
        match self {
            OnDelete::Restore => "restore",
            OnDelete::Keep => "keep",
        }
    }
}

impl Claim {
    /// A claim of this kind on this name.
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
        write!(f, "{}", HEXLOWER.encode_display(&self.0))
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
    /// Whether the action brings the resource to its desired state.
    pub fn applies(self) -> bool {
        match self {
            Action::Create | Action::Update | Action::Adopt => true,
            Action::Delete | Action::Check | Action::Retain => false,
        }
    }

    /// Whether the resource is gone afterwards, with or without its object on the host.
    pub fn removes(self) -> bool {
        match self {
            Action::Delete | Action::Retain => true,
            Action::Create | Action::Update | Action::Check | Action::Adopt => false,
        }
    }
}
