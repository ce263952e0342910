//! A connection from its socket to its session and its end: handshake, identity, CONNECT, CONNACK. Decides whether a
//! node comes in: by its certificate, its key and the lease. Decides after what silence its connection ends
//! (`welcome`).
//!
//! Absent: which keys are valid (`link/admitted.rs`), and what follows from the end of a connection
//! (`controller/engine/src/node/away.rs`).

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use muster_shared::seal::{ControllerEnd, TAKES_AGAIN};
use muster_shared::wire::MESSAGE_MAX;
use muster_shared::{NodeId, join, topic};
use rumqttc::v5::mqttbytes::v5::{ConnAck, ConnAckProperties, ConnectReturnCode, Packet};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::server::TlsStream;

use super::Shared;
use super::frame::{Connect, Frame, PUBLISH_OVERHEAD};
use super::joining::JoinInbox;
use super::lobby::{Leave, Waiting};
use super::metered::{Incoming, Metered};
use super::session::{End, Session, Terms};
use super::stream::{Stream, Turn};
use super::tls::{Named, node_of, wrong_clock};
use crate::lease::since_boot;
use crate::link::away_after_silence;
use crate::link::inbox::NodeInbox;
use crate::link::outbound::Outbound;
use crate::link::reason::{Reason, Refusal};
use crate::link::registry::Peer;
use crate::pki::is_bound_to;

/// Publishes that our side takes unacknowledged. Each publish is delivered before the next is read,
/// so this only lets a client send on without waiting for the network.
const RECEIVE_MAXIMUM: u16 = 64;
/// The largest PUBLISH of a node.
const NODE_MAX: usize = MESSAGE_MAX + PUBLISH_OVERHEAD;
/// Room for two answers to a joiner; there is only one.
const JOIN_QUEUE: (usize, usize) = (2, 2 * join::JOIN_MAX);

/// The handshake's time limit while many wait: ten round trips across the world.
const HANDSHAKE_PRESSED: Duration = Duration::from_secs(2);

/// Serves one connection to its end.
pub async fn serve(shared: Arc<Shared>, socket: Metered, remote: IpAddr, waiting: Waiting, leave: Leave) {
    let come_in = come_in(&shared, socket, remote, waiting);
    let guest = tokio::select! {
        biased;
        guest = come_in => guest,
        Ok(()) = leave => return tracing::debug!(%remote, "others need its place"),
    };
    if let Some(guest) = guest {
        stay(&shared, guest, remote).await;
    }
}

/// A node that was let in.
struct Guest {
    connect: Connect,
    stream: Stream,
    connected: Connected,
    end: ControllerEnd,
}

/// Runs to the end of the connection, or until a node is admitted.
async fn come_in(shared: &Arc<Shared>, socket: Metered, remote: IpAddr, waiting: Waiting) -> Option<Guest> {
    let started = Instant::now();
    let incoming = Arc::clone(socket.incoming());
    let mut tls = match handshake(shared, socket, started, waiting.pressed).await {
        Some(Ok(tls)) => tls,
        Some(Err(error)) => {
            if let Some(why) = wrong_clock(&error)
                && let Some(missed) = shared.clocks.tell()
            {
                tracing::warn!(%remote, missed, "a server cannot connect: {why}");
            }
            tracing::debug!(%remote, %error, "no TLS");
            return None;
        }
        None => {
            tracing::debug!(%remote, "no TLS in time");
            return None;
        }
    };
    tls.get_mut().0.let_in();
    match tls.get_ref().1.peer_certificates().and_then(<[_]>::first).map(node_of) {
        Some(Some(named)) => node_comes(shared, tls, &incoming, remote, named).await,
        Some(None) => {
            let refusal = Refusal::new(Reason::NotAuthorized, "the certificate is not a node's, or ran out");
            refuse(shared, Stream::new(tls, 0), remote, None, &refusal).await;
            None
        }
        None => {
            serve_joiner(Arc::clone(shared), tls, remote, started).await;
            None
        }
    }
}

