//! A socket that takes so many bytes and no more, until its client is let in: else whoever sends half a greeting has all
//! of it kept.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Bytes of a TLS handshake from a client: an agent's, with its certificate, are under 3 KiB.
const HANDSHAKE_MAX: usize = 16 * 1024;

/// See above.
pub struct Metered {
    socket: TcpStream,
    /// What may still come; none once there is no bound any more.
    left: Option<usize>,
}

impl Metered {
    pub fn new(socket: TcpStream) -> Self {
        Self { socket, left: Some(HANDSHAKE_MAX) }
    }

    /// The handshake is over: what comes now has its own bounds.
    pub fn let_in(&mut self) {
        self.left = None;
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, buf))?;
        let read = buf.filled().len() - before;
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(read).ok_or_else(|| io::Error::other("the handshake is too long"))?;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}
