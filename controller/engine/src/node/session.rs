//! Connections of agents: hands each message to its file, and answers a `Hello` with the jobs that
//! the agent may have.
//!
//! Absent: whether a node is welcomed (`node/clones.rs`, `restored/detect.rs`), and what follows from the end of
//! a connection (`node/away.rs`).

use muster_shared::model::Facts;
use muster_shared::model::flow::FlowUp;
use muster_shared::model::{Down, Hello, Up, Welcome};
use muster_shared::wire::{CONTROLLER_READS, READS_WELCOME};
use muster_shared::{EpochId, NodeId};

use crate::engine::{Effect, Engine};
use crate::node::NodeKey;
use crate::node::facts::NodeFacts;
use crate::node::greeting_state::Presence;
use crate::record::Change;
use crate::row::TaskState;
use crate::todo::Todo;
use crate::traversals::Traversals;

impl Engine {
    pub(crate) fn received(&mut self, name: &NodeId, connection: u64, message: Up) {
        let Some(key) = self.graph().nodes.find(name) else { return };
        if self.graph().nodes[key].presence.connection() != Some(connection) {
            // The agent repeats on a newer connection what it said on an older one. If the engine
            // was not told of the newer one, its agent would wait for ever: it has to connect
            // again.
            if connection > self.graph().nodes[key].newest {
                self.graph_mut().ctx.effect(Effect::Close { node: name.clone() });
            }
            return;
        }
        self.graph_mut().nodes[key].heard = self.graph().ctx.now;
        match message {
            // A connection has one Hello. A second one closes it: each gets all outstanding
            // messages.
            Up::Hello(_) if self.graph().nodes[key].presence.is_ready() => self.traversals.cut_off(key),
            Up::Hello(hello) => self.hello(key, hello),
            Up::Report(report) => self.traversals.jobs.report(key, report),
            Up::Progress(progress) => self.graph_mut().progress(key, progress),
            Up::Jobs(states) => self.graph_mut().jobs_told(key, &states),
            Up::Ledger { entries, last } => self.ledger(key, entries, last),
            Up::Fetch { digest, offset } => self.fetch(key, digest, offset),
            Up::Heartbeat { drift } => self.graph_mut().heartbeat(key, drift),
            // The agent alone decides what the challenge means. The answer proves that the
            // controller it obeys is reachable.
            Up::Challenge { key: job, bytes } if self.graph().nodes[key].presence.is_ready() => {
                self.graph_mut().send(key, Down::Answer { key: job, bytes });
            }
            Up::Challenge { .. } => {}
            Up::Drift(drifts) => self.traversals.jobs.drifts(key, drifts),
            Up::Facts(facts) => self.facts(key, facts),
            Up::Flow(FlowUp::Traced { device, number, result }) => self.traced(key, &device, number, result),
            Up::Flow(message) => self.flow_up(key, message),
            Up::Ports(devices) => self.ports_told(key, devices),
            Up::DiskFull(full) => self.graph_mut().disk_told(key, full),
            Up::Clock { ahead, .. } => self.graph_mut().clock_told(key, ahead),
            Up::Described(strays) => self.graph_mut().strays_described(key, strays),
            Up::Moved(outcome) => self.moved(key, outcome),
            Up::Surveyed(survey) => self.graph_mut().surveyed(key, survey),
        }
    }

    /// Handles a Hello. Flow tables and ports learn of it after the welcome.
    pub(crate) fn hello(&mut self, key: NodeKey, hello: Hello) {
        if !self.traversals.is_alone(key, hello.instance, hello.address) || !self.takes_up(key, hello.epoch) {
            return;
        }
        self.traversals.welcome(key, hello);
        let graph = &self.traversals.jobs.graph;
        let node = &graph.nodes[key];
        if let Some(connection) = node.presence.connection() {
            self.flows.greeted(&node.name, connection);
            self.intents.ports.greeted(graph.ctx.now, &node.name);
        }
    }

