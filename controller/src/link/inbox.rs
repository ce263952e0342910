//! A node's connection, whatever carries it: its packets are opened and its messages passed on, and what is for it is
//! sealed. Answers challenges of guarded changes at once, without the driver.
//!
//! Sealing is done here, as packets leave: so their numbers are in the order in which they leave, and the
//! driver's thread does not wait for it.
//!
//! Absent: when a guarded change is undone (`agent/core/src/challenge.rs`), and what messages mean
//! (`controller/engine/src/node/session.rs`).

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use muster_shared::model::{Down, Up};
use muster_shared::seal::{Body, ControllerEnd, Opened, PacketError};
use muster_shared::wire;
use time::OffsetDateTime;

use super::contents::Room;
use super::nodes::Nodes;
use super::outbound::{Outbound, PacketLen};
use super::reason::{Reason, Refusal};
use super::registry::Peer;
use crate::lease::since_boot;
use crate::random::random;

/// A wait of the inbox that must end before the next packet may be read.
pub type Pending = Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send>>;

/// The content of publishes, both ways.
pub trait Inbox: Send {
    /// The packets that wait to be sent.
    type Queued: PacketLen;

    /// Takes a publish. Returns `None` if it is delivered already.
    fn receive(&mut self, payload: Bytes) -> Result<Option<Pending>, Refusal>;

    /// The next publish to the client; it leaves before any other that is asked for.
    fn next(&mut self, queue: &Outbound<Self::Queued>) -> Option<(Bytes, Option<Room>)>;
}

/// Packets of a session that may be refused before the connection ends. Nothing is in between that could send them
/// twice: whoever sends many is not an agent, and each costs as much as a good one.
const REFUSED_MAX: u32 = 64;

/// Opens a node's packets and passes them to the driver; seals what leaves for the node.
pub struct NodeInbox {
    nodes: Arc<Nodes>,
    peer: Arc<Peer>,
    remote: Option<IpAddr>,
    end: ControllerEnd,
    answer: Answer,
    /// Packets refused since the session began.
    refused: u32,
}

/// The answer to the greeting of the connection.
enum Answer {
    /// No client has greeted yet.
    None,
    /// To be sent.
    Ready(Bytes),
    Sent,
}

impl Inbox for NodeInbox {
    type Queued = Body;

    fn receive(&mut self, payload: Bytes) -> Result<Option<Pending>, Refusal> {
        match self.open(&payload) {
            Ok(Opened::Greeting { answer }) => {
                self.answer = Answer::Ready(answer.into());
                Ok(None)
            }
            Ok(Opened::Packet { body, begins }) => {
                if begins {
                    self.keep_again();
                }
                self.deliver(&body, payload.len())
            }
            Err(error) => self.refuse(error).map(|()| None),
        }
    }

    fn next(&mut self, queue: &Outbound<Body>) -> Option<(Bytes, Option<Room>)> {
        if let Err(refusal) = self.nodes.may_speak() {
            queue.end(refusal);
            return None;
        }
        if let Answer::Ready(answer) = &mut self.answer {
            let answer = std::mem::take(answer);
            self.answer = Answer::Sent;
            return Some((answer, None));
        }
        if !self.end.is_open() {
            return None;
        }
        let (body, room) = queue.pop()?;
        Some((self.end.seal(body)?.into(), room))
    }
}

impl NodeInbox {
    pub(super) fn new(
        nodes: Arc<Nodes>,
        peer: Arc<Peer>,
        remote: Option<IpAddr>,
        end: ControllerEnd,
    ) -> Self {
        Self { nodes, peer, remote, end, answer: Answer::None, refused: 0 }
    }

    /// A connection has one greeting: each costs three agreements of keys.
    fn open(&mut self, payload: &[u8]) -> Result<Opened, PacketError> {
        if ControllerEnd::is_greeting(payload) && !matches!(self.answer, Answer::None) {
            return Err(PacketError::Repeated);
        }
        self.end.open(payload, || random().ok())
    }

