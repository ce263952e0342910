//! A restored site: its store is older than what agents know. The engine removes or makes nothing
//! that the store does not know until an operator decides.
//!
//! ```text
//!   a backup was restored, or a node obeyed a later epoch
//!        │
//!        ▼
//!    Restored ── a node reports what it holds ──▶ what the store does not know is listed
//!        │                                       adopt, remove or a newer request takes it off
//!        ▼
//!   over: all nodes have reported and the list is empty
//! ```
//!
//! This file owns the list alone. `compare` finds what differs, `decide` carries
//! out what an operator decides, and `strays` deals with things without a row. The store
//! keeps the list as one record. It does not keep which nodes have reported: each reports again
//! after a start.
//!
//! Absent: what shows that the store is older than a node (`restored/detect.rs`).

pub(crate) mod compare;
pub(crate) mod decide;
pub(crate) mod detect;
pub(crate) mod strays;

use std::collections::{BTreeMap, BTreeSet};

use muster_flow::TableDifference;
use muster_shared::model::flow::{Bridge, FlowId};
use muster_shared::model::{LedgerEntry, Stray};
use muster_shared::{Generation, NodeId, ResourceId};
use serde::{Deserialize, Serialize};

/// Entries in the list: more than an operator reads. Things beyond are held too, and are listed
/// when others are decided.
const LISTED_MAX: usize = 10_000;

/// The difference between a held thing and the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Divergence {
    /// The node has the thing and the store has no row for it.
    Unknown,
    /// The node's thing was changed since the backup.
    Newer,
    /// The store has a row and the node does not have the thing.
    Deleted,
}

/// A held thing on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldThing {
    pub unlike: Divergence,
    /// The generation that the node has. `None`: the node does not have the thing.
    pub generation: Option<Generation>,
}

/// The part of the list for one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct OnNode {
    things: BTreeMap<ResourceId, HeldThing>,
    /// Descriptions by the agent of things without a row.
    #[serde(default)]
    strays: BTreeMap<ResourceId, Stray>,
    /// More things are held than the list has room for.
    #[serde(default)]
    has_more: bool,
    tables: BTreeMap<Bridge, TableDifference>,
    /// Tables to reconcile with the store.
    freed: BTreeSet<Bridge>,
    /// Things without a row that Muster no longer manages, while the agent's ledger has them.
    left: BTreeSet<ResourceId>,
    /// Rules that stay as they are, also after the site is no longer restored.
    left_rules: BTreeMap<Bridge, BTreeSet<FlowId>>,
}

impl OnNode {
    /// Whether the entry outlives the restored state.
    fn is_kept(&self) -> bool {
        !self.things.is_empty() || !self.left.is_empty() || !self.left_rules.is_empty()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredRecord {
    /// Whether the site is restored. Otherwise the record has what outlives that state.
    on: bool,
    nodes: BTreeMap<NodeId, OnNode>,
    /// Stacks with an operation since the restore. Their revisions are newer than what nodes have.
    #[serde(default)]
    wished: BTreeSet<u64>,
}

impl RestoredRecord {
    /// The record for a store that was made from a backup and not opened since.
    pub fn fresh() -> Self {
        Self { on: true, ..Self::default() }
    }
}

/// Reports that a node has not sent yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MissingReports {
    pub ledger: bool,
    pub tables: bool,
}

impl MissingReports {
    const ALL: Self = Self { ledger: true, tables: true };
}

/// The list, and which nodes have not reported yet.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    record: RestoredRecord,
    awaited: BTreeMap<NodeId, MissingReports>,
    is_dirty: bool,
    /// Bound on listed things of one node.
    most_of_node: usize,
}

impl Restored {
    /// The empty list of a site that is not restored.
    pub fn new(most_of_node: usize) -> Self {
        Self { most_of_node, ..Self::default() }
    }

    pub fn load(record: RestoredRecord, nodes: impl Iterator<Item = NodeId>, most_of_node: usize) -> Self {
        let mut restored = Self { record, most_of_node, ..Self::default() };
        if restored.record.on {
            restored.awaited.extend(nodes.map(|node| (node, MissingReports::ALL)));
        }
        restored
    }

    /// Notes that the site is restored and which reports are missing. If the disk of a restored
    /// site goes back once more, earlier decisions about tables no longer count.
    pub fn begin(&mut self, awaited: BTreeMap<NodeId, MissingReports>) {
        (self.record.on, self.is_dirty) = (true, true);
        for node in awaited.iter().filter(|(_, it)| it.tables).map(|(node, _)| node) {
            if let Some(on) = self.record.nodes.get_mut(node) {
                on.freed.clear();
            }
        }
        self.awaited.extend(awaited);
    }

