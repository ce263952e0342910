//! Between one client and the router: permissions, and every bound on what the client takes of this process.
//!
//! Packets from the client are read by the direct endpoint's own code (`frame`), so no bytes from outside reach rumqttd's.
//! Acknowledgements of messages go through to the router and back, which so holds back for a slow client.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use muster_broker::PACKET_MAX;
use muster_shared::join::relayed::RELAYED_MAX;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{
    ConnAck, ConnAckProperties, ConnectReturnCode, LastWill, Packet as Out, PingResp, PubAck, PubAckReason,
};
use rumqttd::Notification;
use rumqttd::protocol::v5::V5;
use rumqttd::protocol::{
    Filter, Packet, Protocol as _, PubAck as RouterPubAck, PubAckReason as RouterPubAckReason, Publish,
    RetainForwardRule, Subscribe,
};
use tokio::time::{Instant, sleep_until};

use super::client::{Client, Write};
use super::router::{Router, RouterLink};
use crate::link::direct::frame::{Connect, Frame};
use crate::link::direct::stream::{Stream, Turn};
use crate::link::reason::{Reason, Refusal};

/// The largest PUBLISH.
pub(super) const PACKET_BYTES_MAX: usize = PACKET_MAX as usize;
/// Not yet written; beyond this nothing more is taken from the router, and nothing read that would be answered.
const OUTPUT_MAX: usize = 64 * 1024;
/// The time in which a client must read some of its output.
const DRAIN: Duration = Duration::from_secs(60);
/// The longest keep alive, also for a client that wants more, or none.
const KEEP_ALIVE_MAX: u16 = 600;
/// The messages that rumqttd sends before it waits for an acknowledgement.
const INFLIGHT: u16 = 100;
/// Filters of one SUBSCRIBE: no client has more than two.
const FILTERS_MAX: usize = 8;

/// A client's connection.
pub(super) struct Gate {
    client: Arc<Client>,
    link: RouterLink,
    will: Option<LastWill>,
    silence: Duration,
    welcome: Out,
    last_read: Instant,
    /// Bytes that were written, and since when it has been so many.
    written: (u64, Instant),
    /// The end of the connection in any case.
    until: Option<Instant>,
}

/// The reason why a connection is over.
enum End {
    /// The client said goodbye.
    Left,
    /// The client, its network or the router is gone.
    Gone,
    Refused(Refusal),
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> Self {
        End::Refused(refusal)
    }
}

impl Gate {
    /// For a client that asks like this; `until` is when a joiner's connection ends.
    pub(super) fn open(
        router: &Router,
        client: Client,
        connect: Connect,
        until: Instant,
    ) -> Result<Self, Refusal> {
        // A joiner's will, and all that it receives, are small.
        let max = if client.is_joiner() { RELAYED_MAX } else { PACKET_BYTES_MAX };
        if (connect.max_packet_size as usize) < max || connect.receive_maximum < INFLIGHT {
            let why =
                format!("the client must take packets of {max} bytes, and {INFLIGHT} of them at a time");
            return Err(Refusal::new(Reason::PacketTooLarge, why));
        }
        if let Some(will) = &connect.will {
            let topic = std::str::from_utf8(&will.topic).unwrap_or_default();
            if will.retain || !matches!(client.write(topic), Write::To(_)) {
                return Err(Refusal::new(Reason::NotAuthorized, "not this client's topic for a will"));
            }
        }
        let link = router.connect(&client.router_id()).map_err(|error| {
            tracing::error!(%error, "the embedded broker does not take a client");
            Refusal::new(Reason::ServerBusy, "the broker takes no more clients")
        })?;
        let asked = connect.keep_alive;
        let ours = (asked == 0 || asked > KEEP_ALIVE_MAX).then_some(KEEP_ALIVE_MAX);
        let now = Instant::now();
        Ok(Self {
            silence: Duration::from_secs(ours.unwrap_or(asked).into()) * 3 / 2,
            welcome: welcome(ours),
            until: client.is_joiner().then_some(until),
            client: Arc::new(client),
            link,
            will: connect.will,
            last_read: now,
            written: (0, now),
        })
    }

