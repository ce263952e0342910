//! Decides when to connect to the controller, how long to wait for its greeting, when the next heartbeat is
//! due, and when to come back.
//!
//! ```text
//!   Waiting ─time─▶ Connecting ─Connected─▶ Greeting ─Welcome─▶ Open
//!      ▲                │                      │ time             │ refused
//!      │                │                      ▼                  ▼
//!      └───────── Disconnected ◀─────────── Closing ◀─────────────┘
//! ```
//!
//! Absent: the pause between attempts (`backoff.rs`); which address is tried
//! (`agent/link/src/connection/try_addresses.rs`); and after what silence a connection ends
//! (`agent/link/src/connection.rs`).

use std::time::Duration;

use muster_shared::MonoTime;

use crate::backoff::Backoff;

/// A healthy controller answers `Hello` within this time.
const WELCOME_WITHIN: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting {
        until: MonoTime,
    },
    Connecting,
    Greeting {
        until: MonoTime,
    },
    Open {
        since: MonoTime,
        heartbeat: Duration,
        next: MonoTime,
    },
    /// With `at_once`, the next attempt follows without backoff.
    Closing {
        held: Duration,
        at_once: bool,
    },
}

/// The action that a timeout asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Connect,
    /// Send a sign of life.
    Heartbeat,
    /// The controller did not answer.
    NoWelcome,
}

/// The connection's state; see the module's diagram.
#[derive(Debug)]
pub struct Reconnect {
    state: State,
    backoff: Backoff,
}

impl Reconnect {
    /// Connects when the machine starts.
    pub fn new(seed: u64) -> Self {
        Self { state: State::Waiting { until: MonoTime::default() }, backoff: Backoff::new(seed) }
    }

    /// The agent has accepted the controller's greeting.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// This side is closing the connection.
    pub fn is_closing(&self) -> bool {
        matches!(self.state, State::Closing { .. })
    }

    /// Returns true if the connection is new and `Hello` must be sent.
    pub fn connected(&mut self, now: MonoTime) -> bool {
        let new = self.state == State::Connecting;
        if new {
            self.state = State::Greeting { until: now + WELCOME_WITHIN };
        }
        new
    }

    /// The connection ended: waits for the next attempt.
    pub fn disconnected(&mut self, now: MonoTime) {
        let held = match self.state {
            State::Waiting { .. } => return,
            State::Connecting | State::Greeting { .. } => Duration::ZERO,
            State::Open { since, .. } => now.since(since),
            State::Closing { at_once: true, .. } => {
                self.state = State::Waiting { until: now };
                return;
            }
            State::Closing { held, .. } => held,
        };
        self.state = State::Waiting { until: now + self.backoff.next(held) };
    }

    /// Whether this side expects a greeting or an order.
    pub fn listens(&self) -> bool {
        matches!(self.state, State::Greeting { .. } | State::Open { .. })
    }

    /// The controller is accepted.
    pub fn welcome(&mut self, now: MonoTime, heartbeat: Duration) {
        let since = match self.state {
            State::Open { since, .. } => since,
            State::Greeting { .. } => now,
            State::Waiting { .. } | State::Connecting | State::Closing { .. } => return,
        };
        self.state = State::Open { since, heartbeat, next: now + heartbeat };
    }

    pub fn close(&mut self, now: MonoTime) {
        let held = match self.state {
            State::Open { since, .. } => now.since(since),
            State::Waiting { .. } | State::Connecting | State::Greeting { .. } | State::Closing { .. } => {
                Duration::ZERO
            }
        };
        self.state = State::Closing { held, at_once: false };
    }

    /// Asks for a new connection now. Returns true if the present one must be closed first.
    pub fn reconnect(&mut self, now: MonoTime) -> bool {
        match &mut self.state {
            State::Waiting { until } => {
                *until = now;
                false
            }
            State::Closing { at_once, .. } => {
                *at_once = true;
                false
            }
            State::Connecting | State::Greeting { .. } | State::Open { .. } => {
                self.state = State::Closing { held: Duration::ZERO, at_once: true };
                true
            }
        }
    }

    /// The next attempt begins by this time at the latest.
    pub fn hasten(&mut self, by: MonoTime) {
        if let State::Waiting { until } = &mut self.state {
            *until = by.min(*until);
        }
    }

    /// When to call [`Reconnect::due`] again, and why.
    pub fn timeout(&self) -> Option<(MonoTime, &'static str)> {
        match self.state {
            State::Waiting { until } => Some((until, "connect")),
            State::Greeting { until } => Some((until, "no welcome")),
            State::Open { next, .. } => Some((next, "heartbeat")),
            State::Connecting | State::Closing { .. } => None,
        }
    }

    /// The action that is due.
    pub fn due(&mut self, now: MonoTime) -> Option<Due> {
        match self.state {
            State::Waiting { until } if now >= until => {
                self.state = State::Connecting;
                Some(Due::Connect)
            }
            State::Greeting { until } if now >= until => Some(Due::NoWelcome),
            State::Open { since, heartbeat, next } if now >= next => {
                self.state = State::Open { since, heartbeat, next: now + heartbeat };
                Some(Due::Heartbeat)
            }
            State::Waiting { .. }
            | State::Greeting { .. }
            | State::Open { .. }
            | State::Connecting
            | State::Closing { .. } => None,
        }
    }
}
