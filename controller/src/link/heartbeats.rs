//! Heartbeats on their way to the driver. They are delivered together, since each would wake the driver, and
//! nothing waits for them.
//!
//! Their order is kept: other messages of a connection follow its heartbeat.
//!
//! Absent: how often an agent sends one (`controller/engine/src/node/heartbeat.rs`).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_shared::NodeId;
use muster_shared::model::Up;
use tokio::sync::Notify;
use tokio::time::sleep;

/// The time from the first heartbeat until all of them are delivered.
const HELD: Duration = Duration::from_millis(200);

/// At most one heartbeat for each connection: the newest.
#[derive(Debug, Default)]
pub struct Heartbeats {
    held: Mutex<BTreeMap<u64, (NodeId, Up)>>,
    /// The first heartbeat has arrived.
    begun: Notify,
}

impl Heartbeats {
    /// Holds a packet that is only a heartbeat, and returns `None`; otherwise puts the connection's held
    /// heartbeat before the messages.
    pub fn hold(&self, node: &NodeId, connection: u64, mut messages: Vec<Up>) -> Option<Vec<Up>> {
        let mut held = self.lock();
        match messages.pop() {
            Some(heartbeat @ Up::Heartbeat { .. }) if messages.is_empty() => {
                let is_first = held.is_empty();
                held.insert(connection, (node.clone(), heartbeat));
                drop(held);
                if is_first {
                    self.begun.notify_one();
                }
                None
            }
            last => {
                messages.extend(last);
                if let Some((_, heartbeat)) = held.remove(&connection) {
                    messages.insert(0, heartbeat);
                }
                Some(messages)
            }
        }
    }

    /// A connection is over.
    pub fn forget(&self, connection: u64) {
        self.lock().remove(&connection);
    }

    /// Delivers them, again and again; `deliver` returns whether a heartbeat was taken.
    pub async fn run(&self, deliver: impl Fn(&NodeId, u64, &Up) -> bool) {
        loop {
            self.begun.notified().await;
            sleep(HELD).await;
            while !self.hand_on(&deliver) {
                sleep(HELD).await;
            }
        }
    }

    /// Delivers under the lock, so that no message of a connection precedes its heartbeat. One that is not
    /// taken delays no other.
    fn hand_on(&self, deliver: &impl Fn(&NodeId, u64, &Up) -> bool) -> bool {
        let mut held = self.lock();
        held.retain(|connection, (node, heartbeat)| !deliver(node, *connection, heartbeat));
        held.is_empty()
    }

    /// The table is whole at every point that can panic.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, (NodeId, Up)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use muster_shared::model::ContentDigest;

    use super::*;

    fn node() -> NodeId {
        "web-1".parse().unwrap()
    }

    fn heartbeat(number: u128) -> Up {
        Up::Heartbeat { drift: Some(number) }
    }

    fn fetch(offset: u64) -> Up {
        Up::Fetch { digest: ContentDigest::of(b"content"), offset }
    }

    #[test]
    fn messages_follow_the_heartbeat_of_their_own_connection_only() {
        let heartbeats = Heartbeats::default();
        assert_eq!(heartbeats.hold(&node(), 1, vec![heartbeat(1)]), None);
        assert_eq!(heartbeats.hold(&node(), 1, vec![heartbeat(2)]), None);
        assert_eq!(heartbeats.hold(&node(), 2, vec![fetch(1)]), Some(vec![fetch(1)]));
        let said = vec![fetch(1), heartbeat(3)];
        assert_eq!(heartbeats.hold(&node(), 1, said), Some(vec![heartbeat(2), fetch(1), heartbeat(3)]));
        assert_eq!(heartbeats.hold(&node(), 1, vec![fetch(2)]), Some(vec![fetch(2)]));
        assert_eq!(heartbeats.hold(&node(), 1, Vec::new()), Some(Vec::new()));
        assert_eq!(heartbeats.hold(&node(), 1, vec![heartbeat(4)]), None);
        heartbeats.forget(1);
        assert_eq!(heartbeats.hold(&node(), 1, vec![fetch(3)]), Some(vec![fetch(3)]));
    }

    #[test]
    fn one_that_is_not_taken_is_kept_and_holds_up_no_other() {
        let heartbeats = Heartbeats::default();
        for connection in 1..=3 {
            assert_eq!(heartbeats.hold(&node(), connection, vec![heartbeat(connection.into())]), None);
        }
        let handed = RefCell::new(Vec::new());
        let all_but = |refused: u64| {
            let handed = &handed;
            move |_: &NodeId, connection: u64, heartbeat: &Up| {
                if connection != refused {
                    handed.borrow_mut().push((connection, heartbeat.clone()));
                }
                connection != refused
            }
        };
        assert!(!heartbeats.hand_on(&all_but(1)));
        assert_eq!(heartbeats.hold(&node(), 1, vec![heartbeat(4)]), None);
        assert!(heartbeats.hand_on(&all_but(0)));
        assert!(heartbeats.hand_on(&all_but(0)));
        assert_eq!(*handed.borrow(), [(2, heartbeat(2)), (3, heartbeat(3)), (1, heartbeat(4))]);
    }
}
