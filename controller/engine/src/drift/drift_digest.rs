//! Drift that agents have reported. Each heartbeat has a digest of it, so that both sides agree.
//!
//! Absent: what drift changes in a row (`drift/drift_report.rs`), and heartbeats (`node/heartbeat.rs`).

use muster_shared::ResourceId;
use muster_shared::model::{Drift, DriftState};

use crate::graph::Graph;
use crate::node::NodeKey;
use crate::record::Observation;
use crate::row::Slot;

impl Graph {
    pub(crate) fn hear(&mut self, node: NodeKey, drift: &Drift) {
        let Drift { resource, generation, state, .. } = *drift;
        self.unhear(node, resource);
        // The map has no more entries than there are rows, and listed or left things.
        let is_ours = match self.rows.of_thing(&resource) {
            Some(slot) => self.rows[slot].node == Some(node),
            // Without this entry, each heartbeat would ask the agent again.
            None => self.restored.is_stray(&self.nodes[node].name, resource),
        };
        if state != DriftState::InSync && is_ours {
            let node = &mut self.nodes[node];
            node.drifts.insert(resource, (generation, state));
            node.drifts_digest ^= Drift::digest(resource, generation, state);
        }
    }

    /// Forgets the drift of a thing that gets a job: its agent forgets it too.
    pub(crate) fn unhear(&mut self, node: NodeKey, resource: ResourceId) {
        let node = &mut self.nodes[node];
        if let Some((generation, state)) = node.drifts.remove(&resource) {
            node.drifts_digest ^= Drift::digest(resource, generation, state);
        }
    }

    /// Restores drift from the store after a start. The agent corrects this after its Hello.
    pub(crate) fn hear_again(&mut self, slot: Slot) {
        let row = &self.rows[slot];
        let state = match row.observed() {
            Observation::Drifted => DriftState::Drifted,
            Observation::Missing => DriftState::Missing,
            Observation::Unknown | Observation::InSync => return,
        };
        if let (Some(node), Some(generation)) = (row.node, row.held()) {
            self.hear(node, &Drift { resource: row.physical, generation, state, reason: String::new() });
        }
    }
}
