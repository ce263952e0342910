//! Nodes that come and go, and what their agents say.

use muster_shared::model::{Action, Down, Hello, LedgerEntry, Up, Welcome};
use muster_shared::{Generation, NodeId};

use crate::content::stored_content;
use crate::engine::{Effect, Engine, Todo};
use crate::node::NodeKey;
use crate::record::{Change, Observation, PackedSpec, Status};
use crate::resource::{Role, Slot, WorkState};

/// Entries of one agent's ledger: what a node can hold.
const LEDGER_MAX: usize = 1_000_000;

impl Engine {
    pub(crate) fn connected(&mut self, name: &NodeId, connection: u64) {
        let Some(key) = self.nodes.find(name) else { return };
        if self.nodes[key].joined.as_ref().is_none_or(|joined| joined.revoked) {
            return;
        }
        self.away(key);
        (self.nodes[key].connection, self.nodes[key].heard) = (Some(connection), self.now);
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
        node.connection = None;
        node.pages = None;
        self.answer_facts(key);
        self.flows_away(key);
        self.topology_away(key);
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
            return; // from a connection that is over; said again on the present one
        }
        self.nodes[key].heard = self.now;
        match message {
            Up::Hello(hello) => self.hello(key, hello),
            Up::Report(report) => self.report(key, report),
            Up::Progress(progress) => {
                let state = if progress.settling { WorkState::Settling } else { WorkState::Running };
                if let Some(slot) = self.by_physical.get(&progress.key.resource).copied() {
                    let row = &self.rows[slot];
                    let current = row.key() == progress.key && row.node == Some(key);
                    if current
                        && row
                            .work
                            .as_ref()
                            .is_some_and(|w| w.state.is_sent() && w.state != WorkState::Withdrawing)
                    {
                        self.set_work(slot, state);
                    }
                }
            }
            Up::Ledger { entries, last } => self.ledger(key, entries, last),
            Up::Fetch { digest, offset } => {
                let wanted = self.nodes[key].sent.iter().any(|slot| {
                    let spec = self.rows[*slot].spec.as_ref().map(PackedSpec::unpack);
                    spec.as_ref().and_then(stored_content) == Some(digest)
                });
                let name = self.nodes[key].name.clone();
                if wanted {
                    self.effect(Effect::SendChunk { node: name, connection, digest, offset });
                } else if !self.send_flow_chunk(key, digest, offset) {
                    self.send(key, Down::Chunk { digest, offset, bytes: Vec::new() });
                }
            }
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
        }
    }

    pub(crate) fn hello(&mut self, key: NodeKey, hello: Hello) {
        self.rise_above(Generation { epoch: hello.epoch, number: 0 });
        let node = &mut self.nodes[key];
        let want_ledger = node.ledger != hello.ledger;
        node.pages = want_ledger.then(Default::default);
        let first = !std::mem::replace(&mut node.ready, true);
        if let Some(joined) = &mut node.joined
            && joined.agent_version != hello.agent_version
        {
            joined.agent_version = hello.agent_version;
            let joined = joined.clone();
            self.change(Change::Node(Box::new(joined)));
        }
        let welcome = Welcome { epoch: self.epoch, want_ledger, heartbeat: self.heartbeat_every() };
        self.send(key, Down::Welcome(welcome));
        self.flows_hello(key);
        self.topology_hello(key);
        for slot in self.nodes[key].sent.clone() {
            if first {
                let id = self.rows[slot].stack;
                if let Some(stack) = self.stacks.get_mut(&id) {
                    stack.in_flight += 1;
                }
                self.touch(id);
            }
            self.transmit(slot, key);
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
        let held = |engine: &Engine, slot: Slot| {
            engine.rows[slot].node == Some(key) && engine.rows[slot].held.is_some()
        };
        let rows: Vec<Slot> = self.by_physical.values().copied().filter(|slot| held(self, *slot)).collect();
        for slot in rows {
            let row = &self.rows[slot];
            let resource = row.physical;
            let theirs = pages.get(&resource).map(|entry| entry.generation);
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
        self.queue_job(slot, node, action, spec, None);
    }
}
