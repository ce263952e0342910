//! Held things of a restored site: things that differ between agents and the store. This file
//! ends the restored state, and says how a thing differs and whether it is held until an operator
//! decides.
//!
//! A thing is compared by generation. An agent keeps the generation that it applied last, and a row
//! the one that its agent is known to hold. A generation applied after the backup is higher.
//!
//! Absent: what shows that the store is older than a node (`restored/detect.rs`), and the look through a
//! ledger (`node/ledger_compare.rs`).

use std::collections::BTreeMap;

use muster_shared::model::LedgerEntry;
use muster_shared::{NodeId, ResourceId};
use muster_template::Kind;

use crate::engine::{Effect, Engine};
use crate::graph::Graph;
use crate::jobs::Jobs;
use crate::node::NodeKey;
use crate::record::Observation;
use crate::restored::{Divergence, HeldThing};
use crate::row::{Row, Slot, TaskState};
use crate::todo::Todo;
use crate::traversals::Traversals;

/// The reason of a resource that waits for a decision.
pub(crate) const HELD: &str = "changed since the backup: it waits for 'muster restore'";

impl Engine {
    /// Notes that a node's flow tables are all compared, if they are.
    pub(crate) fn tables_compared(&mut self, key: NodeKey) {
        let node = &self.traversals.jobs.graph.nodes[key].name;
        if self.graph().restored.is_on() && self.flows.has_told(node) && self.flows.is_compared(node) {
            self.traversals.jobs.graph.restored.tables_told(node);
            self.graph_mut().end_restored();
        }
    }
}

impl Traversals {
    /// Forgets held things of a node that was removed or revoked. Its flow tables stay, and are
    /// compared again when a server joins under its name.
    pub(crate) fn decide_by_leaving(&mut self, key: NodeKey) {
        let name = self.jobs.graph.nodes[key].name.clone();
        self.jobs.graph.restored.forget_node(&name);
        self.jobs.graph.end_restored();
        self.jobs.graph.ctx.agenda.push_back(Todo::CompareAnew(name));
    }
}

impl Jobs {
    /// A node has a thing with the id of a row that is elsewhere. The row left that node since the
    /// backup. If the store knows of no job that was sent, the row gets another id, because two
    /// things with one id disturb each other.
    pub(crate) fn give_another_id(&mut self, thing: ResourceId) {
        let Some(slot) = self.graph.rows.of_thing(&thing) else { return };
        // The script of a deployment may know the id.
        if !self.graph.rows[slot].has_left() && !self.graph.rows[slot].kind.is_deployment() {
            self.is_another_thing(slot);
        }
    }

    /// Gives a row of another type another id, if the store knows of no job that was sent. If the
    /// store is older than its nodes, one of them may have a thing of the former type with the old
    /// id. That thing then has no row, and a job for another type cannot remove it.
    pub(crate) fn be_of_type(&mut self, slot: Slot, kind: Kind) {
        let row = &self.graph.rows[slot];
        let is_fresh = row.task().is_none() && !row.has_left() && !row.is_external();
        if row.kind != kind && is_fresh && !self.awaits_verdict(slot) {
            self.graph.rows[slot].set_kind(kind);
            self.is_another_thing(slot);
        }
    }

    fn is_another_thing(&mut self, slot: Slot) {
        let (_, physical) = self.graph.ctx.ids.row();
        self.graph.rows.rename(slot, physical);
        self.graph.row_changed(slot, true);
    }

    /// Reports newly listed things in the log and in the events of their stacks.
    pub(crate) fn tell_held(&mut self, node: &NodeId, things: &BTreeMap<ResourceId, HeldThing>) {
        let is_new = |(id, _): &(&ResourceId, &HeldThing)| self.graph.restored.thing(node, **id).is_none();
        let new: Vec<(ResourceId, Divergence)> =
            things.iter().filter(is_new).map(|(id, held)| (*id, held.unlike)).collect();
        if new.is_empty() {
            return;
        }
        let count = |unlike| new.iter().filter(|(_, it)| *it == unlike).count();
        let (unknown, newer, deleted) =
            (count(Divergence::Unknown), count(Divergence::Newer), count(Divergence::Deleted));
        if !self.graph.restored.is_on() {
            return self.graph.ctx.effect(Effect::Warn(format!(
                "node {node} has {unknown} things that the store does not know; they stay as they are: muster restore list"
            )));
        }
        self.graph.ctx.effect(Effect::Warn(format!(
            "the store is older than node {node}: {unknown} things that the store does not know, {newer} that were changed \
             and {deleted} that were deleted since the backup stay as they are: muster restore list"
        )));
        let mut by_stack: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for (id, unlike) in &new {
            if let Some(slot) = self.graph.rows.of_thing(id).filter(|_| *unlike != Divergence::Unknown) {
                let row = &self.graph.rows[slot];
                by_stack.entry(row.stack).or_default().push(row.name.to_string());
            }
        }
        for (stack, mut names) in by_stack {
            let all = names.len();
            names.truncate(10);
            let more = if all > 10 { format!(" and {} more", all - 10) } else { String::new() };
            self.graph.note(
                stack,
                format!(
                    "the store was restored and is older than node {node}: {}{more} stay as they are until 'muster restore \
                     adopt' or 'remove', or an update of the stack",
                    names.join(", ")
                ),
            );
        }
    }

