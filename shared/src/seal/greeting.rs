//! The greeting of a connection, from which its [`Session`] comes.
//!
//! ```text
//!   agent       e ──────── e, proof of the long-lived keys ─────────▶   controller
//!               ◀────────── r, proof of the session's key ──────────   r
//!   session's key = BLAKE3( long-lived agreement, e·C, N·r, e·r, version, e, r )
//! ```
//!
//! `C` and `N` are the long-lived keys of controller and node, `e` and `r` the fresh ones. The long-lived
//! agreement binds `C`, `N`, the site and the node's name. As in Noise's pattern KK, who has one long-lived key
//! can pose as its owner, and not as the other side.
//!
//! The proof of a greeting costs no agreement, so a forged one costs the controller one hash. A greeting that is
//! sent again is answered; the answer is of no use to whoever sent it, since `e` is needed to make a packet.

use blake3::{Hash, Hasher};
use x25519_dalek::{PublicKey, SharedSecret};

use super::session::{Keys, Session};
use super::{PACKET_MAX, PacketError, Pair, Random, Seal, VERSION};

/// Bytes of a greeting and of an answer.
const LENGTH: usize = 2 + 32 + 32;

/// The kind of a packet: its second byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Greeting = 1,
    Answer = 2,
    Sealed = 3,
}

/// Checks the size and the version, and returns the kind.
pub(super) fn kind_of(packet: &[u8]) -> Result<Kind, PacketError> {
    let &version = packet.first().ok_or(PacketError::Malformed)?;
    if version != VERSION {
        return Err(PacketError::Version(version));
    }
    match packet.get(1) {
        _ if packet.len() > PACKET_MAX => Err(PacketError::Malformed),
        Some(1) => Ok(Kind::Greeting),
        Some(2) => Ok(Kind::Answer),
        Some(3) => Ok(Kind::Sealed),
        Some(_) | None => Err(PacketError::Malformed),
    }
}

/// A greeting that waits for its answer. Dropping it forgets the fresh key.
pub struct Greeting {
    fresh: Pair,
    packet: Vec<u8>,
}

impl Greeting {
    /// The packet to send.
    pub fn packet(&self) -> &[u8] {
        &self.packet
    }

    /// The agent's session, if this is the answer to the greeting. Another packet changes nothing.
    ///
    /// # Errors
    /// [`PacketError`]: it is no answer, or is one to another greeting.
    pub fn accept(&self, seal: &Seal, packet: &[u8]) -> Result<Session, PacketError> {
        match kind_of(packet)? {
            Kind::Answer => {}
            Kind::Sealed => return Err(PacketError::NotGreeted),
            Kind::Greeting => return Err(PacketError::Malformed),
        }
        let (theirs, proof) = parts(packet)?;
        let theirs_fresh = PublicKey::from(theirs);
        let agreements = [
            self.fresh.secret.diffie_hellman(&seal.theirs),
            seal.mine.0.secret.diffie_hellman(&theirs_fresh),
            self.fresh.secret.diffie_hellman(&theirs_fresh),
        ];
        let ours = self.fresh.public.as_bytes();
        let (keys, wanted) = derive(seal, &agreements, ours, &theirs)?;
        if wanted != Hash::from_bytes(proof) {
            return Err(PacketError::Seal);
        }
        Ok(Session::of_agent(keys))
    }
}

impl Seal {
    /// The agent's greeting on a new connection.
    ///
    /// # Errors
    /// [`PacketError::Seal`] for an unsound key of the controller.
    pub fn greet(&self, random: Random) -> Result<Greeting, PacketError> {
        let fresh = Pair::new(random);
        let proof = self.proof(fresh.public.as_bytes())?;
        Ok(Greeting { packet: packet(Kind::Greeting, fresh.public.as_bytes(), &proof), fresh })
    }

    /// The fresh key of a node's greeting.
    pub(super) fn greeted(&self, packet: &[u8]) -> Result<[u8; 32], PacketError> {
        let (theirs, proof) = parts(packet)?;
        // The comparison takes the same time whatever differs.
        if self.proof(&theirs)? != Hash::from_bytes(proof) {
            return Err(PacketError::Seal);
        }
        Ok(theirs)
    }

    /// The controller's answer to a greeting with this fresh key, and its session.
    pub(super) fn answer(
        &self,
        theirs: &[u8; 32],
        random: Random,
    ) -> Result<(Vec<u8>, Session), PacketError> {
        let fresh = Pair::new(random);
        let theirs_fresh = PublicKey::from(*theirs);
        let agreements = [
            self.mine.0.secret.diffie_hellman(&theirs_fresh),
            fresh.secret.diffie_hellman(&self.theirs),
            fresh.secret.diffie_hellman(&theirs_fresh),
        ];
        let ours = fresh.public.as_bytes();
        let (keys, proof) = derive(self, &agreements, theirs, ours)?;
        Ok((packet(Kind::Answer, ours, &proof), Session::of_controller(keys)))
    }

    pub(super) fn proof(&self, fresh: &[u8; 32]) -> Result<Hash, PacketError> {
        let keys = self.keys.as_ref().ok_or(PacketError::Seal)?;
        let mut hasher = Hasher::new_keyed(&keys.greetings);
        hasher.update(&[VERSION]).update(fresh);
        Ok(hasher.finalize())
    }
}

/// The keys of both directions, and the controller's proof that it has them.
fn derive(
    seal: &Seal,
    agreements: &[SharedSecret; 3],
    agent: &[u8; 32],
    controller: &[u8; 32],
) -> Result<(Keys, Hash), PacketError> {
    let long_lived = seal.keys.as_ref().ok_or(PacketError::Seal)?;
    // A fresh key of which nothing secret comes was not made by an honest peer.
    if !agreements.iter().all(SharedSecret::was_contributory) {
        return Err(PacketError::Seal);
    }
    let mut hasher = Hasher::new_derive_key("muster 2026 session");
    hasher.update(&long_lived.sessions);
    for agreement in agreements {
        hasher.update(agreement.as_bytes());
    }
    hasher.update(&[VERSION]).update(agent).update(controller);
    let mut derived = hasher.finalize_xof();
    let mut next = || {
        let mut key = [0; 32];
        derived.fill(&mut key);
        key
    };
    let keys = Keys { up: next(), down: next() };
    Ok((keys, Hash::from_bytes(next())))
}

fn packet(kind: Kind, fresh: &[u8; 32], proof: &Hash) -> Vec<u8> {
    [&[VERSION, kind as u8][..], fresh, proof.as_bytes()].concat()
}

fn parts(packet: &[u8]) -> Result<([u8; 32], [u8; 32]), PacketError> {
    let packet: &[u8; LENGTH] = packet.try_into().map_err(|_| PacketError::Malformed)?;
    let (fresh, proof) = packet[2..].split_at(32);
    let array = |bytes: &[u8]| bytes.try_into().map_err(|_| PacketError::Malformed);
    Ok((array(fresh)?, array(proof)?))
}
