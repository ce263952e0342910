//! The supported subset of MQTT 5, cut out of a stream of bytes.
//!
//! ```text
//!   CONNECT  PUBLISH (QoS 0, 1; no retain, no alias)  PUBACK  SUBSCRIBE  PINGREQ  DISCONNECT
//! ```
//!
//! rumqttc's codec reads the content of a packet. Framing, sizes, flags and the kinds of packets are
//! checked before: the codec takes a short packet for an incomplete one, and does not know `DISCONNECT`
//! without a body.

use bytes::{Bytes, BytesMut};
use rumqttc::v5::mqttbytes::v5::{ConnectProperties, LastWill, Packet, PublishProperties, Subscribe};
use rumqttc::v5::mqttbytes::{Error, QoS};

use crate::link::reason::{Reason, Refusal};

/// Packets other than PUBLISH: a client id, two topics and a few properties fit; 65,000 properties do not.
pub const CONTROL_MAX: usize = 4 * 1024;
/// Bytes of a PUBLISH around its payload: header, one topic of ours, packet id, properties.
pub const PUBLISH_OVERHEAD: usize = 1024;

/// A packet from a client.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    Connect(Connect),
    Publish { topic: Bytes, payload: Bytes, acknowledge: Option<u16> },
    PubAck { id: u16 },
    Subscribe { id: u16, filters: Vec<(String, QoS)> },
    PingReq,
    Disconnect,
}

/// The parts of a CONNECT that count.
#[derive(Debug, PartialEq, Eq)]
pub struct Connect {
    pub client_id: String,
    pub keep_alive: u16,
    /// Publishes of QoS 1 the client takes before it acknowledges the first.
    pub receive_maximum: u16,
    /// The largest packet the client takes.
    pub max_packet_size: u32,
    /// Whoever speaks with the client decides whether it may have one.
    pub will: Option<LastWill>,
}

/// Cuts the next packet off `input`; `None` if it is not complete. `max` bounds a PUBLISH.
pub fn next(input: &mut BytesMut, max: usize) -> Result<Option<Frame>, Refusal> {
    let Some(&first) = input.first() else { return Ok(None) };
    let (kind, flags) = (first >> 4, first & 0x0f);
    let bound = match (kind, flags) {
        (3, _) => max,
        (8, 0b0010) | (1 | 4 | 12 | 14, 0) => CONTROL_MAX,
        (1..=15, _) => return Err(refuse(Reason::ProtocolError, "a packet that is not spoken here")),
        _ => return Err(refuse(Reason::MalformedPacket, "no such packet")),
    };
    let Some((header, body)) = lengths(input)? else { return Ok(None) };
    if header + body > bound {
        return Err(refuse(Reason::PacketTooLarge, format!("packet of {} bytes", header + body)));
    }
    if input.len() < header + body {
        // The size is within bounds: one allocation for the rest.
        input.reserve(header + body - input.len());
        return Ok(None);
    }
    let mut packet = input.split_to(header + body);
    if kind == 14 {
        // The client leaves, whatever its reason.
        return Ok(Some(Frame::Disconnect));
    }
    accept(Packet::read(&mut packet, None).map_err(|error| malformed(&error))?).map(Some)
}

/// The sizes of header and body, once their bytes have arrived.
fn lengths(input: &[u8]) -> Result<Option<(usize, usize)>, Refusal> {
    let mut length = 0;
    for (i, byte) in input.iter().skip(1).take(4).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Ok(Some((2 + i, length)));
        }
    }
    if input.len() > 4 {
        return Err(refuse(Reason::MalformedPacket, "the length does not end"));
    }
    Ok(None)
}

fn accept(packet: Packet) -> Result<Frame, Refusal> {
    Ok(match packet {
        Packet::Connect(connect, will, login) => {
            if login.is_some() {
                return Err(refuse(Reason::NotAuthorized, "a client is known by its certificate alone"));
            }
            let properties = connect.properties.unwrap_or_else(ConnectProperties::new);
            if properties.authentication_method.is_some() || properties.authentication_data.is_some() {
                return Err(refuse(
                    Reason::BadAuthenticationMethod,
                    "a client is known by its certificate alone",
                ));
            }
            let receive_maximum = properties.receive_maximum.unwrap_or(u16::MAX);
            let max_packet_size = properties.max_packet_size.unwrap_or(u32::MAX);
            if receive_maximum == 0 || max_packet_size == 0 {
                return Err(refuse(Reason::ProtocolError, "a maximum of nothing"));
            }
            Frame::Connect(Connect {
                client_id: connect.client_id,
                keep_alive: connect.keep_alive,
                receive_maximum,
                max_packet_size,
                will,
            })
        }
        Packet::Publish(publish) => {
            if publish.retain {
                return Err(refuse(Reason::RetainNotSupported, "nothing is retained here"));
            }
            if publish.qos == QoS::ExactlyOnce {
                return Err(refuse(Reason::QosNotSupported, "QoS 2 is not spoken here"));
            }
            if let Some(PublishProperties { topic_alias: Some(_), .. }) = publish.properties {
                return Err(refuse(Reason::TopicAliasInvalid, "topic aliases are not kept here"));
            }
            Frame::Publish {
                acknowledge: (publish.qos == QoS::AtLeastOnce).then_some(publish.pkid),
                topic: publish.topic,
                payload: publish.payload,
            }
        }
        Packet::PubAck(ack) => Frame::PubAck { id: ack.pkid },
        Packet::Subscribe(subscribe) => subscription(subscribe)?,
        Packet::PingReq(_) => Frame::PingReq,
        _ => return Err(refuse(Reason::ProtocolError, "a packet that is not spoken here")),
    })
}

fn subscription(subscribe: Subscribe) -> Result<Frame, Refusal> {
    if subscribe.pkid == 0 {
        return Err(refuse(Reason::ProtocolError, "packet id 0"));
    }
    if subscribe.properties.is_some_and(|properties| properties.id.is_some()) {
        return Err(refuse(Reason::SubscriptionIdentifiersNotSupported, "no subscription identifiers here"));
    }
    for filter in &subscribe.filters {
        if filter.path.starts_with("$share/") {
            return Err(refuse(Reason::SharedSubscriptionsNotSupported, "no shared subscriptions here"));
        }
    }
    let filters = subscribe.filters.into_iter().map(|filter| (filter.path, filter.qos)).collect();
    Ok(Frame::Subscribe { id: subscribe.pkid, filters })
}

fn malformed(error: &Error) -> Refusal {
    match error {
        Error::InvalidProtocol | Error::InvalidProtocolLevel(_) => {
            refuse(Reason::UnsupportedProtocolVersion, "only MQTT 5 is spoken here")
        }
        other => refuse(Reason::MalformedPacket, format!("malformed packet: {other}")),
    }
}

fn refuse(reason: Reason, why: impl Into<std::borrow::Cow<'static, str>>) -> Refusal {
    Refusal::new(reason, why)
}

#[cfg(test)]
mod tests;
