//! Rows of each node. A row's node and the node's set of rows change together, and only here, so
//! that finding the rows of a node takes no look at all rows.
//!
//! Absent: which node a resource gets (`traversal/visit.rs`, and `Nodes::any` in `node.rs`).

use crate::graph::Graph;
use crate::node::NodeKey;
use crate::row::Slot;

impl Graph {
    /// Moves the row to this node or to none. Returns the node before.
    pub(crate) fn place(&mut self, slot: Slot, node: Option<NodeKey>) -> Option<NodeKey> {
        let old = self.rows[slot].set_node(node);
        if old != node {
            self.is_off(slot, old);
            self.is_on(slot, node);
        }
        old
    }

    /// Enters a row whose node is set already.
    pub(crate) fn is_on(&mut self, slot: Slot, node: Option<NodeKey>) {
        if let Some(node) = node {
            self.nodes[node].rows.insert(slot);
        }
    }

    /// Removes a row that left its slot from this node.
    pub(crate) fn is_off(&mut self, slot: Slot, node: Option<NodeKey>) {
        if let Some(node) = node {
            self.nodes[node].rows.remove(&slot);
        }
    }

    /// The rows on a node, including lost ones, by id.
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
