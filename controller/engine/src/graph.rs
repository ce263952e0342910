//! The second layer, the dependency graph: nodes, stacks, rows, and what a row needs. Its methods
//! read and record state. They queue no jobs.
//!
//! Absent: the graph that operators see (`view/graph.rs`).

use muster_template::Tree;

use crate::context::Context;
use crate::engine::Config;
use crate::node::Nodes;
use crate::restored::Restored;
use crate::row::Slot;
use crate::row::rows::Rows;
use crate::stack::stacks::Stacks;
use crate::user::Users;

pub(crate) struct Graph {
    pub ctx: Context,
    pub nodes: Nodes,
    pub stacks: Stacks,
    pub rows: Rows,
    /// Things that nodes have and a restored store does not know.
    pub restored: Restored,
    pub users: Users,
}

impl Graph {
    /// An empty graph.
    pub fn new(config: Config) -> Self {
        Self {
            nodes: Nodes::default(),
            stacks: Stacks::default(),
            rows: Rows::default(),
            restored: Restored::new(config.limits.held_per_node),
            users: Users::default(),
            ctx: Context::new(config),
        }
    }

    /// Sets what the row needs by the tree. With `both` it also keeps its present needs, because
    /// the thing may be in either state.
    pub(crate) fn set_requires(&mut self, slot: Slot, tree: &Tree, both: bool) {
        let row = &self.rows[slot];
        let forward = &self.stacks[&row.stack].forward;
        let wanted = tree.requires(row.index as usize).iter().map(|r| forward[*r as usize]);
        let mut requires: Vec<Slot> = wanted.collect();
        if both && row.is_applied() {
            requires.extend(row.requires.iter().filter(|old| self.rows.get(**old).is_some()));
        }
        requires.sort_unstable();
        requires.dedup();
        if *requires != *row.requires {
            self.rows[slot].set_requires(requires.into());
            self.edges_changed(slot);
        }
    }
}