    /// The node joins, perhaps again: the store does not know what it made since the backup.
    pub fn await_node(&mut self, node: &NodeId) {
        if self.record.on {
            self.awaited.insert(node.clone(), MissingReports::ALL);
        }
    }

    /// Notes an operation on the stack while the site is restored.
    pub fn note_wish(&mut self, stack: u64) {
        self.is_dirty |= self.record.on && self.record.wished.insert(stack);
    }

    pub fn is_wished(&self, stack: u64) -> bool {
        self.record.wished.contains(&stack)
    }

    pub fn is_on(&self) -> bool {
        self.record.on
    }

    /// Whether the node has not reported its ledger. Until then it gets no jobs.
    pub fn awaits_ledger(&self, node: &NodeId) -> bool {
        self.record.on && self.awaited.get(node).is_some_and(|awaited| awaited.ledger)
    }

    /// The node's whole ledger was compared; `things` differ.
    pub fn ledger_told(&mut self, node: &NodeId, mut things: BTreeMap<ResourceId, HeldThing>) {
        self.told(node, |awaited| awaited.ledger = false);
        if things.is_empty() && !self.record.nodes.contains_key(node) {
            return;
        }
        let room = LISTED_MAX.saturating_sub(self.listed_elsewhere(node)).min(self.most_of_node);
        let has_more = things.len() > room;
        while things.len() > room {
            things.pop_last();
        }
        let on = self.record.nodes.entry(node.clone()).or_default();
        if on.things != things || on.has_more != has_more {
            on.strays.retain(|thing, stray| {
                let held = things.get(thing).filter(|held| held.unlike == Divergence::Unknown);
                held.is_some_and(|held| held.generation == Some(stray.generation))
            });
            (on.things, on.has_more, self.is_dirty) = (things, has_more, true);
        }
        self.prune();
    }

    /// Drops nodes with nothing to keep, if the site is not restored.
    fn prune(&mut self) {
        if !self.record.on {
            self.record.nodes.retain(|_, on| on.is_kept());
        }
    }

    /// Whether differences in the node's ledger are left as they are: the ledger has not come yet,
    /// or earlier differences are undecided. Things that the node loses later are made again.
    pub fn holds_things(&self, node: &NodeId) -> bool {
        let has_held = |on: &OnNode| on.has_more || !on.things.is_empty() || !on.left.is_empty();
        self.awaits_ledger(node) || self.record.on && self.record.nodes.get(node).is_some_and(has_held)
    }

    /// Notes that all tables of the node were compared.
    pub fn tables_told(&mut self, node: &NodeId) {
        self.told(node, |awaited| awaited.tables = false);
    }

    /// The node's tables must be compared once more before the restored state ends.
    pub fn await_tables(&mut self, node: &NodeId) {
        self.awaited.entry(node.clone()).or_insert(MissingReports { ledger: false, tables: true }).tables =
            true;
    }

    fn told(&mut self, node: &NodeId, what: impl FnOnce(&mut MissingReports)) {
        if let Some(awaited) = self.awaited.get_mut(node) {
            what(awaited);
            if !awaited.ledger && !awaited.tables {
                self.awaited.remove(node);
            }
        }
    }

    fn listed_elsewhere(&self, node: &NodeId) -> usize {
        let others = self.record.nodes.iter().filter(|(other, _)| *other != node);
        others.map(|(_, on)| on.things.len()).sum()
    }

    /// A table was compared.
    pub fn table_told(&mut self, node: &NodeId, bridge: &Bridge, table: TableDifference) {
        if table.is_empty() && !self.record.nodes.contains_key(node) {
            return;
        }
        let tables = &mut self.record.nodes.entry(node.clone()).or_default().tables;
        if table.is_empty() {
            self.is_dirty |= tables.remove(bridge).is_some();
        } else if tables.get(bridge) != Some(&table) {
            tables.insert(bridge.clone(), table);
            self.is_dirty = true;
        }
    }

    pub fn thing(&self, node: &NodeId, thing: ResourceId) -> Option<HeldThing> {
        self.record.nodes.get(node)?.things.get(&thing).copied()
    }

    /// The agent's description of a thing without a row.
    pub fn stray(&self, node: &NodeId, thing: ResourceId) -> Option<&Stray> {
        self.record.nodes.get(node)?.strays.get(&thing)
    }

