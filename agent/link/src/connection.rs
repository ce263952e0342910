//! One connection to the controller at a time: MQTT 5 over TLS 1.3, packets sealed in a session of their own.
//! Decides after what silence the connection is over. `broker.rs` has what is different where a broker is in between.
//!
//! rumqttc's event loop lives as long as one connection: what it would carry over to the next one is not
//! wanted, for the machine says everything again that is not acknowledged. Polling and publishing are two
//! futures, since publishing waits for the other one to make room.
//!
//! Neither side takes a silent peer for a living one. Whatever we say is answered, so something is said at
//! least each [`KEEP_ALIVE`], and a controller that is not heard for [`SILENCE_MAX`] is gone. Where the site
//! has several, an agent without an answer asks the others after [`LOOK_AFTER`], and leaves if one of them is
//! active: until then this one may only be busy. Heartbeats are enough for that, and MQTT's own pings, which
//! rumqttc would send beside them, are not needed.
//!
//! Absent: which of a site's controllers is tried (`connection/try_addresses.rs`), when to connect again
//! (`agent/core/src/reconnect.rs`), and whether the controller is obeyed
//! (`agent/core/src/connection.rs`).

mod try_addresses;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_broker::BrokerError;
use muster_shared::join::Address;
use muster_shared::model::{Down, Up};
use muster_shared::seal::{PacketError, Session};
use muster_shared::segment::ResetReason;
use muster_shared::{topic, wire};
use rumqttc::Outgoing;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{ConnectReturnCode, Packet, SubAck, SubscribeReasonCode};
use rumqttc::v5::{AsyncClient, ConnectionError, Event, EventLoop};
use rustls::ClientConfig;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use try_addresses::greet_known;
pub use try_addresses::{greet, resolve};

use crate::broker::{Line, ThroughBroker, Way};
use crate::clock::since_boot;
use crate::identity::Identity;
use crate::seal::NodeSeal;
use crate::tls;

/// The time that the controller is told: after one and a half of it without a packet it takes this server for gone. A
/// second longer than heartbeats are apart by default, so that nothing else is said where those go out.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(61);
/// After so long without a packet the controller is gone: an answer to what was said last is missing for a minute then.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Publishes on their way; rumqttc keeps a slot for each.
pub(crate) const INFLIGHT_MAX: u16 = 16;
/// rumqttc's own queue: packets of 256 KiB, so that few of them wait in memory.
pub(crate) const REQUESTS_MAX: usize = 4;
/// Room for MQTT's own bytes around one of our packets.
pub(crate) const PACKET_MAX: u32 = wire::MESSAGE_MAX as u32 + 64 * 1024;
/// Messages to the controller that wait: every report of a full ledger (100,000 jobs), and some.
const OUTBOX_MAX: usize = 128 * 1024;
/// Messages taken from the outbox into one packing.
const BATCH_MAX: usize = 4096;
/// Packets from the controller that wait for the machine; more wait in the socket.
const INBOX_MAX: usize = 16;
/// After so long without an answer to a packet the site's other controllers are asked whether one of them is active;
/// again after twice that, and so on.
const LOOK_AFTER: Duration = Duration::from_secs(3);
const LOOK_MAX: Duration = Duration::from_secs(60);
/// For the controller's answer to the greeting, which waits for none of its work.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Packets that are read while the answer is waited for. Over the direct link the first one is the answer; each of
/// another's making costs three agreements of keys.
const ANSWERS_MAX: usize = 8;

