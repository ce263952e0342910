//! Nodes and join tokens.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use muster_shared::model::flow::Bridge;
use muster_shared::model::{DriftState, LedgerEntry};
use muster_shared::pattern::matches;
use muster_shared::{Generation, MonoTime, NodeId, ResourceId};

use crate::engine::Engine;
use crate::facts::{Asking, Told};
use crate::lost::Lost;
use crate::membership::{LABELS_MAX, check_label};
use crate::pace::Pace;
use crate::record::{Change, NodeRecord, TokenRecord};
use crate::request::{Answer, JoinAsk, NewToken, Refusal};
use crate::resource::Slot;

/// Where a node lies in memory; nodes are never dropped from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeKey(pub u32);

/// A deployed server, or the name of one that has not joined yet.
#[derive(Debug)]
pub(crate) struct Node {
    pub name: NodeId,
    /// None: it has never joined.
    pub joined: Option<NodeRecord>,
    /// Its present connection.
    pub connection: Option<u64>,
    /// When something of it arrived last on this connection.
    pub heard: MonoTime,
    /// The agent said `Hello` on this connection.
    pub ready: bool,
    /// When it was last, or when it joined.
    pub away_since: MonoTime,
    /// Rows whose job it may have.
    pub sent: BTreeSet<Slot>,
    /// Rows that wait for it to come, or for room.
    pub queue: VecDeque<Slot>,
    /// Rows that are looked at when it is back: a correction or a restart of them is owed.
    pub put_off: BTreeSet<Slot>,
    /// Of what its ledger is known to hold; see [`LedgerEntry::digest`].
    pub ledger: u128,
    /// Pages of its ledger, while they come in.
    pub pages: Option<BTreeMap<ResourceId, LedgerEntry>>,
    /// Rows on it, lost ones among them.
    pub rows: u64,
    /// What may be left on it from before it was removed.
    pub lost: Lost,
    /// What it said last that it is; at most 64 KiB, for the wire takes no more.
    pub facts: Option<Told>,
    /// Who waits for that.
    pub asking: Asking,
    /// What its agent has said to differ and not said to be in sync since, and that as a digest: see
    /// [`Drift::digest`](muster_shared::model::Drift::digest).
    pub drifts: BTreeMap<ResourceId, (Generation, DriftState)>,
    pub drifts_digest: u128,
    /// Its agent has said how all its devices stand since it greeted.
    pub flows_heard: bool,
    /// Those it has named so far.
    pub flows_said: BTreeSet<Bridge>,
}

impl Node {
    /// Who waits for room, in their order.
    pub fn in_line(&self) -> Vec<Slot> {
        self.lost.queue.iter().chain(&self.queue).copied().collect()
    }

    /// What the node may have from before it was removed goes before all else.
    pub fn next_in_line(&mut self) -> Option<Slot> {
        match self.lost.queue.pop_front() {
            Some(slot) => Some(slot),
            None if self.lost.is_open() => None,
            None => self.queue.pop_front(),
        }
    }
}

/// Nodes known or named; more are refused, for each costs memory.
const NODES_MAX: usize = 200_000;
/// Tokens open at a time.
const TOKENS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Nodes {
    nodes: Vec<Node>,
    by_name: BTreeMap<NodeId, NodeKey>,
    /// Those that have joined and may have jobs, by name.
    joined: Vec<NodeKey>,
    pub tokens: BTreeMap<[u8; 8], TokenRecord>,
    /// Of those of them that have a rate and were used.
    pub paces: BTreeMap<[u8; 8], Pace>,
}

impl Nodes {
    /// Whether there was such a token.
    pub fn remove_token(&mut self, id: &[u8; 8]) -> bool {
        self.paces.remove(id);
        self.tokens.remove(id).is_some()
    }

    pub fn key(&mut self, name: &NodeId) -> NodeKey {
        if let Some(key) = self.by_name.get(name) {
            return *key;
        }
        let key = NodeKey(u32::try_from(self.nodes.len()).expect("fewer than four billion nodes"));
        self.nodes.push(Node {
            name: name.clone(),
            joined: None,
            connection: None,
            heard: MonoTime::default(),
            ready: false,
            away_since: MonoTime::default(),
            sent: BTreeSet::new(),
            queue: VecDeque::new(),
            put_off: BTreeSet::new(),
            ledger: 0,
            pages: None,
            rows: 0,
            lost: Lost::default(),
            facts: None,
            asking: Asking::default(),
            drifts: BTreeMap::new(),
            drifts_digest: 0,
            flows_heard: false,
            flows_said: BTreeSet::new(),
        });
        self.by_name.insert(name.clone(), key);
        key
    }

