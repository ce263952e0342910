//! Flow rules that a store which went back does not know: no batch takes one of them off its device before an operator has
//! decided about the table, or the history that goes on has a rule in its place.

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::NodeId;
use muster_shared::model::Content;
use muster_shared::model::flow::{DeviceName, FlowBatch, FlowId, OpsRef, read_ops};

use super::super::flow::number_of;
use super::super::shared::Shared;
use super::super::world::World;

/// Rules that nobody has decided about, by device.
pub type Rules = BTreeMap<DeviceName, BTreeSet<FlowId>>;

impl Shared {
    /// Returns what is wrong with a batch that removes a rule which the store does not know, before a decision.
    pub fn takes_off_unasked(&mut self, node: &NodeId, batch: &FlowBatch) -> Option<String> {
        let device = DeviceName { node: node.clone(), bridge: batch.device.clone() };
        let undecided = self.rules_undecided.get_mut(&device)?;
        let bytes: &[u8] = match &batch.ops {
            Content::Inline(bytes) => bytes,
            Content::Stored { digest, .. } => self.tables.contents.get(digest)?,
        };
        self.counts.add("history a batch leaves for a table with rules that nobody has decided about");
        let flows = &self.tables.flows;
        let number = number_of(flows, node, &batch.device);
        for op in read_ops(bytes).flatten() {
            let (OpsRef::Put { id, .. } | OpsRef::Remove(id)) = op;
            let is_known = number.is_some_and(|number| flows.entries.contains_key(&(number, id)));
            if is_known {
                undecided.remove(&id);
            } else if undecided.contains(&id) && matches!(op, OpsRef::Remove(_)) {
                return Some(format!(
                    "{id} is taken off {device}, which the restored store does not know, and nobody has decided"
                ));
            }
        }
        None
    }
}

impl World {
    /// The site is known to be restored: nodes that have yet to come, all but these, have rules that its store does not know.
    pub(super) fn rules_wait(&mut self, but: &BTreeSet<NodeId>) {
        let shared = &mut *self.shared.borrow_mut();
        let flows = &shared.tables.flows;
        for (at, machine) in self.machines.iter().enumerate().filter(|(_, machine)| !machine.scrapped) {
            // The other one of two servers with one identity may have said what it has.
            if self.was_cloned(at) {
                continue;
            }
            let record = shared.tables.nodes.get(&machine.name);
            let is_known = record.is_some_and(|it| !it.revoked && it.seal_public == machine.key);
            if !is_known || but.contains(&machine.name) {
                continue;
            }
            for (bridge, log) in &machine.disk.logs {
                let number = number_of(flows, &machine.name, bridge);
                let is_here = |id: &FlowId| number.is_some_and(|it| flows.entries.contains_key(&(it, *id)));
                let unknown: BTreeSet<FlowId> =
                    log.fold(false).kept.into_keys().filter(|id| !is_here(id)).collect();
                let device = DeviceName { node: machine.name.clone(), bridge: bridge.clone() };
                // Or was decided in the copy.
                if !unknown.is_empty() && !shared.tables_freed.contains(&device) {
                    shared.rules_undecided.insert(device, unknown);
                }
            }
        }
    }
}
