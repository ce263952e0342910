//! The state of the running agent's connection to its controller, for `muster-agent doctor` on the same server.
//!
//! The driver writes the state when a connection comes or goes; `local_socket.rs` answers with it. Absent: the connection
//! itself (`driver/reach.rs`).

use std::cell::RefCell;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

/// Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkState {
    /// The agent has just started.
    #[default]
    Connecting,
    Connected {
        /// The controller's number, or the broker.
        remote: String,
        since: u64,
        /// The controller has greeted this agent: it reads what the agent says. A broker alone does not.
        #[serde(default)]
        greeted: bool,
    },
    Away {
        /// The reason why the last attempt failed, or the connection ended.
        reason: String,
        /// When the agent was without a connection first.
        since: u64,
    },
}

/// The state of this agent, for its driver and for those who ask.
#[derive(Clone, Debug, Default)]
pub struct SharedLinkState(Rc<RefCell<LinkState>>);

impl SharedLinkState {
    pub fn get(&self) -> LinkState {
        self.0.borrow().clone()
    }

    pub fn connected(&self, remote: &str, now: u64) {
        *self.0.borrow_mut() = LinkState::Connected { remote: remote.to_owned(), since: now, greeted: false };
    }

    pub fn greeted(&self) {
        if let LinkState::Connected { greeted, .. } = &mut *self.0.borrow_mut() {
            *greeted = true;
        }
    }

    pub fn away(&self, reason: &str, now: u64) {
        let mut state = self.0.borrow_mut();
        let since = match &*state {
            LinkState::Away { since, .. } => *since,
            LinkState::Connecting | LinkState::Connected { .. } => now,
        };
        *state = LinkState::Away { reason: reason.to_owned(), since };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_begins_and_the_last_one_explains() {
        let state = SharedLinkState::default();
        assert_eq!(state.get(), LinkState::Connecting);
        state.away("a", 1);
        state.away("b", 2);
        assert_eq!(state.get(), LinkState::Away { reason: "b".into(), since: 1 });
        state.greeted();
        assert_eq!(state.get(), LinkState::Away { reason: "b".into(), since: 1 });
        state.connected("10.0.0.1", 3);
        let connected = |greeted| LinkState::Connected { remote: "10.0.0.1".into(), since: 3, greeted };
        assert_eq!(state.get(), connected(false));
        state.greeted();
        assert_eq!(state.get(), connected(true));
        state.away("c", 4);
        assert_eq!(state.get(), LinkState::Away { reason: "c".into(), since: 4 });
    }
}