    pub fn find(&self, name: &NodeId) -> Option<NodeKey> {
        self.by_name.get(name).copied()
    }

    /// For so many more.
    pub fn has_room(&self, more: usize) -> bool {
        self.nodes.len() + more <= NODES_MAX
    }

    /// A node has joined, perhaps again.
    pub fn join(&mut self, record: NodeRecord) {
        let key = self.key(&record.name);
        match self.joined.binary_search_by(|other| self[*other].name.cmp(&record.name)) {
            Err(at) if !record.revoked => self.joined.insert(at, key),
            Ok(_) | Err(_) => {}
        }
        self[key].joined = Some(record);
    }

    /// Nothing that may be anywhere goes there any more.
    pub fn leave(&mut self, key: NodeKey) {
        self.joined.retain(|other| *other != key);
    }

    /// A node for a resource that may be anywhere: spread by row.
    pub fn any(&self, row: u64) -> Option<NodeKey> {
        let count = u64::try_from(self.joined.len()).ok().filter(|count| *count > 0)?;
        self.joined.get(usize::try_from(row % count).ok()?).copied()
    }

    /// How many have joined and may have jobs.
    pub fn count(&self) -> usize {
        self.joined.len()
    }

    /// It has joined and was not cut off since.
    pub fn is_welcome(&self, key: NodeKey) -> bool {
        self[key].joined.as_ref().is_some_and(|joined| !joined.revoked)
    }

    pub fn is_joined(&self, name: &NodeId) -> bool {
        self.find(name).is_some_and(|key| self[key].joined.is_some())
    }

    /// In the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (NodeKey, &Node)> {
        self.by_name.values().map(|key| (*key, &self[*key]))
    }

    /// The name under which a server joined that is called `name` in full or, where that is but one, for short. `None`:
    /// nobody is called so yet.
    ///
    /// # Errors
    /// Several have that short name.
    pub fn full_name(&self, name: &NodeId) -> Result<Option<NodeId>, String> {
        if self.is_joined(name) {
            return Ok(Some(name.clone()));
        }
        // In the order of names these are together, and the least that a domain can begin with is a zero.
        let prefix = format!("{name}.");
        let Ok(first) = format!("{prefix}0").parse::<NodeId>() else { return Ok(None) };
        let names = self.by_name.range(first..).take_while(|(other, _)| other.as_str().starts_with(&prefix));
        let mut found = names.filter(|(_, key)| self[**key].joined.is_some()).map(|(other, _)| other);
        match (found.next(), found.next()) {
            (Some(one), Some(another)) => {
                Err(format!("'{name}' is short for {one} and for {another}: give the whole name"))
            }
            (one, _) => Ok(one.cloned()),
        }
    }

    /// The joined name that is most like `name`, in full or for short, if any is alike.
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
        &self.nodes[key.0 as usize]
    }
}

impl std::ops::IndexMut<NodeKey> for Nodes {
    fn index_mut(&mut self, key: NodeKey) -> &mut Node {
        &mut self.nodes[key.0 as usize]
    }
}

/// Levenshtein's, for names of bounded length.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replace = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

impl Engine {
    pub(crate) fn new_token(&mut self, token: NewToken) -> Result<Answer, Refusal> {
        if self.nodes.tokens.len() >= TOKENS_MAX {
            return Err(Refusal::Conflict(format!(
                "{TOKENS_MAX} join tokens are open: revoke some with 'muster node token-revoke'"
            )));
        }
        if token.uses == 0 || token.labels.len() > LABELS_MAX {
            return Err(Refusal::Invalid(format!(
                "a token has at least one use and at most {LABELS_MAX} labels"
            )));
        }
        for (key, value) in &token.labels {
            check_label(key, value)?;
        }
        let record = TokenRecord { uses_left: token.uses, token };
        self.nodes.tokens.insert(record.token.id, record.clone());
        self.change(Change::Token(Box::new(record)));
        Ok(Answer::Done)
    }

    pub(crate) fn revoke_token(&mut self, id: [u8; 8]) -> Result<Answer, Refusal> {
        if !self.nodes.remove_token(&id) {
            return Err(Refusal::NotFound("no such token: see 'muster node tokens'".into()));
        }
        self.change(Change::TokenRemoved(id));
        Ok(Answer::Done)
    }

