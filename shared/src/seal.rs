//! Sealing between one node and the controller, so that nothing in between can read or forge a packet, nor send
//! it again.
//!
//! Both sides have a long-lived X25519 key. Each connection begins with a greeting ([`Greeting`]), in which both
//! give a fresh one. All four agreements between these keys make the key of the [`Session`]; it is forgotten with
//! the connection. So what was captured cannot be opened later, even with both long-lived keys.
//! `docs/decisions/0020-sessions-of-the-seal.md` compares that with Noise.
//!
//! ```text
//!   greeting  = version · 1 · fresh key (32) · proof (32)          agent → controller
//!   answer    = version · 2 · fresh key (32) · proof (32)          controller → agent
//!   packet    = version · 3 · number (8) · received (8) · sealed body
//!   greeting' = version · 4 · fresh key (32) · proof (32) · proof of the session before (32)
//!   answer'   = version · 5 · random (32) · proof (32)
//! ```
//!
//! The last two begin a session from what the one before has left ([`Again`]), where both sides have kept that and the
//! controller has said that it takes it (`docs/decisions/0041-session-after-session.md`).
//!
//! The ciphers are those of the crates `x25519-dalek` and `chacha20poly1305`; BLAKE3 derives keys and proofs.
//!
//! Absent: randomness, which comes with the call; what a body says (`wire`).

mod controller;
mod greeting;
mod resumption;
mod session;

use std::sync::Arc;

use chacha20poly1305::aead::AeadInPlace as _;
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use x25519_dalek::{PublicKey, StaticSecret};

pub use self::controller::{ControllerEnd, Opened};
pub use self::greeting::Greeting;
pub use self::resumption::Again;
pub use self::session::{Body, Session};
use crate::{NodeId, SiteId};

/// The version of packets that this build writes and reads.
///
/// Version 1 sealed every packet with the long-lived keys. No build reads it any more.
pub const VERSION: u8 = 2;

/// The largest packet: as much as MQTT carries in one publish without delaying others behind it.
pub const PACKET_MAX: usize = 256 * 1024;

/// A property of the user in a controller's CONNACK: it takes [`Seal::greet_again`].
pub const TAKES_AGAIN: (&str, &str) = ("muster-seal", "again");

/// 32 bytes of the system's randomness, for the fresh key of one greeting or answer.
pub type Random = [u8; 32];

/// Random, for one renewal.
pub type Nonce = [u8; 24];

/// A public X25519 key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealPublic(pub [u8; 32]);

impl SealPublic {
    /// Whether the key can give a secret. A few values, such as zero, give the same result with every
    /// secret key.
    pub fn is_sound(&self) -> bool {
        StaticSecret::from([1; 32]).diffie_hellman(&PublicKey::from(self.0)).was_contributory()
    }
}

/// A long-lived secret X25519 key: 32 random bytes. Never shown. Clones share it.
#[derive(Clone)]
pub struct SealSecret(Arc<Pair>);

/// A secret key and its public key, which takes as long to compute as an agreement.
struct Pair {
    secret: StaticSecret,
    public: PublicKey,
}

impl Pair {
    fn new(bytes: [u8; 32]) -> Self {
        let secret = StaticSecret::from(bytes);
        Self { public: PublicKey::from(&secret), secret }
    }
}

impl SealSecret {
    /// Makes a secret from 32 bytes of the system's randomness, or from stored ones.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Arc::new(Pair::new(bytes)))
    }

    /// The key the other side needs.
    pub fn public(&self) -> SealPublic {
        SealPublic(self.0.public.to_bytes())
    }
}

impl std::fmt::Debug for SealSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealSecret")
    }
}

/// The bytes are not from the holder of the other key, or were altered.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("not from the expected sender, or altered")]
pub struct SealError;

