//! The connection of a node has ended: its work stays in flight, and takes no room until the node is back.

use crate::engine::Engine;
use crate::node::NodeKey;
use crate::resource::WorkState;
use crate::todo::Todo;

impl Engine {
    /// What is in flight stays so, but takes no room and has no deadline until the node is back.
    pub(crate) fn away(&mut self, key: NodeKey) {
        let node = &mut self.traversals.jobs.graph.nodes[key];
        if node.ready {
            node.instances.left(node.heard);
        }
        node.connection = None;
        node.pages = None;
        node.asked_strays.clear();
        self.traversals.answer_facts(key);
        let name = self.traversals.jobs.graph.nodes[key].name.clone();
        self.with_flows(|flows, _| flows.away(&name));
        self.topology_away(key);
        self.traversals.jobs.fetches_away(key);
        let node = &mut self.traversals.jobs.graph.nodes[key];
        if !std::mem::take(&mut node.ready) {
            return;
        }
        node.away_since = self.traversals.jobs.graph.ctx.now;
        for slot in node.sent.clone() {
            self.traversals.jobs.graph.set_due(slot, None);
            let id = self.traversals.jobs.graph.rows[slot].stack;
            if let Some(stack) = self.traversals.jobs.graph.stacks.get_mut(&id) {
                stack.in_flight -= 1;
            }
            self.traversals.jobs.graph.touch(id);
            self.traversals.jobs.graph.ctx.agenda.push_back(Todo::PumpStack(id));
        }
        for slot in self.traversals.jobs.graph.nodes[key].in_line() {
            self.traversals.jobs.set_work_if_waiting(slot, key, WorkState::NodeAway);
        }
        self.traversals.jobs.turn_of_node(key);
    }
}
