//! Segments, for an agent and its controller with a broker in between. A segment is one packet with a number, or an
//! acknowledgement; nothing is split.
//!
//! TCP tells both ends that a connection is over, holds a fast sender back, and loses nothing in the middle of a
//! connection. A broker does none of this: it drops messages when its queues are full, and tells nobody of an end.
//! So both ends number their packets and say how many of the other side's they took.
//!
//! ```text
//!   segment = version (1) · kind (1) · connection (16) · rest
//!   data    = number (8) · taken (8) · packet      kind 1     numbers little-endian, from 0
//!   ack     = taken (8)                            kind 2
//!   reset   = reason (1)                           kind 3
//!   begin   =                                      kind 4     from the controller to all nodes
//! ```
//!
//! The agent draws the connection's id; its data number 0 begins the connection. There is no second sending: where a
//! packet is missing the connection is over, and the next one repeats what counts, as after a TCP connection
//! was lost. At most [`WINDOW`] packets are on their way to an end that has not taken them.
//!
//! Segments are not sealed; the packets in them are. Whoever forges a segment can end a connection, as whoever
//! forwards it can by not doing so.
//!
//! Absent: clocks. Both ends acknowledge within [`ACK_DELAY`]. The controller waits for [`LOST_AFTER`]
//! (`controller/src/link/broker/talk.rs`), an agent for `SILENCE_MAX` (`agent/link/src/broker.rs`).

use std::time::Duration;

use thiserror::Error;

use crate::wire::MESSAGE_MAX;

/// The version this build writes and reads.
const VERSION: u8 = 1;
const HEAD: usize = 1 + 1 + 16;
/// The bytes around a packet.
pub const OVERHEAD: usize = HEAD + 8 + 8;
/// The largest segment.
pub const SEGMENT_MAX: usize = MESSAGE_MAX + OVERHEAD;
/// Packets on their way that the other side has not taken. Enough for a full line across the world with packets of
/// 256 KiB, and far fewer than the 1,000 messages that Mosquitto keeps for a client by default.
pub const WINDOW: u64 = 16;
/// Acknowledgements wait so long for a packet that takes them along.
pub const ACK_DELAY: Duration = Duration::from_millis(100);
/// A packet that the agent did not take for so long is lost, or the agent is: an agent takes packets at once.
pub const LOST_AFTER: Duration = Duration::from_secs(60);

/// A connection: drawn at random by the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub [u8; 16]);

/// A segment, which a broker carries between a node and its controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    pub connection: ConnectionId,
    pub content: Content<'a>,
}

/// The content of a [`Segment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// A packet, and how many packets of the other side were taken.
    Data { number: u64, taken: u64, packet: &'a [u8] },
    /// So many packets of the other side were taken.
    Ack { taken: u64 },
    /// The connection is over.
    Reset(ResetReason),
    /// The controller is there, and knows no connection from before.
    Begin,
}

/// The reason why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ResetReason {
    /// The sender knows no such connection.
    Unknown = 1,
    /// Packets were lost on the way, or not taken in time.
    Lost = 2,
    /// The node may not come in, or its packets do not open.
    NotAuthorized = 3,
    /// The node has connected again.
    TakenOver = 4,
    /// There is no room for it.
    Busy = 5,
    /// The sender leaves. The agent's last will says it, too.
    Closed = 6,
    /// The other side did not keep to the protocol.
    Protocol = 7,
    /// The controller cuts the node off.
    AdministrativeAction = 8,
}

/// The bytes are no segment.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SegmentError {
    /// A version this build does not speak.
    #[error("segment version {0} is not spoken here (known: {VERSION}): upgrade the older side")]
    Version(u8),
    /// Too long, too short, or of an unknown kind.
    #[error("malformed segment")]
    Malformed,
}

impl Segment<'_> {
    /// The bytes to publish.
    pub fn encode(&self) -> Vec<u8> {
        let room = if let Content::Data { packet, .. } = self.content { packet.len() } else { 0 };
        let mut bytes = Vec::with_capacity(OVERHEAD + room);
        bytes.push(VERSION);
        bytes.push(match self.content {
            Content::Data { .. } => 1,
            Content::Ack { .. } => 2,
            Content::Reset(_) => 3,
            Content::Begin => 4,
        });
        bytes.extend_from_slice(&self.connection.0);
        match self.content {
            Content::Data { number, taken, packet } => {
                bytes.extend_from_slice(&number.to_le_bytes());
                bytes.extend_from_slice(&taken.to_le_bytes());
                bytes.extend_from_slice(packet);
            }
            Content::Ack { taken } => bytes.extend_from_slice(&taken.to_le_bytes()),
            Content::Reset(reason) => bytes.push(reason as u8),
            Content::Begin => {}
        }
        bytes
    }

    /// Reads bytes from outside.
    ///
    /// # Errors
    /// [`SegmentError`]
    pub fn decode(bytes: &[u8]) -> Result<Segment<'_>, SegmentError> {
        const MALFORMED: SegmentError = SegmentError::Malformed;
        let (&version, rest) = bytes.split_first().ok_or(MALFORMED)?;
        if version != VERSION {
            return Err(SegmentError::Version(version));
        }
        let (&kind, rest) = rest.split_first().ok_or(MALFORMED)?;
        let (connection, rest) = rest.split_first_chunk().ok_or(MALFORMED)?;
        let content = match kind {
            1 => {
                let (number, rest) = number(rest)?;
                let (taken, packet) = self::number(rest)?;
                if packet.len() > MESSAGE_MAX {
                    return Err(MALFORMED);
                }
                Content::Data { number, taken, packet }
            }
            2 => match number(rest)? {
                (taken, []) => Content::Ack { taken },
                _ => return Err(MALFORMED),
            },
            3 => match rest {
                [reason] => Content::Reset(ResetReason::read(*reason).ok_or(MALFORMED)?),
                _ => return Err(MALFORMED),
            },
            4 if rest.is_empty() => Content::Begin,
            _ => return Err(MALFORMED),
        };
        Ok(Segment { connection: ConnectionId(*connection), content })
    }
}

