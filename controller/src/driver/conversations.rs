//! The connected nodes, and how a conversation continues after the engine was rebuilt.
//!
//! ```text
//!   New ──Hello──▶ Open ──engine is built again──▶ Again ──Ledger──▶ Open
//! ```
//!
//! A rebuilt engine knows no conversation. The driver gives it each connection and its greeting once more.
//! The agent treats the second `Welcome` on a connection like the first, and sends all of its state. Messages
//! from before belong to the earlier conversation: they are dropped up to the ledger, which comes first after
//! a `Welcome` that asks for it.
//!
//! Absent: when the engine is rebuilt (`turn.rs`), and what a greeting changes in it
//! (`controller/engine/src/node/session.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use muster_shared::model::{Down, Hello, Up};
use muster_shared::{MonoTime, NodeId};

/// The time in which a node that was greeted again must send its ledger, or its connection is ended.
const LEDGER_WITHIN: Duration = Duration::from_secs(60);

/// The connected nodes.
#[derive(Debug, Default)]
pub(super) struct Conversations {
    nodes: BTreeMap<NodeId, Node>,
    /// No node is late before this: kept, for every turn asks, and a site may have 100,000 nodes. `None`: none is awaited.
    first_late: Option<MonoTime>,
}

#[derive(Debug)]
struct Node {
    connection: u64,
    talk: Talk,
}

#[derive(Debug)]
enum Talk {
    /// The node has sent nothing yet.
    New,
    /// The engine has yet to hear this greeting.
    Unheard(Hello),
    /// `owes_ledger`: the controller asked for the ledger, and its last page is not here yet.
    Open { hello: Hello, owes_ledger: bool },
    /// The node was greeted once more, and must send the first page of its ledger by `until`.
    Again { hello: Hello, until: MonoTime },
}

/// The continuation of a conversation with a node after the engine was rebuilt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Resumed {
    Connected {
        node: NodeId,
        connection: u64,
    },
    /// The node is connected, and sent this greeting.
    Greeted {
        node: NodeId,
        connection: u64,
        hello: Hello,
    },
    /// Pages of two conversations cannot be distinguished: the connection must end.
    Ended {
        node: NodeId,
    },
}

impl Conversations {
    /// The link may tell of two connections of a node in any order: the higher number is the newer one.
    pub(super) fn connected(&mut self, node: NodeId, connection: u64) {
        if self.nodes.get(&node).is_some_and(|it| it.connection > connection) {
            return;
        }
        self.nodes.insert(node, Node { connection, talk: Talk::New });
    }

    pub(super) fn disconnected(&mut self, node: &NodeId, connection: u64) {
        if self.nodes.get(node).is_some_and(|it| it.connection == connection) {
            self.nodes.remove(node);
        }
    }

    pub(super) fn ended(&mut self, node: &NodeId) {
        self.nodes.remove(node);
    }

    /// Takes a message. Returns whether the engine receives it. With `deaf` the engine receives nothing, and
    /// the node sends it again later.
    pub(super) fn says(&mut self, node: &NodeId, connection: u64, message: &Up, deaf: bool) -> bool {
        let Some(it) = self.nodes.get_mut(node).filter(|it| it.connection == connection) else {
            return !deaf;
        };
        match (&mut it.talk, message) {
            (Talk::New, Up::Hello(hello)) if deaf => it.talk = Talk::Unheard(hello.clone()),
            (Talk::New, Up::Hello(hello)) => {
                it.talk = Talk::Open { hello: hello.clone(), owes_ledger: false };
            }
            (Talk::Open { owes_ledger, .. }, Up::Ledger { last: true, .. }) => *owes_ledger = false,
            (Talk::Again { hello, .. }, Up::Ledger { last, .. }) if !deaf => {
                it.talk = Talk::Open { hello: hello.clone(), owes_ledger: !last };
            }
            (Talk::Again { .. }, _) => return false,
            (Talk::New | Talk::Unheard(_) | Talk::Open { .. }, _) => {}
        }
        !deaf
    }

    /// A message leaves for the node.
    pub(super) fn told(&mut self, node: &NodeId, message: &Down) {
        if let Down::Welcome(welcome) = message
            && let Some(Node { talk: Talk::Open { owes_ledger, .. }, .. }) = self.nodes.get_mut(node)
        {
            *owes_ledger = welcome.want_ledger;
        }
    }

    /// The engine was built again.
    pub(super) fn resume(&mut self, now: MonoTime) -> Vec<Resumed> {
        let resumed = self.nodes.iter_mut().map(|(node, it)| it.resume(node, now)).collect();
        self.nodes.retain(|_, it| !matches!(it.talk, Talk::Open { owes_ledger: true, .. }));
        self.await_answers();
        resumed
    }

    /// When to ask for [`Conversations::late`]. The nodes awaited then may have answered since.
    pub(super) fn timeout(&self) -> Option<MonoTime> {
        self.first_late
    }

    /// Nodes that did not answer the second greeting: their connections must end.
    pub(super) fn late(&mut self, now: MonoTime) -> Vec<NodeId> {
        if self.first_late.is_none_or(|first| now < first) {
            return Vec::new();
        }
        let is_late = |it: &Node| it.answers_until().is_some_and(|until| now >= until);
        let late: Vec<NodeId> =
            self.nodes.iter().filter(|(_, it)| is_late(it)).map(|(node, _)| node.clone()).collect();
        late.iter().for_each(|node| self.ended(node));
        self.await_answers();
        late
    }

    fn await_answers(&mut self) {
        self.first_late = self.nodes.values().filter_map(Node::answers_until).min();
    }

    pub(super) fn connections(&self) -> Vec<(NodeId, u64)> {
        self.nodes.iter().map(|(node, it)| (node.clone(), it.connection)).collect()
    }
}

impl Node {
    fn answers_until(&self) -> Option<MonoTime> {
        match self.talk {
            Talk::Again { until, .. } => Some(until),
            Talk::New | Talk::Unheard(_) | Talk::Open { .. } => None,
        }
    }

    fn resume(&mut self, name: &NodeId, now: MonoTime) -> Resumed {
        let (node, connection) = (name.clone(), self.connection);
        match &self.talk {
            Talk::New => Resumed::Connected { node, connection },
            Talk::Unheard(hello) => {
                let hello = hello.clone();
                self.talk = Talk::Open { hello: hello.clone(), owes_ledger: false };
                Resumed::Greeted { node, connection, hello }
            }
            Talk::Open { hello, owes_ledger: false } => {
                let hello = hello.clone();
                // The present digest of its ledger is unknown: another digest makes the engine ask.
                let greeting = Hello { ledger: !hello.ledger, ..hello.clone() };
                self.talk = Talk::Again { hello, until: now + LEDGER_WITHIN };
                Resumed::Greeted { node, connection, hello: greeting }
            }
            // Mixing pages of two conversations would make one wrong ledger.
            Talk::Open { hello, owes_ledger: true } | Talk::Again { hello, .. } => {
                self.talk = Talk::Open { hello: hello.clone(), owes_ledger: true };
                Resumed::Ended { node }
            }
        }
    }
}

#[cfg(test)]
mod tests;
