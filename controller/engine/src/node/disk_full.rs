//! Nodes whose disk is full.
//!
//! An agent without room to record jobs reports that. It then gets only jobs that remove something,
//! until it reports room again. A job that finds no room for what it writes is retried at growing
//! intervals as long as its operation lasts. It does not fail.
//!
//! Absent: the controller's own disk (`controller/src/driver/turn/read_only.rs`), the agent's part
//! (`agent/core/src/disk_full.rs`), and batches of flow rules. A batch that a full disk refuses is sent again later,
//! and in the end with fewer writes (`controller/flow/src/batch.rs`).

use muster_shared::wire::REASON_MAX;

use crate::graph::Graph;
use crate::node::NodeKey;
use crate::row::Row;
use crate::todo::Todo;

impl Graph {
    /// Handles an agent's report that it cannot record jobs, or can again.
    pub(crate) fn disk_told(&mut self, key: NodeKey, full: Option<String>) {
        match full {
            Some(mut reason) => {
                reason.truncate(reason.floor_char_boundary(REASON_MAX));
                self.nodes[key].disk_full = Some(reason.into());
            }
            None => self.has_room(key),
        }
    }

    /// The agent has room. Jobs that waited for it go first, in their order.
    pub(crate) fn has_room(&mut self, key: NodeKey) {
        let node = &mut self.nodes[key];
        node.disk_full = None;
        if !node.no_room.is_empty() {
            let mut queue = std::mem::take(&mut node.no_room);
            queue.append(&mut node.queue);
            node.queue = queue;
            self.ctx.agenda.push_back(Todo::Pump(key));
        }
    }

    /// Whether the row's job is held back because the node's disk is full.
    pub(crate) fn waits_for_disk(&self, row: &Row) -> bool {
        let is_full = row.node.is_some_and(|key| self.nodes[key].disk_full.is_some());
        is_full && !row.is_sent() && !row.action().is_some_and(|action| action.removes())
    }
}
