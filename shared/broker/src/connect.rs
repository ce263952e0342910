//! Connecting to a broker: the first of several that works, and whether its limits are wide enough.

use std::time::Duration;

use muster_shared::join::{Address, Credentials};
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{
    ConnAckProperties, ConnectReturnCode, Filter, LastWill, Packet, SubscribeReasonCode,
};
use rumqttc::v5::{AsyncClient, Event, MqttOptions};
use rumqttc::{NetworkOptions, TlsConfiguration, Transport};
use tokio::time::timeout;

use crate::error::connecting;
use crate::{BrokerError, Client, Options, Receiver};

/// For TCP, TLS and MQTT's own greeting with one address.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Connects to the first broker that works, and subscribes.
///
/// # Errors
/// No broker works. The error is that of the last one.
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
        let event =
            events.poll().await.map_err(|error| connecting(&address, &client_id, user.as_deref(), error))?;
        match event {
            Event::Incoming(Packet::ConnAck(ack)) if ack.code == ConnectReturnCode::Success => {
                if let Some(properties) = &ack.properties {
                    is_enough(&address, properties, packet_max)?;
                }
                let filters = subscribe.iter().map(|filter| Filter::new(filter.clone(), QoS::AtLeastOnce));
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
