//! The faults of a broker, and the setting that corrects each.

use std::io::{self, ErrorKind};

use rumqttc::v5::mqttbytes::Error as Invalid;
use rumqttc::v5::mqttbytes::v5::{ConnectReturnCode, DisconnectReasonCode};
use rumqttc::v5::{ConnectionError, StateError};
use thiserror::Error;

use crate::{PACKET_MAX, is_expired};

/// The reason why there is no connection to a broker, or no use of it.
#[derive(Debug, Error)]
pub enum BrokerError {
    #[error("cannot reach the broker at {address}: {why}")]
    Unreachable { address: String, why: String },
    #[error(
        "cannot reach the broker at {address}: its certificate is not from the CA of link.ca_file, or is for another name \
         ({why}); the file that it sends its certificate from must hold that CA's certificate as well"
    )]
    Certificate { address: String, why: String },
    #[error("the broker at {address} does not take this side's certificate: it ran out")]
    Expired { address: String },
    #[error(
        "the broker at {address} does not know the CA of this side's certificate: give it the site's, pki/ca.crt of the \
         controller (Mosquitto: cafile)"
    )]
    Untrusted { address: String },
    #[error(
        "the broker at {address} does not let {client} in ({code}): give that client its user and permissions; \
         docs/brokers.md has them"
    )]
    NotLetIn {
        address: String,
        /// The client id, and the user if it has one.
        client: String,
        code: String,
    },
    #[error(
        "the broker at {address} takes packets of {max} bytes at most: let it take {wanted} (Mosquitto: max_packet_size \
         {wanted})"
    )]
    PacketSize { address: String, max: u32, wanted: u32 },
    #[error("the broker at {address} has no QoS 1: allow it (Mosquitto: max_qos 1 or 2)")]
    QoS { address: String },
    #[error("the broker at {address} has no subscriptions with wildcards: allow them")]
    Wildcards { address: String },
    #[error("the broker at {address} does not let this client read {topic} ({code}): allow it")]
    NotReadable { address: String, topic: String, code: String },
    #[error(
        "the broker at {address} does not take a message from this client ({code}): NotAuthorized means that the client may \
         not write to its topics; any other reason is a limit of the broker on sizes or numbers of messages (Mosquitto: \
         message_size_limit, max_queued_messages)"
    )]
    NotTaken { address: String, code: String },
    #[error("the broker at {address} has ended the connection: {why}")]
    Lost { address: String, why: String },
    #[error("the connection to the broker at {address} is closed")]
    Closed { address: String },
}

impl BrokerError {
    /// This side's certificate ran out.
    pub fn is_expired(&self) -> bool {
        matches!(self, BrokerError::Expired { .. })
    }
}

/// MQTT 5's reason code.
const PACKET_TOO_LARGE: u8 = 0x95;
/// While connecting.
pub(crate) fn connecting(
    address: &str,
    client_id: &str,
    user: Option<&str>,
    error: ConnectionError,
) -> BrokerError {
    let address = address.to_owned();
    if is_expired(&error) {
        return BrokerError::Expired { address };
    }
    if is_untrusted(&error) {
        return BrokerError::Untrusted { address };
    }
    let refused = |code: ConnectReturnCode| {
        let user = user.map(|user| format!(" with the user '{user}'")).unwrap_or_default();
        BrokerError::NotLetIn {
            address: address.clone(),
            client: format!("'{client_id}'{user}"),
            code: format!("{code:?}"),
        }
    };
    match error {
        ConnectionError::ConnectionRefused(code)
        | ConnectionError::MqttState(StateError::ConnFail { reason: code }) => refused(code),
        error => {
            let text = error.to_string();
            match &error {
                _ if text.contains("invalid peer certificate") => {
                    BrokerError::Certificate { address, why: text }
                }
                _ => BrokerError::Unreachable { address, why: text },
            }
        }
    }
}

