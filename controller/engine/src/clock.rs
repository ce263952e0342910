//! Clocks of servers that are off: certificates, tokens and logs go by them.

use muster_shared::time::clock_off;

use crate::engine::Effect;
use crate::graph::Graph;
use crate::node::NodeKey;

/// Seconds that a clock may be off before that is said. Clocks that are kept differ by less than one; the message may have
/// been on its way for some while, or the controller stood still before it read it.
const SLACK: u64 = 300;

impl Graph {
    /// How many seconds a node's clock is ahead of ours. Said when it becomes so, by much more or less, or ends.
    pub(crate) fn clock_told(&mut self, key: NodeKey, ahead: i64) {
        let off = Some(ahead).filter(|ahead| ahead.unsigned_abs() > SLACK);
        let node = &mut self.nodes[key];
        let before = std::mem::replace(&mut node.clock_off, off);
        let name = node.name.clone();
        match (before, off) {
            (Some(before), Some(off)) if before.abs_diff(off) <= SLACK => {}
            (_, Some(off)) => {
                let why = format!("node {name}: its clock is {}", clock_off(off));
                self.note_on_node(key, &why);
                self.ctx.effect(Effect::Warn(why));
            }
            (Some(_), None) => self.note_on_node(key, &format!("node {name}: its clock is right again")),
            (None, None) => {}
        }
    }
}