fn number(bytes: &[u8]) -> Result<(u64, &[u8]), SegmentError> {
    let (number, rest) = bytes.split_first_chunk().ok_or(SegmentError::Malformed)?;
    Ok((u64::from_le_bytes(*number), rest))
}

impl ResetReason {
    const ALL: [Self; 8] = [
        Self::Unknown,
        Self::Lost,
        Self::NotAuthorized,
        Self::TakenOver,
        Self::Busy,
        Self::Closed,
        Self::Protocol,
        Self::AdministrativeAction,
    ];

    fn read(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| *reason as u8 == byte)
    }

    /// For the log of the side that is told.
    pub fn text(self) -> &'static str {
        match self {
            Self::Unknown => "the controller has started again, or was cut off from its broker",
            Self::Lost => "packets were lost on the way through the broker",
            Self::NotAuthorized => "the controller does not let this node in",
            Self::TakenOver => "another agent of this node has connected",
            Self::Busy => "the controller has as many connections as it takes, or too much to do",
            Self::Closed => "the other side has closed the connection",
            Self::Protocol => "the protocol was not kept to",
            Self::AdministrativeAction => "the controller has closed the connection (AdministrativeAction)",
        }
    }
}

/// The count of packets at one end. A number is taken only when it is the next.
#[derive(Debug, Default)]
pub struct Window {
    /// Packets sent from here, and how many of them the other side took.
    sent: u64,
    acknowledged: u64,
    /// Packets that came, how many of them were taken here, and how many the other side knows to be taken.
    came: u64,
    taken: u64,
    told: u64,
}

/// The verdict about a packet's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The next packet.
    Next,
    /// The packet came before.
    Repeated,
}

/// The ends do not fit each other any more: the connection is over.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum OutOfStep {
    /// Packets did not arrive.
    #[error("{0} packets were lost on the way")]
    Lost(u64),
    /// More packets came than may be on their way.
    #[error("more packets came than may be on their way")]
    Overrun,
    /// The other side acknowledges what was not sent.
    #[error("packets were acknowledged that were never sent")]
    NeverSent,
}

impl OutOfStep {
    /// The reason to tell the other side.
    pub fn reset(self) -> ResetReason {
        match self {
            Self::Lost(_) => ResetReason::Lost,
            Self::Overrun | Self::NeverSent => ResetReason::Protocol,
        }
    }
}

impl Window {
    /// Whether a packet may leave.
    pub fn is_open(&self) -> bool {
        self.sent - self.acknowledged < WINDOW
    }

    /// Whether the other side has taken all that was sent.
    pub fn is_settled(&self) -> bool {
        self.sent == self.acknowledged
    }

    /// The number of packets that were sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The number of packets that the other side has taken.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Puts the next packet into a segment. Call only while the window [is open](Self::is_open).
    pub fn data<'a>(&mut self, connection: ConnectionId, packet: &'a [u8]) -> Segment<'a> {
        let number = self.sent;
        self.sent += 1;
        self.told = self.taken;
        Segment { connection, content: Content::Data { number, taken: self.taken, packet } }
    }

    /// An acknowledgement of what was taken.
    pub fn ack(&mut self, connection: ConnectionId) -> Segment<'static> {
        self.told = self.taken;
        Segment { connection, content: Content::Ack { taken: self.taken } }
    }

    /// Packets that were taken, and the other side does not know it.
    pub fn owes(&self) -> u64 {
        self.taken - self.told
    }

    /// The other side waits for an acknowledgement: it comes at once, and not after [`ACK_DELAY`].
    pub fn owes_much(&self) -> bool {
        self.owes() >= WINDOW / 4
    }

    /// A packet came. The caller hands on the next packet, and then [takes](Self::take) it.
    ///
    /// # Errors
    /// [`OutOfStep`]
    pub fn arrived(&mut self, number: u64) -> Result<Arrival, OutOfStep> {
        if number < self.came {
            // The acknowledgement of it may have been lost.
            self.told = self.told.min(number);
            return Ok(Arrival::Repeated);
        }
        if number > self.came {
            return Err(OutOfStep::Lost(number - self.came));
        }
        if self.came - self.taken >= WINDOW {
            return Err(OutOfStep::Overrun);
        }
        self.came += 1;
        Ok(Arrival::Next)
    }

    /// The oldest packet that came and was not taken is taken.
    pub fn take(&mut self) {
        self.taken = self.came.min(self.taken + 1);
    }

    /// The other side says how many packets it took. A lower number than before came late.
    ///
    /// # Errors
    /// [`OutOfStep::NeverSent`]
    pub fn acknowledge(&mut self, taken: u64) -> Result<(), OutOfStep> {
        if taken > self.sent {
            return Err(OutOfStep::NeverSent);
        }
        self.acknowledged = self.acknowledged.max(taken);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
