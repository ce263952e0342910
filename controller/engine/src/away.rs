//! The connection of a node has ended: its work stays in flight, and takes no room until the node is back.

use crate::engine::{Engine, Todo};
use crate::node::NodeKey;
use crate::resource::WorkState;

impl Engine {
    /// What is in flight stays so, but takes no room and has no deadline until the node is back.
    pub(crate) fn away(&mut self, key: NodeKey) {
        let node = &mut self.nodes[key];
        if node.ready {
            node.instances.left(node.heard);
        }
        node.connection = None;
        node.pages = None;
        node.asked_strays.clear();
        self.answer_facts(key);
        let name = self.nodes[key].name.clone();
        self.with_flows(|flows, _| flows.away(&name));
        self.topology_away(key);
        self.fetches_away(key);
        let node = &mut self.nodes[key];
        if !std::mem::take(&mut node.ready) {
            return;
        }
        node.away_since = self.now;
        for slot in node.sent.clone() {
            self.set_due(slot, None);
            let id = self.rows[slot].stack;
            if let Some(stack) = self.stacks.get_mut(&id) {
                stack.in_flight -= 1;
            }
            self.touch(id);
            self.agenda.push_back(Todo::PumpStack(id));
        }
        for slot in self.nodes[key].in_line() {
            self.set_work_if_waiting(slot, key, WorkState::NodeAway);
        }
        self.turn_of_node(key);
    }
}
