//! One connection of a node over a broker: packets in, packets out, and every bound on time. Decides after what silence
//! the connection ends.
//!
//! As with the direct endpoint there is one task for each, which waits for its own queue and its own inbox only, and
//! for the broker's one connection. The node's window holds it back: a packet is acknowledged once the driver has
//! taken it.
//!
//! Absent: the same for the direct endpoint (`link/direct/session.rs`), and what follows for the node
//! (`controller/engine/src/node/away.rs`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use muster_shared::NodeId;
use muster_shared::seal::{Body, ControllerEnd, Opened, PacketError};
use muster_shared::segment::{
    ACK_DELAY, Arrival, ConnectionId, Content, LOST_AFTER, OutOfStep, ResetReason, Segment, Window,
};
use rumqttc::v5::AsyncClient;
use rumqttc::v5::mqttbytes::QoS;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::link::away_after_silence;
use crate::link::contents::Room;
use crate::link::inbox::{Inbox, NodeInbox, Pending};
use crate::link::nodes::Nodes;
use crate::link::outbound::Outbound;
use crate::link::reason::{Reason, Refusal};
use crate::link::registry::Peer;
use crate::random::random;

/// From a greeting to the first packet of its session.
const GREETED_WITHIN: Duration = Duration::from_secs(30);
/// The most packets that may wait for one node, as with the direct endpoint.
const QUEUE_PACKETS: usize = 4096;
const QUEUE_BYTES: usize = 8 * 1024 * 1024;

/// A message of a node.
pub(super) enum Heard {
    Data {
        number: u64,
        taken: u64,
        packet: Bytes,
        /// The packet's place in memory.
        room: OwnedSemaphorePermit,
    },
    Ack {
        taken: u64,
    },
    Reset(ResetReason),
}

/// Speaks to one node.
pub(super) struct Voice {
    sender: AsyncClient,
    down: String,
    connection: ConnectionId,
}

impl Voice {
    pub fn new(sender: AsyncClient, down: String, connection: ConnectionId) -> Self {
        Self { sender, down, connection }
    }

    /// Fails when the broker is gone.
    async fn say(&self, segment: Vec<u8>) -> Result<(), End> {
        self.sender.publish(&self.down, QoS::AtLeastOnce, false, segment).await.map_err(|_| End::Gone)
    }

    async fn reset(&self, reason: ResetReason) {
        // Where the broker is gone, the node finds out by itself.
        let _ = self.say(self.end(reason)).await;
    }

    /// Without waiting; where there is no room the node finds out by itself.
    pub fn reset_at_once(&self, reason: ResetReason) {
        drop(self.sender.try_publish(&self.down, QoS::AtLeastOnce, false, self.end(reason)));
    }

    fn end(&self, reason: ResetReason) -> Vec<u8> {
        Segment { connection: self.connection, content: Content::Reset(reason) }.encode()
    }
}

/// The reason why a connection is over.
enum End {
    /// The node left, the broker is gone, or this controller may not answer.
    Gone,
    /// This side ends it.
    Reset(ResetReason, Refusal),
}

impl From<OutOfStep> for End {
    fn from(error: OutOfStep) -> Self {
        let reason = match error {
            OutOfStep::Lost(_) => Reason::ImplementationSpecificError,
            OutOfStep::Overrun | OutOfStep::NeverSent => Reason::ProtocolError,
        };
        End::Reset(error.reset(), Refusal::new(reason, error.to_string()))
    }
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> Self {
        let reset = match refusal.reason {
            Reason::SessionTakenOver => ResetReason::TakenOver,
            Reason::ServerShuttingDown | Reason::ServerUnavailable | Reason::UseAnotherServer => {
                ResetReason::Closed
            }
            Reason::AdministrativeAction => ResetReason::AdministrativeAction,
            Reason::ServerBusy | Reason::QuotaExceeded => ResetReason::Busy,
            Reason::NotAuthorized => ResetReason::NotAuthorized,
            _ => ResetReason::Protocol,
        };
        End::Reset(reset, refusal)
    }
}

/// A connection that the driver knows. Dropping it, also by a panic, tells the driver of the end.
struct Connected {
    nodes: Arc<Nodes>,
    peer: Arc<Peer>,
}

