//! Compares an agent's ledger with the rows of its node, and decides what follows: what the agent has lost is made
//! again, what was removed and is back is removed again, and what the store does not know is listed.
//!
//! Absent: whether a ledger is asked for, from its digest in `Hello` (`node/session.rs`), the digest of drift in a
//! heartbeat (`node/heartbeat.rs`), and whether a lost thing may be made again (`drift/rebuild.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::model::LedgerEntry;
use muster_shared::{Generation, ResourceId};

use crate::engine::Engine;
use crate::jobs::Jobs;
use crate::node::NodeKey;
use crate::restored::compare::HELD;
use crate::restored::{Divergence, HeldThing};
use crate::row::Slot;
use crate::row::outcome::TaskOutcome;
use crate::todo::Todo;

/// Bound on the entries of one agent's ledger.
const LEDGER_MAX: usize = 1_000_000;

impl Engine {
    /// Compares an agent's whole ledger with the rows. Things that the agent has lost are made again.
    pub(crate) fn ledger(&mut self, key: NodeKey, entries: Vec<LedgerEntry>, last: bool) {
        let Some(pages) = &mut self.graph_mut().nodes[key].pages else { return };
        pages.extend(entries.into_iter().map(|entry| (entry.resource, entry)));
        if pages.len() > LEDGER_MAX {
            self.graph_mut().nodes[key].pages = None;
            return;
        }
        if !last {
            return;
        }
        let pages = self.graph_mut().nodes[key].pages.take().unwrap_or_default();
        self.compare_history(key, &pages);
        let was_awaited = self.graph().restored.awaits_ledger(&self.graph().nodes[key].name);
        let kept = self.traversals.jobs.hold_unlike(key, &pages);
        let mut rows = self.graph_mut().rows_on(key);
        rows.retain(|slot| !kept.contains(slot));
        for slot in rows {
            let row = &self.graph().rows[slot];
            let resource = row.physical;
            let theirs = pages.get(&resource).map(|entry| entry.generation);
            if row.held().is_none() {
                theirs.into_iter().for_each(|theirs| self.traversals.jobs.take_up_again(slot, theirs));
                continue;
            }
            if theirs == row.held() || theirs.is_some_and(|theirs| !self.graph_mut().ctx.rise_above(theirs)) {
                continue;
            }
            let row = &self.graph().rows[slot];
            for generation in [row.held(), theirs].into_iter().flatten() {
                self.graph_mut().nodes[key].ledger ^= LedgerEntry { resource, generation }.digest();
            }
            self.graph_mut().rows[slot].hold(theirs);
            self.graph_mut().row_changed(slot, false);
            self.traversals.jobs.make_again(slot, key);
        }
        self.graph_mut().ask_strays(key);
        if was_awaited {
            self.traversals.jobs.transmit_sent(key);
            self.graph_mut().ctx.agenda.push_back(Todo::Pump(key));
            self.tables_compared(key);
            self.graph_mut().end_restored();
        }
    }
}

impl Jobs {
    /// The node has a thing that was removed: the node went back in time. Another job removes the thing.
    fn take_up_again(&mut self, slot: Slot, theirs: Generation) {
        let row = &self.graph.rows[slot];
        let is_over = row.is_going() && row.held().is_none() && row.task().is_none() && !row.is_applied();
        if is_over && self.graph.ctx.rise_above(theirs) {
            self.graph.holds(slot, HeldThing { unlike: Divergence::Newer, generation: Some(theirs) });
            self.graph.ctx.agenda.push_back(Todo::Visit(slot));
        }
    }

    /// The node holds exactly what the store says.
    pub(crate) fn hold_nothing(&mut self, key: NodeKey) {
        let name = self.graph.nodes[key].name.clone();
        self.graph.restored.keep_left(&name, |_| false);
        self.graph.restored.ledger_told(&name, BTreeMap::new());
        self.graph.end_restored();
    }

    /// Lists what differs on the node. Returns rows that are therefore not made again.
    fn hold_unlike(&mut self, key: NodeKey, pages: &BTreeMap<ResourceId, LedgerEntry>) -> BTreeSet<Slot> {
        let node = self.graph.nodes[key].name.clone();
        self.graph.restored.keep_left(&node, |thing| pages.contains_key(thing));
        let holds_rows = self.graph.restored.holds_things(&node);
        let (mut known, mut slots) = (BTreeSet::new(), BTreeSet::new());
        let mut things = BTreeMap::new();
        for slot in self.graph.rows_on(key) {
            let physical = self.graph.rows[slot].physical;
            known.insert(physical);
            if !holds_rows {
                continue;
            }
            let generation = pages.get(&physical).map(|entry| entry.generation);
            if generation.is_some_and(|generation| !self.graph.ctx.rise_above(generation)) {
                continue;
            }
            if let Some(unlike) = self.graph.rows[slot].unlike(generation) {
                slots.insert(slot);
                things.insert(physical, HeldThing { unlike, generation });
            }
        }
        if self.graph.restored.is_on() {
            let others = pages.keys().filter(|thing| !known.contains(*thing));
            others.for_each(|thing| self.give_another_id(*thing));
        }
        let strays = pages.values().filter(|entry| !known.contains(&entry.resource));
        let strays = strays.filter(|entry| !self.graph.restored.is_left(&node, entry.resource));
        things.extend(strays.map(|entry| {
            let held = HeldThing { unlike: Divergence::Unknown, generation: Some(entry.generation) };
            (entry.resource, held)
        }));
        self.tell_held(&node, &things);
        self.graph.restored.ledger_told(&node, things);
        for slot in &slots {
            if self.graph.rows[*slot].task().is_some() {
                self.settle(*slot, TaskOutcome::refused(HELD.to_owned()));
            }
        }
        slots
    }
}
