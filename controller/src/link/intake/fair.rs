//! Decides whose turn it is with the driver, and how much each node may use. Pure: no clock, no channel.
//!
//! ```text
//!   web-1: Connected · 3 messages ─┐
//!   web-2: 16,000 messages ────────┼─ round robin, a share each ─▶ one turn of the driver
//!   web-3: Disconnected ───────────┘
//! ```
//!
//! A node with many messages delays only itself: a share of them is taken once in a turn, and in the long
//! run no faster than its rate. Usage is counted in units: one for a message, and one more for each KiB of
//! its packet.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use muster_shared::{MonoTime, NodeId};

/// A new connection costs as much as this many messages: it brings a greeting, whose answer includes all
/// outstanding work.
const CONNECTION: u64 = 64;
/// This many bytes count as one further message.
const UNIT_BYTES: u64 = 1024;
/// With fewer nodes than this, none is forgotten.
const FORGET_FROM: usize = 1024;

/// Bounds of the usage, in units.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Units of all nodes in one turn.
    pub turn: u64,
    /// Units of one node in one turn. A single message is taken whatever its size.
    pub share: u64,
    /// Units of one node per second, in the long run.
    pub rate: u64,
    /// Units beyond its rate for a node that was quiet before.
    pub burst: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            // 8 MiB, or some 20 ms of messages: agents delay an operator for no longer.
            turn: 8192,
            // A packet of 256 KiB, or a millisecond of messages: one node delays the others for no longer.
            share: 256,
            // 4 MiB a second: no agent sends more in the long run, and contents go the other way.
            rate: 4096,
            // 64 MiB: a complete ledger or table of flows.
            burst: 65_536,
        }
    }
}

/// An event for the driver.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken<M, K> {
    /// The connection is there.
    Connected(u64),
    /// Messages of the connection. The receipt of a packet comes with its last messages.
    Heard(u64, Vec<M>, Option<K>),
    Disconnected(u64),
}

/// The waiting messages of all nodes. `M` is a message, `K` a receipt, which is returned once its packet was
/// taken completely.
#[derive(Debug)]
pub struct Fair<M, K> {
    bounds: Bounds,
    lines: BTreeMap<NodeId, Line<M, K>>,
    /// Nodes that have something to say and may: each once, the next first.
    round: VecDeque<NodeId>,
    /// Nodes that have something to say and used up their rate, by when they may again.
    resting: BTreeSet<(MonoTime, NodeId)>,
    turn: u64,
    /// Units of this turn.
    used: u64,
    /// With this many lines, some may be forgotten.
    forget_at: usize,
}

#[derive(Debug)]
struct Line<M, K> {
    waiting: VecDeque<Item<M, K>>,
    /// The node is in the round, or resting.
    queued: bool,
    /// The turn in which the node was last heard, and the units it used of that turn.
    heard: (u64, u64),
    /// The node's units at the time `at`; while negative, the node rests.
    credit: i64,
    at: MonoTime,
}

#[derive(Debug)]
enum Item<M, K> {
    Connected(u64),
    Heard(Packet<M, K>),
    Disconnected(u64),
}

#[derive(Debug)]
struct Packet<M, K> {
    connection: u64,
    messages: VecDeque<M>,
    /// Units of each message.
    units: u64,
    receipt: Option<K>,
}

impl<M, K> Item<M, K> {
    fn connection(&self) -> u64 {
        match self {
            Item::Connected(connection) | Item::Disconnected(connection) => *connection,
            Item::Heard(packet) => packet.connection,
        }
    }
}