    /// Counts a packet that is not taken. Before the node has a session the reason ends the connection: its agent
    /// is of another version, or is not the node's.
    fn refuse(&mut self, error: PacketError) -> Result<(), Refusal> {
        self.nodes.common.refused.count(error);
        self.refused += 1;
        if !self.end.is_open() || self.refused > REFUSED_MAX {
            return Err(Refusal::new(Reason::PayloadFormatInvalid, error.to_string()));
        }
        if let Some(missed) = self.nodes.refusals.tell() {
            let (node, remote) = (&self.peer.node, self.remote);
            tracing::warn!(%node, ?remote, %error, missed, "packet refused");
        }
        Ok(())
    }

    /// Keeps what the session leaves. Over a broker it leaves nothing.
    fn keep_again(&mut self) {
        let now = since_boot();
        if let Some(again) = self.end.take_again(now) {
            let key = self.end.key();
            self.nodes.common.admitted.keep_again(&self.peer.node, &key, again, now);
        }
    }

    /// Passes on an opened body.
    pub(super) fn deliver(&mut self, body: &[u8], bytes: usize) -> Result<Option<Pending>, Refusal> {
        let mut messages = wire::read_body::<Up>(body)
            .map_err(|error| Refusal::new(Reason::PayloadFormatInvalid, error.to_string()))?;
        messages.iter_mut().for_each(|message| seen(message, self.remote, unix()));
        if let Some(Up::Hello(hello)) = messages.iter().find(|message| matches!(message, Up::Hello(_))) {
            self.peer.reads.store(hello.reads, Ordering::Release);
        }
        let messages = self.answer_challenges(messages);
        if messages.is_empty() {
            return Ok(None);
        }
        let Peer { node, connection, .. } = &*self.peer;
        let Some(messages) = self.nodes.heartbeats.hold(node, *connection, messages) else {
            return Ok(None);
        };
        if messages.is_empty() {
            return Ok(None);
        }
        let taken = self.nodes.feed.received(node, *connection, messages, bytes);
        Ok(Some(Box::pin(async move {
            taken.await.map_err(|_| Refusal::new(Reason::ServerShuttingDown, "the controller stops"))
        })))
    }

    /// Answers challenges at once, without the driver, because the agent undoes the change after a
    /// deadline. The agent alone decides what the answer means: that it has reached the controller
    /// it obeys. So only a welcomed connection is answered. Returns the other messages, which are
    /// for the driver.
    fn answer_challenges(&self, messages: Vec<Up>) -> Vec<Up> {
        let (mut answers, mut left) = (Vec::new(), Vec::with_capacity(messages.len()));
        for message in messages {
            match message {
                Up::Challenge { key, bytes } => answers.push(Down::Answer { key, bytes }),
                other => left.push(other),
            }
        }
        if !answers.is_empty() && self.peer.welcomed.load(Ordering::Acquire) {
            match wire::pack(&answers) {
                Ok(bodies) => self.peer.outbound.push(bodies),
                Err(error) => {
                    tracing::error!(node = %self.peer.node, %error, "a challenge cannot be answered")
                }
            }
        }
        left
    }
}

/// Adds what no agent can say: its address, and its clock against ours.
fn seen(message: &mut Up, remote: Option<IpAddr>, now: i64) {
    match message {
        Up::Hello(hello) => hello.address = remote,
        Up::Clock { unix, ahead } => *ahead = i64::try_from(*unix).unwrap_or(i64::MAX).saturating_sub(now),
        _ => {}
    }
}

fn unix() -> i64 {
    OffsetDateTime::now_utc().unix_timestamp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_compares_clocks() {
        let now = 1_732_369_352;
        for (unix, wanted) in [
            (now, 0),
            (now + 7500, 7500),
            (now - 60, -60),
            (0, -1_732_369_352),
            (u64::MAX, i64::MAX - 1_732_369_352),
        ] {
            let mut message = Up::Clock { unix, ahead: 5 };
            seen(&mut message, Some(IpAddr::from([10, 0, 0, 1])), 1_732_369_352);
            assert_eq!(message, Up::Clock { unix, ahead: wanted });
        }
    }
}