/// `None`: the client took too long. While many wait the client's own turns must be short; time that it waits
/// for us does not count.
async fn handshake(
    shared: &Shared,
    socket: Metered,
    started: Instant,
    pressed: bool,
) -> Option<io::Result<TlsStream<Metered>>> {
    let end = started + shared.limits.handshake;
    let incoming = Arc::clone(socket.incoming());
    let mut accepting = std::pin::pin!(shared.acceptor.accept(socket));
    let mut read = 0;
    loop {
        let until = if pressed { end.min(Instant::now() + HANDSHAKE_PRESSED) } else { end };
        if let Ok(ended) = timeout_at(until, accepting.as_mut()).await {
            return Some(ended);
        }
        let has_moved = incoming.read() > read || incoming.silence().is_none();
        if !has_moved || Instant::now() >= end {
            return None;
        }
        read = incoming.read();
    }
}

async fn node_comes(
    shared: &Arc<Shared>,
    tls: TlsStream<Metered>,
    incoming: &Incoming,
    remote: IpAddr,
    Named { node, serial }: Named,
) -> Option<Guest> {
    let mut stream = Stream::new(tls, NODE_MAX);
    match greet_node(shared, &mut stream, incoming, &node, &serial).await {
        Ok((connect, peer, end)) => {
            let connected = Connected { shared: Arc::clone(shared), peer, remote };
            shared.lobby.good(remote);
            Some(Guest { connect, stream, connected, end })
        }
        Err(End::Gone) => None,
        Err(End::Refused(refusal)) => {
            refuse(shared, stream, remote, Some(&node), &refusal).await;
            None
        }
    }
}

/// A node's session.
async fn stay(shared: &Arc<Shared>, guest: Guest, remote: IpAddr) {
    let Guest { connect, mut stream, connected, end } = guest;
    let peer = Arc::clone(&connected.peer);
    let node = &peer.node;
    tracing::debug!(%node, %remote, connection = peer.connection, "connected");
    let silence = welcome(shared, &mut stream, &connect, NODE_MAX);
    let terms = Terms {
        up: topic::up(shared.nodes.pki.site(), node),
        down: topic::down(shared.nodes.pki.site(), node),
        silence,
        drain: shared.limits.drain,
        until: None,
        receive_maximum: connect.receive_maximum,
    };
    let inbox = NodeInbox::new(Arc::clone(&shared.nodes), Arc::clone(&peer), Some(remote), end);
    // Boxed: a session is most of a connection's size, and the connection keeps room for it from
    // the start.
    let (end, stream) = Box::pin(Session::new(stream, Arc::clone(&peer.outbound), inbox, terms).run()).await;
    drop(connected);
    finish(shared, stream, remote, Some(node), end).await;
}

/// A connection that the driver knows. Dropping it, also by a panic, tells the driver of the end.
struct Connected {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    remote: IpAddr,
}

impl Drop for Connected {
    fn drop(&mut self) {
        let Self { shared, peer, remote } = self;
        shared.lobby.good(*remote);
        shared.nodes.registry.leave(peer);
        shared.nodes.heartbeats.forget(peer.connection);
        shared.nodes.feed.disconnected(&peer.node, peer.connection);
    }
}

/// Handles CONNECT of a node that may enter.
async fn greet_node(
    shared: &Shared,
    stream: &mut Stream,
    incoming: &Incoming,
    node: &NodeId,
    serial: &[u8],
) -> Result<(Connect, Arc<Peer>, ControllerEnd), End> {
    let connect = first_packet(stream, Instant::now() + shared.limits.connect).await?;
    if connect.client_id != node.as_str() {
        return Err(Refusal::new(
            Reason::ClientIdentifierNotValid,
            "the client id is not the certificate's node",
        )
        .into());
    }
    takes(&connect, NODE_MAX)?;
    incoming.waits_for_us();
    let tenure = &shared.nodes.common.tenure;
    shared.nodes.may_enter().await.inspect_err(|_| tenure.sends_away(node))?;
    let key = shared.nodes.common.admitted.admit(node)?;
    if !is_bound_to(serial, &key) {
        return Err(
            Refusal::new(Reason::NotAuthorized, "another server has joined under that name since").into()
        );
    }
    let outbound = Arc::new(Outbound::new(shared.limits.queue_packets, shared.limits.queue_bytes));
    let again = shared.nodes.common.admitted.take_again(node, &key, since_boot());
    let end = ControllerEnd::following(shared.nodes.seal(node, &key), again);
    let tell = |peer: &Peer| shared.nodes.feed.connected(&peer.node, peer.connection);
    let peer = shared.nodes.registry.enter(node.clone(), outbound, tell)?;
    Ok((connect, peer, end))
}

