//! Which rows are on which node. A row's node and its node's rows change together, here alone: nobody looks through the
//! site's rows for those of one node.

use crate::graph::Graph;
use crate::node::NodeKey;
use crate::row::Slot;

impl Graph {
    /// The row is on this node from now on, or on none; the node where it was.
    pub(crate) fn place(&mut self, slot: Slot, node: Option<NodeKey>) -> Option<NodeKey> {
        let old = self.rows[slot].set_node(node);
        if old != node {
            self.is_off(slot, old);
            self.is_on(slot, node);
        }
        old
    }

    /// A row that came to its slot with its node.
    pub(crate) fn is_on(&mut self, slot: Slot, node: Option<NodeKey>) {
        if let Some(node) = node {
            self.nodes[node].rows.insert(slot);
        }
    }

    /// A row that left its slot and was on this node.
    pub(crate) fn is_off(&mut self, slot: Slot, node: Option<NodeKey>) {
        if let Some(node) = node {
            self.nodes[node].rows.remove(&slot);
        }
    }

    /// The rows on a node, lost ones among them, in the order of their ids.
    pub(crate) fn rows_on(&mut self, node: NodeKey) -> Vec<Slot> {
        let mut slots: Vec<Slot> = self.nodes[node].rows.iter().copied().collect();
        slots.sort_by_key(|slot| self.rows[*slot].id);
        #[cfg(test)]
        {
            self.ctx.visits += slots.len();
        }
        slots
    }
}
