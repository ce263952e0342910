//! Link 1: the controller is itself the MQTT 5 endpoint its agents connect to. Nothing is in between.
//!
//! ```text
//!   socket ─ place? ─ TLS 1.3 ─ certificate? ─ CONNECT ─ key? ─ Connected ─ session ─ Disconnected
//!               │                     └ none: one per address, join topics only, seconds only
//!               └ full: who is silent longest, of the address with most places, has to go
//! ```
//!
//! The link speaks a strict subset of MQTT 5 (see `frame`): other packets are refused with MQTT's own reason.
//! Each connection has one task; tasks share only short locked tables, never held while waiting. Every queue,
//! size and time has a bound in [`Limits`].
//!
//! `connection.rs` decides which node comes in, and `room.rs` which client has to leave for another.
//!
//! Absent: topics of others, retained messages, sessions, wills, delivery guarantees.

mod connection;
pub(super) mod frame;
mod joining;
mod lobby;
pub(super) mod metered;
mod room;
mod session;
pub(super) mod stream;
pub mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use muster_shared::wire;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use self::lobby::{Lobby, Places};
use self::metered::Metered;
use super::intake::Feed;
use super::limit_warnings::Quiet;
use super::nodes::{LoadPause, Nodes};
use super::{Common, LinkHandle};
use crate::pki::Pki;
use crate::random::random;

/// Connections that wait in the kernel to be accepted, as in a storm of reconnects. Linux cuts this
/// to `net.core.somaxconn`.
const BACKLOG: u32 = 4096;
/// The time after which a stopping link no longer waits for clients to read the reason.
const STOP: Duration = Duration::from_secs(2);
/// The most clients that receive a reason at a time. Further ones are disconnected without a reason.
const FAREWELLS: usize = 1024;
/// The pause after the system ran out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The address and settings of the link.
#[derive(Clone, Debug)]
pub struct DirectConfig {
    /// The address; port 0 takes any.
    pub listen: SocketAddr,
    /// Names and addresses for the server's certificate, in addition to this host's own.
    pub names: Vec<String>,
    pub limits: Limits,
    pub common: Common,
}

/// Bounds on what clients may take.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Nodes connected at a time.
    pub connections: usize,
    /// Connections at a time that are not let in yet; with more, others have to leave.
    pub handshakes: usize,
    /// The part of `handshakes` that is reserved for addresses from which a node came lately.
    pub handshakes_kept: usize,
    /// The most of them from one address. Many nodes may share one.
    pub handshakes_per_address: usize,
    /// The time limit of the TLS handshake.
    pub handshake: Duration,
    /// The time from the handshake to CONNECT.
    pub connect: Duration,
    /// The time limit of a whole connection without a certificate.
    pub join: Duration,
    /// The time limit of the driver's answers: shorter than `join`, so that one who joins hears that it was too short.
    pub answer: Duration,
    /// The time in which a client must read each piece of output (a piece is 320 KiB at most).
    pub drain: Duration,
    /// The longest keep alive, also for a client that wants more, or none.
    pub keep_alive: Duration,
    /// The most packets that wait for one client.
    pub queue_packets: usize,
    /// The most bytes that wait for one client.
    pub queue_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            handshakes: 4096,
            handshakes_kept: 1024,
            handshakes_per_address: 1024,
            handshake: Duration::from_secs(10),
            connect: Duration::from_secs(10),
            join: Duration::from_secs(10),
            answer: Duration::from_secs(7),
            // At least 43 kbit/s.
            drain: Duration::from_secs(60),
            keep_alive: Duration::from_secs(600),
            queue_packets: 4096,
            queue_bytes: 8 * 1024 * 1024,
        }
    }
}

impl Limits {
    fn lobby(&self) -> room::Bounds {
        room::Bounds {
            places: self.handshakes,
            kept: self.handshakes_kept.min(self.handshakes),
            per_address: self.handshakes_per_address,
        }
    }
}

/// The endpoint, listening.
#[derive(Debug)]
pub struct DirectLink {
    handle: LinkHandle,
    local_addr: SocketAddr,
}

