//! Nodes: what the engine knows of each server, and of each name that a template gives. Chooses a
//! node for a resource that names none.
//!
//! Absent: requests about nodes, such as maintenance (`node/requests.rs`), what a node in maintenance holds back
//! (`traversal/gate.rs`, and `drift/background_rows.rs` for corrections), and the state that
//! operators see (`view/site.rs`).

pub(crate) mod awaited;
pub(crate) mod away;
pub(crate) mod carrier;
pub(crate) mod clock;
pub(crate) mod clones;
pub(crate) mod datapath;
pub(crate) mod disk_full;
pub(crate) mod epoch_check;
pub(crate) mod facts;
pub(crate) mod greeting_state;
pub(crate) mod heartbeat;
pub(crate) mod join_token;
pub(crate) mod ledger_compare;
pub(crate) mod lost_row;
pub(crate) mod moving;
pub(crate) mod older_agent;
pub(crate) mod removal;
pub(crate) mod requests;
pub(crate) mod returned;
pub(crate) mod server;
pub(crate) mod session;
pub(crate) mod survey;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use muster_shared::model::{DriftState, LedgerEntry};
use muster_shared::near::distance;
use muster_shared::{Generation, MonoTime, NodeId, ResourceId};

use crate::engine::Engine;
use crate::graph::Graph;
use crate::node::awaited::short_names;
use crate::node::clones::Instances;
use crate::node::facts::{FactsRequests, NodeFacts};
use crate::node::greeting_state::Presence;
use crate::node::join_token::Tokens;
use crate::node::moving::Move;
use crate::node::removal::LostRows;
use crate::node::survey::SurveyRequests;
use crate::record::NodeRecord;
use crate::request::{Answer, NewToken, Refusal, Request};
use crate::restored::strays::OpenQueries;
use crate::row::Slot;

/// Index of a node. A name that nothing refers to gives its place to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeKey(pub u32);

/// A deployed server, or the name of one that has not joined yet.
#[derive(Debug)]
pub(crate) struct Node {
    pub name: NodeId,
    /// `None`: the node has never joined, or was removed.
    pub joined: Option<NodeRecord>,
    pub presence: Presence,
    /// The highest connection number so far, open or closed. The link may report two in any order.
    pub newest: u64,
    /// When the last message arrived on this connection.
    pub heard: MonoTime,
    /// When the node was last connected, or when it joined.
    pub away_since: MonoTime,
    /// Instances of the agent that sent a Hello. Two that live mean a copied identity.
    pub instances: Instances,
    /// The engine has welcomed the node since the last start, so the node obeys its epoch.
    pub was_welcomed: bool,
    /// The node obeys another controller, and the engine has reported that.
    pub is_elsewhere: bool,
    /// The part of the wire format that the agent reads on this connection:
    /// [`READS`](muster_shared::wire::READS).
    pub reads: u32,
    /// The move to another site that the agent was asked for on this connection.
    pub moving: Option<Move>,
    /// Descriptions asked for on this connection that have not come.
    pub asked_strays: OpenQueries,
    /// Rows whose job the agent may have.
    pub sent: BTreeSet<Slot>,
    /// Rows that wait for the node to connect, or for room.
    pub queue: VecDeque<Slot>,
    /// The reason why the agent has no room to record jobs. `None`: it has room.
    pub disk_full: Option<Box<str>>,
    /// Seconds by which the node's clock is ahead of the controller's, if that is more than a little.
    pub clock_off: Option<i64>,
    /// Rows that wait for room on the node's disk, outside of the queue.
    pub no_room: VecDeque<Slot>,
    /// Rows with a correction or a unit restart that waits for the node to return.
    pub put_off: BTreeSet<Slot>,
    /// Digest of what the agent's ledger is known to hold: see [`LedgerEntry::digest`].
    pub ledger: u128,
    /// Pages of the agent's ledger while they arrive.
    pub pages: Option<BTreeMap<ResourceId, LedgerEntry>>,
    /// Rows on the node, including lost ones.
    pub rows: BTreeSet<Slot>,
    /// Rows of things left on the node from before it was removed.
    pub lost: LostRows,
    /// The facts that the agent sent last. The wire format limits them to 64 KiB.
    pub facts: Option<NodeFacts>,
    /// Requests for facts that wait for an answer.
    pub asking: FactsRequests,
    /// Requests for a survey that wait for an answer.
    pub surveys: SurveyRequests,
    /// Drift that the agent has reported and not reported as in sync since. `drifts_digest` is its
    /// digest: see [`Drift::digest`](muster_shared::model::Drift::digest).
    pub drifts: BTreeMap<ResourceId, (Generation, DriftState)>,
    pub drifts_digest: u128,
}