impl Drop for Connected {
    fn drop(&mut self) {
        let Self { nodes, peer } = self;
        nodes.registry.leave(peer);
        nodes.heartbeats.forget(peer.connection);
        nodes.feed.disconnected(&peer.node, peer.connection);
    }
}

/// Runs a connection to its end, from its first packet on.
pub(super) async fn run(
    nodes: Arc<Nodes>,
    node: NodeId,
    voice: Voice,
    first: Heard,
    heard: mpsc::Receiver<Heard>,
) {
    let ended = match admit(&nodes, &node, &voice, first, heard).await {
        Ok((connected, talk, begun)) => {
            // Boxed, as a session of the direct endpoint is.
            let ended = Box::pin(talk.run(begun)).await;
            drop(connected);
            ended
        }
        Err(end) => end,
    };
    match ended {
        End::Gone => tracing::debug!(%node, "disconnected"),
        End::Reset(reset, Refusal { reason, why, .. }) => {
            if reason.is_ordinary() {
                tracing::info!(%node, ?reason, %why, "connection ended");
            } else if let Some(missed) = nodes.refusals.tell() {
                tracing::warn!(%node, ?reason, %why, missed, "connection refused or ended");
            }
            voice.reset(reset).await;
        }
    }
}

/// The first packet of a session, opened.
struct Begun {
    body: Vec<u8>,
    bytes: usize,
    room: OwnedSemaphorePermit,
}

/// Takes the node in once it has greeted and the first packet of its session has opened. A connection that it has is over
/// from then on, and no earlier: whoever can publish could end it otherwise, with a greeting of long ago.
async fn admit<'a>(
    nodes: &Arc<Nodes>,
    node: &NodeId,
    voice: &'a Voice,
    first: Heard,
    mut heard: mpsc::Receiver<Heard>,
) -> Result<(Connected, Talk<'a>, Begun), End> {
    let key = nodes.common.admitted.admit(node)?;
    let mut end = ControllerEnd::new(nodes.seal(node, &key));
    let mut window = Window::default();
    let begun = greet(nodes, voice, first, &mut heard, &mut end, &mut window).await?;
    let outbound = Arc::new(Outbound::new(QUEUE_PACKETS, QUEUE_BYTES));
    let tell = |peer: &Peer| nodes.feed.connected(&peer.node, peer.connection);
    let peer = nodes.registry.enter(node.clone(), outbound, tell)?;
    tracing::debug!(%node, connection = peer.connection, "connected");
    let talk = Talk::new(nodes, &peer, voice, heard, (end, window));
    Ok((Connected { nodes: Arc::clone(nodes), peer }, talk, begun))
}

/// Answers the greeting, and waits for the first packet of the session.
async fn greet(
    nodes: &Nodes,
    voice: &Voice,
    first: Heard,
    heard: &mut mpsc::Receiver<Heard>,
    end: &mut ControllerEnd,
    window: &mut Window,
) -> Result<Begun, End> {
    let refused = |error: PacketError| {
        nodes.common.refused.count(error);
        End::from(Refusal::new(Reason::NotAuthorized, format!("its greeting is not the node's: {error}")))
    };
    let until = Instant::now() + GREETED_WITHIN;
    let mut next = first;
    loop {
        match next {
            Heard::Reset(_) => return Err(End::Gone),
            Heard::Ack { taken } => window.acknowledge(taken)?,
            Heard::Data { number, taken, packet, room } => {
                window.acknowledge(taken)?;
                if window.arrived(number)? == Arrival::Next {
                    match end.open(&packet, || random().ok()).map_err(refused)? {
                        // The agent greets again when the controller that has the lease comes to the broker.
                        Opened::Greeting { .. } if nodes.may_speak().is_err() => return Err(End::Gone),
                        Opened::Greeting { answer } => {
                            window.take();
                            voice.say(window.data(voice.connection, &answer).encode()).await?;
                        }
                        Opened::Packet { body, .. } => return Ok(Begun { body, bytes: packet.len(), room }),
                    }
                }
            }
        }
        next = match timeout_at(until, heard.recv()).await {
            Ok(Some(heard)) => heard,
            Ok(None) => return Err(End::Gone),
            Err(_) => {
                let why = "a greeting, and nothing after it: it was said before, or its answer was lost";
                return Err(End::Reset(ResetReason::Lost, Refusal::new(Reason::KeepAliveTimeout, why)));
            }
        };
    }
}

