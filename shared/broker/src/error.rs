//! What is wrong with a broker, and what to set.

use rumqttc::v5::mqttbytes::v5::{ConnectReturnCode, DisconnectReasonCode};
use rumqttc::v5::{ConnectionError, StateError};
use thiserror::Error;

use crate::is_expired;

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
         not write to its topics; any other reason is a limit of the broker on sizes or numbers of messages"
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
    let why = match error {
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