    /// Serves the client to the end of its connection.
    ///
    /// # Errors
    /// The code that the client is to be told.
    pub(super) async fn run(mut self, stream: &mut Stream, router: &Router) -> Result<(), Refusal> {
        stream.put(&self.welcome);
        let end = loop {
            if let Err(end) = self.turn(stream).await {
                break end;
            }
        };
        let will = self.will.take().filter(|_| !matches!(end, End::Left));
        if let Some(LastWill { topic, message, .. }) = will
            && let Write::To(topic) = self.client.write(&String::from_utf8_lossy(&topic))
        {
            router.say(topic, message);
        }
        match end {
            End::Left | End::Gone => Ok(()),
            End::Refused(refusal) => Err(refusal),
        }
    }

    async fn turn(&mut self, stream: &mut Stream) -> Result<(), End> {
        while stream.output.len() < OUTPUT_MAX
            && let Some(frame) = stream.next()?
        {
            self.take(stream, frame)?;
        }
        let (sent, now) = (stream.progress().0, Instant::now());
        if sent != self.written.0 || !stream.is_dirty() {
            self.written = (sent, now);
        }
        let (reading, deadline) = (stream.output.len() < OUTPUT_MAX, self.deadline(stream));
        tokio::select! {
            turn = stream.turn(reading) => match turn {
                Ok(Turn::Read) => self.last_read = Instant::now(),
                // This side did not read meanwhile, so the client's silence does not count.
                Ok(Turn::Written) if !reading => self.last_read = Instant::now(),
                Ok(Turn::Written) => {}
                Ok(Turn::End) | Err(_) => return Err(End::Gone),
            },
            // Fails when the client has connected again, and when the router has ended.
            notification = self.link.rx.next(), if reading => match notification {
                Ok(notification) => {
                    if let Some(notification) = notification {
                        self.put(stream, notification)?;
                    }
                }
                Err(_) => return Err(End::Gone),
            },
            () = sleep_until(deadline) => self.check_time(stream, Instant::now())?,
        }
        Ok(())
    }

    /// Takes a packet of the client.
    fn take(&mut self, stream: &mut Stream, frame: Frame) -> Result<(), End> {
        match frame {
            Frame::Publish { topic, payload, acknowledge } => {
                match self.client.write(std::str::from_utf8(&topic).unwrap_or_default()) {
                    Write::To(topic) => {
                        let publish = publish(&topic, &payload, acknowledge);
                        self.link.send(Packet::Publish(publish, None));
                    }
                    Write::Nobody => {
                        if let Some(id) = acknowledge {
                            let mut ack = PubAck::new(id, None);
                            ack.reason = PubAckReason::NoMatchingSubscribers;
                            stream.put(&Out::PubAck(ack));
                        }
                    }
                    Write::Refused => {
                        return Err(Refusal::new(Reason::NotAuthorized, "not your topic to publish").into());
                    }
                }
            }
            Frame::PubAck { id } => {
                let ack = RouterPubAck { pkid: id, reason: RouterPubAckReason::Success };
                self.link.send(Packet::PubAck(ack, None));
            }
            Frame::Subscribe { id, filters } => {
                let subscribe = self.subscription(id, &filters)?;
                self.link.send(Packet::Subscribe(subscribe, None));
            }
            Frame::PingReq => stream.put(&Out::PingResp(PingResp)),
            Frame::Disconnect => return Err(End::Left),
            Frame::Connect(_) => {
                return Err(Refusal::new(Reason::ProtocolError, "a second CONNECT").into());
            }
        }
        Ok(())
    }

