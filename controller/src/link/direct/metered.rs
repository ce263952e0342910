//! A socket that takes so many bytes and no more, until its client is let in: else whoever sends half a greeting has all
//! of it kept.

use std::io;
use std::os::fd::AsRawFd as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use nix::sys::socket::{MsgFlags, Shutdown, recv, shutdown};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::room::Silence;

/// Bytes of a TLS handshake from a client: an agent's, with its certificate, are under 3 KiB.
const HANDSHAKE_MAX: usize = 16 * 1024;

/// A socket, and what was read of it during the handshake. The lobby looks at it while its client waits.
#[derive(Debug)]
pub struct Incoming {
    socket: TcpStream,
    came: Instant,
    read: AtomicUsize,
    /// Milliseconds after it came, when something was read last.
    heard: AtomicU64,
}

impl Incoming {
    pub fn new(socket: TcpStream) -> Arc<Self> {
        Arc::new(Self { socket, came: Instant::now(), read: AtomicUsize::new(0), heard: AtomicU64::new(0) })
    }

    /// How long the client has been silent although it is its turn; none where its bytes wait to be read.
    pub fn silence(&self) -> Option<Silence> {
        let peeked = recv(self.socket.as_raw_fd(), &mut [0], MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT);
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        let lasts = self.came.elapsed().saturating_sub(heard);
        peeked.is_err().then(|| Silence { lasts, spoken: self.read() > 0 })
    }

    /// Bytes of the handshake that were read.
    pub fn read(&self) -> usize {
        self.read.load(Ordering::Relaxed)
    }

    fn heard(&self, bytes: usize) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
        let after = u64::try_from(self.came.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard.store(after, Ordering::Relaxed);
    }
}

/// See above.
pub struct Metered {
    incoming: Arc<Incoming>,
    /// What may still come; none once there is no bound any more.
    left: Option<usize>,
}

impl Metered {
    pub fn new(incoming: Arc<Incoming>) -> Self {
        Self { incoming, left: Some(HANDSHAKE_MAX) }
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
        let read = loop {
            ready!(self.incoming.socket.poll_read_ready(cx))?;
            match self.incoming.socket.try_read(buf.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => break read?,
            }
        };
        buf.advance(read);
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(read).ok_or_else(|| io::Error::other("the handshake is too long"))?;
            self.incoming.heard(read);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_written(cx, |socket| socket.try_write(buf))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(shutdown(self.incoming.socket.as_raw_fd(), Shutdown::Write)?))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_written(cx, |socket| socket.try_write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

impl Metered {
    fn poll_written(
        &self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.incoming.socket.poll_write_ready(cx))?;
            match write(&self.incoming.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}
