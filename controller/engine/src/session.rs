//! Nodes that come and go, and what their agents say.

use std::collections::BTreeMap;

use muster_shared::model::{Action, Down, Hello, LedgerEntry, Up, Welcome};
use muster_shared::{EpochId, Generation, NodeId};

use crate::cause::Cause;
use crate::engine::{Effect, Engine, Todo};
use crate::job::NewJob;
use crate::node::NodeKey;
use crate::record::{Change, Observation, Status};
use crate::resource::{Role, Slot, WorkState};
use crate::restored::{HeldThing, Unlike};

/// Entries of one agent's ledger: what a node can hold.
const LEDGER_MAX: usize = 1_000_000;

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

    /// Nothing of a row that left its place: what waits to be tried again, or for another node, goes on as it is.
    fn set_work_if_waiting(&mut self, slot: Slot, node: NodeKey, state: WorkState) {
        if self.waits_in_line(slot, node) {
            self.set_work(slot, state);
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

    /// What the agent may have is said again.
    fn transmit_sent(&mut self, key: NodeKey) {
        for slot in self.nodes[key].sent.clone() {
            self.transmit(slot, key);
        }
    }

    /// The node has exactly what the store says.
    fn hold_nothing(&mut self, key: NodeKey) {
        let name = self.nodes[key].name.clone();
        self.restored.keep_left(&name, |_| false);
        self.restored.ledger_told(&name, BTreeMap::new());
        self.end_restored();
    }

    /// Compares an agent's whole ledger with the rows: what the agent has lost is made again.
    pub(crate) fn ledger(&mut self, key: NodeKey, entries: Vec<LedgerEntry>, last: bool) {
        let Some(pages) = &mut self.nodes[key].pages else { return };
        pages.extend(entries.into_iter().map(|entry| (entry.resource, entry)));
        if pages.len() > LEDGER_MAX {
            self.nodes[key].pages = None;
            return;
        }
        if !last {
            return;
        }
        let pages = self.nodes[key].pages.take().unwrap_or_default();
        self.compare_history(key, &pages);
        let was_awaited = self.restored.awaits_ledger(&self.nodes[key].name);
        let kept = self.hold_unlike(key, &pages);
        let mut rows = self.rows_on(key);
        rows.retain(|slot| !kept.contains(slot));
        for slot in rows {
            let row = &self.rows[slot];
            let resource = row.physical;
            let theirs = pages.get(&resource).map(|entry| entry.generation);
            if row.held.is_none() {
                theirs.into_iter().for_each(|theirs| self.take_up_again(slot, theirs));
                continue;
            }
            if theirs == row.held || theirs.is_some_and(|theirs| !self.rise_above(theirs)) {
                continue;
            }
            let row = &self.rows[slot];
            for generation in [row.held, theirs].into_iter().flatten() {
                self.nodes[key].ledger ^= LedgerEntry { resource, generation }.digest();
            }
            let row = &mut self.rows[slot];
            row.held = theirs;
            self.row_changed(slot, false);
            self.make_again(slot, key);
        }
        self.ask_strays(key);
        if was_awaited {
            self.transmit_sent(key);
            self.agenda.push_back(Todo::Pump(key));
            self.tables_compared(key);
            self.end_restored();
        }
    }

    /// A row whose thing was taken away, and that the node has all the same: it went back in time. It goes by a job once more.
    fn take_up_again(&mut self, slot: Slot, theirs: Generation) {
        let row = &self.rows[slot];
        let is_over = row.is_going() && row.held.is_none() && row.work.is_none() && !row.applied;
        if is_over && self.rise_above(theirs) {
            self.holds(slot, HeldThing { unlike: Unlike::Newer, generation: Some(theirs) });
            self.agenda.push_back(Todo::Visit(slot));
        }
    }

    /// The agent has no record of a resource that was in place, or one of another state: its own was lost.
    pub(crate) fn make_again(&mut self, slot: Slot, node: NodeKey) {
        if self.rows[slot].is_asked() {
            self.end_check(slot);
            // The check waits for it no more if it is not made again now.
            self.agenda.push_back(Todo::Visit(slot));
        }
        let row = &mut self.rows[slot];
        if let Some(work) = &mut row.work {
            // The job sees to it; should it turn out never to have begun, what was before it is not there either.
            if let Some(previous) = &mut work.previous {
                previous.status = None;
            }
            return;
        }
        if row.status != Some(Status::Complete) {
            return; // it is seen to already
        }
        let row = &self.rows[slot];
        let is_wanted = row.ready && row.role != Role::Cleanup && !self.is_outside(row);
        if is_wanted && !self.may_make_again(slot, node) {
            return;
        }
        let row = &mut self.rows[slot];
        // Also for a later revision, should this one's job be taken back.
        row.status = None;
        self.observe(slot, Observation::Unknown);
        let row = &self.rows[slot];
        if !row.ready || row.role == Role::Cleanup {
            return; // in its turn, if it is wanted
        }
        // Its stack may follow the nodes no more, and yet nobody outside of a selector is touched.
        if self.is_outside(row) {
            let stack = row.stack;
            let row = &mut self.rows[slot];
            row.status = Some(Status::Failed);
            row.reason = Some("its server has lost it, and is not selected any more".into());
            self.row_changed(slot, true);
            return self.event(stack, Some(slot));
        }
        let spec = row.spec.clone();
        // Not Create: what is there is no one else's. A deployment is nobody's, and has for a server that is new what it
        // runs at its creation.
        let action = if row.kind.is_deployment() { Action::Create } else { Action::Update };
        self.queue_job(slot, NewJob { cause: Cause::Rebuild, node, action, spec, content: None });
    }
}
