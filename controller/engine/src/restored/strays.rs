//! **Strays**: things in agents' ledgers without a row in the store. The store was restored, or the
//! server went back in time. An agent describes its strays, and deletes one by its own ledger when
//! an operator says so.
//!
//! ```text
//!   listed ─▶ Describe ─▶ Described ── remove ─▶ lost row, no spec ─▶ Remove ─▶ done: gone
//!                             └ not described: off the list              └─▶ failed: lost row stays
//! ```
//!
//! A stray to be removed is a lost row (`node/removal.rs`) without a former stack. Its agent alone knows
//! its desired state. So the removal is durable, waits for the node, goes before all other jobs
//! there, and is retried. An adopted stray is left to its server (`restored/decide.rs`).

use std::collections::BTreeSet;

use muster_shared::model::{DESCRIBED_MAX, Down, LedgerEntry, Outcome, Report, Stray};
use muster_shared::{NodeId, ResourceId};
use muster_template::Kind;

use crate::engine::Effect;
use crate::graph::Graph;
use crate::node::NodeKey;
use crate::request::Refusal;
use crate::restored::HeldThing;
use crate::row::Row;
use crate::todo::Todo;

impl Row {
    /// Whether the row is a stray to be removed. Only its agent knows its desired state.
    pub fn is_stray(&self) -> bool {
        self.is_lost() && self.details().lost_from.is_none()
    }
}

impl Graph {
    /// Asks the agent to describe its strays: some now, the next ones after the answer.
    pub(crate) fn ask_strays(&mut self, key: NodeKey) {
        let node = &self.nodes[key];
        if !node.presence.is_ready() || !node.reads_strays() || !node.asked_strays.is_empty() {
            return;
        }
        let asked = self.restored.undescribed(&node.name, DESCRIBED_MAX);
        if asked.is_empty() {
            return;
        }
        let message = Down::Describe(asked.iter().copied().collect());
        self.nodes[key].asked_strays = asked;
        self.send(key, message);
    }

    /// Stores descriptions of strays. The agent no longer holds a stray that it was asked about and
    /// did not describe.
    pub(crate) fn strays_described(&mut self, key: NodeKey, strays: Vec<Stray>) {
        let mut asked = std::mem::take(&mut self.nodes[key].asked_strays);
        let node = self.nodes[key].name.clone();
        for stray in strays {
            if asked.remove(&stray.resource) {
                self.restored.describe(&node, stray);
            }
        }
        for gone in asked {
            self.restored.drop_thing(&node, gone);
            self.unhear(key, gone);
        }
        self.ask_strays(key);
        self.end_restored();
    }

    /// A job that the store does not know has ended. The agent's ledger may be from before its end.
    pub(crate) fn stray_reported(&mut self, key: NodeKey, report: &Report) {
        let node = &self.nodes[key];
        let is_told = node.reads_strays() && !self.restored.awaits_ledger(&node.name);
        if !self.restored.is_on() || !is_told || !matches!(report.outcome, Outcome::Done(_)) {
            return;
        }
        // The job may have made the thing or removed it, so the agent is asked.
        let (name, resource) = (node.name.clone(), report.key.resource);
        if self.restored.add_stray(&name, LedgerEntry { resource, generation: report.key.generation }) {
            self.ask_strays(key);
        }
    }

    /// Forgets drift of strays. The agent reports it again if they still exist.
    pub(crate) fn unhear_strays(&mut self, key: NodeKey) {
        let heard = self.nodes[key].drifts.keys().filter(|thing| self.rows.of_thing(thing).is_none());
        for thing in heard.copied().collect::<Vec<_>>() {
            self.unhear(key, thing);
        }
    }

    /// Whether a stray can be removed.
    ///
    /// # Errors
    /// A reason against the removal, and what to do.
    pub(crate) fn is_removable(&mut self, node: &NodeId, thing: ResourceId) -> Result<(), Refusal> {
        let refuse = |why: String| Err(Refusal::Conflict(why));
        if self.rows.of_thing(&thing).is_some() {
            return refuse(format!(
                "{thing} on node {node} has the id of a resource elsewhere, so Muster cannot remove it: adopt it"
            ));
        }
        if let Some(reason) = self.stacks.any_damage() {
            return refuse(format!(
                "{thing} on node {node} may be a resource whose row is damaged, so Muster does not remove it: {reason}"
            ));
        }
        let Some(stray) = self.restored.stray(node, thing).cloned() else {
            return refuse(match self.tells_no_strays(node) {
                true => format!(
                    "the agent of node {node} is too old to say what {thing} is, so Muster cannot remove it: upgrade the \
                     agent, or adopt {thing}"
                ),
                false => format!(
                    "node {node} has yet to say what {thing} is: remove it when the node is connected, or adopt it"
                ),
            });
        };
        let what = described(&stray);
        if !stray.is_removable {
            return refuse(format!(
                "{what} on node {node} runs something when it is deleted that only the lost store had: adopt it, and undo \
                 by hand what it did"
            ));
        }
        if Kind::from_name(&stray.kind).is_none() || !self.ctx.rise_above(stray.generation) {
            return refuse(format!(
                "this controller cannot remove {what} on node {node}, which a newer one made: upgrade it, or adopt {thing}"
            ));
        }
        Ok(())
    }

    /// Makes a lost row of a stray.
    pub(crate) fn remove_stray(&mut self, node: &NodeId, thing: ResourceId, held: HeldThing) {
        let (Some(key), Some(stray)) = (self.nodes.find(node), self.restored.stray(node, thing).cloned())
        else {
            return;
        };
        // Another node may have had a stray with the same id.
        let Some(kind) = Kind::from_name(&stray.kind).filter(|_| self.rows.of_thing(&thing).is_none()) else {
            return;
        };
        self.restored.drop_thing(node, thing);
        let (id, _) = self.ctx.ids.row();
        let name = if stray.name.is_empty() { thing.to_string() } else { stray.name };
        let slot = self.rows.insert(Row::stray(id, thing, name.into(), kind, key));
        self.is_on(slot, Some(key));
        self.holds(slot, held);
        let node = &mut self.nodes[key];
        node.lost.insert(slot);
        if node.presence.is_ready() {
            node.lost.open.insert(slot);
            self.ctx.agenda.push_back(Todo::Visit(slot));
        }
    }

    /// Reports a stray in the log, because no stack has events for it.
    pub(crate) fn tell_of_stray(&mut self, name: &str, node: NodeKey, what: &str) {
        let node = &self.nodes[node].name;
        self.ctx.effect(Effect::Warn(format!("{name} on node {node}, which the store did not know, {what}")));
    }
}

/// The text for a stray that operators read.
pub(crate) fn described(stray: &Stray) -> String {
    if stray.name.is_empty() {
        format!("{} {}", stray.kind, stray.resource)
    } else {
        format!("{} {}", stray.kind, stray.name)
    }
}

/// Strays that an agent was asked about and has not described.
pub(crate) type OpenQueries = BTreeSet<ResourceId>;