    /// Stores the facts of a connected agent and wakes what waits for them.
    pub(crate) fn facts(&mut self, key: NodeKey, facts: Box<Facts>) {
        if !self.graph().nodes[key].presence.is_ready() {
            return;
        }
        let before = self.traversals.jobs.graph.nodes[key]
            .facts
            .replace(NodeFacts { facts: facts.into(), at: self.traversals.jobs.graph.ctx.now });
        self.traversals.answer_facts(key);
        self.look_for_hosts(key);
        if before.is_none() {
            self.traversals.wake_those_asking(key);
        }
        if let (Some(before), Some(now)) = (before, self.graph().nodes[key].facts.clone()) {
            self.traversals.jobs.compare_carriers(key, &before.facts, &now.facts);
        }
    }
}

impl Traversals {
    /// Answers a Hello with the messages that the agent needs, and queues the jobs that it may
    /// have.
    fn welcome(&mut self, key: NodeKey, hello: Hello) {
        let node = &mut self.jobs.graph.nodes[key];
        (node.was_welcomed, node.is_elsewhere) = (true, false);
        let want_ledger = node.ledger != hello.ledger;
        node.pages = want_ledger.then(Default::default);
        node.presence.welcome();
        node.reads = hello.reads;
        if hello.instance.is_none() {
            node.clock_off = None; // an older agent does not report it
        }
        // The agent reports a full disk again after the welcome.
        self.jobs.graph.has_room(key);
        let node = &mut self.jobs.graph.nodes[key];
        if let Some(joined) = &mut node.joined
            && joined.agent_version != hello.agent_version
        {
            joined.agent_version = hello.agent_version;
            let joined = joined.clone();
            self.jobs.graph.ctx.change(Change::Node(Box::new(joined)));
        }
        // An older agent does not know the random bits of an epoch.
        let bits = hello.instance.and(self.jobs.graph.ctx.epoch_id().bits);
        let epoch = EpochId { bits, ..self.jobs.graph.ctx.epoch_id() };
        let reads = if hello.reads >= READS_WELCOME { CONTROLLER_READS } else { 0 };
        let heartbeat = self.jobs.graph.heartbeat_every();
        let welcome = Welcome { epoch, want_ledger, heartbeat, reads };
        self.jobs.graph.send(key, Down::Welcome(welcome));
        self.jobs.agent_came(key);
        if !want_ledger {
            self.jobs.hold_nothing(key);
        }
        if !self.jobs.graph.restored.awaits_ledger(&self.jobs.graph.nodes[key].name) {
            self.jobs.transmit_sent(key);
        }
        for slot in self.jobs.graph.nodes[key].in_line() {
            self.jobs.set_task_if_waiting(slot, key, TaskState::Queued);
        }
        self.jobs.tell_rollouts_of_node(key);
        self.honour(key);
        let put_off = std::mem::take(&mut self.jobs.graph.nodes[key].put_off);
        self.jobs.graph.ctx.agenda.extend(put_off.into_iter().map(Todo::Correct));
        self.jobs.graph.ctx.agenda.push_back(Todo::Pump(key));
    }

    pub(crate) fn connected(&mut self, name: &NodeId, connection: u64) {
        let Some(key) = self.jobs.graph.nodes.find(name) else { return };
        if self.jobs.graph.nodes[key].joined.as_ref().is_none_or(|joined| joined.revoked) {
            return;
        }
        if connection <= self.jobs.graph.nodes[key].newest {
            return; // late: a newer connection has taken its place
        }
        self.node_away(key);
        let node = &mut self.jobs.graph.nodes[key];
        node.presence = Presence::Connected { connection };
        (node.newest, node.heard) = (connection, self.jobs.graph.ctx.now);
    }

    pub(crate) fn disconnected(&mut self, name: &NodeId, connection: u64) {
        let Some(key) = self.jobs.graph.nodes.find(name) else { return };
        if self.jobs.graph.nodes[key].presence.connection() == Some(connection) {
            self.node_away(key);
        }
    }
}
