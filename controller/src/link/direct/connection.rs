//! From a new socket to a session, and after it: handshake, who is it, CONNECT, CONNACK.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use muster_shared::model::Up;
use muster_shared::wire::{self, MESSAGE_MAX};
use muster_shared::{NodeId, join, topic};
use rumqttc::v5::mqttbytes::v5::{ConnAck, ConnAckProperties, ConnectReturnCode, Packet};
use tokio::net::TcpStream;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::server::TlsStream;

use super::Shared;
use super::admission::Place;
use super::frame::{Connect, Frame, PUBLISH_OVERHEAD};
use super::joining::JoinInbox;
use super::outbound::Outbound;
use super::reason::{Reason, Refusal};
use super::registry::Peer;
use super::session::{End, Inbox, Pending, Session, Terms};
use super::stream::{Stream, Turn};
use super::tls::{Named, node_of};
use crate::link::LinkEvent;
use crate::pki::is_bound_to;

/// What our side takes unacknowledged. Each publish is delivered before the next is read, so this only lets a
/// client send on without waiting for the network.
const RECEIVE_MAXIMUM: u16 = 64;
/// Two answers of a joiner's fit; there is one.
const JOIN_QUEUE: (usize, usize) = (2, 2 * join::JOIN_MAX);

/// What a connection holds until it is let in.
pub type Waiting = (tokio::sync::OwnedSemaphorePermit, Place);

/// Serves one connection to its end.
pub async fn serve(shared: Arc<Shared>, socket: TcpStream, remote: IpAddr, waiting: Waiting) {
    let started = Instant::now();
    let tls = match timeout(shared.limits.handshake, shared.acceptor.accept(socket)).await {
        Ok(Ok(tls)) => tls,
        Ok(Err(error)) => return tracing::debug!(%remote, %error, "no TLS"),
        Err(_) => return tracing::debug!(%remote, "no TLS in time"),
    };
    match tls.get_ref().1.peer_certificates().and_then(<[_]>::first).map(node_of) {
        Some(Some(named)) => serve_node(shared, tls, remote, named, waiting).await,
        Some(None) => {
            let refusal = Refusal::new(Reason::NotAuthorized, "the certificate is not a node's, or ran out");
            refuse(&shared, Stream::new(tls, 0), remote, None, &refusal).await;
        }
        None => serve_joiner(shared, tls, remote, started, waiting).await,
    }
}

async fn serve_node(
    shared: Arc<Shared>,
    tls: TlsStream<TcpStream>,
    remote: IpAddr,
    Named { node, serial }: Named,
    waiting: Waiting,
) {
    let max = MESSAGE_MAX + PUBLISH_OVERHEAD;
    let mut stream = Stream::new(tls, max);
    let (connect, peer) = match greet_node(&shared, &mut stream, &node, &serial, max).await {
        Ok(greeted) => greeted,
        Err(End::Gone) => return,
        Err(End::Refused(refusal)) => return refuse(&shared, stream, remote, Some(&node), &refusal).await,
    };
    drop(waiting);
    let connection = peer.connection;
    // The driver hears of the connection before its first message, and of its end whatever comes between.
    let connected = shared.events.send(LinkEvent::Connected { node: node.clone(), connection }).await;
    let mut ended = None;
    if connected.is_ok() {
        tracing::debug!(%node, %remote, connection, "connected");
        let silence = welcome(&shared, &mut stream, &connect, max);
        let terms = Terms {
            up: topic::up(shared.pki.site(), &node),
            down: topic::down(shared.pki.site(), &node),
            silence,
            drain: shared.limits.drain,
            until: None,
            receive_maximum: connect.receive_maximum,
        };
        let inbox = NodeInbox { shared: Arc::clone(&shared), peer: Arc::clone(&peer) };
        // Boxed: a session is the largest part of a connection that is to be, and most of one that is.
        ended = Some(Box::pin(Session::new(stream, Arc::clone(&peer.outbound), inbox, terms).run()).await);
    }
    shared.registry.leave(&peer);
    shared.heartbeats.forget(connection);
    // Nobody is left to hear it when the controller stops.
    let _ = shared.events.send(LinkEvent::Disconnected { node: node.clone(), connection }).await;
    if let Some((end, stream)) = ended {
        finish(&shared, stream, remote, Some(&node), end).await;
    }
}

