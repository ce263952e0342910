//! Connections from this machine without TLS, for clients of Heat's API at a loopback address.
//!
//! Absent: connections from elsewhere (`tls.rs`).

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::net::{TcpListener, TcpStream};
use tokio_io_timeout::TimeoutStream;

use super::accept::Listener;
use super::caller::Peer;
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