    /// Whether the row's thing is held for an operator's decision.
    pub(crate) fn awaits_verdict(&self, slot: Slot) -> bool {
        let row = &self.graph.rows[slot];
        row.node.is_some_and(|node| {
            self.graph.restored.thing(&self.graph.nodes[node].name, row.physical).is_some()
        })
    }

    /// Whether the row is held and its stack has had no operation since the restore. Jobs from
    /// before the backup leave such a row alone.
    pub(crate) fn is_held_for_verdict(&self, slot: Slot) -> bool {
        self.graph.restored.is_on()
            && !self.graph.restored.is_wished(self.graph.rows[slot].stack)
            && self.awaits_verdict(slot)
    }

    /// Lets the next operation of the stack apply the row, even if the template has not changed.
    pub(crate) fn compare_with_next(&mut self, slot: Slot) {
        let row = &mut self.graph.rows[slot];
        if row.task().is_some() {
            return;
        }
        row.be_outdated();
        self.observe(slot, Observation::Unknown);
        self.graph.row_changed(slot, true);
    }

    /// Takes the row's thing off the list, because a job starts.
    pub(crate) fn decided(&mut self, slot: Slot) {
        let row = &self.graph.rows[slot];
        if let Some(node) = row.node {
            let (node, physical) = (self.graph.nodes[node].name.clone(), row.physical);
            if let Some(held) = self.graph.restored.drop_thing(&node, physical) {
                self.graph.holds(slot, held);
                self.graph.end_restored();
            }
        }
    }
}

impl Graph {
    /// Ends the restored state if nothing is left to decide.
    pub(crate) fn end_restored(&mut self) {
        if self.restored.ends() {
            self.ctx.effect(Effect::Warn(
                "the site is not restored any more: all that the store did not know is decided".to_owned(),
            ));
        }
    }

    /// Notes in the row what the node has.
    pub(crate) fn holds(&mut self, slot: Slot, held: HeldThing) {
        let row = &mut self.rows[slot];
        let (resource, was) = (row.physical, row.hold(held.generation));
        let Some(node) = row.node else { return };
        for generation in [was, held.generation].into_iter().flatten() {
            self.nodes[node].ledger ^= LedgerEntry { resource, generation }.digest();
        }
        self.row_changed(slot, true);
    }
}

impl Row {
    /// Whether the store knows of a job that was sent for the row, or the row is lost.
    fn has_left(&self) -> bool {
        self.is_applied() || self.held().is_some() || self.is_sent() || self.was_tried() || self.is_lost()
    }

    /// The difference between the row and the report of its node. `None`: there is none, or jobs
    /// explain it.
    pub fn unlike(&self, theirs: Option<muster_shared::Generation>) -> Option<Divergence> {
        if self.is_lost() {
            return None;
        }
        let waits = |state| matches!(state, TaskState::Queued | TaskState::NodeAway);
        // The generation of an unsent job says nothing about the node.
        let is_unsent = self.attempt == 0 && self.task().is_some_and(|task| waits(task.state));
        // Nor does the generation of a job that was withdrawn, or that failed because of what the
        // node has.
        let is_over = |theirs| self.task().is_none() && !(self.is_applied() && theirs == self.generation);
        match (self.held(), theirs) {
            (Some(_), None) if !self.is_sent() && !self.is_going() => Some(Divergence::Deleted),
            (held, Some(theirs)) if Some(theirs) > held => {
                let is_newer = is_unsent || is_over(theirs) || theirs > self.generation;
                is_newer.then_some(Divergence::Newer)
            }
            _ => None,
        }
    }
}
