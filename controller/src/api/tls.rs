//! The API over the network: TLS 1.3 with a certificate of the site's CA. Decides how many connections there are, in all
//! and from one address, and how long a handshake may take.
//!
//! Absent: who may ask (`caller.rs`), and the socket (`server.rs`).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::caller::Peer;
use super::server::{ACCEPT_PAUSE, HEAD_TIME, STOP_TIME};

/// The most connections at a time; further ones wait in the backlog.
const CONNECTIONS_MAX: usize = 512;
/// The most of them from one address: others have room whatever it does.
const ADDRESS_MAX: usize = 64;
/// The time for a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Connections by address.
#[derive(Clone, Default)]
struct Addresses(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

/// A connection of an address; it counts until this is dropped.
struct Place {
    addresses: Addresses,
    address: IpAddr,
}

impl Addresses {
    /// `None`: the address has as many as it may have.
    fn place(&self, address: IpAddr) -> Option<Place> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(address).or_default();
        if *count >= ADDRESS_MAX {
            return None;
        }
        *count += 1;
        Some(Place { addresses: self.clone(), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.addresses.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

/// Serves until it is stopped.
pub(super) async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    router: Router,
    mut stopped: watch::Receiver<()>,
) {
    let (places, addresses) = (Arc::new(Semaphore::new(CONNECTIONS_MAX)), Addresses::default());
    let graceful = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place.expect("the semaphore is never closed"), listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            _ended = stopped.changed() => break,
        };
        let (stream, address): (_, SocketAddr) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection to the API over the network");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let address = address.ip().to_canonical();
        let Some(of_address) = addresses.place(address) else {
            tracing::debug!(%address, "a connection to the API is refused: there are {ADDRESS_MAX} of its address");
            continue;
        };
        let (router, http, watcher, acceptor) =
            (router.clone(), http.clone(), graceful.watcher(), acceptor.clone());
        tokio::spawn(async move {
            let _places = (place, of_address);
            let stream = match timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return tracing::debug!(%address, %error, "no TLS with a client of the API"),
                Err(_elapsed) => return,
            };
            let service = TowerToHyperService::new(router.layer(Extension(Peer::Remote(address))));
            let connection = watcher.watch(http.serve_connection(TokioIo::new(stream), service));
            if let Err(error) = connection.await {
                tracing::debug!(%address, %error, "a connection to the API broke off");
            }
        });
    }
    drop(timeout(STOP_TIME, graceful.shutdown()).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_places_and_gets_them_back() {
        let addresses = Addresses::default();
        let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let mut places: Vec<Place> = (0..ADDRESS_MAX).map(|_| addresses.place(one).unwrap()).collect();
        assert!(addresses.place(one).is_none());
        assert!(addresses.place(other).is_some());
        places.pop();
        assert!(addresses.place(one).is_some());
        places.clear();
        assert!(addresses.0.lock().unwrap().is_empty(), "nothing is kept of who is gone");
    }
}
