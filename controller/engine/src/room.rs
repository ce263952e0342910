//! Disks of nodes that are full.
//!
//! An agent that has no room to record jobs says so: it gets none but those that remove something, until it says that there
//! is room again. A job that found no room where it writes is tried again, at growing pauses, for as long as its operation
//! lasts: nothing of it has failed.

use muster_shared::wire::REASON_MAX;

use crate::graph::Graph;
use crate::node::NodeKey;
use crate::row::Row;
use crate::todo::Todo;

impl Graph {
    /// The agent cannot record jobs, or can again.
    pub(crate) fn disk_told(&mut self, key: NodeKey, full: Option<String>) {
        match full {
            Some(mut reason) => {
                reason.truncate(reason.floor_char_boundary(REASON_MAX));
                self.nodes[key].disk_full = Some(reason.into());
            }
            None => self.has_room(key),
        }
    }

    /// What waited for room goes first, in its order.
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

    /// It is not sent to its node, whose disk is full.
    pub(crate) fn waits_for_disk(&self, row: &Row) -> bool {
        let is_full = row.node.is_some_and(|key| self.nodes[key].disk_full.is_some());
        is_full && !row.is_sent() && !row.action.is_some_and(|action| action.removes())
    }
}