/// Once connected.
pub(crate) fn lost(address: &str, error: ConnectionError) -> BrokerError {
    let address = address.to_owned();
    if is_expired(&error) {
        // TLS 1.3 tells a client so only after its handshake.
        return BrokerError::Expired { address };
    }
    if is_untrusted(&error) {
        return BrokerError::Untrusted { address };
    }
    let why = match error {
        // Mosquitto's answer to a message that is too large, which MQTT knows for a connection only.
        ConnectionError::MqttState(StateError::Deserialization(Invalid::InvalidConnectReturnCode(code)))
            if code == PACKET_TOO_LARGE =>
        {
            return BrokerError::NotTaken { address, code: "PacketTooLarge".into() };
        }
        error if is_closed(&error) => format!(
            "it gave no reason; if it does so again and again, its log has one, such as a limit on packets, which must be \
             {PACKET_MAX} bytes (docs/brokers.md)"
        ),
        ConnectionError::MqttState(StateError::ServerDisconnect { reason_code, reason_string }) => {
            let hint = match reason_code {
                DisconnectReasonCode::SessionTakenOver => ": another client has the same id",
                DisconnectReasonCode::PacketTooLarge => {
                    ": raise its limit on packets (Mosquitto: max_packet_size)"
                }
                DisconnectReasonCode::NotAuthorized => {
                    ": give this client its permissions, docs/brokers.md has them"
                }
                _ => "",
            };
            let said = reason_string.map(|said| format!(" ({said})")).unwrap_or_default();
            format!("{reason_code:?}{hint}{said}")
        }
        error => error.to_string(),
    };
    BrokerError::Lost { address, why }
}

/// The broker refused this side's certificate. As with [`is_expired`], the text is all that is left of TLS's alert.
fn is_untrusted(error: &ConnectionError) -> bool {
    let text = format!("{error:?}");
    ["UnknownCA", "BadCertificate", "CertificateUnknown"]
        .iter()
        .any(|alert| text.contains(&format!("AlertReceived({alert})")))
}

/// The broker closed the connection without a word of MQTT.
fn is_closed(error: &ConnectionError) -> bool {
    let is_end = |error: &io::Error| {
        matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
    };
    match error {
        ConnectionError::MqttState(StateError::ConnectionAborted) => true,
        ConnectionError::MqttState(
            StateError::Io(error) | StateError::Deserialization(Invalid::Io(error)),
        )
        | ConnectionError::Io(error) => is_end(error),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_ends_a_connection_is_understood() {
        let io = |kind: ErrorKind, text: &str| {
            ConnectionError::MqttState(StateError::Deserialization(Invalid::Io(io::Error::new(
                kind,
                text.to_owned(),
            ))))
        };
        let invalid = |code| StateError::Deserialization(Invalid::InvalidConnectReturnCode(code)).into();
        for (error, wanted) in [
            (io(ErrorKind::UnexpectedEof, "peer closed connection: https://docs.rs"), "gave no reason"),
            (StateError::ConnectionAborted.into(), "gave no reason"),
            (invalid(0x95), "does not take a message from this client (PacketTooLarge)"),
            (invalid(0x42), "Invalid return code"),
            (io(ErrorKind::InvalidData, "something else"), "has ended the connection: Mqtt state"),
        ] {
            let said = lost("mq:8883", error).to_string();
            assert!(said.starts_with("the broker at mq:8883 ") && said.contains(wanted), "{said}");
            assert!(!said.contains("https://"), "{said}");
        }
    }

    #[test]
    fn a_certificate_that_is_refused_is_understood() {
        let alert = |alert| {
            let error = rustls::Error::AlertReceived(alert);
            let error = io::Error::new(ErrorKind::InvalidData, error);
            ConnectionError::MqttState(StateError::Deserialization(Invalid::Io(error)))
        };
        let said = lost("mq:8883", alert(rustls::AlertDescription::UnknownCA)).to_string();
        assert!(said.contains("does not know the CA of this side's certificate"), "{said}");
        let said =
            connecting("mq:8883", "c", None, alert(rustls::AlertDescription::BadCertificate)).to_string();
        assert!(said.contains("does not know the CA of this side's certificate"), "{said}");
        assert!(lost("mq:8883", alert(rustls::AlertDescription::CertificateExpired)).is_expired());
    }
}
