//! The sealed packets of one connection.
//!
//! Each direction has its own key and counts its packets from 0. A packet's number is in its nonce and, with all
//! of its head, in what the seal authenticates. The next number is taken and no other:
//!
//! | number | what becomes of the packet |
//! |---|---|
//! | the next one | it is taken |
//! | a lower one | refused: it was sent before. The session goes on |
//! | a higher one | packets are missing, and nobody sends them again: the session is over |
//!
//! After a new greeting both sides say again what was not acknowledged.
//!
//! Absent: what follows from an agent's first words on a connection (`controller/engine/src/node/session.rs`).

use chacha20poly1305::aead::AeadInPlace as _;
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305};

use super::greeting::{Kind, kind_of};
use super::resumption::Again;
use super::{PACKET_MAX, PacketError, VERSION};
use crate::MonoTime;

/// Version, kind, number, received.
const HEAD: usize = 2 + 8 + 8;
const TAG: usize = 16;
/// Bytes of the nonce before the number.
const NONCE_HEAD: usize = 16;

/// The keys of a session.
pub(super) struct Keys {
    pub up: [u8; 32],
    pub down: [u8; 32],
    pub again: Option<Again>,
}

/// A side of a session.
pub struct Session {
    seals: XChaCha20Poly1305,
    opens: XChaCha20Poly1305,
    /// Packets sealed so far: the number of the next one.
    sent: u64,
    /// Packets opened so far: the number of the next one.
    received: u64,
    /// The number of packets sealed here that the other side said it has received.
    acknowledged: u64,
    again: Option<Again>,
}

/// Bytes to be sealed, with room around them, so that sealing copies nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Body(Vec<u8>);

impl Body {
    /// The most bytes of a body.
    pub const MAX: usize = PACKET_MAX - HEAD - TAG;

    /// An empty body that has room for `bytes`.
    pub fn with_room_for(bytes: usize) -> Self {
        let mut packet = Vec::with_capacity(HEAD + bytes + TAG);
        packet.resize(HEAD, 0);
        Self(packet)
    }

    /// Appends bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The bytes, which are not sealed yet.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0[HEAD..]
    }

    /// Bytes of the packet that this becomes.
    pub fn packet_len(&self) -> usize {
        self.0.len() + TAG
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Body({} bytes)", self.as_bytes().len())
    }
}

impl Session {
    pub(super) fn of_agent(keys: Keys) -> Self {
        Self::new(&keys.up, &keys.down, keys.again)
    }

    pub(super) fn of_controller(keys: Keys) -> Self {
        Self::new(&keys.down, &keys.up, keys.again)
    }

    fn new(seals: &[u8; 32], opens: &[u8; 32], again: Option<Again>) -> Self {
        let cipher = |key: &[u8; 32]| XChaCha20Poly1305::new(key.into());
        Self { seals: cipher(seals), opens: cipher(opens), sent: 0, received: 0, acknowledged: 0, again }
    }

    /// The same, with nothing for the next one.
    pub(super) fn leaving_nothing(self) -> Self {
        Self { again: None, ..self }
    }

    /// Takes what this session leaves for the next one. Its age counts from `now`, unless this session has followed
    /// another one.
    pub fn take_again(&mut self, now: MonoTime) -> Option<Again> {
        Some(self.again.take()?.begins(now))
    }

    /// The next packet. Packets must leave in the order in which they were sealed.
    pub fn seal(&mut self, Body(mut packet): Body) -> Vec<u8> {
        packet[0] = VERSION;
        packet[1] = Kind::Sealed as u8;
        packet[2..10].copy_from_slice(&self.sent.to_le_bytes());
        packet[10..HEAD].copy_from_slice(&self.received.to_le_bytes());
        let (head, body) = packet.split_at_mut(HEAD);
        let tag = self
            .seals
            .encrypt_in_place_detached(&nonce(self.sent).into(), head, body)
            .expect("a body is shorter than the cipher's 256 GiB");
        packet.extend_from_slice(&tag);
        self.sent += 1;
        packet
    }

    /// The body of the next packet from the other side.
    ///
    /// # Errors
    /// [`PacketError`]. The session is over after one that [ends it](PacketError::ends_session), and as it was
    /// before after any other.
    pub fn open(&mut self, packet: &[u8]) -> Result<Vec<u8>, PacketError> {
        match kind_of(packet)? {
            Kind::Sealed => {}
            // Each was for the greeting of some session, and is too late for this one.
            Kind::Greeting | Kind::Answer | Kind::GreetingAgain | Kind::AnswerAgain => {
                return Err(PacketError::Repeated);
            }
        }
        let (head, sealed) = packet.split_first_chunk::<HEAD>().ok_or(PacketError::Malformed)?;
        let (sealed, tag) = sealed.split_last_chunk::<TAG>().ok_or(PacketError::Malformed)?;
        let (number, received) = (number(head, 2), number(head, 10));
        if number < self.received {
            return Err(PacketError::Repeated);
        }
        let mut body = sealed.to_vec();
        self.opens
            .decrypt_in_place_detached(&nonce(number).into(), head, &mut body, tag.into())
            .map_err(|_| PacketError::Seal)?;
        if number > self.received {
            return Err(PacketError::Lost(number - self.received));
        }
        self.received += 1;
        self.acknowledged = received;
        Ok(body)
    }

    /// Packets sealed here that the other side has not said to have received. `None`: it has received all.
    pub(super) fn unacknowledged(&self) -> Option<u64> {
        (self.acknowledged < self.sent).then_some(self.acknowledged)
    }
}

/// Whether a sealed packet says that it is the first of its session.
pub(super) fn is_first(packet: &[u8]) -> bool {
    packet.first_chunk::<HEAD>().is_some_and(|head| number(head, 2) == 0)
}

fn number(head: &[u8; HEAD], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&head[at..at + 8]);
    u64::from_le_bytes(bytes)
}

fn nonce(number: u64) -> [u8; NONCE_HEAD + 8] {
    let mut nonce = [0; NONCE_HEAD + 8];
    nonce[NONCE_HEAD..].copy_from_slice(&number.to_le_bytes());
    nonce
}
