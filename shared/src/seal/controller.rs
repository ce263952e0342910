//! The controller's end of one node's packets.
//!
//! ```text
//!            greeting              first packet of it
//!   (none) ──────────▶ answered ───────────────────────▶ current ── a packet is lost ──▶ (none)
//!                        │   ▲                            │   ▲
//!                        └───┘ another greeting           └───┘ packets
//! ```
//!
//! A session becomes the current one when its first packet opens, and only the agent that greeted can make that
//! packet. Until then the session before it stays. So a greeting that is sent again, by a broker or by whoever
//! listened there, takes no session from the node; it costs three agreements. A link bounds how often: the direct
//! link takes one greeting on a connection.
//!
//! The state of a node is small and fixed, and a packet that does not open allocates nothing that stays.

use std::sync::Arc;
use std::time::Duration;

use crate::MonoTime;

use super::greeting::{Kind, kind_of};
use super::resumption::Again;
use super::session::{Session, is_first};
use super::{Body, PacketError, Random, Seal, SealPublic};

/// A node that talks and has not received, for this long, what it was sent, will not receive it any more. Two
/// heartbeats of an agent are 61 s apart at most, so a loss is seen before a job counts as lost after 210 s.
const LOST_AFTER: Duration = Duration::from_secs(60);

/// See the module's head.
pub struct ControllerEnd {
    seal: Arc<Seal>,
    current: Option<Greeted>,
    /// Boxed, since it is there for a moment only.
    answered: Option<Box<Greeted>>,
    /// The secret that the node's last session has left.
    again: Option<Again>,
    /// Sessions leave something for the next one.
    leaves: bool,
    /// So many packets were acknowledged, and more were sent; since when this is so.
    waits: Option<(u64, MonoTime)>,
}

/// A session, and the fresh key with which the node asked for it.
struct Greeted {
    by: [u8; 32],
    session: Session,
}

/// The kind of an opened packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Opened {
    /// A greeting; send this answer.
    Greeting { answer: Vec<u8> },
    /// A packet of the current session. `begins`: it is the first one, and the session before is over.
    Packet { body: Vec<u8>, begins: bool },
}

impl ControllerEnd {
    /// A side that nobody has greeted yet.
    pub fn new(seal: impl Into<Arc<Seal>>) -> Self {
        Self { seal: seal.into(), current: None, answered: None, again: None, leaves: false, waits: None }
    }

    /// The same over a direct link: the node's last session has left this, and the next one leaves something as well.
    pub fn following(seal: impl Into<Arc<Seal>>, again: Option<Again>) -> Self {
        Self { again, leaves: true, ..Self::new(seal) }
    }

    /// Takes what the current session leaves for the next one ([`Session::take_again`]).
    pub fn take_again(&mut self, now: MonoTime) -> Option<Again> {
        self.current.as_mut()?.session.take_again(now)
    }

    /// The node's long-lived key.
    pub fn key(&self) -> SealPublic {
        SealPublic(self.seal.theirs.to_bytes())
    }

    /// The node has a session: it can be sent packets.
    pub fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// Whether the packet says that it is a greeting.
    pub fn is_greeting(packet: &[u8]) -> bool {
        matches!(kind_of(packet), Ok(Kind::Greeting | Kind::GreetingAgain))
    }

    /// Takes a packet from the node. `random` is called for a greeting that a key of the node has proved.
    ///
    /// # Errors
    /// [`PacketError`]: the packet is not taken. After one that [ends the session](PacketError::ends_session) the
    /// node has none.
    pub fn open(
        &mut self,
        packet: &[u8],
        random: impl FnOnce() -> Option<Random>,
    ) -> Result<Opened, PacketError> {
        match kind_of(packet)? {
            Kind::Greeting | Kind::GreetingAgain => self.greeted(packet, random),
            Kind::Sealed => self.received(packet),
            Kind::Answer | Kind::AnswerAgain => Err(PacketError::Malformed),
        }
    }

    fn greeted(
        &mut self,
        packet: &[u8],
        random: impl FnOnce() -> Option<Random>,
    ) -> Result<Opened, PacketError> {
        let (by, proof) = self.seal.greeted(packet)?;
        let mut known = self.current.iter().chain(self.answered.as_deref());
        if known.any(|greeted| greeted.by == by) {
            return Err(PacketError::Repeated);
        }
        let random = random().ok_or(PacketError::NoRandom)?;
        // The secret serves no other session, whatever becomes of this one.
        let again = self.again.take().filter(|again| proof == Some(again.proof(&by)));
        let (answer, session) = match again {
            Some(again) => self.seal.answer_again(&by, &random, &again)?,
            None => self.seal.answer(&by, random)?,
        };
        let session = if self.leaves { session } else { session.leaving_nothing() };
        self.answered = Some(Box::new(Greeted { by, session }));
        Ok(Opened::Greeting { answer })
    }

    fn received(&mut self, packet: &[u8]) -> Result<Opened, PacketError> {
        // A current session has had its first packet, so only one of the two is tried.
        if is_first(packet)
            && let Some(mut answered) = self.answered.take()
        {
            if let Ok(body) = answered.session.open(packet) {
                self.current = Some(*answered);
                self.waits = None;
                return Ok(Opened::Packet { body, begins: true });
            }
            self.answered = Some(answered);
        }
        let current = self.current.as_mut().ok_or(PacketError::NotGreeted)?;
        match current.session.open(packet) {
            Ok(body) => Ok(Opened::Packet { body, begins: false }),
            Err(error) => {
                if error.ends_session() {
                    self.current = None;
                }
                Err(error)
            }
        }
    }

    /// Seals the next packet for the node. `None`: the node has no session. Packets must leave in this order.
    pub fn seal(&mut self, body: Body) -> Option<Vec<u8>> {
        Some(self.current.as_mut()?.session.seal(body))
    }

    /// Whether packets to the node got lost although none followed that would show it. A link with a broker in
    /// between asks after each packet of the node, and ends the session. Over the direct link nothing gets lost.
    pub fn has_lost(&mut self, now: MonoTime) -> bool {
        let Some(acknowledged) = self.current.as_ref().and_then(|it| it.session.unacknowledged()) else {
            self.waits = None;
            return false;
        };
        match self.waits {
            Some((before, since)) if before == acknowledged => now.since(since) >= LOST_AFTER,
            Some(_) | None => {
                self.waits = Some((acknowledged, now));
                false
            }
        }
    }
}