/// The reason why a packet is not taken.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum PacketError {
    /// A version this build does not speak.
    #[error("protocol version {0} is not spoken here (known: {VERSION}): upgrade the older side")]
    Version(u8),
    /// The bytes are no packet, or exceed [`PACKET_MAX`].
    #[error("malformed packet")]
    Malformed,
    /// The packet was sealed by somebody else, for somebody else or in another session; or it was altered.
    #[error("the seal does not fit")]
    Seal,
    /// The session has had a packet of that number, or a later one. Or this greeting was answered already.
    #[error("the packet was sent before, or came out of order")]
    Repeated,
    /// No peer has greeted yet.
    #[error("the packet came before the greeting")]
    NotGreeted,
    /// Packets before this one did not arrive.
    #[error("{0} packets were lost on the way")]
    Lost(u64),
    /// The system has no random bytes.
    #[error("the system gives no random bytes")]
    NoRandom,
}

impl PacketError {
    /// Whether the session is over. Otherwise it is as it was before the packet.
    pub fn ends_session(self) -> bool {
        match self {
            Self::Lost(_) => true,
            Self::Version(_)
            | Self::Malformed
            | Self::Seal
            | Self::Repeated
            | Self::NotGreeted
            | Self::NoRandom => false,
        }
    }

    /// Every [`Self::label`].
    pub const LABELS: [&str; 7] =
        ["version", "malformed", "seal", "repeated", "not-greeted", "lost", "no-random"];

    /// The word for statistics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Version(_) => "version",
            Self::Malformed => "malformed",
            Self::Seal => "seal",
            Self::Repeated => "repeated",
            Self::NotGreeted => "not-greeted",
            Self::Lost(_) => "lost",
            Self::NoRandom => "no-random",
        }
    }
}

/// The long-lived keys of a node and the controller. They seal renewals of certificates, and begin sessions.
pub struct Seal {
    mine: SealSecret,
    theirs: PublicKey,
    /// `None` if the key would be public knowledge: then nothing is sealed or opened.
    keys: Option<Keys>,
}

/// Derived from the agreement of the long-lived keys, for one node of one site.
struct Keys {
    /// Seals renewals.
    renewals: XChaCha20Poly1305,
    /// Proves greetings.
    greetings: [u8; 32],
    /// A part of each session's key.
    sessions: [u8; 32],
}

impl Seal {
    /// The seal between `mine` and `theirs`, for this node of this site. Both sides compute the same keys.
    pub fn new(mine: &SealSecret, theirs: &SealPublic, site: &SiteId, node: &NodeId) -> Self {
        let mut publics = [mine.public().0, theirs.0];
        publics.sort_unstable();
        let theirs = PublicKey::from(theirs.0);
        let agreed = mine.0.secret.diffie_hellman(&theirs);
        let keys = agreed.was_contributory().then(|| {
            let derive = |purpose| {
                let mut hasher = blake3::Hasher::new_derive_key(purpose);
                hasher.update(agreed.as_bytes()).update(&publics[0]).update(&publics[1]);
                // Neither name has a slash.
                hasher.update(format!("{site}/{node}").as_bytes());
                *hasher.finalize().as_bytes()
            };
            Keys {
                renewals: XChaCha20Poly1305::new(&derive("muster 2026 seal of renewals").into()),
                greetings: derive("muster 2026 proof of greetings"),
                sessions: derive("muster 2026 sessions"),
            }
        });
        Self { mine: mine.clone(), theirs, keys }
    }

    /// Encrypts `body`. The same nonce must never be used twice.
    ///
    /// # Errors
    /// Only for a body beyond the cipher's 256 GiB, or an unsound key ([`SealPublic::is_sound`]).
    pub fn seal(&self, nonce: &Nonce, body: &[u8]) -> Result<Vec<u8>, SealError> {
        let mut buffer = Vec::with_capacity(body.len() + 16);
        buffer.extend_from_slice(body);
        let cipher = &self.keys.as_ref().ok_or(SealError)?.renewals;
        cipher.encrypt_in_place(nonce.into(), &[], &mut buffer).map_err(|_| SealError)?;
        Ok(buffer)
    }

    /// Decrypts and authenticates.
    ///
    /// # Errors
    /// [`SealError`] if sender, site, node or any byte differs.
    pub fn open(&self, nonce: &Nonce, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let mut buffer = sealed.to_vec();
        let cipher = &self.keys.as_ref().ok_or(SealError)?.renewals;
        cipher.decrypt_in_place(nonce.into(), &[], &mut buffer).map_err(|_| SealError)?;
        Ok(buffer)
    }
}

#[cfg(test)]
mod tests;
