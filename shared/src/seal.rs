//! Sealing between one node and the controller: X25519, then XChaCha20-Poly1305 (the crates `x25519-dalek`
//! and `chacha20poly1305`; BLAKE3 derives the key from the shared secret and both public keys).
//!
//! A broker in between can neither read nor forge packets. A node cannot impersonate another, since its key
//! fits no other seal. An eavesdropper can replay old packets, but this has no effect: every message is
//! idempotent by (resource, generation, attempt).

use chacha20poly1305::aead::AeadInPlace as _;
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use x25519_dalek::{PublicKey, StaticSecret};

use crate::{NodeId, SiteId};

/// Fresh and random for every packet.
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

/// A secret X25519 key: 32 random bytes. Never shown.
pub struct SealSecret(StaticSecret);

impl SealSecret {
    /// Makes a secret from 32 bytes of the system's randomness, or from stored ones.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(StaticSecret::from(bytes))
    }

    /// The key the other side needs.
    pub fn public(&self) -> SealPublic {
        SealPublic(PublicKey::from(&self.0).to_bytes())
    }
}

impl std::fmt::Debug for SealSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealSecret")
    }
}

/// The direction of a packet. A packet never opens as one of the other direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From controller to node.
    Down,
    /// From node to controller.
    Up,
}

/// The packet is not from the holder of the other key, or was altered.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("not from the expected sender, or altered")]
pub struct SealError;

/// The shared key of a node and the controller.
pub struct Seal {
    /// `None` if the key would be public knowledge: then nothing is sealed or opened.
    key: Option<XChaCha20Poly1305>,
    site: SiteId,
    node: NodeId,
}

impl Seal {
    /// The seal between `mine` and `theirs`, for this node of this site. Both sides compute the same key.
    pub fn new(mine: &SealSecret, theirs: &SealPublic, site: SiteId, node: NodeId) -> Self {
        let mut publics = [mine.public().0, theirs.0];
        publics.sort_unstable();
        let shared = mine.0.diffie_hellman(&PublicKey::from(theirs.0));
        let mut hasher = blake3::Hasher::new_derive_key("muster 2026 node and controller seal");
        hasher.update(shared.as_bytes()).update(&publics[0]).update(&publics[1]);
        let key = XChaCha20Poly1305::new(hasher.finalize().as_bytes().into());
        let key = shared.was_contributory().then_some(key);
        Self { key, site, node }
    }

    /// Encrypts `body`. The same nonce must never be used twice.
    ///
    /// # Errors
    /// Only for a body beyond the cipher's 256 GiB, or an unsound key ([`SealPublic::is_sound`]).
    pub fn seal(
        &self,
        version: u8,
        way: Direction,
        nonce: &Nonce,
        body: &[u8],
    ) -> Result<Vec<u8>, SealError> {
        let mut buffer = Vec::with_capacity(body.len() + 16);
        buffer.extend_from_slice(body);
        let key = self.key.as_ref().ok_or(SealError)?;
        key.encrypt_in_place(nonce.into(), &self.context(version, way), &mut buffer)
            .map_err(|_| SealError)?;
        Ok(buffer)
    }

    /// Decrypts and authenticates.
    ///
    /// # Errors
    /// [`SealError`] if sender, site, node, direction, version or any byte differs.
    pub fn open(
        &self,
        version: u8,
        way: Direction,
        nonce: &Nonce,
        sealed: &[u8],
    ) -> Result<Vec<u8>, SealError> {
        let mut buffer = sealed.to_vec();
        let key = self.key.as_ref().ok_or(SealError)?;
        key.decrypt_in_place(nonce.into(), &self.context(version, way), &mut buffer)
            .map_err(|_| SealError)?;
        Ok(buffer)
    }

    fn context(&self, version: u8, way: Direction) -> Vec<u8> {
        let way = match way {
            Direction::Down => "down",
            Direction::Up => "up",
        };
        format!("muster/{version}/{}/{}/{way}", self.site, self.node).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(node: &str) -> (Seal, Seal) {
        let (a, b) = (SealSecret::from_bytes([1; 32]), SealSecret::from_bytes([2; 32]));
        let seal = |mine, theirs: SealPublic| {
            Seal::new(mine, &theirs, "lab".parse().unwrap(), node.parse().unwrap())
        };
        (seal(&a, b.public()), seal(&b, a.public()))
    }

    #[test]
    fn opens_only_what_the_other_side_sealed_this_way() {
        let (controller, agent) = pair("web-1");
        let (_, other) = pair("web-2");
        let nonce = [7; 24];
        let sealed = controller.seal(1, Direction::Down, &nonce, b"job").unwrap();
        assert_eq!(agent.open(1, Direction::Down, &nonce, &sealed).unwrap(), b"job");
        assert!(agent.open(1, Direction::Up, &nonce, &sealed).is_err());
        assert!(agent.open(2, Direction::Down, &nonce, &sealed).is_err());
        assert!(agent.open(1, Direction::Down, &[8; 24], &sealed).is_err());
        assert!(other.open(1, Direction::Down, &nonce, &sealed).is_err());
        for i in 0..sealed.len() {
            let mut altered = sealed.clone();
            altered[i] ^= 1;
            assert!(agent.open(1, Direction::Down, &nonce, &altered).is_err(), "byte {i}");
        }
    }

    #[test]
    fn a_key_of_which_nothing_secret_comes_seals_and_opens_nothing() {
        let mut one = [0; 32];
        one[0] = 1;
        for theirs in [SealPublic([0; 32]), SealPublic(one)] {
            assert!(!theirs.is_sound(), "{theirs:?}");
            let mine = SealSecret::from_bytes([1; 32]);
            let seal = Seal::new(&mine, &theirs, "lab".parse().unwrap(), "web-1".parse().unwrap());
            assert_eq!(seal.seal(1, Direction::Down, &[7; 24], b"job"), Err(SealError));
        }
        assert!(SealSecret::from_bytes([2; 32]).public().is_sound());
    }
}
