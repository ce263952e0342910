//! Drift that agents have reported. A digest of it goes with each heartbeat, so that both sides hold the same.

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
        // No more of them than rows, and things that are listed or left.
        let is_ours = match self.rows.of_thing(&resource) {
            Some(slot) => self.rows[slot].node == Some(node),
            // Or its agent would be asked again with each heartbeat.
            None => self.restored.is_stray(&self.nodes[node].name, resource),
        };
        if state != DriftState::InSync && is_ours {
            let node = &mut self.nodes[node];
            node.drifts.insert(resource, (generation, state));
            node.drifts_digest ^= Drift::digest(resource, generation, state);
        }
    }

    /// The agent has forgotten what it said of it: it has a job now.
    pub(crate) fn unhear(&mut self, node: NodeKey, resource: ResourceId) {
        let node = &mut self.nodes[node];
        if let Some((generation, state)) = node.drifts.remove(&resource) {
            node.drifts_digest ^= Drift::digest(resource, generation, state);
        }
    }

    /// What was heard before the controller was started: should it be so no more, the agent says that.
    pub(crate) fn hear_again(&mut self, slot: Slot) {
        let row = &self.rows[slot];
        let state = match row.observed {
            Observation::Drifted => DriftState::Drifted,
            Observation::Missing => DriftState::Missing,
            Observation::Unknown | Observation::InSync => return,
        };
        if let (Some(node), Some(generation)) = (row.node, row.held) {
            self.hear(node, &Drift { resource: row.physical, generation, state, reason: String::new() });
        }
    }
}
