//! Connects to the controllers of a site until one lets this node in. Decides which address is tried next, when another one
//! is tried beside it, and which failure is told.
//!
//! Absent: which broker is tried (`shared/broker/src/lib.rs`), and how a standby is asked for the active controller
//! (`referral.rs`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use muster_shared::join::Address;
use muster_shared::seal::TAKES_AGAIN;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{ConnAck, ConnectReturnCode, Packet};
use rumqttc::v5::{AsyncClient, Event, MqttOptions};
use rumqttc::{NetworkOptions, TlsConfiguration, Transport};
use tokio::net::lookup_host;
use tokio::time::{Instant, timeout};

use super::{Events, INFLIGHT_MAX, KEEP_ALIVE, LinkError, Mqtt, PACKET_MAX, Peer, REQUESTS_MAX};
use crate::clock::wrong_clock;
use crate::{broker, referral};

/// For TCP, TLS and MQTT's own greeting with one address.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// rumqttc pings each time this has passed, whatever else is sent, and announces it cut to 16 bits: so this is announced as
/// [`KEEP_ALIVE`], and pings are 18 hours apart.
const PING_EVERY: Duration = Duration::from_secs(KEEP_ALIVE.as_secs() + (1 << 16));
/// The next address has its turn when the one before has not answered for so long: longer than a controller takes that
/// has all its agents coming at once.
const NEXT_AFTER: Duration = Duration::from_secs(3);

/// Connects to the first address that works, and asks for the subscription.
///
/// # Errors
/// No address works. The error is that of the last one.
pub async fn greet(peer: &Peer) -> Result<(Mqtt, String), LinkError> {
    if let Some(through) = &peer.broker {
        let (client, way) = broker::greet(peer, through).await?;
        let address = way.address();
        return Ok((Mqtt { client, events: Events::Broker(way), takes_again: false }, address));
    }
    let (mqtt, _, remote) = greet_any(peer).await?;
    Ok((mqtt, remote))
}

/// Connects to the first controller that lets this node in: at which address, and which number that has. Where all that
/// answer stand by, the one that they name is tried: this node may have been away when it came.
async fn greet_any(peer: &Peer) -> Result<(Mqtt, Address, String), LinkError> {
    let number = match greet_known(peer).await {
        Err(LinkError::StandsBy(number)) => number,
        other => return other,
    };
    match timeout(CONNECT_WITHIN, referral::ask(peer, number)).await {
        Ok(Ok(Some(active))) if !peer.addresses.contains(&active) => greet_at(peer, &active).await,
        _ => Err(LinkError::StandsBy(number)),
    }
}

/// Connects to the first controller that lets this node in, of those that this node knows.
pub(super) async fn greet_known(peer: &Peer) -> Result<(Mqtt, Address, String), LinkError> {
    let mut last = LinkError::Closed;
    let mut waiting = peer.addresses.iter();
    let mut trying = FuturesUnordered::new();
    loop {
        let next = waiting.next();
        let is_last = next.is_none();
        trying.extend(next.map(|address| greet_at(peer, address)));
        let answer = match is_last {
            true => trying.next().await,
            // A controller that hangs does not keep the agent from its standby.
            false => timeout(NEXT_AFTER, trying.next()).await.unwrap_or(None),
        };
        match answer {
            Some(Ok(greeted)) => return Ok(greeted),
            // The active controller's answer counts more than a standby's, and that more than none.
            Some(Err(error)) if last.rank() <= error.rank() => last = error,
            Some(Err(_)) => {}
            None if is_last => return Err(last),
            None => {}
        }
    }
}

/// Tries every number of an address, one after the other.
async fn greet_at(peer: &Peer, address: &Address) -> Result<(Mqtt, Address, String), LinkError> {
    let mut last = LinkError::Closed;
    for number in resolve(address).await? {
        let unreachable =
            |why, expired, busy| LinkError::Unreachable { address: number.to_string(), why, expired, busy };
        let error = match timeout(CONNECT_WITHIN, greet_one(peer, address, number)).await {
            Ok(Ok(mqtt)) => return Ok((mqtt, address.clone(), number.ip().to_string())),
            Ok(Err(error)) if error.is_not_let_in() => LinkError::NotLetIn(number.to_string()),
            Ok(Err(error)) if error.is_elsewhere() => LinkError::StandsBy(number),
            Ok(Err(error)) => {
                let (expired, busy) = (error.is_expired(), error.is_busy());
                let why = match error {
                    LinkError::Lost(source) => wrong_clock(&*source).unwrap_or_else(|| source.to_string()),
                    error => error.to_string(),
                };
                unreachable(why, expired, busy)
            }
            Err(_) => unreachable("no answer".into(), false, false),
        };
        if last.rank() <= error.rank() {
            last = error;
        }
    }
    Err(last)
}

/// Every number of an address.
///
/// # Errors
/// [`LinkError::Unresolved`].
pub async fn resolve(address: &Address) -> Result<Vec<SocketAddr>, LinkError> {
    let unresolved = |why: String| LinkError::Unresolved { address: address.to_string(), why };
    let found = timeout(CONNECT_WITHIN, lookup_host((address.host(), address.port()))).await;
    match found {
        Ok(Ok(numbers)) => Ok(numbers.collect()),
        Ok(Err(error)) => Err(unresolved(error.to_string())),
        Err(_) => Err(unresolved("no answer".into())),
    }
}

async fn greet_one(peer: &Peer, address: &Address, number: SocketAddr) -> Result<Mqtt, LinkError> {
    let mut options = MqttOptions::new(&peer.id, number.ip().to_string(), number.port());
    options.set_transport(Transport::tls_with_config(TlsConfiguration::Rustls(Arc::clone(&peer.tls))));
    options.set_keep_alive(PING_EVERY);
    options.set_connection_timeout(CONNECT_WITHIN.as_secs());
    options.set_outgoing_inflight_upper_limit(INFLIGHT_MAX);
    options.set_max_packet_size(Some(PACKET_MAX));
    let mut network = NetworkOptions::new();
    network.set_tcp_nodelay(true);
    options.set_network_options(network);
    let (client, mut events) = AsyncClient::new(options, REQUESTS_MAX);
    loop {
        match events.poll().await.map_err(|error| LinkError::Lost(Box::new(error)))? {
            Event::Incoming(Packet::ConnAck(ack)) if ack.code == ConnectReturnCode::Success => {
                // TCP loses nothing, and the seal counts packets: an acknowledgement of each would only cost a write.
                if client.try_subscribe(&peer.down, QoS::AtMostOnce).is_err() {
                    return Err(LinkError::Closed);
                }
                let events = Events::Direct {
                    events: Box::new(events),
                    heard: Instant::now(),
                    unanswered: None,
                    others: peer.without(address),
                };
                return Ok(Mqtt { client, events, takes_again: takes_again(&ack) });
            }
            Event::Incoming(_) | Event::Outgoing(_) => {}
        }
    }
}

fn takes_again(ack: &ConnAck) -> bool {
    let said = ack.properties.iter().flat_map(|properties| &properties.user_properties);
    said.into_iter().any(|(key, value)| (key.as_str(), value.as_str()) == TAKES_AGAIN)
}