impl Node {
    fn named(name: NodeId) -> Self {
        Self {
            name,
            joined: None,
            presence: Presence::Away,
            newest: 0,
            heard: MonoTime::default(),
            away_since: MonoTime::default(),
            instances: Instances::default(),
            was_welcomed: false,
            is_elsewhere: false,
            reads: 0,
            moving: None,
            asked_strays: OpenQueries::new(),
            sent: BTreeSet::new(),
            queue: VecDeque::new(),
            disk_full: None,
            clock_off: None,
            no_room: VecDeque::new(),
            put_off: BTreeSet::new(),
            ledger: 0,
            pages: None,
            rows: BTreeSet::new(),
            lost: LostRows::default(),
            facts: None,
            asking: FactsRequests::default(),
            surveys: SurveyRequests::default(),
            drifts: BTreeMap::new(),
            drifts_digest: 0,
        }
    }

    /// Whether nothing refers to the node: no row, no job, no agent, no lost row.
    fn is_vacant(&self) -> bool {
        self.joined.is_none()
            && self.presence == Presence::Away
            && (self.rows.len(), self.sent.len()) == (0, 0)
            && self.asking.is_empty()
            && self.surveys.is_empty()
            && self.lost.is_empty()
            && self.put_off.is_empty()
    }

    /// Rows that wait for room, in their order.
    pub fn in_line(&self) -> Vec<Slot> {
        self.lost.queue.iter().chain(&self.no_room).chain(&self.queue).copied().collect()
    }

    /// The next row to send. Lost rows go first. While one of them is open, no other row goes.
    pub fn next_in_line(&mut self) -> Option<Slot> {
        match self.lost.queue.pop_front() {
            Some(slot) => Some(slot),
            None if self.lost.is_open() => None,
            None => self.queue.pop_front(),
        }
    }
}

/// Nodes known or named. The engine refuses more, because each costs memory.
pub(crate) const NODES_MAX: usize = 200_000;

#[derive(Debug, Default)]
pub(crate) struct Nodes {
    nodes: Vec<Node>,
    /// Free places: nothing refers to their names.
    vacant: Vec<NodeKey>,
    /// The number of names when [`Self::give_back`] last ran.
    looked_through: usize,
    by_name: BTreeMap<NodeId, NodeKey>,
    /// Nodes that have joined and may have jobs, by name.
    joined: Vec<NodeKey>,
    pub tokens: Tokens,
    /// Counts reads and writes of single nodes.
    #[cfg(any(test, feature = "visits"))]
    pub visits: std::cell::Cell<usize>,
}

impl Nodes {
    pub fn key(&mut self, name: &NodeId) -> NodeKey {
        if let Some(key) = self.by_name.get(name) {
            return *key;
        }
        let node = Node::named(name.clone());
        let key = match self.vacant.pop() {
            Some(key) => {
                self[key] = node;
                key
            }
            None => {
                self.nodes.push(node);
                NodeKey(u32::try_from(self.nodes.len() - 1).expect("fewer than four billion nodes"))
            }
        };
        self.by_name.insert(name.clone(), key);
        key
    }

    pub fn find(&self, name: &NodeId) -> Option<NodeKey> {
        self.by_name.get(name).copied()
    }

    /// Number of names, joined or not.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Frees the places of names that nothing refers to. `has_devices` says whether flow tables or
    /// ports know a name.
    fn give_back(&mut self, has_devices: impl Fn(&NodeId) -> bool) {
        let (nodes, vacant) = (&self.nodes, &mut self.vacant);
        self.by_name.retain(|name, key| {
            let goes = nodes[key.0 as usize].is_vacant() && !has_devices(name);
            vacant.extend(goes.then_some(*key));
            !goes
        });
        self.looked_through = self.by_name.len();
    }

    /// Records a node that joins for the first time or again.
    pub fn join(&mut self, record: NodeRecord) {
        let key = self.key(&record.name);
        match self.joined.binary_search_by(|other| self[*other].name.cmp(&record.name)) {
            Err(at) if !record.revoked => self.joined.insert(at, key),
            Ok(_) | Err(_) => {}
        }
        self[key].joined = Some(record);
    }

    /// Takes a node out of those that [`Self::any`] chooses from.
    pub fn leave(&mut self, key: NodeKey) {
        self.joined.retain(|other| *other != key);
    }

