//! Whether a node's agent is connected, and how far its greeting is.
//!
//! ```text
//!   Away ── connect ─▶ Connected ── welcome ─▶ Ready ── its list of jobs ─▶ Ready { tells_jobs }
//!    ▲                     │                     │                                │
//!    └──────── leave ──────┴─────────────────────┴────────────────────────────────┘
//! ```
//!
//! Absent: the messages (`node/session.rs`), after how long without a packet a node is away
//! (`controller/src/link/away_after_silence.rs`), and what follows then (`node/away.rs`).

/// The connection of a node's agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Presence {
    /// There is no connection.
    #[default]
    Away,
    /// The agent has not said `Hello` on this connection.
    Connected { connection: u64 },
    /// The agent was welcomed. If it `tells_jobs`, it has listed all its jobs on this connection, and owns their
    /// deadlines.
    Ready { connection: u64, tells_jobs: bool },
}

impl Presence {
    /// The number of the open connection.
    pub fn connection(self) -> Option<u64> {
        match self {
            Self::Away => None,
            Self::Connected { connection } | Self::Ready { connection, .. } => Some(connection),
        }
    }

    pub fn is_ready(self) -> bool {
        matches!(self, Self::Ready { .. })
    }

    pub fn tells_jobs(self) -> bool {
        matches!(self, Self::Ready { tells_jobs: true, .. })
    }

    /// The agent said `Hello`. Its list of jobs follows: an older version may have taken its place.
    pub fn welcome(&mut self) {
        if let Self::Connected { connection } | Self::Ready { connection, .. } = *self {
            *self = Self::Ready { connection, tells_jobs: false };
        }
    }

    /// The agent listed its jobs. Returns whether this was its first list on this connection.
    pub fn list_jobs(&mut self) -> bool {
        match self {
            Self::Ready { tells_jobs, .. } => !std::mem::replace(tells_jobs, true),
            Self::Away | Self::Connected { .. } => false,
        }
    }

    /// The connection has ended. Returns whether the agent was welcomed on it.
    pub fn leave(&mut self) -> bool {
        std::mem::take(self).is_ready()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_owns_deadlines_from_job_list_until_next_greeting() {
        let mut presence = Presence::Connected { connection: 7 };
        assert!(!presence.list_jobs(), "nothing counts before the greeting");
        presence.welcome();
        assert_eq!((presence.is_ready(), presence.tells_jobs()), (true, false));
        assert!(presence.list_jobs() && !presence.list_jobs());
        assert!(presence.tells_jobs());
        presence.welcome();
        assert!(!presence.tells_jobs());
        assert_eq!(presence.connection(), Some(7));
        assert!(presence.leave() && !presence.leave());
        assert_eq!(presence, Presence::Away);
    }
}
