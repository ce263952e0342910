//! The controller behind a broker: one connection of segments (`muster_shared::segment`) over one MQTT connection.
//!
//! The session's id names this connection only. Its end comes from the controller (a reset, or the notice that it has
//! started again), from the count of packets, or from silence; and the broker tells the controller of our end with the
//! last will. All of it costs a new connection, where the machine says everything again.
//!
//! Absent: connecting to a broker and its limits (`shared/broker/src/lib.rs`), and the controller's end
//! (`controller/src/link/broker/talk.rs`). Sealing is the same as without a broker.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_broker::{BrokerError, NO_PINGS, Options, PACKET_MAX, Received, connect_first};
use muster_shared::join::{BrokerAccess, Credentials, relayed};
use muster_shared::segment::{
    ACK_DELAY, Arrival, ConnectionId, Content, OutOfStep, ResetReason, Segment, Window,
};
use muster_shared::{SiteId, topic};
use rumqttc::v5::AsyncClient;
use rumqttc::v5::mqttbytes::QoS;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::connection::{INFLIGHT_MAX, KEEP_ALIVE, LinkError, Peer, REQUESTS_MAX, SILENCE_MAX};
use crate::tls;

/// The largest packet of a joiner: its payload, and MQTT's own bytes around it.
const JOIN_PACKET_MAX: u32 = relayed::RELAYED_MAX as u32 + 1024;

/// The settings of a peer besides an address, where that is a broker's.
#[derive(Clone, Debug)]
pub struct ThroughBroker {
    pub credentials: Option<Credentials>,
    /// The topic on which the controller says that it has started. Only nodes listen to it; a joiner's messages are no
    /// segments.
    pub notices: Option<String>,
}

impl ThroughBroker {
    /// For a node of this site.
    pub fn node(access: &BrokerAccess, site: &SiteId) -> Self {
        Self { credentials: access.credentials.clone(), notices: Some(topic::notices(site)) }
    }

    /// For a client without a certificate.
    pub fn joiner(access: &BrokerAccess) -> Self {
        Self { credentials: access.credentials.clone(), notices: None }
    }
}

/// Connects to the first broker that works.
///
/// # Errors
/// No broker works. The error is that of the last one.
pub(crate) async fn greet(peer: &Peer, through: &ThroughBroker) -> Result<(AsyncClient, Way), LinkError> {
    let id = ConnectionId(tls::random()?);
    let will = Segment { connection: id, content: Content::Reset(ResetReason::Closed) };
    let is_node = through.notices.is_some();
    let options = Options {
        client_id: peer.id.clone(),
        credentials: through.credentials.clone(),
        tls: Arc::clone(&peer.tls),
        // A node says something each keep alive, and a joiner is gone by then.
        keep_alive: KEEP_ALIVE + NO_PINGS,
        will: is_node.then(|| (peer.up.clone(), will.encode())),
        subscribe: [Some(peer.down.clone()), through.notices.clone()].into_iter().flatten().collect(),
        packet_max: if is_node { PACKET_MAX } else { JOIN_PACKET_MAX },
        inflight: INFLIGHT_MAX,
        requests: REQUESTS_MAX,
    };
    let muster_broker::Client { sender, receiver } = connect_first(&peer.addresses, &options).await?;
    let Some(notices) = through.notices.clone() else {
        return Ok((sender, Way::Plain(Box::new(receiver))));
    };
    let line = Line(Arc::new(Ends {
        id,
        window: Mutex::default(),
        opened: Notify::new(),
        owing: Notify::new(),
        unheard: Mutex::new(Some(Vec::new())),
        again: Mutex::default(),
        up: peer.up.clone(),
        client: sender.clone(),
    }));
    let relay = Relay { receiver, line, down: peer.down.clone(), notices, heard: Instant::now() };
    Ok((sender, Way::Relayed(Box::new(relay))))
}

/// The way of a message from a broker.
pub(crate) enum Way {
    /// Payloads as they are.
    Plain(Box<muster_broker::Receiver>),
    /// Packets in segments.
    Relayed(Box<Relay>),
}

impl Way {
    /// The next payload or packet.
    pub(crate) async fn payload(&mut self) -> Result<Vec<u8>, LinkError> {
        match self {
            Way::Relayed(relay) => relay.packet().await,
            Way::Plain(receiver) => loop {
                if let Received::Message(message) = receiver.next().await? {
                    return Ok(message.payload);
                }
            },
        }
    }

    pub(crate) fn line(&self) -> Option<Line> {
        match self {
            Way::Plain(_) => None,
            Way::Relayed(relay) => Some(relay.line.clone()),
        }
    }

    /// The broker.
    pub(crate) fn address(&self) -> String {
        match self {
            Way::Plain(receiver) => receiver.address().to_owned(),
            Way::Relayed(relay) => relay.receiver.address().to_owned(),
        }
    }
}

/// The receiving end of a connection.
pub(crate) struct Relay {
    receiver: muster_broker::Receiver,
    line: Line,
    down: String,
    notices: String,
    /// When the controller was heard last; the broker itself does not count.
    heard: Instant,
}

