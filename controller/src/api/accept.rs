//! Takes connections of a listener and serves HTTP on them, the same for the socket and for TLS. Decides how many there are
//! at a time, and how long a client may take for a request's head.
//!
//! Absent: who is at the other end (`authorization.rs`), and the bounds of a body (`source.rs`).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::authorization::Peer;

/// The most connections of a listener at a time: every operator and watch has one; further ones wait in its backlog.
const CONNECTIONS_MAX: usize = 512;
/// The time limit for a request's head, and for an idle connection.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// The time for requests under way when the controller stops.
pub(super) const STOP_TIME: Duration = Duration::from_secs(1);
/// The pause after the system refused a connection, mostly for want of open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener to which clients connect.
pub(super) trait Listener: Send + Sync + 'static {
    /// A connection as the system gives it.
    type Raw: Send + 'static;
    /// The stream on which HTTP is spoken.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<Self::Raw>> + Send;

    /// Makes the stream, beside other connections. `None`: the client is not served.
    fn prepare(&self, raw: Self::Raw) -> impl Future<Output = Option<(Self::Stream, Peer)>> + Send;
}

/// Serves until it is stopped.
pub(super) async fn accept(listener: impl Listener, router: Router, mut stopped: watch::Receiver<()>) {
    let (listener, places) = (Arc::new(listener), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
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
        let raw = match accepted {
            Ok(raw) => raw,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection to the API");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (listener, router, http, watcher) =
            (Arc::clone(&listener), router.clone(), http.clone(), graceful.watcher());
        tokio::spawn(async move {
            let _place = place;
            let Some((stream, peer)) = listener.prepare(raw).await else { return };
            let service = TowerToHyperService::new(router.layer(Extension(peer)));
            let connection = watcher.watch(http.serve_connection(TokioIo::new(stream), service));
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the API broke off");
            }
        });
    }
    drop(timeout(STOP_TIME, graceful.shutdown()).await);
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::sync::{Mutex, mpsc};
    use tokio::time::Instant;

    use super::*;
    use crate::driver::Caller;

    /// Takes the clients that the test makes.
    struct Clients(Mutex<mpsc::Receiver<DuplexStream>>);

    impl Listener for Clients {
        type Raw = DuplexStream;
        type Stream = DuplexStream;

        async fn accept(&self) -> io::Result<DuplexStream> {
            self.0.lock().await.recv().await.ok_or_else(|| io::ErrorKind::NotConnected.into())
        }

        async fn prepare(&self, raw: DuplexStream) -> Option<(DuplexStream, Peer)> {
            let caller =
                Caller { actor: "vera".to_owned(), from: "local".to_owned(), shown: None, trace: None };
            Some((raw, Peer::Owner(caller)))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_has_its_time_for_a_head_and_for_the_next() {
        let (comes, clients) = mpsc::channel(1);
        let (_stop, stopped) = watch::channel(());
        let router = Router::new().route("/", get(|| async { "well" }));
        tokio::spawn(accept(Clients(Mutex::new(clients)), router, stopped));
        for says in ["", "GET / HTTP/1.1\r\nhost: m", "GET / HTTP/1.1\r\nhost: muster\r\n\r\n"] {
            let (mut client, server) = duplex(1 << 16);
            let begun = Instant::now();
            comes.send(server).await.unwrap();
            client.write_all(says.as_bytes()).await.unwrap();
            let mut heard = String::new();
            client.read_to_string(&mut heard).await.unwrap();
            assert_eq!(begun.elapsed().as_secs(), HEAD_TIME.as_secs(), "{says}: {heard}");
            assert_eq!(heard.starts_with("HTTP/1.1 200"), says.ends_with("\r\n\r\n"), "{heard}");
        }
    }
}
