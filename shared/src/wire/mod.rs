//! Messages as bytes: postcard, in bodies that [`seal`](crate::seal) makes packets of.
//!
//! ```text
//!   body    = postcard(Vec<v1::Down>) or postcard(Vec<v1::Up>)
//! ```
//!
//! Each field has a bound, checked when a body is read; a body that breaks one is refused whole. Golden byte
//! vectors in the tests pin the messages of version 1 and the packets of version 2.
//!
//! Absent: what an older agent (`controller/engine/src/node/older_agent.rs`) and an older controller
//! (`agent/core/src/facts.rs`) are not sent, and sealing (`seal.rs`).

mod convert;
mod facts;
mod flow;
mod jobs;
mod stray;
mod survey;
mod topology;
mod trace;
pub mod v1;
mod watch;

use thiserror::Error;

use crate::model::{Down, Up};
use crate::seal::{self, Body};
use crate::wire::convert::Bounded as _;
pub use crate::wire::convert::{DRIFTS_MAX, REASON_MAX};
pub use crate::wire::facts::{FACTS_MAX, NEIGHBOURS_MAX, fit_facts};
pub use crate::wire::watch::DRIFT_REASON_MAX;

/// The number of additions to version 1 of the messages that this build reads, beyond what every agent of that
/// version reads. An agent sends the number in its greeting, and receives only messages and resource types that
/// it reads. Each addition is one more:
///
/// 1: `Describe`, `Remove`.
/// 2: `Muster::Timezone`.
/// 3: `Controllers`.
/// 4: `Move`.
/// 5: `Trace`.
/// 6: `Survey`, and the action `Adopt`.
/// 7: Deployments of group `Hook`.
/// 8: in `Welcome`, how much the controller reads.
pub const READS: u32 = 8;
/// An agent that reads `Controllers` reads this much at least.
pub const READS_CONTROLLERS: u32 = 3;
/// An agent that reads `Move` reads this much at least.
pub const READS_MOVE: u32 = 4;
/// An agent that reads `Trace` reads this much at least.
pub const READS_TRACE: u32 = 5;
/// An agent that reads `Survey` and `Adopt` reads this much at least.
pub const READS_ADOPT: u32 = 6;
/// An agent that reads in `Welcome` how much the controller reads, reads this much at least.
pub const READS_WELCOME: u32 = 8;

/// The number of additions to the messages of agents that this build reads, beyond what every controller reads. A
/// controller says the number in its welcome, and an agent leaves out what the controller does not read:
///
/// 1: `master` and `lower` of a link in `Facts`.
/// 2: the entry that the reason of a flow table's state is about.
///
/// `Moved`, `Traced` and `Surveyed` need no number: they answer `Move`, `Trace` and `Survey`.
pub const CONTROLLER_READS: u32 = 2;
/// A controller that reads `master` and `lower` of links reads this much at least.
pub const CONTROLLER_READS_TIES: u32 = 1;
/// A controller that reads the entry of a state's reason reads this much at least.
pub const CONTROLLER_READS_ENTRY: u32 = 2;

/// The first version of the agent that reads each of the additions.
const READ_SINCE: [&str; READS as usize] =
    ["0.1.0", "0.2.0", "0.2.0", "0.2.0", "0.2.0", "0.2.0", "0.2.0", "0.2.0"];

/// The first version of the agent that reads this number of additions.
pub fn agent_that_reads(additions: u32) -> &'static str {
    let at = usize::try_from(additions).unwrap_or(usize::MAX).saturating_sub(1);
    READ_SINCE.get(at).copied().unwrap_or(READ_SINCE[READ_SINCE.len() - 1])
}

/// The largest packet.
pub const MESSAGE_MAX: usize = seal::PACKET_MAX;

/// Room for messages in one packet: the rest after the list's own length.
pub const BODY_MAX: usize = Body::MAX - 8;

/// Bytes of content in one [`Down::Chunk`]: half a packet, so that it never crowds out a job.
pub const CHUNK_MAX: usize = 128 * 1024;

/// The reason why messages cannot be written or read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum WireError {
    /// The message fits no packet.
    #[error("message of {size} bytes is over the limit of {BODY_MAX}")]
    TooLarge {
        /// The number of bytes.
        size: usize,
    },
    /// The body is not postcard of the version's types.
    #[error("malformed message")]
    Malformed,
    /// A field exceeds its bound.
    #[error("{field} is out of bounds")]
    Bounds { field: &'static str },
}

/// Messages of one direction.
pub trait Message: Sized {
    #[doc(hidden)]
    type V1: serde::Serialize
        + serde::de::DeserializeOwned
        + for<'a> From<&'a Self>
        + convert::Bounded<Model = Self>;
}

impl Message for Down {
    type V1 = v1::Down;
}

impl Message for Up {
    type V1 = v1::Up;
}

/// Packs messages into the bodies of as few packets as their sizes allow, in order.
///
/// # Errors
/// [`WireError::TooLarge`] names a single message that fits no packet; nothing is packed then.
pub fn pack<M: Message>(messages: &[M]) -> Result<Vec<Body>, WireError> {
    let mut lists: Vec<(usize, Vec<u8>)> = Vec::new();
    for message in messages {
        let bytes = postcard::to_stdvec(&M::V1::from(message)).map_err(|_| WireError::Malformed)?;
        if bytes.len() > BODY_MAX {
            return Err(WireError::TooLarge { size: bytes.len() });
        }
        match lists.last_mut() {
            Some((count, list)) if list.len() + bytes.len() <= BODY_MAX && *count < convert::MESSAGES_MAX => {
                *count += 1;
                list.extend_from_slice(&bytes);
            }
            _ => lists.push((1, bytes)),
        }
    }
    lists
        .into_iter()
        .map(|(count, list)| {
            // postcard writes a list as its length, followed by its items.
            let count = postcard::to_stdvec(&count).map_err(|_| WireError::Malformed)?;
            let mut body = Body::with_room_for(count.len() + list.len());
            body.extend(&count);
            body.extend(&list);
            Ok(body)
        })
        .collect()
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
mod move_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trace_tests;
