//! A removed node joined again. Things that may be left on it are cleaned up first, in the order of
//! their needs.
//!
//! Absent: what may be left on a removed node (`node/removal.rs`), and the end of the clean-up
//! (`node/lost_row.rs`).

use crate::job::NewJob;
use crate::node::NodeKey;
use crate::row::Slot;
use crate::row::cause::Cause;
use crate::todo::Todo;
use crate::traversals::Traversals;

impl Traversals {
    /// Starts the clean-up of the node's lost rows after its Hello.
    pub(crate) fn honour(&mut self, key: NodeKey) {
        let all = self.jobs.graph.nodes[key].lost.all.clone();
        self.jobs.graph.ctx.agenda.extend(all.iter().copied().map(Todo::Visit));
        self.jobs.graph.nodes[key].lost.open = all;
    }

    /// Removes the thing of a lost row, once all lost rows that need it are gone.
    pub(crate) fn visit_lost(&mut self, slot: Slot) {
        let row = &self.jobs.graph.rows[slot];
        match row.node {
            _ if row.task().is_some() => {}
            Some(node) if row.is_applied() => {
                if self.jobs.graph.nodes[node].presence.is_ready()
                    && self.jobs.graph.nodes[node].lost.open.contains(&slot)
                {
                    let farewell = row.farewell();
                    self.jobs.queue_job(slot, NewJob::removal(Cause::LostCleanup, node, farewell));
                }
            }
            _ => self.drop_row(slot),
        }
    }
}
