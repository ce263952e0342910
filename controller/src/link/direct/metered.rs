//! A socket that takes a bounded number of bytes until its client is let in. Without the bound, a
//! client could send half a greeting and have all of it kept.

use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use nix::sys::socket::{MsgFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::room::Silence;

/// Bytes of a TLS handshake from a client: an agent's, with its certificate, are under 3 KiB.
const HANDSHAKE_MAX: usize = 16 * 1024;

/// A socket during its handshake, as the lobby looks at it while the client waits there.
#[derive(Debug)]
pub struct Incoming {
    /// `None`: the socket is closed. Closing waits for a concurrent look at the socket.
    socket: Mutex<Option<RawFd>>,
    came: Instant,
    read: AtomicUsize,
    /// The time of the last read, in milliseconds after `came`.
    heard: AtomicU64,
    /// Whether it is our turn.
    waits_for_us: AtomicBool,
}

impl Incoming {
    /// The time that the client has been silent while we wait for its bytes. `None`: bytes wait to be read, or it is our turn.
    pub fn silence(&self) -> Option<Silence> {
        if self.waits_for_us.load(Ordering::Relaxed) {
            return None;
        }
        let socket = self.lock();
        let peeked = recv((*socket)?, &mut [0], MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT);
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        let lasts = self.came.elapsed().saturating_sub(heard);
        peeked.is_err().then(|| Silence { lasts, spoken: self.read() > 0 })
    }

    /// The client has said all that it has to say before it is let in.
    pub fn waits_for_us(&self) {
        self.waits_for_us.store(true, Ordering::Relaxed);
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

    /// The descriptor is whole at every point that can panic.
    fn lock(&self) -> MutexGuard<'_, Option<RawFd>> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the module's head.
pub struct Metered {
    socket: TcpStream,
    incoming: Arc<Incoming>,
    /// Bytes that may still arrive; `None`: no bound.
    left: Option<usize>,
}

impl Metered {
    pub fn new(socket: TcpStream) -> Self {
        let incoming = Arc::new(Incoming {
            socket: Mutex::new(Some(socket.as_raw_fd())),
            came: Instant::now(),
            read: AtomicUsize::new(0),
            heard: AtomicU64::new(0),
            waits_for_us: AtomicBool::new(false),
        });
        Self { socket, incoming, left: Some(HANDSHAKE_MAX) }
    }

    pub fn incoming(&self) -> &Arc<Incoming> {
        &self.incoming
    }

    /// The handshake is over: later bytes have their own bounds.
    pub fn let_in(&mut self) {
        self.left = None;
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        *self.incoming.lock() = None;
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
            self.incoming.heard(read);
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

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_client_that_has_said_all_is_not_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let socket = Metered::new(listener.accept().await.unwrap().0);
        assert!(socket.incoming().silence().is_some());
        socket.incoming().waits_for_us();
        assert!(socket.incoming().silence().is_none());
    }
}
