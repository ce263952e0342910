//! Counts agents that keep coming to a standby, since they do not get an answer from the active controller. Pure: times
//! come with each call.
//!
//! Absent: how many of them make the standby ask for the lease (`reaches_more` in `machine.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use muster_shared::{MonoTime, NodeId};

/// An agent that has not come again for this long has found the active controller, or is gone. An agent without a
/// connection tries
/// all controllers again after 30 s at most.
const GONE: Duration = Duration::from_secs(45);

/// When each agent came. Agents have shown a certificate of the site before, so there are as many as the site has nodes.
#[derive(Debug, Default)]
pub struct Knocks(BTreeMap<NodeId, Knock>);

#[derive(Debug)]
struct Knock {
    first: MonoTime,
    last: MonoTime,
}

impl Knocks {
    /// An agent came, and was sent to the active controller.
    pub fn comes(&mut self, now: MonoTime, node: &NodeId) {
        match self.0.get_mut(node) {
            Some(knock) if !knock.is_gone(now) => knock.last = now,
            Some(knock) => *knock = Knock { first: now, last: now },
            None => drop(self.0.insert(node.clone(), Knock { first: now, last: now })),
        }
    }

    /// The number of agents that keep coming: for a lease at least, in which the active controller did not let them
    /// in.
    pub fn stranded(&mut self, now: MonoTime, lease: Duration) -> usize {
        self.0.retain(|_, knock| !knock.is_gone(now));
        self.0.values().filter(|knock| knock.last.since(knock.first) >= lease).count()
    }

    /// This controller is the active one.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl Knock {
    fn is_gone(&self, now: MonoTime) -> bool {
        now.since(self.last) > GONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_stranded_that_keeps_coming_for_a_lease() {
        // When it comes, and when it is asked: in seconds, for a lease of five.
        let rows: [(&[u64], u64, usize); 7] = [
            (&[], 0, 0),
            (&[10], 100, 0),
            (&[10, 14], 14, 0),
            (&[10, 15], 15, 1),
            (&[10, 15], 60, 1),
            (&[10, 15], 61, 0),
            // It was away meanwhile.
            (&[10, 56, 60], 60, 0),
        ];
        let at = |seconds| MonoTime(Duration::from_secs(seconds));
        for (comes, asked, want) in rows {
            let mut knocks = Knocks::default();
            let node: NodeId = "web-1".parse().unwrap();
            comes.iter().for_each(|when| knocks.comes(at(*when), &node));
            assert_eq!(knocks.stranded(at(asked), Duration::from_secs(5)), want, "{comes:?}, {asked}");
        }
    }
}