/// CONNECT of a node that may come in.
async fn greet_node(
    shared: &Shared,
    stream: &mut Stream,
    node: &NodeId,
    serial: &[u8],
    max: usize,
) -> Result<(Connect, Arc<Peer>), End> {
    let connect = first_packet(stream, Instant::now() + shared.limits.connect).await?;
    if connect.client_id != node.as_str() {
        return Err(Refusal::new(
            Reason::ClientIdentifierNotValid,
            "the client id is not the certificate's node",
        )
        .into());
    }
    takes(&connect, max)?;
    let key = shared
        .ask(|reply| LinkEvent::NodeKey { node: node.clone(), reply })
        .await
        .ok_or(Refusal::new(Reason::ServerUnavailable, "the controller is busy: try again"))?
        .ok_or(Refusal::new(Reason::NotAuthorized, "the node is unknown or revoked"))?;
    if !is_bound_to(serial, &key) {
        return Err(
            Refusal::new(Reason::NotAuthorized, "another server has joined under that name since").into()
        );
    }
    let outbound = Arc::new(Outbound::new(shared.limits.queue_packets, shared.limits.queue_bytes));
    let peer = shared.registry.enter(node.clone(), shared.pki.seal(node, &key), outbound)?;
    Ok((connect, peer))
}

async fn serve_joiner(
    shared: Arc<Shared>,
    tls: TlsStream<TcpStream>,
    remote: IpAddr,
    started: Instant,
    waiting: Waiting,
) {
    let (max, until) = (join::JOIN_MAX + PUBLISH_OVERHEAD, started + shared.limits.join);
    let mut stream = Stream::new(tls, max);
    // Both places are kept to the end, which is near.
    let (_waiting, place) = (waiting, shared.joiners.take(remote));
    if place.is_none() {
        let refusal = Refusal::new(
            Reason::ConnectionRateExceeded,
            "one client without a certificate per address: try again",
        );
        return refuse(&shared, stream, remote, None, &refusal).await;
    }
    let greeted = async {
        let connect = first_packet(&mut stream, until.min(Instant::now() + shared.limits.connect)).await?;
        let nonce = &connect.client_id;
        let fits = (8..=join::NONCE_MAX).contains(&nonce.len());
        if !fits || !nonce.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
            return Err(End::Refused(Refusal::new(
                Reason::ClientIdentifierNotValid,
                "without a certificate: 8 to 32 letters and digits at random",
            )));
        }
        takes(&connect, max)?;
        Ok(connect)
    };
    let connect = match greeted.await {
        Ok(connect) => connect,
        Err(End::Gone) => return,
        Err(End::Refused(refusal)) => return refuse(&shared, stream, remote, None, &refusal).await,
    };
    let silence = welcome(&shared, &mut stream, &connect, max);
    let terms = Terms {
        up: topic::join_request(shared.pki.site(), &connect.client_id),
        down: topic::join_answer(shared.pki.site(), &connect.client_id),
        silence,
        drain: shared.limits.join,
        until: Some(until),
        receive_maximum: connect.receive_maximum,
    };
    let outbound = Arc::new(Outbound::new(JOIN_QUEUE.0, JOIN_QUEUE.1));
    let inbox = JoinInbox { shared: Arc::clone(&shared), outbound: Arc::clone(&outbound), asked: false };
    let (end, stream) = Box::pin(Session::new(stream, outbound, inbox, terms).run()).await;
    finish(&shared, stream, remote, None, end).await;
}

/// The first packet must be CONNECT, and soon.
async fn first_packet(stream: &mut Stream, until: Instant) -> Result<Connect, End> {
    let read = async {
        loop {
            match stream.next()? {
                Some(Frame::Connect(connect)) => return Ok(connect),
                Some(_) => return Err(Refusal::new(Reason::ProtocolError, "CONNECT comes first").into()),
                None => {}
            }
            match stream.turn(true).await {
                Ok(Turn::Read | Turn::Written) => {}
                Ok(Turn::End) | Err(_) => return Err(End::Gone),
            }
        }
    };
    timeout_at(until, read).await.unwrap_or(Err(End::Gone))
}