/// State that all connections share.
struct Shared {
    nodes: Arc<Nodes>,
    limits: Limits,
    acceptor: TlsAcceptor,
    lobby: Arc<Lobby>,
    joiners: Arc<Places>,
    /// Permits for connections that are over and still receive the reason.
    farewells: Semaphore,
    /// Limits warnings about clocks that differ.
    clocks: Quiet,
}

impl DirectLink {
    /// Listens, and puts events into `feed`. A client is not read again before the driver has taken its
    /// last packet.
    ///
    /// # Errors
    /// The address cannot be listened on, or the server's certificate cannot be made.
    pub async fn start(config: DirectConfig, pki: Arc<Pki>, feed: Feed) -> io::Result<DirectLink> {
        let socket = if config.listen.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
        socket.set_reuseaddr(true)?;
        socket.bind(config.listen)?;
        let listener = socket.listen(BACKLOG)?;
        let local_addr = listener.local_addr()?;
        let seed = u64::from_ne_bytes(random().map_err(io::Error::other)?);
        let DirectConfig { names, limits, common, .. } = config;
        let nodes = Nodes::new(Arc::clone(&pki), feed, common, limits.connections, limits.answer);
        let shared = Arc::new(Shared {
            nodes: Arc::new(nodes),
            acceptor: tls::acceptor(pki, names)?,
            lobby: Lobby::new(limits.lobby(), seed),
            joiners: Places::new(1),
            farewells: Semaphore::new(FAREWELLS),
            clocks: Quiet::default(),
            limits,
        });
        let (stop, stopping) = watch::channel(false);
        let (done, stopped) = watch::channel(false);
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            accept(accepting, listener, stopping).await;
            done.send_replace(true);
        });
        let handle = LinkHandle::new(Arc::clone(&shared.nodes), stop, stopped);
        Ok(DirectLink { handle, local_addr })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// A handle for sending and closing.
    pub fn handle(&self) -> LinkHandle {
        self.handle.clone()
    }
}

/// Counts the packets in `bytes`. Public for the fuzz targets: everything a client sends passes here.
pub fn count_packets(bytes: &[u8]) -> usize {
    let mut input = BytesMut::from(bytes);
    std::iter::from_fn(|| frame::next(&mut input, wire::MESSAGE_MAX + frame::PUBLISH_OVERHEAD).ok().flatten())
        .count()
}

async fn accept(shared: Arc<Shared>, listener: TcpListener, mut stopping: watch::Receiver<bool>) {
    let mut tasks = JoinSet::new();
    let nodes = Arc::clone(&shared.nodes);
    let handing_on = tokio::spawn(async move { nodes.hand_heartbeats_on().await });
    let mut stop = std::pin::pin!(async move {
        // Dropping the last handle also means a stop.
        let _ = stopping.wait_for(|stop| *stop).await;
    });
    let mut pause = LoadPause::default();
    loop {
        // Reaps ended tasks first, or they pile up behind arrivals.
        while let Some(ended) = tasks.try_join_next() {
            note(ended);
        }
        let accepted = tokio::select! {
            accepted = async {
                pause.is_over(&shared.nodes.common).await;
                listener.accept().await
            } => accepted,
            Some(ended) = tasks.join_next() => {
                note(ended);
                continue;
            }
            () = stop.as_mut() => break,
        };
        let (socket, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(missed) = shared.nodes.refusals.tell() {
                    tracing::warn!(%error, missed, "cannot accept connections");
                }
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let remote = remote.ip();
        // Jobs are small and urgent; without this option they would wait for acknowledgements.
        if socket.set_nodelay(true).is_err() {
            continue; // it is over already
        }
        let socket = Metered::new(socket);
        let Some((waiting, leave)) = shared.lobby.arrive(remote, socket.incoming()).await else {
            if let Some(missed) = shared.nodes.refusals.tell() {
                tracing::warn!(%remote, missed, "too many connections wait to be let in");
            }
            continue;
        };
        tasks.spawn(connection::serve(Arc::clone(&shared), socket, remote, waiting, leave));
    }
    drop(listener);
    handing_on.abort();
    shared.nodes.registry.close();
    let all = async { while tasks.join_next().await.is_some() {} };
    // After this, clients that are not admitted or do not respond are cut off.
    let _ = timeout(STOP, all).await;
}

fn note(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection's task failed");
    }
}
