//! Edges of the graph: what a row needs.

use muster_template::Tree;

use crate::engine::Engine;
use crate::resource::Slot;

impl Engine {
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
            self.rows[slot].requires = requires.into();
            self.edges_changed(slot);
        }
    }
}
