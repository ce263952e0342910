//! The reasons for which this side ends a connection, in MQTT's terms, and which of them are ordinary: those are logged
//! without a warning.

use std::borrow::Cow;

use bytes::{BufMut as _, BytesMut};

/// The reason codes of MQTT 5 that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    MalformedPacket = 0x81,
    ProtocolError = 0x82,
    ImplementationSpecificError = 0x83,
    UnsupportedProtocolVersion = 0x84,
    ClientIdentifierNotValid = 0x85,
    NotAuthorized = 0x87,
    ServerUnavailable = 0x88,
    ServerBusy = 0x89,
    ServerShuttingDown = 0x8B,
    BadAuthenticationMethod = 0x8C,
    KeepAliveTimeout = 0x8D,
    SessionTakenOver = 0x8E,
    TopicAliasInvalid = 0x94,
    PacketTooLarge = 0x95,
    QuotaExceeded = 0x97,
    AdministrativeAction = 0x98,
    PayloadFormatInvalid = 0x99,
    RetainNotSupported = 0x9A,
    QosNotSupported = 0x9B,
    UseAnotherServer = 0x9C,
    SharedSubscriptionsNotSupported = 0x9E,
    ConnectionRateExceeded = 0x9F,
    MaximumConnectTime = 0xA0,
    SubscriptionIdentifiersNotSupported = 0xA1,
    WildcardSubscriptionsNotSupported = 0xA2,
}

impl Reason {
    /// Networks and operators bring these about; the others, something that is wrong.
    pub fn is_ordinary(self) -> bool {
        matches!(
            self,
            Reason::SessionTakenOver
                | Reason::KeepAliveTimeout
                | Reason::ServerShuttingDown
                | Reason::ServerUnavailable
                | Reason::UseAnotherServer
                | Reason::AdministrativeAction
        )
    }
}

/// The reason why a connection is ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reason: Reason,
    /// A text for readers of the client's log or ours.
    pub why: Cow<'static, str>,
    /// Another server that the client should use, `host:port`.
    pub server: Option<String>,
}

/// The most bytes of a reason.
const WHY_MAX: usize = 100;
/// The most bytes of a server's address: a host name and a port.
const SERVER_MAX: usize = 253 + 6;

impl Refusal {
    pub fn new(reason: Reason, why: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, why: why.into(), server: None }
    }

    /// The client is to use this server.
    pub fn elsewhere(why: impl Into<Cow<'static, str>>, server: Option<String>) -> Self {
        let server = server.filter(|server| server.len() <= SERVER_MAX);
        Self { reason: Reason::UseAnotherServer, why: why.into(), server }
    }

    pub fn disconnect(&self, output: &mut BytesMut) {
        self.write(output, 0xE0, &[]);
    }

    pub fn connack(&self, output: &mut BytesMut) {
        self.write(output, 0x20, &[0]);
    }

    /// Written here, for rumqttc has two enums of reasons and each lacks some.
    fn write(&self, output: &mut BytesMut, first: u8, flags: &[u8]) {
        let why = &self.why[..self.why.floor_char_boundary(WHY_MAX)];
        let mut properties = BytesMut::new();
        put_text(&mut properties, 0x1F, why); // reason string
        if let Some(server) = &self.server {
            put_text(&mut properties, 0x1C, server); // server reference
        }
        output.put_u8(first);
        put_length(output, flags.len() + 1 + length_of(properties.len()) + properties.len());
        output.put_slice(flags);
        output.put_u8(self.reason as u8);
        put_length(output, properties.len());
        output.put_slice(&properties);
    }
}

fn put_text(output: &mut BytesMut, property: u8, text: &str) {
    output.put_u8(property);
    output.put_u16(text.len() as u16);
    output.put_slice(text.as_bytes());
}

/// MQTT's variable byte integer, up to two bytes: nothing here is longer than 16 KiB.
fn put_length(output: &mut BytesMut, length: usize) {
    if length < 0x80 {
        output.put_u8(length as u8);
    } else {
        output.put_u8((length % 0x80) as u8 | 0x80);
        output.put_u8((length / 0x80) as u8);
    }
}

fn length_of(length: usize) -> usize {
    if length < 0x80 { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rumqttc::v5::mqttbytes::v5::Packet;

    #[test]
    fn others_can_read_it() {
        for why in ["", "why", &"ä".repeat(200)] {
            let refusal = Refusal::new(Reason::NotAuthorized, why.to_owned());
            let mut output = BytesMut::new();
            refusal.disconnect(&mut output);
            refusal.connack(&mut output);
            let Packet::Disconnect(disconnect) = Packet::read(&mut output, None).unwrap() else { panic!() };
            assert_eq!(disconnect.reason_code as u8, 0x87);
            let said = disconnect.properties.unwrap().reason_string.unwrap();
            assert!(why.starts_with(&said) && said.len() <= WHY_MAX);
            let Packet::ConnAck(connack) = Packet::read(&mut output, None).unwrap() else { panic!() };
            assert!(!connack.session_present);
            assert_eq!(connack.code, rumqttc::v5::mqttbytes::v5::ConnectReturnCode::NotAuthorized);
            assert!(output.is_empty());
        }
    }

    #[test]
    fn a_client_learns_which_server_to_use() {
        for server in ["c2.example.org:8883".to_owned(), format!("{}:65535", "a".repeat(253))] {
            let refusal = Refusal::elsewhere("this controller stands by for c2", Some(server.clone()));
            let mut output = BytesMut::new();
            refusal.connack(&mut output);
            refusal.disconnect(&mut output);
            let Packet::ConnAck(connack) = Packet::read(&mut output, None).unwrap() else { panic!() };
            assert_eq!(connack.code, rumqttc::v5::mqttbytes::v5::ConnectReturnCode::UseAnotherServer);
            assert_eq!(connack.properties.unwrap().server_reference.as_ref(), Some(&server));
            let Packet::Disconnect(disconnect) = Packet::read(&mut output, None).unwrap() else { panic!() };
            assert_eq!(disconnect.properties.unwrap().server_reference, Some(server));
            assert!(output.is_empty());
        }
        assert_eq!(Refusal::elsewhere("", Some("a".repeat(1000))).server, None);
    }
}
