//! Bytes on the link: postcard inside a sealed, versioned envelope.
//!
//! ```text
//!   packet  = version (1 byte) · nonce (24 bytes) · sealed body      at most MESSAGE_MAX bytes
//!   body    = postcard(Vec<v1::Down>) or postcard(Vec<v1::Up>)
//! ```
//!
//! The nonce and everything in the body are authenticated; version, site, node and direction are
//! authenticated with them. Each field has a bound, checked when a body is read; a packet that breaks one
//! is refused whole. Golden byte vectors in the tests pin version 1.

mod convert;
mod facts;
mod flow;
mod jobs;
mod stray;
mod topology;
pub mod v1;
mod watch;

use thiserror::Error;

use crate::model::{Down, Up};
use crate::seal::{Direction, Nonce, Seal, SealError};
use crate::wire::convert::Bounded as _;
pub use crate::wire::convert::{DRIFTS_MAX, REASON_MAX};
pub use crate::wire::facts::{FACTS_MAX, NEIGHBOURS_MAX, fit_facts};
pub use crate::wire::watch::DRIFT_REASON_MAX;

/// The version this build writes, and the newest it reads.
pub const VERSION: u8 = 1;

/// The number of additions to the version that this build reads, beyond what every agent of the version
/// reads. An agent sends the number in its greeting, and receives only messages and resource types that it
/// reads. Each addition is one more:
///
/// 1: `Describe`, `Remove`.
/// 2: `Muster::Timezone`.
///
/// What agents say has had no addition: a controller reads an agent of the version after its own. The first
/// addition comes with one to `Welcome`, which says how much the controller reads.
pub const READS: u32 = 2;

/// The first version of the agent that reads each of the additions.
const READ_SINCE: [&str; READS as usize] = ["0.1.0", "0.2.0"];

/// The first version of the agent that reads this number of additions.
pub fn agent_that_reads(additions: u32) -> &'static str {
    let at = usize::try_from(additions).unwrap_or(usize::MAX).saturating_sub(1);
    READ_SINCE.get(at).copied().unwrap_or(READ_SINCE[READ_SINCE.len() - 1])
}

/// The largest packet: as much as MQTT carries in one publish without delaying others behind it.
pub const MESSAGE_MAX: usize = 256 * 1024;

/// Room for messages in one packet: the rest after version, nonce, tag and the list's own length.
pub const BODY_MAX: usize = MESSAGE_MAX - 1 - 24 - 16 - 8;

/// Bytes of content in one [`Down::Chunk`]: half a packet, so that it never crowds out a job.
pub const CHUNK_MAX: usize = 128 * 1024;

/// The reason why a packet is refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum WireError {
    /// The packet exceeds [`MESSAGE_MAX`].
    #[error("message of {size} bytes is over the limit of {MESSAGE_MAX}")]
    TooLarge {
        /// The number of bytes.
        size: usize,
    },
    /// A version this build does not speak.
    #[error("protocol version {0} is not spoken here (newest known: {VERSION}): upgrade this side")]
    Version(u8),
    /// The packet was not sealed with this node's key for this direction, or was altered on the way.
    #[error("the seal does not fit")]
    Seal(#[from] SealError),
    /// The body is not postcard of the version's types.
    #[error("malformed message")]
    Malformed,
    /// A field exceeds its bound.
    #[error("{field} is out of bounds")]
    Bounds { field: &'static str },
}

/// Messages of one direction.
pub trait Message: Sized {
    /// The direction of the messages.
    const DIRECTION: Direction;
    #[doc(hidden)]
    type V1: serde::Serialize
        + serde::de::DeserializeOwned
        + for<'a> From<&'a Self>
        + convert::Bounded<Model = Self>;
}

impl Message for Down {
    const DIRECTION: Direction = Direction::Down;
    type V1 = v1::Down;
}

impl Message for Up {
    const DIRECTION: Direction = Direction::Up;
    type V1 = v1::Up;
}

/// Packs messages into as few packets as their sizes allow, in order. `nonce` gives a fresh random value
/// for each packet.
///
/// # Errors
/// [`WireError::TooLarge`] names a single message that fits no packet; nothing is packed then.
pub fn pack<M: Message>(
    seal: &Seal,
    messages: &[M],
    mut nonce: impl FnMut() -> Nonce,
) -> Result<Vec<Vec<u8>>, WireError> {
    let mut bodies: Vec<(usize, Vec<u8>)> = Vec::new();
    for message in messages {
        let bytes = postcard::to_stdvec(&M::V1::from(message)).map_err(|_| WireError::Malformed)?;
        if bytes.len() > BODY_MAX {
            return Err(WireError::TooLarge { size: bytes.len() });
        }
        match bodies.last_mut() {
            Some((count, body)) if body.len() + bytes.len() <= BODY_MAX && *count < convert::MESSAGES_MAX => {
                *count += 1;
                body.extend_from_slice(&bytes);
            }
            _ => bodies.push((1, bytes)),
        }
    }
    bodies
        .into_iter()
        .map(|(count, messages)| {
            // postcard writes a list as its length, followed by its items.
            let mut body = postcard::to_stdvec(&count).map_err(|_| WireError::Malformed)?;
            body.extend_from_slice(&messages);
            let nonce = nonce();
            let sealed = seal.seal(VERSION, M::DIRECTION, &nonce, &body)?;
            let mut packet = Vec::with_capacity(1 + nonce.len() + sealed.len());
            packet.push(VERSION);
            packet.extend_from_slice(&nonce);
            packet.extend_from_slice(&sealed);
            Ok(packet)
        })
        .collect()
}

/// Opens a packet and checks every bound.
///
/// # Errors
/// [`WireError`]; nothing of the packet is used then.
pub fn unpack<M: Message>(seal: &Seal, packet: &[u8]) -> Result<Vec<M>, WireError> {
    if packet.len() > MESSAGE_MAX {
        return Err(WireError::TooLarge { size: packet.len() });
    }
    let (&version, rest) = packet.split_first().ok_or(WireError::Malformed)?;
    if version != VERSION {
        return Err(WireError::Version(version));
    }
    let (nonce, sealed) = rest.split_first_chunk().ok_or(WireError::Malformed)?;
    let body = seal.open(version, M::DIRECTION, nonce, sealed)?;
    read_body(&body)
}

/// Reads an opened body. Public for the fuzz targets: everything behind the seal passes here.
///
/// # Errors
/// [`WireError::Malformed`] or [`WireError::Bounds`].
pub fn read_body<M: Message>(body: &[u8]) -> Result<Vec<M>, WireError> {
    let (messages, rest): (Vec<M::V1>, &[u8]) =
        postcard::take_from_bytes(body).map_err(|_| WireError::Malformed)?;
    if !rest.is_empty() {
        return Err(WireError::Malformed);
    }
    convert::at_most("messages", messages.len(), convert::MESSAGES_MAX)?;
    messages.into_iter().map(M::V1::into_model).collect()
}

#[cfg(test)]
mod flow_tests;
#[cfg(test)]
mod tests;