    /// A node for a resource that names none. The row number spreads resources over the nodes.
    pub fn any(&self, row: u64) -> Option<NodeKey> {
        let count = u64::try_from(self.joined.len()).ok().filter(|count| *count > 0)?;
        self.joined.get(usize::try_from(row % count).ok()?).copied()
    }

    /// Number of nodes that have joined and may have jobs.
    pub fn count(&self) -> usize {
        self.joined.len()
    }

    /// Whether the node has joined and is not revoked.
    pub fn is_welcome(&self, key: NodeKey) -> bool {
        self[key].joined.as_ref().is_some_and(|joined| !joined.revoked)
    }

    pub fn is_joined(&self, name: &NodeId) -> bool {
        self.find(name).is_some_and(|key| self[key].joined.is_some())
    }

    /// The nodes, by name.
    pub fn iter(&self) -> impl Iterator<Item = (NodeKey, &Node)> {
        self.by_name.values().map(|key| (*key, &self[*key]))
    }

    /// The nodes with a name after this one, by name.
    pub fn iter_after(&self, name: Option<&NodeId>) -> impl Iterator<Item = (NodeKey, &Node)> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_name.range::<NodeId, _>((from, Bound::Unbounded)).map(|(_, key)| (*key, &self[*key]))
    }

    /// The joined server with this full name, or the only one with this short name. `None`: no such
    /// server has joined.
    ///
    /// # Errors
    /// Several servers have that short name.
    pub fn full_name(&self, name: &NodeId) -> Result<Option<NodeId>, String> {
        if self.is_joined(name) {
            return Ok(Some(name.clone()));
        }
        let mut found = self.joined_below(name);
        match (found.next(), found.next()) {
            (Some(one), Some(another)) => {
                Err(format!("'{name}' is short for {one} and for {another}: give the whole name"))
            }
            (one, _) => Ok(one.cloned()),
        }
    }

    /// Nodes that have joined and may be called `name` for short.
    fn joined_below(&self, name: &NodeId) -> impl Iterator<Item = &NodeId> {
        // The names are sorted, so the matches are together. The least character of a domain is a zero.
        let prefix = format!("{name}.");
        let first = format!("{prefix}0").parse::<NodeId>().ok();
        let names = first.into_iter().flat_map(|first| self.by_name.range(first..));
        names
            .take_while(move |(other, _)| other.as_str().starts_with(&prefix))
            .filter(|(_, key)| self[**key].joined.is_some())
            .map(|(other, _)| other)
    }

    /// Checks that `name` is no joined server's short name, and that no joined name is short for it.
    ///
    /// # Errors
    /// A template that names one server could mean the other. Two that joined before this check
    /// keep their names.
    pub(crate) fn check_distinct(&self, name: &NodeId) -> Result<(), Refusal> {
        if self.is_joined(name) {
            return Ok(());
        }
        if let Some(full) = self.joined_below(name).next() {
            return Err(Refusal::Conflict(format!(
                "'{name}' is short for {full}, which has joined: give this server another name, or its name in full \
                 (--name); if {full} is gone, remove it first: muster node remove {full}"
            )));
        }
        if let Some(short) = short_names(name).find(|short| self.is_joined(short)) {
            return Err(Refusal::Conflict(format!(
                "a node '{short}' has joined, and that is short for '{name}': give this server another name; if \
                 {short} is gone, or is this server, remove it first: muster node remove {short}"
            )));
        }
        Ok(())
    }

    /// Whether the node of this name was removed and something may be left on it.
    pub(crate) fn was_removed(&self, name: &NodeId) -> bool {
        let node = self.find(name).map(|key| &self[key]);
        node.is_some_and(|node| node.joined.is_none() && !node.lost.is_empty())
    }

    /// The reason why nothing happens on a node that has not joined, for operators.
    pub fn never_joined(&self, name: &NodeId) -> String {
        match self.nearest(name.as_str()) {
            _ if self.was_removed(name) => format!("node {name} was removed and is waited for"),
            Some(near) => format!("node {name} has never joined and is waited for; did you mean {near}?"),
            None => format!("node {name} has never joined and is waited for"),
        }
    }

    /// The joined name that is most like `name`, in full or short form, if any is alike.
    pub fn nearest(&self, name: &str) -> Option<&NodeId> {
        let far = |other: &str| {
            let short = other.split_once('.').filter(|_| !name.contains('.')).map(|(short, _)| short);
            let short = short.map(|short| distance(name, short)).filter(|distance| *distance <= 2);
            short.into_iter().chain(Some(distance(name, other))).min().unwrap_or(usize::MAX)
        };
        self.iter()
            .filter(|(_, node)| node.joined.is_some())
            .map(|(_, node)| (far(node.name.as_str()), &node.name))
            .filter(|(distance, _)| *distance <= 3)
            .min()
            .map(|(_, name)| name)
    }
}

