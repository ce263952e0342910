//! Disks of nodes that are full.
//!
//! An agent that has no room to record jobs says so: it gets none but those that remove something, until it says that there
//! is room again. A job that found no room where it writes is tried again, at growing pauses, for as long as its operation
//! lasts: nothing of it has failed.

use muster_shared::wire::REASON_MAX;

use crate::engine::{Engine, Todo};
use crate::job::{BACKOFF_FIRST, BACKOFF_MAX};
use crate::node::NodeKey;
use crate::resource::{Row, Slot};

impl Engine {
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
            self.agenda.push_back(Todo::Pump(key));
        }
    }

    /// It is not sent to its node, whose disk is full.
    pub(crate) fn waits_for_disk(&self, row: &Row) -> bool {
        let is_full = row.node.is_some_and(|key| self.nodes[key].disk_full.is_some());
        is_full && !row.is_sent() && !row.action.is_some_and(|action| action.removes())
    }

    /// The job's attempt found no room.
    pub(crate) fn found_no_room(&mut self, slot: Slot, reason: &str) {
        let row = &mut self.rows[slot];
        let delay = BACKOFF_FIRST.saturating_mul(1 << row.attempt.min(16)).min(BACKOFF_MAX);
        let is_told = row.reason.as_deref() == Some(reason);
        row.reason = Some(reason.into());
        if !is_told {
            self.add_cause(slot, reason);
            self.tell_of_attempt(slot, reason, delay.as_secs());
        }
        self.try_again(slot, delay);
    }
}