impl<M, K> Fair<M, K> {
    /// Nothing waits.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            lines: BTreeMap::new(),
            round: VecDeque::new(),
            resting: BTreeSet::new(),
            turn: 1,
            used: 0,
            forget_at: FORGET_FROM,
        }
    }

    /// A connection was made.
    pub fn connected(&mut self, now: MonoTime, node: &NodeId, connection: u64) {
        self.push(now, node, Item::Connected(connection));
    }

    /// Messages of a connection, in a packet of this size. The connection is not read before its receipt is
    /// returned, so each connection has only one packet here.
    pub fn heard(
        &mut self,
        now: MonoTime,
        node: &NodeId,
        connection: u64,
        messages: Vec<M>,
        bytes: usize,
        receipt: Option<K>,
    ) {
        let count = messages.len().max(1) as u64;
        let units = 1 + bytes as u64 / UNIT_BYTES / count;
        let packet = Packet { connection, messages: messages.into(), units, receipt };
        self.push(now, node, Item::Heard(packet));
    }

    /// A connection has ended. Its waiting messages are taken first. A connection that the driver never saw
    /// is dropped.
    pub fn disconnected(&mut self, now: MonoTime, node: &NodeId, connection: u64) {
        if let Some(line) = self.lines.get_mut(node) {
            let is_untold = |item: &Item<M, K>| matches!(item, Item::Connected(of) if *of == connection);
            if line.waiting.iter().any(is_untold) {
                line.waiting.retain(|item| item.connection() != connection);
                return;
            }
        }
        self.push(now, node, Item::Disconnected(connection));
    }

    /// Whether something of this connection waits.
    pub fn waits(&self, node: &NodeId, connection: u64) -> bool {
        let line = self.lines.get(node);
        line.is_some_and(|line| line.waiting.iter().any(|item| item.connection() == connection))
    }

    /// Number of nodes of which something waits.
    pub fn waiting(&self) -> usize {
        self.round.len() + self.resting.len()
    }

    /// Whether something can be taken in a new turn.
    pub fn is_ready(&self) -> bool {
        !self.round.is_empty()
    }

    /// When the first resting node may continue.
    pub fn ready_at(&self) -> Option<MonoTime> {
        self.resting.first().map(|(at, _)| *at)
    }

    /// Begins a turn: nodes that have not used up their rate may continue.
    pub fn begin_turn(&mut self, now: MonoTime) {
        // The node that was heard at the end of the last turn has had its share of the round.
        if let Some(first) = self.round.front()
            && self.lines.get(first).is_some_and(|line| line.heard.0 == self.turn)
        {
            self.round.rotate_left(1);
        }
        self.turn += 1;
        self.used = 0;
        while self.resting.first().is_some_and(|(at, _)| *at <= now) {
            let rested = self.resting.pop_first();
            self.round.extend(rested.map(|(_, node)| node));
        }
        self.forget(now);
    }

    /// The next thing of this turn; none if nothing waits, or the turn is full.
    pub fn take(&mut self, now: MonoTime) -> Option<(NodeId, Taken<M, K>)> {
        while self.used < self.bounds.turn {
            let node = self.round.front()?.clone();
            let line = self.lines.get_mut(&node)?;
            line.refill(now, &self.bounds);
            let left = match line.heard {
                (turn, used) if turn == self.turn => self.bounds.share.saturating_sub(used),
                _ => self.bounds.share,
            };
            if line.waiting.is_empty() {
                line.queued = false;
                self.round.pop_front();
            } else if line.credit < 0 {
                let rests = line.rests_until(&self.bounds);
                self.round.pop_front();
                self.resting.insert((rests, node));
            } else if left > 0 {
                let left = left.min(self.bounds.turn - self.used);
                let (taken, units) = line.take(left)?;
                line.spend(self.turn, units);
                self.used += units;
                return Some((node, taken));
            } else {
                self.round.rotate_left(1);
                if self.all_spoke() {
                    return None;
                }
            }
        }
        None
    }

    /// Whether the next node has had its share: nodes take turns in order, so all have.
    fn all_spoke(&self) -> bool {
        let first = self.round.front().and_then(|node| self.lines.get(node));
        first.is_some_and(|line| line.heard.0 == self.turn && line.heard.1 >= self.bounds.share)
    }

    fn push(&mut self, now: MonoTime, node: &NodeId, item: Item<M, K>) {
        let credit = signed(self.bounds.burst);
        let fresh = || Line { waiting: VecDeque::new(), queued: false, heard: (0, 0), credit, at: now };
        let line = self.lines.entry(node.clone()).or_insert_with(fresh);
        line.waiting.push_back(item);
        if !std::mem::replace(&mut line.queued, true) {
            self.round.push_back(node.clone());
        }
    }

    /// Now and then forgets nodes that are silent and have all their credit.
    fn forget(&mut self, now: MonoTime) {
        if self.lines.len() < self.forget_at {
            return;
        }
        let bounds = self.bounds;
        self.lines.retain(|_, line| {
            line.refill(now, &bounds);
            line.queued || line.credit < signed(bounds.burst)
        });
        self.forget_at = FORGET_FROM.max(self.lines.len() * 2);
    }
}

impl<M, K> Line<M, K> {
    fn refill(&mut self, now: MonoTime, bounds: &Bounds) {
        let units = now.since(self.at).as_secs_f64() * bounds.rate as f64;
        // Whole units only: the rest of the time counts at the next look.
        if units >= 1.0 {
            let most = signed(bounds.burst);
            self.credit = self.credit.saturating_add(signed(units as u64)).min(most);
            self.at = now;
        }
    }

    /// When the node has paid for its usage.
    fn rests_until(&self, bounds: &Bounds) -> MonoTime {
        self.at + Duration::from_secs_f64((1 + self.credit.unsigned_abs()) as f64 / bounds.rate as f64)
    }

    fn spend(&mut self, turn: u64, units: u64) {
        let before = if self.heard.0 == turn { self.heard.1 } else { 0 };
        self.heard = (turn, before + units);
        self.credit = self.credit.saturating_sub(signed(units));
    }

    /// The next messages, as many as fit, and at least one.
    fn take(&mut self, left: u64) -> Option<(Taken<M, K>, u64)> {
        let Item::Heard(packet) = self.waiting.front_mut()? else {
            return match self.waiting.pop_front()? {
                Item::Connected(connection) => Some((Taken::Connected(connection), CONNECTION)),
                Item::Disconnected(connection) => Some((Taken::Disconnected(connection), 1)),
                Item::Heard(_) => None, // seen above
            };
        };
        let count = (left / packet.units).max(1).min(packet.messages.len() as u64);
        let messages: Vec<M> = packet.messages.drain(..count as usize).collect();
        let (connection, units) = (packet.connection, packet.units * count);
        let receipt = if packet.messages.is_empty() { packet.receipt.take() } else { None };
        if packet.messages.is_empty() {
            self.waiting.pop_front();
        }
        Some((Taken::Heard(connection, messages, receipt), units))
    }
}

fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
