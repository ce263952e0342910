//! Nodes that come and go, and what their agents say.

use std::collections::BTreeMap;

use muster_shared::model::Facts;
use muster_shared::model::{Claim, ClaimKind, Down, Hello, Up, Welcome};
use muster_shared::{EpochId, NodeId};

use crate::engine::{Effect, Engine, Todo};
use crate::facts::Told;
use crate::node::NodeKey;
use crate::record::Change;
use crate::resource::WorkState;

impl Engine {
    pub(crate) fn connected(&mut self, name: &NodeId, connection: u64) {
        let Some(key) = self.nodes.find(name) else { return };
        if self.nodes[key].joined.as_ref().is_none_or(|joined| joined.revoked) {
            return;
        }
        if connection <= self.nodes[key].newest {
            return; // told late: a newer one has taken its place
        }
        self.away(key);
        let node = &mut self.nodes[key];
        (node.connection, node.newest, node.heard) = (Some(connection), connection, self.now);
    }

    pub(crate) fn disconnected(&mut self, name: &NodeId, connection: u64) {
        let Some(key) = self.nodes.find(name) else { return };
        if self.nodes[key].connection == Some(connection) {
            self.away(key);
        }
    }

    pub(crate) fn received(&mut self, name: &NodeId, connection: u64, message: Up) {
        let Some(key) = self.nodes.find(name) else { return };
        if self.nodes[key].connection != Some(connection) {
            // What an older one said is said again on the present one. A newer one, of which the engine was not told,
            // would wait for answers for ever: its agent is to come again.
            if connection > self.nodes[key].newest {
                self.effect(Effect::Close { node: name.clone() });
            }
            return;
        }
        self.nodes[key].heard = self.now;
        match message {
            // One greeting for each connection: each is answered with all that is outstanding.
            Up::Hello(_) if self.nodes[key].ready => self.cut_off(key),
            Up::Hello(hello) => self.hello(key, hello),
            Up::Report(report) => self.report(key, report),
            Up::Progress(progress) => self.progress(key, progress),
            Up::Jobs(states) => self.jobs_told(key, &states),
            Up::Ledger { entries, last } => self.ledger(key, entries, last),
            Up::Fetch { digest, offset } => self.fetch(key, digest, offset),
            Up::Heartbeat { drift } => self.heartbeat(key, drift),
            // The agent alone decides what it means: here it says that this controller, obeyed by the node, is reached.
            Up::Challenge { key: job, bytes } if self.nodes[key].ready => {
                self.send(key, Down::Answer { key: job, bytes });
            }
            Up::Challenge { .. } => {}
            Up::Drift(drifts) => self.drifts(key, drifts),
            Up::Facts(facts) => self.facts(key, facts),
            Up::Flow(message) => self.flow_up(key, message),
            Up::Ports(devices) => self.ports_told(key, devices),
            Up::DiskFull(full) => self.disk_told(key, full),
            Up::Clock { ahead, .. } => self.clock_told(key, ahead),
            Up::Described(strays) => self.strays_described(key, strays),
        }
    }

    pub(crate) fn hello(&mut self, key: NodeKey, hello: Hello) {
        if !self.is_alone(key, hello.instance, hello.address) || !self.takes_up(key, hello.epoch) {
            return;
        }
        let node = &mut self.nodes[key];
        (node.was_welcomed, node.is_elsewhere) = (true, false);
        let want_ledger = node.ledger != hello.ledger;
        node.pages = want_ledger.then(Default::default);
        node.ready = true;
        // Said anew after the welcome; an older agent may have taken the place of this one.
        node.tells_jobs = false;
        node.reads = hello.reads;
        if hello.instance.is_none() {
            node.clock_off = None; // an older agent does not say
        }
        // Said again after the welcome.
        self.has_room(key);
        let node = &mut self.nodes[key];
        if let Some(joined) = &mut node.joined
            && joined.agent_version != hello.agent_version
        {
            joined.agent_version = hello.agent_version;
            let joined = joined.clone();
            self.change(Change::Node(Box::new(joined)));
        }
        // An older agent knows no bits.
        let bits = hello.instance.and(self.epoch_id().bits);
        let epoch = EpochId { bits, ..self.epoch_id() };
        let welcome = Welcome { epoch, want_ledger, heartbeat: self.heartbeat_every() };
        self.send(key, Down::Welcome(welcome));
        let node = &self.nodes[key];
        if let Some(connection) = node.connection {
            self.flows.greeted(&node.name, connection);
            self.intents.ports.greeted(self.now, &node.name);
        }
        for slot in self.nodes[key].sent.clone() {
            let id = self.rows[slot].stack;
            if let Some(stack) = self.stacks.get_mut(&id) {
                stack.in_flight += 1;
            }
            self.touch(id);
        }
        if !want_ledger {
            self.hold_nothing(key);
        }
        if !self.restored.awaits_ledger(&self.nodes[key].name) {
            self.transmit_sent(key);
        }
        for slot in self.nodes[key].in_line() {
            self.set_work_if_waiting(slot, key, WorkState::Queued);
        }
        self.turn_of_node(key);
        self.honour(key);
        let put_off = std::mem::take(&mut self.nodes[key].put_off);
        self.agenda.extend(put_off.into_iter().map(Todo::Correct));
        self.agenda.push_back(Todo::Pump(key));
    }

    /// From an agent that is there.
    pub(crate) fn facts(&mut self, key: NodeKey, facts: Box<Facts>) {
        if !self.nodes[key].ready {
            return;
        }
        let before = self.nodes[key].facts.replace(Told { facts: facts.into(), at: self.now });
        self.answer_facts(key);
        self.look_for_hosts(key);
        if before.is_none() {
            self.wake_those_asking(key);
        }
        if let (Some(before), Some(now)) = (before, self.nodes[key].facts.clone()) {
            self.compare_carriers(key, &before.facts, &now.facts);
        }
    }

    /// What is in one of the lists alone has come or gone and has no carrier to lose.
    pub(crate) fn compare_carriers(&mut self, key: NodeKey, before: &Facts, now: &Facts) {
        let was: BTreeMap<&str, bool> =
            before.links.iter().map(|link| (link.name.as_str(), link.carrier)).collect();
        for link in &now.links {
            let Some(was) = was.get(link.name.as_str()).copied().filter(|was| *was != link.carrier) else {
                continue;
            };
            // A mapping may name it by its MAC address.
            let mac = link.mac.map(|mac| mac.map(|octet| format!("{octet:02x}")).join(":"));
            let mut names = [Some(link.name.clone()), mac].into_iter().flatten();
            let owner = |name| self.claims.owner(key, &Claim { kind: ClaimKind::Link, key: name });
            if let Some(slot) = names.find_map(owner) {
                self.carrier_changed(slot, &link.name, was);
            }
        }
    }
}