struct Talk<'a> {
    voice: &'a Voice,
    outbound: Arc<Outbound<Body>>,
    inbox: NodeInbox,
    heard: mpsc::Receiver<Heard>,
    window: Window,
    /// Packets that came and wait for the driver: a window of them at most.
    backlog: VecDeque<(Bytes, OwnedSemaphorePermit)>,
    /// The one that the driver has.
    waiting: Option<(Pending, OwnedSemaphorePermit)>,
    /// Chunks of contents keep their room until the node has taken so many packets.
    rooms: VecDeque<(u64, Room)>,
    sent: u64,
    last_heard: Instant,
    /// Since when the node has not taken the next packet.
    unsettled: Option<Instant>,
    /// When an acknowledgement is due.
    ack_at: Option<Instant>,
}

impl<'a> Talk<'a> {
    fn new(
        nodes: &Arc<Nodes>,
        peer: &Arc<Peer>,
        voice: &'a Voice,
        heard: mpsc::Receiver<Heard>,
        (end, window): (ControllerEnd, Window),
    ) -> Self {
        let inbox = NodeInbox::new(Arc::clone(nodes), Arc::clone(peer), None, end);
        Self {
            voice,
            outbound: Arc::clone(&peer.outbound),
            inbox,
            heard,
            sent: window.sent(),
            window,
            backlog: VecDeque::new(),
            waiting: None,
            rooms: VecDeque::new(),
            last_heard: Instant::now(),
            unsettled: None,
            ack_at: None,
        }
    }

    async fn run(mut self, Begun { body, bytes, room }: Begun) -> End {
        match self.inbox.deliver(&body, bytes) {
            Ok(Some(pending)) => self.waiting = Some((pending, room)),
            Ok(None) => self.take(),
            Err(refusal) => return refusal.into(),
        }
        self.note_debt();
        loop {
            match self.turn().await {
                Ok(()) => {}
                Err(end) => return end,
            }
        }
    }

    async fn turn(&mut self) -> Result<(), End> {
        if let Some(refusal) = self.outbound.ended() {
            return Err(refusal.into());
        }
        self.hand_on()?;
        self.speak().await?;
        let (outbound, deadline) = (Arc::clone(&self.outbound), self.deadline());
        tokio::select! {
            delivered = wait(&mut self.waiting) => {
                delivered?;
                self.waiting = None;
                // While this side does not read, the node's silence does not count.
                self.last_heard = Instant::now();
                self.take();
            }
            heard = self.heard.recv() => match heard {
                Some(heard) => self.hear(heard)?,
                // The broker's connection is over, or the node sent more than its window.
                None => return Err(End::Gone),
            },
            () = outbound.changed.notified() => {}
            () = sleep_until(deadline) => self.check_time(Instant::now())?,
        }
        Ok(())
    }

    /// Takes a segment.
    fn hear(&mut self, heard: Heard) -> Result<(), End> {
        self.last_heard = Instant::now();
        match heard {
            Heard::Reset(reason) => {
                tracing::debug!(?reason, "the node has left");
                return Err(End::Gone);
            }
            Heard::Ack { taken } => self.acknowledged(taken)?,
            Heard::Data { number, taken, packet, room } => {
                self.acknowledged(taken)?;
                if self.window.arrived(number)? == Arrival::Next {
                    self.backlog.push_back((packet, room));
                }
            }
        }
        self.note_debt();
        Ok(())
    }

    fn acknowledged(&mut self, taken: u64) -> Result<(), End> {
        let before = self.window.acknowledged();
        self.window.acknowledge(taken)?;
        let now = self.window.acknowledged();
        if now > before {
            self.unsettled = (!self.window.is_settled()).then(Instant::now);
        }
        while self.rooms.front().is_some_and(|(upto, _)| *upto <= now) {
            self.rooms.pop_front();
        }
        Ok(())
    }

    /// Gives the driver the next packets, until it has one that it has not taken.
    fn hand_on(&mut self) -> Result<(), End> {
        while self.waiting.is_none()
            && let Some((packet, room)) = self.backlog.pop_front()
        {
            match self.inbox.receive(packet)? {
                Some(pending) => self.waiting = Some((pending, room)),
                None => self.take(),
            }
        }
        Ok(())
    }

