//! Connections from this machine without TLS, for clients of Heat's API at a loopback address.
//!
//! Absent: connections from elsewhere (`tls.rs`).

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::net::{TcpListener, TcpStream};
use tokio_io_timeout::TimeoutStream;

use super::accept::Listener;
use super::authorization::Peer;
use super::tls::WRITE_TIME;

/// The listener to which they connect.
pub(super) struct OnThisMachine(pub TcpListener);

impl Listener for OnThisMachine {
    type Raw = (TcpStream, SocketAddr);
    type Stream = Pin<Box<TimeoutStream<TcpStream>>>;

    async fn accept(&self) -> io::Result<Self::Raw> {
        self.0.accept().await
    }

    async fn prepare(&self, (stream, address): Self::Raw) -> Option<(Self::Stream, Peer)> {
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(WRITE_TIME));
        Some((Box::pin(stream), Peer::Remote(address.ip().to_canonical(), None)))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpStream;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_has_its_time() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (mut stream, _) = OnThisMachine(listener).prepare(accepted.unwrap()).await.unwrap();
        let begun = Instant::now();
        // More than the kernel takes for a client.
        let error = stream.write_all(&vec![0; 64 << 20]).await.unwrap_err();
        assert_eq!(
            (error.kind(), begun.elapsed().as_secs()),
            (io::ErrorKind::TimedOut, WRITE_TIME.as_secs())
        );
    }
}