    /// Things without a row that the agent has not described, at most `most`.
    pub fn undescribed(&self, node: &NodeId, most: usize) -> BTreeSet<ResourceId> {
        let Some(on) = self.record.nodes.get(node) else { return BTreeSet::new() };
        let is_asked = |(thing, held): &(&ResourceId, &HeldThing)| {
            held.unlike == Divergence::Unknown && !on.strays.contains_key(*thing)
        };
        on.things.iter().filter(is_asked).map(|(thing, _)| *thing).take(most).collect()
    }

    /// Stores the agent's description of a listed thing.
    pub fn describe(&mut self, node: &NodeId, stray: Stray) {
        let Some(on) = self.record.nodes.get_mut(node) else { return };
        let held = on.things.get_mut(&stray.resource).filter(|held| held.unlike == Divergence::Unknown);
        if let Some(held) = held {
            held.generation = Some(stray.generation);
            on.strays.insert(stray.resource, stray);
            self.is_dirty = true;
        }
    }

    /// Lists a thing that became known after the node's ledger. Returns false if the thing is
    /// listed or left, or if there is no room.
    pub fn add_stray(&mut self, node: &NodeId, entry: LedgerEntry) -> bool {
        let on_node = self.record.nodes.get(node).map_or(0, |on| on.things.len());
        let has_room = self.count() < LISTED_MAX && on_node < self.most_of_node;
        let is_new = !self.is_stray(node, entry.resource);
        if is_new && has_room {
            let on = self.record.nodes.entry(node.clone()).or_default();
            let held = HeldThing { unlike: Divergence::Unknown, generation: Some(entry.generation) };
            on.things.insert(entry.resource, held);
            self.is_dirty = true;
        }
        is_new && has_room
    }

    /// Takes a thing off the list.
    pub fn drop_thing(&mut self, node: &NodeId, thing: ResourceId) -> Option<HeldThing> {
        let on = self.record.nodes.get_mut(node)?;
        on.strays.remove(&thing);
        let dropped = on.things.remove(&thing);
        self.is_dirty |= dropped.is_some();
        self.prune();
        dropped
    }

    /// Takes a table off the list.
    pub fn drop_table(&mut self, node: &NodeId, bridge: &Bridge) -> Option<TableDifference> {
        let dropped = self.record.nodes.get_mut(node)?.tables.remove(bridge);
        self.is_dirty |= dropped.is_some();
        dropped
    }

    /// Leaves a listed thing on its server. Muster manages it no longer.
    pub fn leave(&mut self, node: &NodeId, thing: ResourceId) {
        if self.drop_thing(node, thing).is_some() {
            self.record.nodes.entry(node.clone()).or_default().left.insert(thing);
        }
    }

    /// As [`Restored::leave`], for a thing that need not be listed.
    pub fn leave_unlisted(&mut self, node: &NodeId, thing: ResourceId) {
        self.drop_thing(node, thing);
        self.is_dirty |= self.record.nodes.entry(node.clone()).or_default().left.insert(thing);
    }

    /// Whether the node is known to hold the thing and the store has no row for it.
    pub fn is_stray(&self, node: &NodeId, thing: ResourceId) -> bool {
        let on = self.record.nodes.get(node);
        on.is_some_and(|on| {
            let held = on.things.get(&thing);
            held.is_some_and(|held| held.unlike == Divergence::Unknown) || on.left.contains(&thing)
        })
    }

    /// Forgets left things that the node's ledger, reported whole, no longer has.
    pub fn keep_left(&mut self, node: &NodeId, is_there: impl Fn(&ResourceId) -> bool) {
        let Some(on) = self.record.nodes.get_mut(node) else { return };
        let before = on.left.len();
        on.left.retain(is_there);
        self.is_dirty |= on.left.len() != before;
        self.prune();
    }

    pub fn is_left(&self, node: &NodeId, thing: ResourceId) -> bool {
        self.record.nodes.get(node).is_some_and(|on| on.left.contains(&thing))
    }

    /// Leaves the differing rules of a table as they are.
    pub fn leave_table(&mut self, node: &NodeId, bridge: &Bridge) {
        let Some(TableDifference { unknown, newer, deleted }) = self.drop_table(node, bridge) else { return };
        let left =
            self.record.nodes.entry(node.clone()).or_default().left_rules.entry(bridge.clone()).or_default();
        left.extend([unknown, newer, deleted].into_iter().flatten());
    }

