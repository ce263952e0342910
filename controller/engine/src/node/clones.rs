//! Two living agents with one identity: from a copied disk, or a restored machine beside the old one. And the address
//! of a node, which is that of its living agent.
//!
//! ```text
//!             a new instance              an instance that was replaced is back
//!   One ◀───────────────────┐   One ────────────────────────────────────────────▶ Conflict
//!    └──────────────────────┘    ▲                                                    │
//!                                └─ all others silent for GONE_AFTER, or joined again ┘
//! ```
//!
//! An agent draws its instance at each start. A restarted agent has a new one, so an instance that
//! was replaced comes back only if it still lives. In a conflict neither agent gets anything,
//! because only an operator knows which of them is the server.
//!
//! Absent: two controllers of one site (`restored/detect.rs`).

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use muster_shared::MonoTime;

use crate::engine::Effect;
use crate::node::NodeKey;
use crate::traversals::Traversals;

/// A refused agent connects again within 30 s. An agent that is silent for this long is gone.
pub const GONE_AFTER: Duration = Duration::from_secs(180);
/// Instances remembered of a node. With more clones a conflict takes longer to find.
const KNOWN_MAX: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instance {
    id: u128,
    address: Option<IpAddr>,
    /// When the last message of the instance arrived.
    heard: MonoTime,
}

/// The agents that have greeted as a node.
#[derive(Debug, Default)]
pub(crate) struct Instances {
    /// The newest is last.
    known: VecDeque<Instance>,
    in_conflict: bool,
}

/// The result of a Hello for the agents of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The agent is the only one.
    One,
    /// The agent is the only one again.
    OneAgain,
    /// The agent is one of several, which was not known before.
    NewConflict,
    /// The agent is still one of several.
    Conflict,
}

impl Instances {
    pub fn greet(&mut self, now: MonoTime, id: u128, address: Option<IpAddr>) -> Verdict {
        let is_newest = self.known.back().is_none_or(|newest| newest.id == id);
        let is_back = !is_newest && self.known.iter().any(|it| it.id == id);
        self.known.retain(|it| it.id != id);
        let others_live = self.known.iter().any(|it| it.heard + GONE_AFTER > now);
        self.known.push_back(Instance { id, address, heard: now });
        if self.known.len() > KNOWN_MAX {
            self.known.pop_front();
        }
        let was_in_conflict = self.in_conflict;
        self.in_conflict = others_live && (is_back || was_in_conflict);
        match (was_in_conflict, self.in_conflict) {
            (false, false) => Verdict::One,
            (true, false) => Verdict::OneAgain,
            (false, true) => Verdict::NewConflict,
            (true, true) => Verdict::Conflict,
        }
    }

    /// The newest instance's connection is over. Its last message arrived at `heard`.
    pub fn left(&mut self, heard: MonoTime) {
        if let Some(newest) = self.known.back_mut() {
            newest.heard = newest.heard.max(heard);
        }
    }

    /// The address that the newest instance last connected from. `None`: it is not known, or two
    /// instances live.
    pub fn address(&self) -> Option<IpAddr> {
        let newest = self.known.back().filter(|_| !self.in_conflict)?;
        newest.address.map(|address| address.to_canonical())
    }

    /// Addresses of the living instances, the newest last. Empty without a conflict.
    pub fn in_conflict(&self, now: MonoTime) -> Vec<String> {
        let living = self.known.iter().filter(|it| self.in_conflict && it.heard + GONE_AFTER > now);
        living.map(|it| it.address.map_or_else(|| "unknown".to_owned(), |at| at.to_string())).collect()
    }
}

impl Traversals {
    /// Whether the agent that greets is the only one of its node.
    pub(crate) fn is_alone(&mut self, key: NodeKey, instance: Option<u128>, address: Option<IpAddr>) -> bool {
        // Older agents give no instance.
        let Some(instance) = instance else { return true };
        let verdict = self.jobs.graph.nodes[key].instances.greet(self.jobs.graph.ctx.now, instance, address);
        let name = self.jobs.graph.nodes[key].name.clone();
        match verdict {
            Verdict::One => true,
            Verdict::OneAgain => {
                let told = format!("node {name}: one agent is left, and gets its jobs again");
                self.jobs.graph.note_on_node(key, &told);
                true
            }
            Verdict::NewConflict => {
                let addresses =
                    self.jobs.graph.nodes[key].instances.in_conflict(self.jobs.graph.ctx.now).join(" and ");
                let why = format!(
                    "node {name}: two agents with its identity are running, at {addresses}: neither gets anything. Stop \
                     one of them, empty its state directory and join it under another name"
                );
                self.jobs.graph.note_on_node(key, &why);
                self.jobs.graph.ctx.effect(Effect::Warn(why));
                self.cut_off(key);
                false
            }
            Verdict::Conflict => {
                self.cut_off(key);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_that_greet_in_turn() {
        use Verdict::{Conflict, NewConflict, One, OneAgain};
        let gone = GONE_AFTER.as_secs();
        // The time in seconds, the instance that greets, and the verdict.
        type Greeting = (u64, u128, Verdict);
        let rows: [(&str, &[Greeting]); 6] = [
            ("comes again", &[(0, 1, One), (5, 1, One)]),
            ("starts again and again", &[(0, 1, One), (1, 2, One), (2, 3, One), (3, 3, One)]),
            (
                "two in turn",
                &[(0, 1, One), (1, 2, One), (2, 1, NewConflict), (3, 2, Conflict), (4, 2, Conflict)],
            ),
            ("three in turn", &[(0, 1, One), (1, 2, One), (2, 3, One), (3, 1, NewConflict)]),
            (
                "one is gone",
                &[(0, 1, One), (1, 2, One), (2, 1, NewConflict), (2 + gone, 1, OneAgain), (3 + gone, 1, One)],
            ),
            ("a machine is set back", &[(0, 1, One), (1, 2, One), (1 + gone, 1, One)]),
        ];
        for (what, greetings) in rows {
            let mut instances = Instances::default();
            for (at, id, verdict) in greetings {
                let now = MonoTime(Duration::from_secs(*at));
                assert_eq!(instances.greet(now, *id, None), *verdict, "{what}, at {at}");
            }
        }
    }

    #[test]
    fn one_that_is_connected_lives() {
        let mut instances = Instances::default();
        let at = |seconds| MonoTime(Duration::from_secs(seconds));
        let address = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
        instances.greet(at(0), 1, address(1));
        instances.greet(at(1), 2, address(2));
        assert_eq!(instances.address(), address(2));
        instances.left(at(1000));
        assert_eq!(instances.greet(at(1001), 1, address(1)), Verdict::NewConflict);
        assert_eq!(instances.address(), None, "which of them is the server is not known");
        assert_eq!(instances.in_conflict(at(1001)), ["10.0.0.2", "10.0.0.1"]);
    }
}