impl std::ops::Index<NodeKey> for Nodes {
    type Output = Node;

    fn index(&self, key: NodeKey) -> &Node {
        #[cfg(any(test, feature = "visits"))]
        self.visits.update(|visits| visits + 1);
        &self.nodes[key.0 as usize]
    }
}

impl std::ops::IndexMut<NodeKey> for Nodes {
    fn index_mut(&mut self, key: NodeKey) -> &mut Node {
        #[cfg(any(test, feature = "visits"))]
        self.visits.update(|visits| visits + 1);
        &mut self.nodes[key.0 as usize]
    }
}

impl Graph {
    pub(crate) fn new_token(&mut self, token: NewToken, wall: u64) -> Result<Answer, Refusal> {
        self.nodes.tokens.remove_expired(wall).into_iter().for_each(|change| self.ctx.change(change));
        self.nodes.tokens.check(&token, self.ctx.limits.tokens_max)?;
        // A pattern names no server yet. The check of its name follows when the server joins.
        if let Some(name) = token.name.as_deref().and_then(|name| name.parse().ok()) {
            self.nodes.check_distinct(&name)?;
        }
        let change = self.nodes.tokens.add(token);
        self.ctx.change(change);
        Ok(Answer::Done)
    }

    /// Whether there is room for `more` new names.
    pub(crate) fn has_room_for_nodes(&self, more: usize) -> bool {
        self.nodes.len() + more <= self.ctx.limits.nodes_max
    }

    /// Closes tokens for this node only: it may know their secrets, and would join again at once.
    pub(crate) fn unbind_tokens(&mut self, name: &NodeId) {
        self.nodes.tokens.remove_bound_to(name).into_iter().for_each(|change| self.ctx.change(change));
    }

    pub(crate) fn revoke_token(&mut self, id: [u8; 8]) -> Result<Answer, Refusal> {
        let Some(change) = self.nodes.tokens.remove(id) else {
            return Err(Refusal::NotFound("no such token: see 'muster node tokens'".into()));
        };
        self.ctx.change(change);
        Ok(Answer::Done)
    }
}

impl Engine {
    /// Frees names that nothing refers to, before a request is handled: the request may keep
    /// places. The search takes milliseconds. It runs only when the names are full, or once per
    /// number of names when a request may name many.
    pub(crate) fn give_names_back(&mut self, request: &Request) {
        let (named, most) = (self.graph().nodes.len(), self.graph().ctx.limits.nodes_max);
        let may_name_many =
            matches!(request, Request::Create { .. } | Request::Update { .. } | Request::ApplyFlows { .. });
        let is_due = may_name_many && named > most / 2 && named != self.graph().nodes.looked_through;
        if named >= most || is_due {
            let (flows, intents) = (&self.flows, &self.intents);
            self.traversals.jobs.graph.nodes.give_back(|name| flows.knows(name) || intents.ports.knows(name));
        }
    }
}

impl Graph {
    /// Whether a node of this name has joined, or was removed and something may be left on it.
    pub(crate) fn is_taken(&self, name: &NodeId) -> bool {
        let node = self.nodes.find(name).map(|key| &self.nodes[key]);
        node.is_some_and(|node| node.joined.is_some() || !node.lost.is_empty())
    }

    /// Whether an operator holds back the node's jobs.
    pub(crate) fn is_in_maintenance(&self, key: NodeKey) -> bool {
        self.nodes[key].joined.as_ref().is_some_and(|joined| joined.maintenance)
    }

    /// The node of this name, if it has joined.
    pub(crate) fn joined(&self, name: &NodeId) -> Result<NodeKey, Refusal> {
        if let Some(key) = self.nodes.find(name).filter(|key| self.nodes[*key].joined.is_some()) {
            return Ok(key);
        }
        Err(Refusal::NotFound(match self.nodes.nearest(name.as_str()) {
            Some(near) => format!("no node '{name}' has joined; did you mean {near}?"),
            None => format!("no node '{name}' has joined: see 'muster node list'"),
        }))
    }
}
