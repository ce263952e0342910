//! SIGTERM and Ctrl-C stop, SIGHUP reloads.
//!
//! Absent: what becomes of running jobs and unconfirmed changes (`driver/stop.rs`).

use std::io;

use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// End cleanly.
    Stop,
    /// Read the log level again.
    Reload,
}

/// Signals of this process.
pub struct Signals {
    terminate: Stream,
    interrupt: Stream,
    hangup: Stream,
}

impl Signals {
    /// Listens to signals from now on.
    ///
    /// # Errors
    /// Signals cannot be received.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::Stop,
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.hangup.recv() => Signal::Reload,
        }
    }
}
