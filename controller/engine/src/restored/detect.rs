//! Notices that this store is older than a node, as after a backup was restored, and begins the restored state. A node
//! that obeys another controller is refused.
//!
//! Absent: what an epoch says of the store (`node/epoch_check.rs`), and what a restored site holds back (`restored.rs`).

use std::collections::BTreeMap;

use muster_shared::model::LedgerEntry;
use muster_shared::{Epoch, EpochId, ResourceId};

use crate::engine::{Effect, Engine};
use crate::node::epoch_check::EpochOrigin;
use crate::node::{Node, NodeKey};
use crate::restored::MissingReports;
use crate::row::Slot;
use crate::traversals::Traversals;
impl Engine {
    /// Whether the node may be welcomed. If it knows a later epoch, this engine's epoch rises above that.
    pub(crate) fn takes_up(&mut self, key: NodeKey, theirs: EpochId) -> bool {
        match self.graph().ctx.history.origin(theirs, self.graph().nodes[key].was_welcomed) {
            EpochOrigin::Ours => true,
            EpochOrigin::Ahead => {
                let is_lower = theirs.number < self.graph().ctx.epoch();
                if let Some(bits) = theirs.bits.filter(|_| is_lower) {
                    // All nodes of a lost history may have the same epoch. Only the first is reported.
                    self.graph_mut().ctx.history.add_start(theirs.number, bits);
                }
                if is_lower || self.graph_mut().ctx.rise_over(theirs.number) {
                    self.begin_restored(None);
                    let name = &self.traversals.jobs.graph.nodes[key].name;
                    let (number, ours) = (theirs.number.0, self.graph().ctx.epoch().0);
                    self.traversals.jobs.graph.ctx.effect(Effect::Warn(format!(
                        "node {name} has obeyed epoch {number}, which this store does not know: the store is older than \
                         the node; this controller goes on in epoch {ours}"
                    )));
                }
                true
            }
            EpochOrigin::Elsewhere => {
                self.traversals.refuse_stranger(key, theirs.number);
                false
            }
        }
    }

    /// Compares the node's ledger with the store. A generation that no job of this store had means
    /// that the store is older than the node. A snapshot of the running start has no later epoch
    /// that could tell.
    pub(crate) fn compare_history(&mut self, key: NodeKey, pages: &BTreeMap<ResourceId, LedgerEntry>) {
        if self.graph().restored.is_on() {
            return;
        }
        let rows = self.graph_mut().rows_on(key);
        let is_ahead = |slot: &Slot| {
            let row = &self.graph().rows[*slot];
            pages.get(&row.physical).is_some_and(|entry| entry.generation > row.generation)
        };
        let Some(slot) = rows.into_iter().find(is_ahead) else { return };
        let theirs = pages[&self.graph().rows[slot].physical].generation;
        if !self.graph_mut().ctx.rise_above(theirs) {
            return;
        }
        self.begin_restored(Some(key));
        let (node, row) = (&self.traversals.jobs.graph.nodes[key].name, &self.graph().rows[slot].name);
        self.traversals.jobs.graph.ctx.effect(Effect::Warn(format!(
            "node {node} has generation {theirs} of {row}, which this store never gave: the store is older than the node"
        )));
    }

    /// Begins the restored state, because the store is older than a node. Every node that is away,
    /// or that shows this, must report. A welcomed node must report only what it has not reported
    /// yet.
    pub(crate) fn begin_restored(&mut self, teller: Option<NodeKey>) {
        let awaited = |(key, node): (NodeKey, &Node)| {
            let is_to_tell = !node.presence.is_ready() || teller == Some(key);
            let ledger = is_to_tell || node.pages.is_some();
            let tables =
                is_to_tell || !self.flows.has_told(&node.name) || self.flows.is_comparing(&node.name);
            let is_it = (ledger || tables) && node.joined.as_ref().is_some_and(|it| !it.revoked);
            is_it.then(|| (node.name.clone(), MissingReports { ledger, tables }))
        };
        let awaited = self.graph().nodes.iter().filter_map(awaited).collect();
        self.graph_mut().restored.begin(awaited);
    }
}

impl Traversals {
    fn refuse_stranger(&mut self, key: NodeKey, theirs: Epoch) {
        self.cut_off(key);
        if std::mem::replace(&mut self.jobs.graph.nodes[key].is_elsewhere, true) {
            return;
        }
        let why = format!(
            "node {} obeys another controller, of epoch {}, since this one of epoch {} welcomed it: it gets nothing from \
             this one. Two controllers of this site run: stop one of them, then restart the other",
            self.jobs.graph.nodes[key].name,
            theirs.0,
            self.jobs.graph.ctx.epoch().0
        );
        self.jobs.graph.note_on_node(key, &why);
        self.jobs.graph.ctx.effect(Effect::Warn(why));
    }
}