/// The reason why there is no connection.
#[derive(Debug, Error)]
pub enum LinkError {
    /// No address worked; the last one's reason.
    #[error("cannot reach the controller at {address}: {why}")]
    Unreachable {
        address: String,
        why: String,
        /// The controller does not take our certificate any more.
        expired: bool,
        /// Another server behind our address is joining just now.
        busy: bool,
    },
    /// The controller is there, and does not know this node any more.
    #[error(
        "the controller at {0} does not let this node in (NotAuthorized): it was revoked or removed, another server has \
         joined under its name, or its certificate ran out; 'muster-agent join' with a token for its name lets it in"
    )]
    NotLetIn(String),
    /// The controller is there, and another one is active.
    #[error("the controller at {0} stands by, and the active one was not reached")]
    StandsBy(SocketAddr),
    /// The name is unknown.
    #[error("cannot resolve {address}: {why}")]
    Unresolved { address: String, why: String },
    /// The controller is silent.
    #[error("connection lost: the controller has not answered for {} s", after.as_secs())]
    Silent { after: Duration },
    /// Another controller is the active one.
    #[error("connection lost: the controller does not answer, and the one at {0} does")]
    Elsewhere(Address),
    /// The connection ended.
    #[error("connection lost: {0}")]
    Lost(Box<ConnectionError>),
    /// The controller says no.
    #[error("the controller refuses: {0}")]
    Refused(&'static str),
    /// The controller behind a broker ended it, or it could not go on.
    #[error("connection lost: {}", .0.text())]
    Reset(ResetReason),
    /// The brokers in between cannot be used.
    #[error(transparent)]
    Broker(Box<BrokerError>),
    /// Sealed by the controller, and not understood.
    #[error("the controller's message is not understood: {0}")]
    Wire(#[from] wire::WireError),
    /// The seal's session did not begin, or is over.
    #[error("the seal of the connection: {0}")]
    Seal(#[from] PacketError),
    /// The controller lets us in, and does not answer our greeting.
    #[error("the controller does not answer the greeting of this node")]
    NoAnswer,
    /// The system has no random bytes.
    #[error("no random bytes: {0}")]
    Random(#[from] rustls::Error),
    /// We end it.
    #[error("closed by this side")]
    Closed,
}

impl LinkError {
    /// The controller does not take our certificate any more, for it has run out.
    pub fn is_expired(&self) -> bool {
        match self {
            LinkError::Unreachable { expired, .. } => *expired,
            LinkError::Broker(error) => error.is_expired(),
            // The alert comes as an I/O error from within TLS; its text is all that is left of it.
            LinkError::Lost(source) => format!("{source:?}").contains("CertificateExpired"),
            _ => false,
        }
    }

    /// The controller no longer knows this node, or its clock was another when it gave the certificate out.
    pub fn is_not_let_in(&self) -> bool {
        if let LinkError::NotLetIn(_) = self {
            return true;
        }
        matches!(self, LinkError::Lost(source) if matches!(
            **source,
            ConnectionError::ConnectionRefused(ConnectReturnCode::NotAuthorized)
        ))
    }

    /// The controller says that another one is active.
    fn is_elsewhere(&self) -> bool {
        matches!(self, LinkError::Lost(source) if matches!(
            **source,
            ConnectionError::ConnectionRefused(ConnectReturnCode::UseAnotherServer)
        ))
    }

    /// Another server behind our address is joining just now: one at a time is let in.
    pub fn is_busy(&self) -> bool {
        match self {
            LinkError::Unreachable { busy, .. } => *busy,
            LinkError::Lost(source) => matches!(
                **source,
                ConnectionError::ConnectionRefused(ConnectReturnCode::ConnectionRateExceeded)
            ),
            _ => false,
        }
    }
}

impl LinkError {
    /// The weight of the error beside those of other addresses: the one with the highest is told.
    fn rank(&self) -> u8 {
        match self {
            // Only a controller that is active answers so.
            LinkError::NotLetIn(_) | LinkError::Unreachable { busy: true, .. } => 2,
            LinkError::StandsBy(_) => 1,
            _ => 0,
        }
    }
}

/// An event of a connection.
#[derive(Debug)]
pub enum LinkEvent {
    Connected {
        /// The controller's number, or the broker.
        remote: String,
    },
    /// From the controller.
    Received(Vec<Down>),
    /// A packet was not taken, and the connection goes on. Told of the 1st, 2nd, 4th, 8th and so on.
    Refused {
        error: PacketError,
        /// On this connection so far.
        count: u64,
    },
    /// The connection is gone; the last event.
    Disconnected(LinkError),
}

#[derive(Clone)]
pub struct Peer {
    pub id: String,
    pub down: String,
    pub up: String,
    pub tls: Arc<ClientConfig>,
    /// Addresses in their order: the controller's, or those of brokers.
    pub addresses: Vec<Address>,
    pub broker: Option<ThroughBroker>,
}

/// A connection; dropping it closes it.
pub struct Connection {
    /// The events of the connection.
    pub events: mpsc::Receiver<LinkEvent>,
    outbox: mpsc::Sender<Up>,
    task: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// Begins to connect.
    pub fn open(peer: Peer, seal: Arc<NodeSeal>) -> Self {
        let (tell, events) = mpsc::channel(INBOX_MAX);
        let (outbox, messages) = mpsc::channel(OUTBOX_MAX);
        let task = tokio::spawn(async move {
            let error = match converse(&peer, &seal, &tell, messages).await {
                Ok(()) => LinkError::Closed,
                Err(error) => error,
            };
            // Without a listener, the connection was dropped on purpose.
            let _ = tell.send(LinkEvent::Disconnected(error)).await;
        });
        Self { events, outbox, task }
    }

    /// Whether there was room.
    pub fn send(&self, up: Up) -> bool {
        self.outbox.try_send(up).is_ok()
    }
}

async fn converse(
    peer: &Peer,
    seal: &NodeSeal,
    tell: &mpsc::Sender<LinkEvent>,
    messages: mpsc::Receiver<Up>,
) -> Result<(), LinkError> {
    let (mut mqtt, remote) = greet(peer).await?;
    let publisher = mqtt.publisher(peer);
    let session = tokio::select! {
        begun = begin(&mut mqtt, peer, seal) => Mutex::new(begun?),
        () = publisher.acknowledge() => return Ok(()),
    };
    if tell.send(LinkEvent::Connected { remote }).await.is_err() {
        return Ok(());
    }
    let polling = async {
        let mut refused = 0u64;
        loop {
            let payload = mqtt.payload().await?;
            let opened = lock(&session).open(&payload);
            let event = match opened {
                Ok(body) => LinkEvent::Received(wire::read_body(&body)?),
                // Over a broker a segment has one number: that packet took the place of one that counts.
                Err(error) if error.ends_session() || peer.broker.is_some() => return Err(error.into()),
                Err(error) => {
                    refused += 1;
                    if !refused.is_power_of_two() {
                        continue;
                    }
                    LinkEvent::Refused { error, count: refused }
                }
            };
            if tell.send(event).await.is_err() {
                return Ok(());
            }
        }
    };
    tokio::select! {
        ended = polling => ended,
        ended = publish(&session, messages, &publisher) => ended,
        () = publisher.acknowledge() => Ok(()),
    }
}

/// Begins a session of the seal over a new connection.
///
/// # Errors
/// The connection is gone, or the controller does not prove to be the one that this node has joined.
pub async fn begin(mqtt: &mut Mqtt, peer: &Peer, seal: &NodeSeal) -> Result<Session, LinkError> {
    let greeting = seal.greet(tls::random()?, mqtt.takes_again, since_boot())?;
    if !mqtt.publish(&peer.up, greeting.packet().to_vec()) {
        return Err(LinkError::Closed);
    }
    let answered = async {
        let mut last = LinkError::NoAnswer;
        for _ in 0..ANSWERS_MAX {
            match seal.accept(&greeting, &mqtt.payload().await?, since_boot()) {
                Ok(session) => return Ok(session),
                Err(error @ PacketError::Version(_)) => return Err(error.into()),
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    };
    timeout(ANSWER_WITHIN, answered).await.unwrap_or(Err(LinkError::NoAnswer))
}

/// A session is whole at every point that can panic.
fn lock(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Packs what waits into as few packets as possible. Where nothing waits for too long it says that we are here.
async fn publish(
    session: &Mutex<Session>,
    mut messages: mpsc::Receiver<Up>,
    publisher: &Publisher,
) -> Result<(), LinkError> {
    let mut batch = Vec::new();
    loop {
        batch.clear();
        match timeout(KEEP_ALIVE, messages.recv_many(&mut batch, BATCH_MAX)).await {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(_) => batch.push(Up::Heartbeat { drift: None }),
        }
        for body in wire::pack(&batch)? {
            let packet = lock(session).seal(body);
            if !publisher.publish(packet).await {
                return Ok(());
            }
        }
    }
}

/// Sends packets, one after the other.
enum Publisher {
    Direct { client: AsyncClient, up: String },
    Broker(Line),
}

impl Publisher {
    /// False if the connection is over.
    async fn publish(&self, packet: Vec<u8>) -> bool {
        match self {
            Publisher::Direct { client, up } => {
                client.publish(up, QoS::AtLeastOnce, false, packet).await.is_ok()
            }
            Publisher::Broker(line) => line.publish(&packet).await,
        }
    }

    /// Until the connection is over; MQTT acknowledges by itself where it reaches to the controller.
    async fn acknowledge(&self) {
        match self {
            Publisher::Direct { .. } => std::future::pending().await,
            Publisher::Broker(line) => drop(line.acknowledge().await),
        }
    }
}

/// An MQTT connection that has asked for its subscription. The answer to that comes with [`Mqtt::payload`], so what is
/// published meanwhile saves a round trip.
pub struct Mqtt {
    client: AsyncClient,
    events: Events,
    /// The controller lets a session begin with what the one before has left.
    takes_again: bool,
}

enum Events {
    Direct {
        events: Box<EventLoop>,
        /// When the last packet came.
        heard: Instant,
        /// Since when a packet waits for its answer.
        unanswered: Option<Instant>,
        /// The site's other controllers.
        others: Peer,
    },
    Broker(Way),
}

impl Mqtt {
    /// The next publish.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn payload(&mut self) -> Result<Vec<u8>, LinkError> {
        let (events, heard, unanswered, others) = match &mut self.events {
            Events::Direct { events, heard, unanswered, others } => (events, heard, unanswered, others),
            Events::Broker(way) => return way.payload().await,
        };
        loop {
            // A read that this cuts off is not resumed: the connection is over.
            let event = tokio::select! {
                event = timeout_at(*heard + SILENCE_MAX, events.poll()) => event,
                address = look_around(others, *unanswered) => return Err(LinkError::Elsewhere(address)),
            };
            match event.map_err(|_| LinkError::Silent { after: SILENCE_MAX })? {
                Ok(Event::Incoming(packet)) => {
                    (*heard, *unanswered) = (Instant::now(), None);
                    match packet {
                        Packet::Publish(publish) => return Ok(publish.payload.to_vec()),
                        Packet::SubAck(ack) => subscribed(&ack)?,
                        _ => {}
                    }
                }
                Ok(Event::Outgoing(Outgoing::Publish(_))) => {
                    unanswered.get_or_insert_with(Instant::now);
                }
                Ok(Event::Outgoing(_)) => {}
                Err(error) => return Err(LinkError::Lost(Box::new(error))),
            }
        }
    }

    fn publisher(&self, peer: &Peer) -> Publisher {
        let line = match &self.events {
            Events::Direct { .. } => None,
            Events::Broker(way) => way.line(),
        };
        match line {
            Some(line) => Publisher::Broker(line),
            None => Publisher::Direct { client: self.client.clone(), up: peer.up.clone() },
        }
    }

    /// Publishes one packet; it goes out while [`Mqtt::payload`] is awaited.
    pub fn publish(&self, topic: &str, payload: Vec<u8>) -> bool {
        match &self.events {
            Events::Broker(way) if let Some(line) = way.line() => line.publish_at_once(&payload),
            Events::Broker(_) | Events::Direct { .. } => {
                self.client.try_publish(topic, QoS::AtLeastOnce, false, payload).is_ok()
            }
        }
    }
}

/// Waits until another controller than the one that does not answer is found to be active: where.
async fn look_around(others: &Peer, unanswered: Option<Instant>) -> Address {
    let Some(since) = unanswered.filter(|_| !others.addresses.is_empty()) else {
        return std::future::pending().await;
    };
    let mut pause = LOOK_AFTER;
    sleep_until(since + pause).await;
    loop {
        // Without the one that a standby names: that may be the very controller that is slow, under another name.
        if let Ok((_, address, _)) = greet_known(others).await {
            return address;
        }
        pause = (pause * 2).min(LOOK_MAX);
        sleep(pause).await;
    }
}

fn subscribed(ack: &SubAck) -> Result<(), LinkError> {
    match ack.return_codes.iter().all(|code| matches!(code, SubscribeReasonCode::Success(_))) {
        true => Ok(()),
        false => Err(LinkError::Refused("this node may not subscribe its own topic")),
    }
}

impl Peer {
    /// The same for the other addresses.
    fn without(&self, address: &Address) -> Self {
        let addresses = self.addresses.iter().filter(|other| *other != address).cloned().collect();
        Self { addresses, ..self.clone() }
    }

    /// A node of its site.
    pub fn node(identity: &Identity, tls: Arc<ClientConfig>) -> Self {
        Self {
            id: identity.node.to_string(),
            down: topic::down(&identity.site, &identity.node),
            up: topic::up(&identity.site, &identity.node),
            tls,
            addresses: identity.addresses.clone(),
            broker: identity.broker.as_ref().map(|access| ThroughBroker::node(access, &identity.site)),
        }
    }
}

#[cfg(test)]
mod tests;
