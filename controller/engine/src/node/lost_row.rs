//! The end of a lost row's clean-up: the thing is gone, or cannot be removed now. A lost row is a
//! thing without a stack that a node may still have. It goes when its removal was observed.
//!
//! Absent: how a row becomes lost (`node/removal.rs`), and when its clean-up begins (`node/returned.rs`).

use muster_shared::StackName;

use crate::graph::Graph;
use crate::node::NodeKey;
use crate::row::{Row, Slot};
use crate::todo::Todo;

impl Graph {
    /// A lost row is gone. Lost rows that it needed may go now.
    pub(crate) fn found(&mut self, slot: Slot, row: &Row) {
        let Some(node) = row.node else { return };
        self.nodes[node].lost.all.remove(&slot);
        self.nodes[node].lost.open.remove(&slot);
        if row.is_stray() {
            self.tell_of_stray(&row.name, node, "was removed");
        }
        self.tell_of_lost(row.details().lost_from.clone(), &row.name, node, "was cleaned up");
        for required in &row.requires {
            if self.rows[*required].unblock() {
                self.ctx.agenda.push_back(Todo::Visit(*required));
            }
        }
        self.ctx.agenda.push_back(Todo::Pump(node));
    }

    /// A lost row cannot be cleaned up now. The row and those it needs stay listed; the rest of the
    /// node goes on.
    pub(crate) fn not_found(&mut self, slot: Slot, reason: String) {
        let what = format!("could not be cleaned up: {reason}");
        let row = &mut self.rows[slot];
        row.fail_as_it_is(&reason);
        let Some(node) = row.node else { return };
        let (name, from) = (row.name.clone(), row.details().lost_from.clone());
        self.row_changed(slot, false);
        self.nodes[node].lost.open.remove(&slot);
        if self.rows[slot].is_stray() {
            self.tell_of_stray(&name, node, &what);
        }
        self.tell_of_lost(from, &name, node, &what);
        let mut waiting: Vec<Slot> = self.rows[slot].requires.to_vec();
        while let Some(next) = waiting.pop() {
            if self.nodes[node].lost.open.remove(&next) {
                let row = &mut self.rows[next];
                row.set_reason(&format!("it is needed by {name}, which could not be cleaned up"));
                waiting.extend(row.requires.iter().copied());
                self.row_changed(next, false);
            }
        }
        self.ctx.agenda.push_back(Todo::Pump(node));
    }

    /// Notes the outcome in the events of the row's former stack, if that exists.
    fn tell_of_lost(&mut self, from: Option<StackName>, name: &str, node: NodeKey, what: &str) {
        let Some(id) = from.and_then(|from| self.stacks.id_of(&from)) else { return };
        let node = &self.nodes[node].name;
        self.note(id, format!("{name}, which node {node} had when it was removed, {what}"));
    }

    /// Counts for each lost row of a node how many others need it: a needed row goes after those.
    pub(crate) fn count_lost(&mut self, key: NodeKey) {
        let all: Vec<Slot> = self.nodes[key].lost.slots().collect();
        for slot in &all {
            self.rows[*slot].set_blocked(0);
        }
        for slot in &all {
            for required in self.rows[*slot].requires.clone() {
                self.rows[required].block();
            }
        }
    }
}
