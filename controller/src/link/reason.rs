//! Why this side ends a connection, in MQTT's terms.

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
}

/// The most bytes of a reason. Its length must fit one byte, with room for the rest of the packet.
const WHY_MAX: usize = 100;

impl Refusal {
    pub fn new(reason: Reason, why: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, why: why.into() }
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
        let properties = 3 + why.len();
        output.put_u8(first);
        output.put_u8((flags.len() + 2 + properties) as u8);
        output.put_slice(flags);
        output.put_u8(self.reason as u8);
        output.put_u8(properties as u8);
        output.put_u8(0x1F); // reason string
        output.put_u16(why.len() as u16);
        output.put_slice(why.as_bytes());
    }
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
}
