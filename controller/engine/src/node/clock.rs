//! Tells operators when the clock of a server is wrong, and when it is right again. Certificates,
//! tokens and logs depend on clocks.
//!
//! Absent: the comparison of both clocks (`controller/src/link/inbox.rs`), and when an agent
//! reports its clock (`agent/src/driver/clock.rs`).

use muster_shared::time::clock_off;

use crate::engine::Effect;
use crate::graph::Graph;
use crate::node::NodeKey;

/// Seconds that a clock may be off before that is reported. Synchronised clocks differ by less than
/// one second. The message may have been in transit for some time, or the controller stood still
/// before it read it.
const SLACK: u64 = 300;

impl Graph {
    /// Handles a clock report. Writes an event when the clock begins or ceases to be off, or
    /// changes by a lot.
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
