//! A broker in the controller's own process, for labs: agents and the controller itself ([`super::BrokerLink`]) are its
//! clients, as with any broker.
//!
//! ```text
//!   client ⇄ TCP ─ TLS 1.3, as of the direct endpoint ─ CONNECT ─ Gate ⇄ Router (rumqttd, a thread of its own)
//!                                      └ no certificate: join topics only, seconds only
//! ```
//!
//! rumqttd carries messages from topic to topic, and nothing else of it is used. Who a client is, which topics it has,
//! and every bound on packets, numbers and times is decided here: rumqttd has no permissions, keeps each topic and
//! client id for ever, and its own listener stands still for one client that says nothing
//! (`docs/decisions/0023-embedded-broker.md`).
//!
//! Absent: fairness between clients that are not let in yet. Somebody who opens connections all the time keeps others
//! out, so this is no link for a network that others are in.

mod client;
mod gate;
mod join_places;
mod router;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use muster_shared::join;
use rustls_pki_types::CertificateDer;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use self::client::Client;
use self::gate::Gate;
use self::join_places::JoinPlaces;
use self::router::Router;
use super::direct::frame::{Connect, Frame};
use super::direct::metered::Metered;
use super::direct::stream::{Stream, Turn};
use super::direct::tls;
use super::limit_warnings::Quiet;
use super::reason::{Reason, Refusal};
use crate::pki::Pki;

/// Nodes at a time. Each costs rumqttd about 0.1 MB, and up to 5 MiB of what was said to it last.
pub const NODES_MAX: usize = 1000;
/// Connections at a time, with those that are not let in yet and the controller's own.
const CONNECTIONS_MAX: usize = NODES_MAX + 256;
/// From the first byte to CONNECT; and the whole connection of a client without a certificate.
const COME_IN: Duration = Duration::from_secs(10);
/// The pause after the system ran out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The settings of the broker.
#[derive(Clone, Debug)]
pub struct EmbeddedConfig {
    /// The address; port 0 takes any.
    pub listen: SocketAddr,
    /// Names and addresses for its certificate, in addition to this host's own.
    pub names: Vec<String>,
}

/// The broker, listening for as long as the runtime lives.
#[derive(Debug)]
pub struct EmbeddedBroker {
    local_addr: SocketAddr,
}

/// State that all connections share.
struct Shared {
    pki: Arc<Pki>,
    acceptor: TlsAcceptor,
    router: Router,
    places: Arc<JoinPlaces>,
    /// Limits warnings about clients that are not let in.
    refusals: Quiet,
}

impl EmbeddedBroker {
    /// Starts the broker's listener.
    ///
    /// # Errors
    /// The address cannot be listened on, or the broker's certificate cannot be made.
    pub async fn start(config: EmbeddedConfig, pki: Arc<Pki>) -> io::Result<EmbeddedBroker> {
        let EmbeddedConfig { listen, mut names } = config;
        let listener = TcpListener::bind(listen).await?;
        let local_addr = listener.local_addr()?;
        // Clients compare the name by which they reach a broker.
        names.push(listen.ip().to_string());
        let router = Router::start(pki.site()).map_err(io::Error::other)?;
        let acceptor = tls::acceptor(Arc::clone(&pki), names)?;
        let shared = Shared { pki, acceptor, router, places: Arc::default(), refusals: Quiet::default() };
        tokio::spawn(accept(Arc::new(shared), listener));
        Ok(EmbeddedBroker { local_addr })
    }

    /// The address at which the broker listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The address at which the controller itself reaches it.
    pub fn own_addr(&self) -> SocketAddr {
        let ip = match self.local_addr.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        SocketAddr::new(ip, self.local_addr.port())
    }
}

