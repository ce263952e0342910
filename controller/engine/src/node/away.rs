//! The end of a node's connection: what follows from it. Jobs of the node stay in flight, and take no room
//! until the node is back.
//!
//! Absent: after what silence a connection ends (`controller/src/link/away_after_silence.rs`).

use crate::node::NodeKey;
use crate::row::TaskState;
use crate::todo::Todo;
use crate::traversals::Traversals;

impl Traversals {
    /// Marks a node as away. Its jobs in flight have no deadline until the node is back.
    pub(crate) fn node_away(&mut self, key: NodeKey) {
        let node = &mut self.jobs.graph.nodes[key];
        let was_ready = node.presence.leave();
        if was_ready {
            node.instances.left(node.heard);
        }
        node.pages = None;
        node.asked_strays.clear();
        self.answer_facts(key);
        self.move_cut_off(key);
        self.jobs.graph.survey_cut_off(key);
        let name = self.jobs.graph.nodes[key].name.clone();
        self.jobs.graph.ctx.agenda.push_back(Todo::Away(name));
        self.jobs.fetches_away(key);
        let node = &mut self.jobs.graph.nodes[key];
        if !was_ready {
            return;
        }
        node.away_since = self.jobs.graph.ctx.now;
        self.jobs.agent_went(key);
        for slot in self.jobs.graph.nodes[key].in_line() {
            self.jobs.set_task_if_waiting(slot, key, TaskState::NodeAway);
        }
        self.jobs.tell_rollouts_of_node(key);
    }
}
