//! A client of an MQTT 5 broker, as both the controller and its agents are one where a broker is in between. Decides
//! which of several brokers is tried first and next (`connect_first`).
//!
//! ```text
//!   TCP ─ TLS 1.3, the broker's name checked ─ CONNECT, clean ─ CONNACK: are its limits wide enough? ─ SUBSCRIBE ─ Client
//! ```
//!
//! MQTT carries messages and never keeps them: every session is clean and expires with its connection, and nothing is
//! retained. A broker that kept messages for an end that is away would deliver jobs of long ago; the greeting of the
//! next connection says everything that still counts.
//!
//! Absent: reconnecting (`agent/core/src/reconnect.rs`; `controller/src/link/broker.rs`), and what is said
//! (`shared/src/segment.rs`).

mod error;

use std::sync::Arc;
use std::time::Duration;

use muster_shared::join::{Address, Credentials};
use muster_shared::segment::SEGMENT_MAX;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{
    ConnAckProperties, ConnectReturnCode, LastWill, Packet, PubAckReason, SubscribeReasonCode,
};
use rumqttc::v5::{AsyncClient, ConnectionError, Event, EventLoop, MqttOptions};
use rumqttc::{NetworkOptions, TlsConfiguration, Transport};
use rustls::ClientConfig;
use tokio::time::timeout;

pub use error::BrokerError;
pub use muster_tls::{Root, Shown, Trust, client_config, look_config};

/// For TCP, TLS and MQTT's own greeting with one address.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
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

/// Connects to the first broker that works, and subscribes.
///
/// # Errors
/// None works: why the last one does not.
pub async fn connect_first(addresses: &[Address], options: &Options) -> Result<Client, BrokerError> {
    let mut last = BrokerError::Unreachable { address: "any address".into(), why: "none is known".into() };
    for address in addresses {
        match connect(address, options.clone()).await {
            Ok(client) => return Ok(client),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Connects to a broker, and subscribes.
///
/// # Errors
/// [`BrokerError`]: what is wrong with the broker, and what to set.
pub async fn connect(address: &Address, options: Options) -> Result<Client, BrokerError> {
    let connecting = greet(address, options);
    let silent = || BrokerError::Unreachable { address: address.to_string(), why: "no answer".into() };
    timeout(CONNECT_WITHIN, connecting).await.unwrap_or_else(|_| Err(silent()))
}

async fn greet(broker: &Address, options: Options) -> Result<Client, BrokerError> {
    let address = broker.to_string();
    let Options { client_id, credentials, tls, keep_alive, will, subscribe, packet_max, inflight, requests } =
        options;
    let user = credentials.as_ref().map(|it| it.user.clone());
    // rumqttc resolves the name, and TLS compares it with the certificate.
    let mut mqtt = MqttOptions::new(&client_id, broker.host(), broker.port());
    mqtt.set_transport(Transport::tls_with_config(TlsConfiguration::Rustls(tls)));
    mqtt.set_keep_alive(keep_alive);
    mqtt.set_clean_start(true);
    mqtt.set_session_expiry_interval(Some(0));
    mqtt.set_max_packet_size(Some(packet_max));
    mqtt.set_connection_timeout(CONNECT_WITHIN.as_secs());
    mqtt.set_outgoing_inflight_upper_limit(inflight);
    if let Some(Credentials { user, password }) = credentials {
        mqtt.set_credentials(user, password);
    }
    if let Some((topic, payload)) = will {
        mqtt.set_last_will(LastWill::new(topic, payload, QoS::AtLeastOnce, false, None));
    }
    let mut network = NetworkOptions::new();
    network.set_tcp_nodelay(true);
    mqtt.set_network_options(network);
    let (sender, mut events) = AsyncClient::new(mqtt, requests);
    loop {
        let event = events
            .poll()
            .await
            .map_err(|error| error::connecting(&address, &client_id, user.as_deref(), error))?;
        match event {
            Event::Incoming(Packet::ConnAck(ack)) if ack.code == ConnectReturnCode::Success => {
                if let Some(properties) = &ack.properties {
                    is_enough(&address, properties, packet_max)?;
                }
                let filters = subscribe
                    .iter()
                    .map(|filter| rumqttc::v5::mqttbytes::v5::Filter::new(filter.clone(), QoS::AtLeastOnce));
                if sender.try_subscribe_many(filters).is_err() {
                    return Err(BrokerError::Closed { address });
                }
            }
            Event::Incoming(Packet::SubAck(ack)) => {
                for (filter, code) in subscribe.iter().zip(&ack.return_codes) {
                    match code {
                        SubscribeReasonCode::Success(QoS::AtLeastOnce | QoS::ExactlyOnce) => {}
                        SubscribeReasonCode::Success(QoS::AtMostOnce) => {
                            return Err(BrokerError::QoS { address });
                        }
                        other => {
                            let (topic, code) = (filter.clone(), format!("{other:?}"));
                            return Err(BrokerError::NotReadable { address, topic, code });
                        }
                    }
                }
                return Ok(Client { sender, receiver: Receiver { events, address } });
            }
            Event::Incoming(_) | Event::Outgoing(_) => {}
        }
    }
}

fn is_enough(address: &str, limits: &ConnAckProperties, packet_max: u32) -> Result<(), BrokerError> {
    let address = address.to_owned();
    match limits {
        ConnAckProperties { max_packet_size: Some(max), .. } if *max < packet_max => {
            Err(BrokerError::PacketSize { address, max: *max, wanted: packet_max })
        }
        ConnAckProperties { max_qos: Some(0), .. } => Err(BrokerError::QoS { address }),
        ConnAckProperties { wildcard_subscription_available: Some(0), .. } => {
            Err(BrokerError::Wildcards { address })
        }
        _ => Ok(()),
    }
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
                // Nobody is there who wants it: the other end is away, and greets when it comes.
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