async fn serve_joiner(shared: Arc<Shared>, tls: TlsStream<Metered>, remote: IpAddr, started: Instant) {
    let (max, until) = (join::JOIN_MAX + PUBLISH_OVERHEAD, started + shared.limits.join);
    let mut stream = Stream::new(tls, max);
    // Held to the end of this function, which is near.
    let place = shared.joiners.take(remote);
    if place.is_none() {
        let refusal = Refusal::new(
            Reason::ConnectionRateExceeded,
            "one client without a certificate per address: try again",
        );
        return refuse(&shared, stream, remote, None, &refusal).await;
    }
    let greeted = async {
        let connect = first_packet(&mut stream, until.min(Instant::now() + shared.limits.connect)).await?;
        if !join::is_nonce(&connect.client_id) {
            return Err(End::Refused(Refusal::new(
                Reason::ClientIdentifierNotValid,
                "without a certificate: 8 to 32 letters and digits at random",
            )));
        }
        takes(&connect, max)?;
        shared.nodes.may_enter().await?;
        Ok(connect)
    };
    let connect = match greeted.await {
        Ok(connect) => connect,
        Err(End::Gone) => return,
        Err(End::Refused(refusal)) => return refuse(&shared, stream, remote, None, &refusal).await,
    };
    let silence = welcome(&shared, &mut stream, &connect, max);
    let terms = Terms {
        up: topic::join_request(shared.nodes.pki.site(), &connect.client_id),
        down: topic::join_answer(shared.nodes.pki.site(), &connect.client_id),
        silence,
        drain: shared.limits.join,
        until: Some(until),
        receive_maximum: connect.receive_maximum,
    };
    let outbound = Arc::new(Outbound::new(JOIN_QUEUE.0, JOIN_QUEUE.1));
    let inbox = JoinInbox { nodes: Arc::clone(&shared.nodes), outbound: Arc::clone(&outbound), asked: false };
    let (end, stream) = Box::pin(Session::new(stream, outbound, inbox, terms).run()).await;
    finish(&shared, stream, remote, None, end).await;
}

/// The first packet must be CONNECT, and soon.
async fn first_packet(stream: &mut Stream, until: Instant) -> Result<Connect, End> {
    let read = async {
        loop {
            match stream.next()? {
                Some(Frame::Connect(Connect { will: Some(_), .. })) => {
                    let why = "a will is not kept here";
                    return Err(Refusal::new(Reason::ImplementationSpecificError, why).into());
                }
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

/// Whether the client accepts all packets that may be sent to it.
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
            user_properties: vec![(TAKES_AGAIN.0.to_owned(), TAKES_AGAIN.1.to_owned())],
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
    away_after_silence::on_a_connection(ours.unwrap_or(wanted))
}

/// Refuses a client that was not let in.
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

/// Ends the connection of a client that was let in.
async fn finish(shared: &Shared, mut stream: Stream, remote: IpAddr, node: Option<&NodeId>, end: End) {
    match end {
        End::Gone => tracing::debug!(node = node.map(NodeId::as_str), %remote, "disconnected"),
        End::Refused(refusal) => {
            log(shared, remote, node, &refusal);
            refusal.disconnect(&mut stream.output);
            // The client no longer has a place as a connection, so it needs one of another kind.
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
    } else if let Some(missed) = shared.nodes.refusals.tell() {
        tracing::warn!(node, %remote, ?reason, %why, missed, "connection refused or ended");
    }
}
