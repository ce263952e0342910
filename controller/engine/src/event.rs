//! Events of a stack and its resources, in their order, for operators.
//!
//! Absent: how many are kept, which is the store's (`controller/src/store/bounds.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_shared::ResourceId;

use crate::graph::Graph;
use crate::node::NodeKey;
use crate::record::{Change, EventRecord, Status, action_str};
use crate::row::Slot;

impl Graph {
    /// Writes the state of a stack (`slot` none) or of one of its rows.
    pub(crate) fn event(&mut self, stack: u64, slot: Option<Slot>) {
        match slot {
            Some(slot) => {
                let row = &self.rows[slot];
                let status = row.status().map_or("INIT", Status::as_str);
                let reason = row.reason().map(Box::from).unwrap_or_default();
                let (thing, action) = ((row.name.clone(), row.physical), action_str(row.action()));
                self.add_event(stack, Some(thing), (action, status), reason);
            }
            None => {
                let Some(found) = self.stacks.get(&stack) else { return };
                let state = (found.action.as_str(), found.status.as_str());
                let reason = found.reason.as_str().into();
                self.add_event(stack, None, state, reason);
            }
        }
    }

    /// Writes an event about a stack whose state does not change.
    pub(crate) fn note(&mut self, stack: u64, reason: String) {
        let Some(found) = self.stacks.get(&stack) else { return };
        let state = (found.action.as_str(), found.status.as_str());
        self.add_event(stack, None, state, reason.into());
    }

    /// Writes an event to all stacks with rows on a node.
    pub(crate) fn note_on_node(&mut self, key: NodeKey, what: &str) {
        let on_it = self.nodes[key].rows.iter().map(|slot| self.rows[*slot].stack);
        for stack in on_it.collect::<BTreeSet<u64>>() {
            self.note(stack, what.to_owned());
        }
    }

    /// Writes an event about a row whose state does not change.
    pub(crate) fn tell_of(&mut self, slot: Slot, reason: String) {
        let row = &self.rows[slot];
        let state = (action_str(row.action()), row.status().map_or("INIT", Status::as_str));
        self.row_event(slot, state, reason);
    }

    /// Writes an event about a row with this action and status.
    pub(crate) fn row_event(
        &mut self,
        slot: Slot,
        (action, status): (&'static str, &'static str),
        reason: String,
    ) {
        let row = &self.rows[slot];
        let (stack, thing) = (row.stack, (row.name.clone(), row.physical));
        self.add_event(stack, Some(thing), (action, status), reason.into());
    }

    fn add_event(
        &mut self,
        stack: u64,
        resource: Option<(Arc<str>, ResourceId)>,
        (action, status): (&'static str, &'static str),
        reason: Box<str>,
    ) {
        let Some(found) = self.stacks.get_mut(&stack) else { return };
        found.events += 1;
        let (number, actor) = (found.events, self.ctx.actor.clone());
        let record = EventRecord { stack, number, resource, action, status, reason, actor };
        self.ctx.change(Change::Event(record));
    }
}
