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
//!
//! A session leaves both sides a secret for the next one ([`Again`]), which then takes no agreement:
//!
//! ```text
//!   agent       e ── e, proof of the long-lived keys, proof of the secret ──▶   controller
//!               ◀────────── x, proof of the session's key ───────────────   x, 32 random bytes
//!   session's key = BLAKE3( long-lived agreement, secret, version, e, x )
//! ```
//!
//! Both sides forget the secret as they use it, so a later theft opens nothing of before, and who has the long-lived
//! key of one side still cannot pose as the other. A controller that has no such secret, or another one, answers
//! with agreements as above.

use blake3::{Hash, Hasher};
use x25519_dalek::{PublicKey, SharedSecret};

use super::resumption::{Again, Origin};
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
    GreetingAgain = 4,
    AnswerAgain = 5,
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
        Some(4) => Ok(Kind::GreetingAgain),
        Some(5) => Ok(Kind::AnswerAgain),
        Some(_) | None => Err(PacketError::Malformed),
    }
}

/// A greeting that waits for its answer. Dropping it forgets the fresh key.
pub struct Greeting {
    fresh: Pair,
    /// The secret that the session before has left.
    again: Option<Again>,
    /// This session leaves something for the next one.
    leaves: bool,
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
        let again = match (kind_of(packet)?, &self.again) {
            (Kind::Answer, _) => None,
            (Kind::AnswerAgain, Some(again)) => Some(again),
            (Kind::AnswerAgain, None) => return Err(PacketError::Seal),
            (Kind::Sealed, _) => return Err(PacketError::NotGreeted),
            (Kind::Greeting | Kind::GreetingAgain, _) => return Err(PacketError::Malformed),
        };
        let (theirs, proof) = parts(packet)?;
        let (keys, wanted) = match again {
            Some(again) => again.derive(seal, self.fresh.public.as_bytes(), &theirs)?,
            None => self.agree(seal, &theirs)?,
        };
        if wanted != Hash::from_bytes(proof) {
            return Err(PacketError::Seal);
        }
        let session = Session::of_agent(keys);
        Ok(if self.leaves { session } else { session.leaving_nothing() })
    }

    fn agree(&self, seal: &Seal, theirs: &[u8; 32]) -> Result<(Keys, Hash), PacketError> {
        let theirs_fresh = PublicKey::from(*theirs);
        let agreements = [
            self.fresh.secret.diffie_hellman(&seal.theirs),
            seal.mine.0.secret.diffie_hellman(&theirs_fresh),
            self.fresh.secret.diffie_hellman(&theirs_fresh),
        ];
        derive(seal, &agreements, self.fresh.public.as_bytes(), theirs)
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
        let packet = packet(Kind::Greeting, fresh.public.as_bytes(), &proof);
        Ok(Greeting { fresh, again: None, leaves: false, packet })
    }

    /// The same over a direct link, to a controller that has said [`TAKES_AGAIN`](super::TAKES_AGAIN): asks for a
    /// session from what the one before has left, where it has. Leaves something for the next one.
    ///
    /// # Errors
    /// [`PacketError::Seal`] for an unsound key of the controller.
    pub fn greet_again(&self, random: Random, again: Option<Again>) -> Result<Greeting, PacketError> {
        let whole = self.greet(random)?;
        let Some(again) = again else { return Ok(Greeting { leaves: true, ..whole }) };
        let mut packet = whole.packet;
        packet[1] = Kind::GreetingAgain as u8;
        packet.extend_from_slice(again.proof(whole.fresh.public.as_bytes()).as_bytes());
        Ok(Greeting { fresh: whole.fresh, again: Some(again), leaves: true, packet })
    }

    /// The fresh key of a node's greeting, and its proof that it has what the session before has left.
    pub(super) fn greeted(&self, packet: &[u8]) -> Result<([u8; 32], Option<Hash>), PacketError> {
        let (greeting, again) = match kind_of(packet)? {
            Kind::GreetingAgain => {
                let (greeting, again) = packet.split_last_chunk().ok_or(PacketError::Malformed)?;
                (greeting, Some(Hash::from_bytes(*again)))
            }
            Kind::Greeting | Kind::Answer | Kind::Sealed | Kind::AnswerAgain => (packet, None),
        };
        let (theirs, proof) = parts(greeting)?;
        // The comparison takes the same time whatever differs.
        if self.proof(&theirs)? != Hash::from_bytes(proof) {
            return Err(PacketError::Seal);
        }
        Ok((theirs, again))
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

    /// The same from what the session before has left.
    pub(super) fn answer_again(
        &self,
        theirs: &[u8; 32],
        random: &Random,
        again: &Again,
    ) -> Result<(Vec<u8>, Session), PacketError> {
        let (keys, proof) = again.derive(self, theirs, random)?;
        Ok((packet(Kind::AnswerAgain, random, &proof), Session::of_controller(keys)))
    }

    pub(super) fn proof(&self, fresh: &[u8; 32]) -> Result<Hash, PacketError> {
        let keys = self.keys.as_ref().ok_or(PacketError::Seal)?;
        let mut hasher = Hasher::new_keyed(&keys.greetings);
        hasher.update(&[VERSION]).update(fresh);
        Ok(hasher.finalize())
    }
}

/// The keys of both directions, and the controller's proof that it has them.
pub(super) fn derive(
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
    Ok(keys_of(&hasher, Origin::default()))
}

/// From what a session's secrets were put into.
pub(super) fn keys_of(hasher: &Hasher, origin: Origin) -> (Keys, Hash) {
    let mut derived = hasher.finalize_xof();
    let mut next = || {
        let mut key = [0; 32];
        derived.fill(&mut key);
        key
    };
    let (up, down, proof) = (next(), next(), Hash::from_bytes(next()));
    (Keys { up, down, again: origin.leave(&mut derived) }, proof)
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