/// Whether the client takes all that may be sent to it.
fn takes(connect: &Connect, max: usize) -> Result<(), Refusal> {
    if (connect.max_packet_size as usize) < max {
        return Err(Refusal::new(
            Reason::PacketTooLarge,
            format!("the client's maximum packet size must be {max} at least"),
        ));
    }
    Ok(())
}

/// Appends the CONNACK of success; returns how long the client may be silent.
fn welcome(shared: &Shared, stream: &mut Stream, connect: &Connect, max: usize) -> Duration {
    let most = shared.limits.keep_alive;
    let wanted = Duration::from_secs(connect.keep_alive.into());
    let ours = (wanted.is_zero() || wanted > most).then_some(most);
    stream.put(&Packet::ConnAck(ConnAck {
        session_present: false,
        code: ConnectReturnCode::Success,
        properties: Some(ConnAckProperties {
            session_expiry_interval: Some(0),
            receive_max: Some(RECEIVE_MAXIMUM),
            max_qos: Some(1),
            retain_available: Some(0),
            max_packet_size: u32::try_from(max).ok(),
            assigned_client_identifier: None,
            topic_alias_max: None,
            reason_string: None,
            user_properties: Vec::new(),
            wildcard_subscription_available: Some(0),
            subscription_identifiers_available: Some(0),
            shared_subscription_available: Some(0),
            server_keep_alive: ours.map(|most| u16::try_from(most.as_secs()).unwrap_or(u16::MAX)),
            response_information: None,
            server_reference: None,
            authentication_method: None,
            authentication_data: None,
        }),
    }));
    ours.unwrap_or(wanted) * 3 / 2
}

/// Refuses whom it has not let in.
async fn refuse(
    shared: &Shared,
    mut stream: Stream,
    remote: IpAddr,
    node: Option<&NodeId>,
    refusal: &Refusal,
) {
    log(shared, remote, node, refusal);
    refusal.connack(&mut stream.output);
    stream.farewell().await;
}

/// Sees off whom it had let in.
async fn finish(shared: &Shared, mut stream: Stream, remote: IpAddr, node: Option<&NodeId>, end: End) {
    match end {
        End::Gone => tracing::debug!(node = node.map(NodeId::as_str), %remote, "disconnected"),
        End::Refused(refusal) => {
            log(shared, remote, node, &refusal);
            refusal.disconnect(&mut stream.output);
            // It counts as no connection any more, so it needs a place of another kind.
            if let Ok(_place) = shared.farewells.try_acquire() {
                stream.farewell().await;
            }
        }
    }
}

fn log(shared: &Shared, remote: IpAddr, node: Option<&NodeId>, refusal: &Refusal) {
    let (node, why, reason) = (node.map(NodeId::as_str), &refusal.why, refusal.reason);
    if reason.is_ordinary() {
        tracing::info!(node, %remote, ?reason, %why, "connection ended");
    } else if let Some(missed) = shared.refusals.tell() {
        tracing::warn!(node, %remote, ?reason, %why, missed, "connection refused or ended");
    }
}

/// Opens what a node says and hands it to the driver.
struct NodeInbox {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
}

impl Inbox for NodeInbox {
    fn receive(&mut self, payload: Bytes) -> Result<Option<Pending>, Refusal> {
        let messages = wire::unpack::<Up>(&self.peer.seal, &payload)
            .map_err(|error| Refusal::new(Reason::PayloadFormatInvalid, error.to_string()))?;
        let Peer { node, connection, .. } = &*self.peer;
        let Some(messages) = self.shared.heartbeats.hold(node, *connection, messages) else {
            return Ok(None);
        };
        let event = LinkEvent::Received { node: node.clone(), connection: *connection, messages };
        let stopped = || Refusal::new(Reason::ServerShuttingDown, "the controller stops");
        match self.shared.events.try_send(event) {
            Ok(()) => Ok(None),
            Err(TrySendError::Closed(_)) => Err(stopped()),
            Err(TrySendError::Full(event)) => {
                let events = self.shared.events.clone();
                Ok(Some(Box::pin(async move { events.send(event).await.map_err(|_| stopped()) })))
            }
        }
    }
}
