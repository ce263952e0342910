//! A client of an MQTT 5 broker, as both the controller and its agents are one where a broker is in between.
//!
//! ```text
//!   TCP ─ TLS 1.3, the broker's name checked ─ CONNECT, clean ─ CONNACK: are its limits wide enough? ─ SUBSCRIBE ─ Client
//! ```
//!
//! MQTT carries messages and never keeps them: every session is clean and expires with its connection, and nothing is
//! retained. A broker that kept messages for an end that is away would deliver jobs of long ago; the greeting of the
//! next connection says everything that still counts.
//!
//! Absent: which of several brokers is tried (`connect.rs`), reconnecting (`agent/core/src/reconnect.rs`;
//! `controller/src/link/broker.rs`), and what is said (`shared/src/segment.rs`).

mod connect;
mod error;

use std::sync::Arc;
use std::time::Duration;

use muster_shared::join::Credentials;
use muster_shared::segment::SEGMENT_MAX;
use rumqttc::v5::mqttbytes::v5::{Packet, PubAckReason};
use rumqttc::v5::{AsyncClient, ConnectionError, Event, EventLoop};
use rustls::ClientConfig;

pub use connect::{connect, connect_first};
pub use error::BrokerError;
pub use muster_tls::{Root, Shown, Trust, client_config, look_config};

/// MQTT's own bytes around a segment: header, packet id, properties, and the longest topic.
const AROUND: usize = 1024;
/// The packets that a broker has to carry: a segment, and MQTT's own bytes around it.
pub const PACKET_MAX: u32 = (SEGMENT_MAX + AROUND) as u32;
/// rumqttc pings each time this has passed, whatever else is sent, and announces it cut to 16 bits: a client that
/// says something often enough by itself adds this to its keep alive.
pub const NO_PINGS: Duration = Duration::from_secs(1 << 16);

/// The client, and the use of its connection.
#[derive(Clone, Debug)]
pub struct Options {
    pub client_id: String,
    /// A user, where the broker does not take the name from the certificate.
    pub credentials: Option<Credentials>,
    pub tls: Arc<ClientConfig>,
    pub keep_alive: Duration,
    /// Topic and payload of what the broker says when this client is gone.
    pub will: Option<(String, Vec<u8>)>,
    /// The filters to subscribe to.
    pub subscribe: Vec<String>,
    /// The largest packet that this client sends or receives.
    pub packet_max: u32,
    /// Publishes on their way; rumqttc keeps a slot for each, and a broker may take fewer.
    pub inflight: u16,
    /// Publishes that wait for a slot.
    pub requests: usize,
}

/// A client that is connected and subscribed.
pub struct Client {
    pub sender: AsyncClient,
    pub receiver: Receiver,
}

/// The incoming packets of a [`Client`]. Publishes leave only while [`Receiver::next`] is awaited.
pub struct Receiver {
    events: EventLoop,
    address: String,
}

/// An event of a connection.
#[derive(Clone, Debug)]
pub enum Received {
    Message(Message),
    /// The broker took a message from here.
    Taken,
    /// Nothing that matters here.
    Other,
}

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    pub topic: String,
    pub payload: Vec<u8>,
}

impl Receiver {
    /// Waits for the next thing to happen.
    ///
    /// # Errors
    /// [`BrokerError`]: the connection is over, or a message from here was not taken.
    pub async fn next(&mut self) -> Result<Received, BrokerError> {
        let address = || self.address.clone();
        match self.events.poll().await {
            Ok(Event::Incoming(Packet::Publish(publish))) => {
                match String::from_utf8(publish.topic.to_vec()) {
                    Ok(topic) => Ok(Received::Message(Message { topic, payload: publish.payload.to_vec() })),
                    Err(_) => Ok(Received::Other),
                }
            }
            Ok(Event::Incoming(Packet::PubAck(ack))) => match ack.reason {
                // Without a subscriber, the other end is away, and greets when it comes.
                PubAckReason::Success | PubAckReason::NoMatchingSubscribers => Ok(Received::Taken),
                code => Err(BrokerError::NotTaken { address: address(), code: format!("{code:?}") }),
            },
            Ok(Event::Incoming(_) | Event::Outgoing(_)) => Ok(Received::Other),
            Err(error) => Err(error::lost(&self.address, error)),
        }
    }

    /// The broker.
    pub fn address(&self) -> &str {
        &self.address
    }
}

/// Whether TLS refused this side's certificate because it ran out.
pub(crate) fn is_expired(error: &ConnectionError) -> bool {
    // The alert comes as an I/O error from within TLS; its text is all that is left of it.
    format!("{error:?}").contains("CertificateExpired")
}
