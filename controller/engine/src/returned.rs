//! A node that was removed is back: what it may have from before is cleaned up first, in the order of its needs.

use crate::cause::Cause;
use crate::job::NewJob;
use crate::node::NodeKey;
use crate::row::Slot;
use crate::todo::Todo;
use crate::traversals::Traversals;

impl Traversals {
    /// The node is back: what it may have from before comes first.
    pub(crate) fn honour(&mut self, key: NodeKey) {
        let all = self.jobs.graph.nodes[key].lost.all.clone();
        self.jobs.graph.ctx.agenda.extend(all.iter().copied().map(Todo::Visit));
        self.jobs.graph.nodes[key].lost.open = all;
    }

    /// All that needed it on its node is gone.
    pub(crate) fn visit_lost(&mut self, slot: Slot) {
        let row = &self.jobs.graph.rows[slot];
        match row.node {
            _ if row.work.is_some() => {}
            Some(node) if row.applied => {
                if self.jobs.graph.nodes[node].ready && self.jobs.graph.nodes[node].lost.open.contains(&slot)
                {
                    let farewell = row.farewell();
                    self.jobs.queue_job(slot, NewJob::removal(Cause::LostCleanup, node, farewell));
                }
            }
            _ => self.drop_row(slot),
        }
    }
}