    /// Takes rules off the list that are on the device as in the store. They are not left if they
    /// differ again.
    pub fn rules_applied(&mut self, node: &NodeId, bridge: &Bridge, rules: impl Iterator<Item = FlowId>) {
        let Some(on) = self.record.nodes.get_mut(node) else { return };
        let (listed, left) = (on.tables.get_mut(bridge), on.left_rules.get_mut(bridge));
        if listed.is_none() && left.is_none() {
            return;
        }
        let of_table = listed.map(|it| [&mut it.unknown, &mut it.newer, &mut it.deleted]);
        let mut sets: Vec<&mut BTreeSet<FlowId>> = of_table.into_iter().flatten().chain(left).collect();
        for rule in rules {
            for set in &mut sets {
                self.is_dirty |= set.remove(&rule);
            }
        }
        if on.tables.get(bridge).is_some_and(TableDifference::is_empty) {
            on.tables.remove(bridge);
        }
        if on.left_rules.get(bridge).is_some_and(BTreeSet::is_empty) {
            on.left_rules.remove(bridge);
        }
        self.prune();
    }

    /// Whether rules of a table are listed, or left as they are.
    pub fn lists_or_leaves(&self, node: &NodeId, bridge: &Bridge) -> bool {
        let on = self.record.nodes.get(node);
        on.is_some_and(|on| on.tables.contains_key(bridge) || on.left_rules.contains_key(bridge))
    }

    /// Rules of a table that are left as they are. `None`: all rules are compared.
    pub fn left_rules(&self, node: &NodeId, bridge: &Bridge) -> Option<&BTreeSet<FlowId>> {
        self.record.nodes.get(node)?.left_rules.get(bridge)
    }

    /// Forgets a node that was removed or revoked.
    pub fn forget_node(&mut self, node: &NodeId) {
        self.awaited.remove(node);
        self.is_dirty |= self.record.nodes.remove(node).is_some();
    }

    /// Lets a table be reconciled with the store.
    pub fn free_table(&mut self, node: &NodeId, bridge: &Bridge) {
        let on = self.record.nodes.entry(node.clone()).or_default();
        self.is_dirty |= on.freed.insert(bridge.clone());
    }

    /// Whether a table is not reconciled: its comparison is missing, or its differences are undecided.
    pub fn holds_table(&self, node: &NodeId, bridge: &Bridge) -> bool {
        let on = self.record.nodes.get(node);
        let is_freed = on.is_some_and(|on| on.freed.contains(bridge));
        let is_listed = on.is_some_and(|on| on.tables.contains_key(bridge));
        let is_awaited = self.awaited.get(node).is_some_and(|awaited| awaited.tables);
        self.record.on && !is_freed && (is_listed || is_awaited)
    }

    /// Ends the restored state if everything is decided.
    pub fn ends(&mut self) -> bool {
        let ends = self.record.on && self.awaited.is_empty() && self.count() == 0 && !self.has_more();
        if ends {
            (self.record.on, self.is_dirty) = (false, true);
            for on in self.record.nodes.values_mut() {
                on.freed.clear();
            }
            self.record.wished.clear();
            self.prune();
        }
        ends
    }

    /// Nodes with unlisted differences and no listed ones, as many as the list has room for.
    pub fn beyond_the_list(&self) -> Vec<NodeId> {
        let is_beyond = |(_, on): &(&NodeId, &OnNode)| on.has_more && on.things.is_empty();
        let room = LISTED_MAX.saturating_sub(self.count());
        self.record.nodes.iter().filter(is_beyond).map(|(node, _)| node.clone()).take(room).collect()
    }

    fn has_more(&self) -> bool {
        self.record.nodes.values().any(|on| on.has_more)
    }

    /// Entries in the list: things and tables.
    pub fn count(&self) -> usize {
        self.record.nodes.values().map(|on| on.things.len() + on.tables.len()).sum()
    }

    /// Entries in the list for one node.
    pub fn count_on(&self, node: &NodeId) -> usize {
        self.record.nodes.get(node).map_or(0, |on| on.things.len() + on.tables.len())
    }

    pub fn things(&self) -> impl Iterator<Item = (&NodeId, ResourceId, HeldThing)> {
        let of = |(node, on)| {
            let on: &OnNode = on;
            on.things.iter().map(move |(thing, held)| (node, *thing, *held))
        };
        self.record.nodes.iter().flat_map(of)
    }

    pub fn tables(&self) -> impl Iterator<Item = (&NodeId, &Bridge, &TableDifference)> {
        let of = |(node, on)| {
            let on: &OnNode = on;
            on.tables.iter().map(move |(bridge, held)| (node, bridge, held))
        };
        self.record.nodes.iter().flat_map(of)
    }

    /// The record to persist, once after each change. The inner `None`: there is nothing to keep.
    pub fn changed(&mut self) -> Option<Option<RestoredRecord>> {
        let is_needed = self.record.on || !self.record.nodes.is_empty();
        std::mem::take(&mut self.is_dirty).then(|| is_needed.then(|| self.record.clone()))
    }
}

#[cfg(test)]
mod tests;
