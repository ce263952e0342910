//! The API over the network: TLS 1.3 with a certificate of the site's CA, or one of its own. Decides how many connections
//! one network has, how long a handshake may take, and how long a client may read nothing.
//!
//! Absent: that certificate (`own_certificate.rs`, `link/direct/tls.rs`), who may ask (`authorization.rs`), the bounds of all
//! connections (`accept.rs`), and the socket (`server.rs`).

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ResolvesServerCert, WebPkiClientVerifier};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::accept::Listener;
use super::authorization::Peer;
use super::client_certificate::ClientCertificate;
use super::door::Door;

/// The most connections of one network: others have room whatever it does.
const NETWORK_MAX: usize = 64;
/// The bits of an IPv6 address that name a network: a client chooses the others.
const NETWORK_BITS: u32 = 64;
/// The time for a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// The time in which a client must take some of an answer.
pub(super) const WRITE_TIME: Duration = Duration::from_secs(30);
/// Between two tries to listen at an address that another program has, or that is not this machine's yet.
const BIND_PAUSE: Duration = Duration::from_secs(10);

/// The server's side of TLS, with this certificate. Clients are asked for one if there is a verifier for it.
///
/// # Errors
/// TLS cannot be set up.
pub fn acceptor(
    certificate: Arc<dyn ResolvesServerCert>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
) -> io::Result<TlsAcceptor> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_client_cert_verifier(clients.unwrap_or_else(WebPkiClientVerifier::no_client_auth))
        .with_cert_resolver(certificate);
    config.ticketer = Ticketer::new().map_err(io::Error::other)?;
    config.send_tls13_tickets = 1;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Listens, as soon as the address can be had: it may be another machine's until a standby has taken over.
pub(super) async fn bind(door: Door, address: SocketAddr) -> TcpListener {
    let mut is_said = false;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => {
                tracing::info!(%address, setting = door.setting(), "{} is there", door.what());
                return listener;
            }
            Err(error) if !is_said => {
                is_said = true;
                tracing::error!(
                    %address, %error,
                    "cannot listen for {}, and tries again: {} must be an address of this machine that no other program has",
                    door.what(),
                    door.setting()
                );
            }
            Err(_) => {}
        }
        sleep(BIND_PAUSE).await;
    }
}

/// The listener for clients of the network.
pub(super) struct Remote {
    pub listener: TcpListener,
    pub acceptor: TlsAcceptor,
    networks: Networks,
}

impl Remote {
    pub fn new(listener: TcpListener, acceptor: TlsAcceptor) -> Self {
        Self { listener, acceptor, networks: Networks::default() }
    }
}

impl Listener for Remote {
    type Raw = (TcpStream, SocketAddr);
    type Stream = Counted;

    async fn accept(&self) -> io::Result<Self::Raw> {
        self.listener.accept().await
    }

    async fn prepare(&self, (stream, address): Self::Raw) -> Option<(Counted, Peer)> {
        let address = address.ip().to_canonical();
        let Some(place) = self.networks.place(address) else {
            tracing::debug!(%address, "a connection to the API is refused: its network has {NETWORK_MAX}");
            return None;
        };
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(WRITE_TIME));
        match timeout(HANDSHAKE_TIME, self.acceptor.accept(Box::pin(stream))).await {
            Ok(Ok(stream)) => {
                let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                let certificate = shown.and_then(ClientCertificate::of).map(Arc::new);
                Some((Counted { stream, _place: place }, Peer::Remote(address, certificate)))
            }
            Ok(Err(error)) => {
                tracing::debug!(%address, %error, "no TLS with a client of the API");
                None
            }
            Err(_elapsed) => None,
        }
    }
}

/// A connection that counts for its network.
pub(super) struct Counted {
    stream: TlsStream<Pin<Box<TimeoutStream<TcpStream>>>>,
    _place: Place,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The network of an address: a client of IPv6 chooses the rest of its own.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> NETWORK_BITS << NETWORK_BITS))
        }
    }
}

/// Connections by network.
#[derive(Clone, Default)]
struct Networks(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

/// A connection of a network; it counts until this is dropped.
struct Place {
    networks: Networks,
    network: IpAddr,
}

impl Networks {
    /// `None`: the network has as many as it may have.
    fn place(&self, address: IpAddr) -> Option<Place> {
        let network = network(address);
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(network).or_default();
        if *count >= NETWORK_MAX {
            return None;
        }
        *count += 1;
        Some(Place { networks: self.clone(), network })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.networks.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rustls::server::ResolvesServerCertUsingSni;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_has_its_time_for_a_handshake() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let remote =
            Remote::new(listener, acceptor(Arc::new(ResolvesServerCertUsingSni::new()), None).unwrap());
        let begun = Instant::now();
        assert!(remote.prepare(accepted.unwrap()).await.is_none());
        assert_eq!(begun.elapsed().as_secs(), HANDSHAKE_TIME.as_secs());
        assert!(remote.networks.0.lock().unwrap().is_empty(), "its place is free");
    }

    #[test]
    fn a_network_has_so_many_places_and_gets_them_back() {
        let networks = Networks::default();
        let address = |text: &str| -> IpAddr { text.parse().unwrap() };
        for (one, same, other) in [
            ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
            ("2001:db8:0:1::1", "2001:db8:0:1:ffff::9", "2001:db8:0:2::1"),
        ] {
            let place = |text| networks.place(address(text));
            let mut places: Vec<Place> = (0..NETWORK_MAX).map(|_| place(one).unwrap()).collect();
            assert!(place(same).is_none(), "{same}");
            assert!(place(other).is_some(), "{other}");
            places.pop();
            assert!(place(same).is_some());
        }
        assert!(networks.0.lock().unwrap().is_empty(), "nothing is kept of who is gone");
    }
}