    fn take(&mut self) {
        self.window.take();
        self.note_debt();
    }

    fn note_debt(&mut self) {
        if self.window.owes() > 0 {
            self.ack_at.get_or_insert_with(|| Instant::now() + ACK_DELAY);
        }
    }

    /// Sends what the node's window lets through, and what it waits for.
    async fn speak(&mut self) -> Result<(), End> {
        let voice = self.voice;
        while self.window.is_open()
            && let Some((packet, room)) = self.inbox.next(&self.outbound)
        {
            self.unsettled.get_or_insert_with(Instant::now);
            self.sent += 1;
            self.rooms.extend(room.map(|room| (self.sent, room)));
            let segment = self.window.data(voice.connection, &packet).encode();
            voice.say(segment).await?;
        }
        let is_due = self.ack_at.is_some_and(|at| at <= Instant::now());
        if self.window.owes() > 0 && (is_due || self.window.owes_much()) {
            let segment = self.window.ack(voice.connection).encode();
            voice.say(segment).await?;
        }
        if self.window.owes() == 0 {
            self.ack_at = None;
        }
        Ok(())
    }

    fn silent_at(&self) -> Option<Instant> {
        self.waiting.is_none().then(|| self.last_heard + away_after_silence::OVER_A_BROKER)
    }

    fn lost_at(&self) -> Option<Instant> {
        self.unsettled.map(|since| since + LOST_AFTER)
    }

    fn deadline(&self) -> Instant {
        // The next look if nothing else is due.
        let rest = Instant::now() + Duration::from_secs(3600);
        [self.silent_at(), self.lost_at(), self.ack_at].into_iter().flatten().fold(rest, Instant::min)
    }

    fn check_time(&self, now: Instant) -> Result<(), End> {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let why = if due(self.silent_at()) {
            "nothing heard for one and a half keep alives"
        } else if due(self.lost_at()) {
            "what was sent is not taken: the broker lost it, or the node is away"
        } else {
            return Ok(());
        };
        Err(End::Reset(ResetReason::Lost, Refusal::new(Reason::KeepAliveTimeout, why)))
    }
}

/// Waits until the driver has taken its packet; for ever if it has none.
async fn wait(waiting: &mut Option<(Pending, OwnedSemaphorePermit)>) -> Result<(), Refusal> {
    match waiting {
        Some((pending, _)) => pending.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::seal::{Seal, SealSecret};
    use rumqttc::v5::MqttOptions;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::lease::Tenure;
    use crate::link::Common;
    use crate::link::intake::{self, fair::Bounds};
    use crate::pki::Pki;

    /// Whether a greeting is answered by a controller with this tenure.
    async fn answers(tenure: Tenure) -> bool {
        let dir = tempfile::tempdir().unwrap();
        let pki = Arc::new(Pki::open(dir.path()).unwrap());
        let (feed, _inbox) = intake::channel(Bounds::default());
        let nodes = Arc::new(Nodes::new(pki, feed, Common::new(tenure), 8, Duration::from_secs(1)));
        let (node, secret): (NodeId, _) =
            ("web-1".parse().unwrap(), SealSecret::from_bytes(random().unwrap()));
        let seal = Seal::new(&secret, &nodes.pki.seal_public(), nodes.pki.site(), &node);
        let greeting = seal.greet(random().unwrap()).unwrap();
        let room = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let packet = Bytes::from(greeting.packet().to_vec());
        let first = Heard::Data { number: 0, taken: 0, packet, room };
        // A greeting that is answered is followed by nothing.
        let (tell, mut heard) = mpsc::channel(1);
        drop(tell);
        let (sender, _requests) = AsyncClient::new(MqttOptions::new("controller", "localhost", 1), 8);
        let voice = Voice::new(sender, "down".to_owned(), ConnectionId([7; 16]));
        let mut end = ControllerEnd::new(nodes.seal(&node, &secret.public()));
        let mut window = Window::default();
        let ended = greet(&nodes, &voice, first, &mut heard, &mut end, &mut window).await;
        assert!(matches!(ended, Err(End::Gone)));
        window.sent() > 0
    }

    #[tokio::test]
    async fn only_the_holder_of_the_lease_answers_a_greeting() {
        assert!(answers(Tenure::for_good()).await);
        assert!(!answers(Tenure::none()).await);
    }
}