impl Relay {
    /// The next packet of the controller, as long as each is the next.
    async fn packet(&mut self) -> Result<Vec<u8>, LinkError> {
        loop {
            // A read that this cuts off is not resumed: the connection is over.
            let received = timeout_at(self.heard + SILENCE_MAX, self.receiver.next()).await;
            let Received::Message(incoming) =
                received.map_err(|_| LinkError::Silent { after: SILENCE_MAX })??
            else {
                continue;
            };
            // A broker may say what it likes: what is not the controller's costs nothing.
            let Ok(segment) = Segment::decode(&incoming.payload) else { continue };
            let is_ours = segment.connection == self.line.0.id && incoming.topic == self.down;
            match segment.content {
                Content::Begin if incoming.topic == self.notices => {
                    if !self.line.says_again() {
                        return Err(LinkError::Reset(ResetReason::Unknown));
                    }
                }
                Content::Reset(ResetReason::NotAuthorized) if is_ours => {
                    return Err(LinkError::NotLetIn(format!("the broker {}", self.receiver.address())));
                }
                Content::Reset(reason) if is_ours => return Err(LinkError::Reset(reason)),
                Content::Ack { taken } if is_ours => {
                    self.heard = Instant::now();
                    self.line.acknowledged(taken)?;
                }
                Content::Data { number, taken, packet } if is_ours => {
                    self.heard = Instant::now();
                    self.line.acknowledged(taken)?;
                    if self.line.arrived(number)? == Arrival::Next {
                        return Ok(packet.to_vec());
                    }
                }
                Content::Begin | Content::Reset(_) | Content::Ack { .. } | Content::Data { .. } => {}
            }
        }
    }
}

/// The sending end of a connection; clones are the same one.
#[derive(Clone)]
pub(crate) struct Line(Arc<Ends>);

struct Ends {
    id: ConnectionId,
    window: Mutex<Window>,
    /// The window may be open.
    opened: Notify,
    /// The controller may wait for an acknowledgement, or for what it could not hear.
    owing: Notify,
    /// The packets that were sent while the controller was not heard yet: a window at most. They are sent again when
    /// the controller says
    /// that it has started, so that a greeting does not wait for the next connection.
    unheard: Mutex<Option<Vec<Vec<u8>>>>,
    again: Mutex<Vec<Vec<u8>>>,
    up: String,
    client: AsyncClient,
}

impl Line {
    /// Sends a packet once the controller has taken enough of those before it; false if the connection is over.
    pub(crate) async fn publish(&self, packet: &[u8]) -> bool {
        let segment = loop {
            {
                let mut window = self.window();
                if window.is_open() {
                    break window.data(self.0.id, packet).encode();
                }
            }
            self.0.opened.notified().await;
        };
        self.remember(&segment);
        self.put(segment).await
    }

    /// The same without waiting; false where there is no room.
    pub(crate) fn publish_at_once(&self, packet: &[u8]) -> bool {
        let segment = {
            let mut window = self.window();
            if !window.is_open() {
                return false;
            }
            window.data(self.0.id, packet).encode()
        };
        self.remember(&segment);
        self.0.client.try_publish(&self.0.up, QoS::AtLeastOnce, false, segment).is_ok()
    }

    fn remember(&self, segment: &[u8]) {
        if let Some(unheard) = &mut *self.unheard() {
            unheard.push(segment.to_vec());
        }
    }

    /// Acknowledges what came, for as long as the connection holds.
    pub(crate) async fn acknowledge(&self) -> Option<Infallible> {
        loop {
            self.0.owing.notified().await;
            let again = std::mem::take(&mut *self.again());
            for segment in again {
                if !self.put(segment).await {
                    return None;
                }
            }
            let due = Instant::now() + ACK_DELAY;
            while !self.window().owes_much() && timeout_at(due, self.0.owing.notified()).await.is_ok() {}
            let ack = {
                let mut window = self.window();
                (window.owes() > 0).then(|| window.ack(self.0.id).encode())
            };
            if let Some(ack) = ack
                && !self.put(ack).await
            {
                return None;
            }
        }
    }

    async fn put(&self, segment: Vec<u8>) -> bool {
        self.0.client.publish(&self.0.up, QoS::AtLeastOnce, false, segment).await.is_ok()
    }

    /// Sends all of this connection once more, if the controller was never heard on it.
    fn says_again(&self) -> bool {
        let Some(unheard) = self.unheard().clone() else { return false };
        *self.again() = unheard;
        self.0.owing.notify_one();
        true
    }

    fn again(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.again.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unheard(&self) -> MutexGuard<'_, Option<Vec<Vec<u8>>>> {
        self.0.unheard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn acknowledged(&self, taken: u64) -> Result<(), OutOfStep> {
        *self.unheard() = None;
        self.window().acknowledge(taken)?;
        self.0.opened.notify_one();
        Ok(())
    }

    fn arrived(&self, number: u64) -> Result<Arrival, OutOfStep> {
        let mut window = self.window();
        let arrival = window.arrived(number)?;
        if arrival == Arrival::Next {
            // The machine's inbox holds the next one back.
            window.take();
        }
        drop(window);
        self.0.owing.notify_one();
        Ok(arrival)
    }

    /// Every change of a window is complete at each point that can panic.
    fn window(&self) -> MutexGuard<'_, Window> {
        self.0.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<OutOfStep> for LinkError {
    fn from(error: OutOfStep) -> Self {
        LinkError::Reset(error.reset())
    }
}

impl From<BrokerError> for LinkError {
    fn from(error: BrokerError) -> Self {
        LinkError::Broker(Box::new(error))
    }
}