async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let (socket, remote) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                shared.refused(None, &format!("cannot accept connections: {error}"));
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&connections).try_acquire_owned() else {
            shared.refused(Some(remote.ip()), "too many connections");
            continue;
        };
        // Jobs are small and urgent; without this option they would wait for acknowledgements.
        if socket.set_nodelay(true).is_err() {
            continue; // it is over already
        }
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            serve(&shared, Metered::new(socket), remote.ip()).await;
            drop(place);
        });
    }
}

/// Serves one connection to its end.
async fn serve(shared: &Shared, socket: Metered, remote: IpAddr) {
    let until = Instant::now() + COME_IN;
    let Ok(Ok(mut tls)) = timeout_at(until, shared.acceptor.accept(socket)).await else {
        return tracing::debug!(%remote, "no TLS");
    };
    tls.get_mut().0.let_in();
    let certificate = peer_certificate(&tls);
    let mut stream = Stream::new(tls, gate::PACKET_BYTES_MAX);
    let gate = match come_in(shared, &mut stream, certificate, until).await {
        Ok(Some((client, connect))) => Gate::open(&shared.router, client, connect, until),
        Ok(None) => return,
        Err(refusal) => Err(refusal),
    };
    match gate {
        Ok(gate) => {
            if let Err(refusal) = gate.run(&mut stream, &shared.router).await {
                shared.refused(Some(remote), &refusal.why);
                refusal.disconnect(&mut stream.output);
                stream.farewell().await;
            }
        }
        Err(refusal) => {
            shared.refused(Some(remote), &refusal.why);
            refusal.connack(&mut stream.output);
            stream.farewell().await;
        }
    }
}

fn peer_certificate(tls: &TlsStream<Metered>) -> Option<CertificateDer<'static>> {
    tls.get_ref().1.peer_certificates().and_then(<[_]>::first).map(|it| it.clone().into_owned())
}

/// Waits for CONNECT, and says who the client is; `None` if it left.
async fn come_in(
    shared: &Shared,
    stream: &mut Stream,
    certificate: Option<CertificateDer<'static>>,
    until: Instant,
) -> Result<Option<(Client, Connect)>, Refusal> {
    let first = async {
        loop {
            if let Some(frame) = stream.next()? {
                return Ok(Some(frame));
            }
            if !matches!(stream.turn(true).await, Ok(Turn::Read | Turn::Written)) {
                return Ok(None);
            }
        }
    };
    let connect = match timeout_at(until, first).await.unwrap_or(Ok(None))? {
        Some(Frame::Connect(connect)) => connect,
        Some(_) => return Err(Refusal::new(Reason::ProtocolError, "CONNECT comes first")),
        None => return Ok(None),
    };
    let (pki, id) = (&shared.pki, connect.client_id.as_str());
    let client = match certificate {
        None if join::is_nonce(id) => {
            let place = shared.places.take(id);
            let place = place.ok_or(Refusal::new(Reason::ServerBusy, "too many join at once: try again"))?;
            Client::joiner(pki.site(), id.to_owned(), place)
        }
        None => {
            let why = "without a certificate: 8 to 32 letters and digits at random";
            return Err(Refusal::new(Reason::ClientIdentifierNotValid, why));
        }
        Some(certificate) => match tls::node_of(&certificate) {
            Some(named) => Client::node(pki.site(), named.node),
            None if pki.is_client(&certificate) => {
                Client::controller(pki.site(), pki.client_name(), Arc::clone(&shared.places))
            }
            None => {
                let why = "the certificate is neither a node's nor the controller's, or ran out";
                return Err(Refusal::new(Reason::NotAuthorized, why));
            }
        },
    };
    if client.client_id() != id {
        let why = "the client id is not the certificate's name";
        return Err(Refusal::new(Reason::ClientIdentifierNotValid, why));
    }
    Ok(Some((client, connect)))
}

impl Shared {
    fn refused(&self, remote: Option<IpAddr>, why: &str) {
        if let Some(missed) = self.refusals.tell() {
            let remote = remote.map(|it| it.to_string());
            tracing::warn!(remote, why, missed, "the embedded broker: a connection is refused or ended");
        }
    }
}