    fn subscription(&self, id: u16, filters: &[(String, QoS)]) -> Result<Subscribe, Refusal> {
        if filters.len() > FILTERS_MAX {
            return Err(Refusal::new(Reason::QuotaExceeded, "too many filters"));
        }
        let mut wanted = Vec::new();
        for (filter, qos) in filters {
            let Some(path) = self.client.read(filter) else {
                return Err(Refusal::new(Reason::NotAuthorized, "not your topic to subscribe"));
            };
            let qos = match qos {
                QoS::AtMostOnce => rumqttd::protocol::QoS::AtMostOnce,
                QoS::AtLeastOnce | QoS::ExactlyOnce => rumqttd::protocol::QoS::AtLeastOnce,
            };
            wanted.push(Filter {
                path,
                qos,
                nolocal: false,
                preserve_retain: false,
                retain_forward_rule: RetainForwardRule::Never,
            });
        }
        Ok(Subscribe { pkid: id, filters: wanted })
    }

    /// Passes on what the router has for the client.
    fn put(&mut self, stream: &mut Stream, notification: Notification) -> Result<(), End> {
        let packet: Option<Packet> = notification.into();
        let mut packet = match packet {
            Some(packet) => packet,
            // It gave what it gives at a time, and waits to be asked for more.
            None => return self.link.rx.ready().map_err(|_| End::Gone),
        };
        if let Packet::Publish(publish, _) = &mut packet {
            publish.topic = Bytes::from(self.client.hear(&String::from_utf8_lossy(&publish.topic)));
        }
        if V5.write(packet, &mut stream.output).is_err() {
            return Err(
                Refusal::new(Reason::ImplementationSpecificError, "a packet that cannot be written").into()
            );
        }
        Ok(())
    }

    fn deadline(&self, stream: &Stream) -> Instant {
        let drained = stream.is_dirty().then(|| self.written.1 + DRAIN);
        let silent = self.last_read + self.silence;
        [drained, self.until].into_iter().flatten().fold(silent, Instant::min)
    }

    fn check_time(&self, stream: &Stream, now: Instant) -> Result<(), Refusal> {
        let (reason, why) = if self.until.is_some_and(|until| until <= now) {
            (Reason::MaximumConnectTime, "without a certificate the time is short")
        } else if stream.is_dirty() && self.written.1 + DRAIN <= now {
            (Reason::QuotaExceeded, "what was sent is not read")
        } else if stream.output.len() < OUTPUT_MAX && self.last_read + self.silence <= now {
            (Reason::KeepAliveTimeout, "nothing heard for one and a half keep alives")
        } else {
            return Ok(());
        };
        Err(Refusal::new(reason, why))
    }
}

fn welcome(keep_alive: Option<u16>) -> Out {
    Out::ConnAck(ConnAck {
        session_present: false,
        code: ConnectReturnCode::Success,
        properties: Some(ConnAckProperties {
            session_expiry_interval: Some(0),
            receive_max: None,
            max_qos: Some(1),
            retain_available: Some(0),
            max_packet_size: Some(PACKET_MAX),
            assigned_client_identifier: None,
            topic_alias_max: None,
            reason_string: None,
            user_properties: Vec::new(),
            // The controller has them; who else asks for one is refused.
            wildcard_subscription_available: Some(1),
            subscription_identifiers_available: Some(0),
            shared_subscription_available: Some(0),
            server_keep_alive: keep_alive,
            response_information: None,
            server_reference: None,
            authentication_method: None,
            authentication_data: None,
        }),
    })
}

/// rumqttd makes a PUBLISH of QoS 1 from its own bytes only: flags, packet id, length of the topic, topic, payload.
fn publish(topic: &str, payload: &Bytes, id: Option<u16>) -> Publish {
    let mut bytes = BytesMut::with_capacity(5 + topic.len() + payload.len());
    bytes.put_u8(u8::from(id.is_some()) << 1);
    bytes.put_u16(id.unwrap_or(0));
    bytes.put_u16(u16::try_from(topic.len()).expect("topics of ours are short"));
    bytes.put_slice(topic.as_bytes());
    bytes.put_slice(payload);
    Publish::deserialize(bytes.freeze())
}