    pub(crate) fn join(&mut self, ask: JoinAsk) -> Result<Answer, Refusal> {
        let refuse = |why: &str| Err(Refusal::Conflict(why.to_owned()));
        let secret_hash = ask.secret.digest();
        if let Some(joined) = self.nodes.find(&ask.name).and_then(|key| self.nodes[key].joined.as_ref())
            && joined.joined_with == (ask.token_id, secret_hash)
            && joined.seal_public == ask.seal_public
            && !joined.revoked
        {
            return Ok(Answer::Joined { node: ask.name }); // the first answer was lost
        }
        let Some(record) = self.nodes.tokens.get(&ask.token_id) else {
            return refuse("the join token is unknown, revoked or used up: ask for a new one");
        };
        if record.token.secret_hash != secret_hash {
            return refuse("the join token's secret is wrong: copy the token whole");
        }
        if ask.wall > record.token.expires {
            return refuse("the join token has expired: ask for a new one");
        }
        if let Some(pattern) = record.token.name.as_deref().filter(|p| !matches(p, ask.name.as_str())) {
            return Err(Refusal::Conflict(format!(
                "the join token is for '{pattern}', not for '{}'",
                ask.name
            )));
        }
        if self.is_taken(&ask.name) && record.token.name.as_deref() != Some(ask.name.as_str()) {
            return Err(Refusal::Conflict(format!(
                "'{}' has joined before: to join again it needs a token for that name (--name {})",
                ask.name, ask.name
            )));
        }
        if self.nodes.find(&ask.name).is_none() && !self.nodes.has_room(1) {
            return Err(Refusal::Conflict(format!("the site has {NODES_MAX} nodes, which is its limit")));
        }
        if let Some(rate) = record.token.rate
            && let Err(after) = self.nodes.paces.entry(ask.token_id).or_default().take(rate, self.now)
        {
            let why = format!("the join token lets {rate} join, and others come first");
            return Err(Refusal::Later { why, after });
        }
        let left = TokenRecord { uses_left: record.uses_left.saturating_sub(1), ..record.clone() };
        let labels = left.token.labels.clone();
        if left.uses_left == 0 {
            self.nodes.remove_token(&ask.token_id);
            self.change(Change::TokenRemoved(ask.token_id));
        } else {
            self.nodes.tokens.insert(ask.token_id, left.clone());
            self.change(Change::Token(Box::new(left)));
        }
        let joined = NodeRecord {
            name: ask.name.clone(),
            labels,
            seal_public: ask.seal_public,
            agent_version: ask.agent_version,
            revoked: false,
            // Whoever put the server there was at work on it, and says when that is done.
            maintenance: self.nodes.find(&ask.name).is_some_and(|key| self.is_in_maintenance(key)),
            joined_with: (ask.token_id, secret_hash),
        };
        if let Some(key) = self.nodes.find(&ask.name) {
            // Whoever speaks under that name until now has other keys.
            self.away(key);
            // It may be another server, or installed anew.
            self.nodes[key].facts = None;
        }
        self.nodes.join(joined.clone());
        self.change(Change::Node(Box::new(joined)));
        self.place_the_unplaced();
        if let Some(key) = self.nodes.find(&ask.name) {
            self.nodes[key].away_since = self.now;
            self.wake_those_asking(key);
            self.follow_node(key);
            if self.nodes[key].rows > 0 {
                // With the labels of its token it may be meant again.
                self.correct_all(|row| row.node == Some(key));
            }
        }
        self.name_the_unnamed(&ask.name);
        Ok(Answer::Joined { node: ask.name })
    }
}

impl Engine {
    /// The name was a node's that was removed, and something may be left on it.
    pub(crate) fn was_removed(&self, name: &NodeId) -> bool {
        let node = self.nodes.find(name).map(|key| &self.nodes[key]);
        node.is_some_and(|node| node.joined.is_none() && !node.lost.is_empty())
    }

    /// The name was a node's, and something of that node counts still.
    fn is_taken(&self, name: &NodeId) -> bool {
        let node = self.nodes.find(name).map(|key| &self.nodes[key]);
        node.is_some_and(|node| node.joined.is_some() || !node.lost.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, want) in [("web-1", "web-1", 0), ("web-1", "web-2", 1), ("web", "we", 1), ("", "abc", 3)] {
            assert_eq!(distance(a, b), want);
        }
    }
}
