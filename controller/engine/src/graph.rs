//! The second layer, the dependency graph: servers, stacks, rows, and what a row needs. Its methods tell what is there and
//! enter what has become of it. They give no jobs.

use muster_template::Tree;

use crate::context::Context;
use crate::engine::Config;
use crate::node::Nodes;
use crate::restored::Restored;
use crate::row::Slot;
use crate::rows::Rows;
use crate::stacks::Stacks;

pub(crate) struct Graph {
    pub ctx: Context,
    pub nodes: Nodes,
    pub stacks: Stacks,
    pub rows: Rows,
    /// What nodes have and a restored store does not know.
    pub restored: Restored,
}

impl Graph {
    /// With nothing in it.
    pub fn new(config: Config) -> Self {
        Self {
            nodes: Nodes::default(),
            stacks: Stacks::default(),
            rows: Rows::default(),
            restored: Restored::new(config.limits.held_per_node),
            ctx: Context::new(config),
        }
    }

    /// `both`: the thing may be as it was or as it will be, so it needs what either needs.
    pub(crate) fn set_requires(&mut self, slot: Slot, tree: &Tree, both: bool) {
        let row = &self.rows[slot];
        let forward = &self.stacks[&row.stack].forward;
        let wanted = tree.requires(row.index as usize).iter().map(|r| forward[*r as usize]);
        let mut requires: Vec<Slot> = wanted.collect();
        if both && row.applied {
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
