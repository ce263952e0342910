//! Jobs: queued, sent, withdrawn, tried again; what agents report; nodes that come and go.

use std::sync::Arc;
use std::time::Duration;

use muster_shared::model::{
    Action, Down, Hello, Job, LedgerEntry, Observed, Outcome, Report, Spec, Up, Welcome,
};
use muster_shared::{Attempt, Generation, MonoTime, NodeId};

use crate::engine::{Effect, Engine, Todo};
use crate::node::NodeKey;
use crate::record::PackedSpec;
use crate::record::{Change, Status};
use crate::resource::{Previous, Role, Slot, Work, WorkState};
use crate::timer::TimerKey;
use crate::traversal::stored_content;

/// Bounds on work in flight, and how often it is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Jobs with one agent.
    pub in_flight_per_node: usize,
    /// Jobs of one stack with agents that are there.
    pub in_flight_per_stack: usize,
    /// After this many further tries a resource is FAILED.
    pub retries: u32,
    /// How often agents are to say that they are there.
    pub heartbeat: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight_per_node: 256,
            in_flight_per_stack: 20_000,
            retries: 3,
            heartbeat: Duration::from_secs(60),
        }
    }
}

/// An agent ends a job as failed after this, and what the job itself says it takes.
const JOB_TIMEOUT: Duration = Duration::from_secs(300);
/// What is allowed beyond the agent's own timeout before a job counts as lost.
const ANSWER_GRACE: Duration = Duration::from_secs(30);
/// Delays between tries: this, doubled each time, up to the longest.
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Entries of one agent's ledger: what a node can hold.
const LEDGER_MAX: usize = 1_000_000;

impl Engine {
    /// Makes a job of what was decided; it goes as soon as its node is there and has room.
    pub(crate) fn queue_job(
        &mut self,
        slot: Slot,
        node: NodeKey,
        action: Action,
        spec: Option<PackedSpec>,
        content: Option<Arc<[u8]>>,
    ) {
        if let Some(spec) = &spec {
            self.keep_content(&spec.unpack(), content);
        }
        let generation = self.next_generation();
        let row = &mut self.rows[slot];
        let previous = Previous {
            action: row.action,
            status: row.status,
            reason: row.reason.take(),
            spec: row.spec.clone(),
            applied: row.applied,
        };
        row.action = Some(action);
        row.status = Some(Status::InProgress);
        row.generation = generation;
        row.attempt = 0;
        row.retry_count = 0;
        if let Some(spec) = spec {
            row.spec = Some(spec);
        }
        if row.node != Some(node) {
            if let Some(old) = row.node.replace(node) {
                self.nodes[old].rows -= 1;
            }
            self.nodes[node].rows += 1;
        }
        let stack = row.stack;
        let state = if self.nodes[node].ready { WorkState::Queued } else { WorkState::NodeAway };
        self.rows[slot].work =
            Some(Box::new(Work { state, since: self.now, due: None, previous: Some(previous) }));
        if let Some(stack) = self.stacks.get_mut(&stack) {
            stack.active += 1;
        }
        self.row_changed(slot, true);
        self.event(stack, Some(slot));
        self.nodes[node].queue.push_back(slot);
        self.agenda.push_back(Todo::Pump(node));
    }

    /// Sends what waits for this node, as far as there is room.
    pub(crate) fn pump(&mut self, node: NodeKey) {
        while self.nodes[node].ready && self.nodes[node].sent.len() < self.limits.in_flight_per_node {
            let Some(slot) = self.nodes[node].queue.pop_front() else { return };
            let waits = self.rows.get(slot).is_some_and(|row| {
                let state = row.work.as_ref().map(|work| work.state);
                row.node == Some(node) && matches!(state, Some(WorkState::Queued | WorkState::NodeAway))
            });
            if !waits {
                continue;
            }
            let Some(stack) = self.stacks.get_mut(&self.rows[slot].stack) else { continue };
            if stack.in_flight >= self.limits.in_flight_per_stack {
                stack.queue.push_back(slot);
            } else {
                self.send_job(slot, node);
            }
        }
    }

    pub(crate) fn pump_stack(&mut self, id: u64) {
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        if stack.in_flight >= self.limits.in_flight_per_stack {
            return;
        }
        if let Some(slot) = stack.queue.pop_front()
            && let Some(node) = self.rows.get(slot).and_then(|row| row.node)
        {
            self.nodes[node].queue.push_back(slot);
            self.agenda.push_back(Todo::Pump(node));
            self.agenda.push_back(Todo::PumpStack(id));
        }
    }

    fn send_job(&mut self, slot: Slot, node: NodeKey) {
        self.nodes[node].sent.insert(slot);
        let row = &mut self.rows[slot];
        row.applied = true;
        let stack = row.stack;
        if let Some(stack) = self.stacks.get_mut(&stack) {
            stack.in_flight += 1;
        }
        self.set_work(slot, WorkState::Sent);
        self.row_changed(slot, false);
        self.transmit(slot, node);
    }

    /// Says to the agent what it has to know of a job it may have.
    fn transmit(&mut self, slot: Slot, node: NodeKey) {
        let row = &self.rows[slot];
        let (Some(spec), Some(action), Some(work)) = (&row.spec, row.action, &row.work) else { return };
        let message = if work.state == WorkState::Withdrawing {
            Down::Withdraw { resource: row.physical, generation: row.generation }
        } else {
            let spec = spec.unpack();
            Down::Job(Job {
                resource: row.physical,
                generation: row.generation,
                attempt: Attempt(row.attempt),
                action,
                timeout: job_timeout(&spec),
                spec,
            })
        };
        let due = match &message {
            Down::Job(job) => self.now + job.timeout + ANSWER_GRACE,
            _ => self.now + JOB_TIMEOUT + ANSWER_GRACE,
        };
        self.set_due(slot, Some(due));
        self.send(node, message);
    }

    fn send(&mut self, node: NodeKey, message: Down) {
        let Node { name, connection } = self.address(node);
        if let Some(connection) = connection {
            self.effect(Effect::Send { node: name, connection, message });
        }
    }

    fn address(&self, node: NodeKey) -> Node {
        let node = &self.nodes[node];
        Node { name: node.name.clone(), connection: node.connection }
    }

    /// Takes a job back: at once if it was not sent, else when the agent says that it had not begun.
    pub(crate) fn take_back(&mut self, slot: Slot) {
        let row = &self.rows[slot];
        let (Some(work), Some(node)) = (&row.work, row.node) else { return };
        match work.state {
            WorkState::NodeAway | WorkState::Queued => self.undo_work(slot),
            WorkState::Backoff => {
                self.end_work(slot);
                let row = &mut self.rows[slot];
                row.status = Some(Status::Failed);
                self.row_changed(slot, false);
            }
            WorkState::Sent | WorkState::Running | WorkState::Settling => {
                self.set_work(slot, WorkState::Withdrawing);
                if self.nodes[node].ready {
                    self.transmit(slot, node);
                }
            }
            WorkState::Withdrawing => {}
        }
    }

    /// The job never began: the row is as it was before.
    fn undo_work(&mut self, slot: Slot) {
        let Some(work) = self.end_work(slot) else { return };
        let row = &mut self.rows[slot];
        let new = row.spec.clone().filter(|_| row.action != Some(Action::Delete) && work.previous.is_some());
        match work.previous {
            Some(previous) => {
                row.action = previous.action;
                row.status = previous.status;
                row.reason = previous.reason;
                row.spec = previous.spec;
                row.applied = previous.applied;
            }
            None => {
                // Known no more after a restart: whatever it is, it has to be applied again.
                row.status = Some(Status::Failed);
                row.definition = 0;
            }
        }
        if let Some(new) = new {
            self.release_content(&new.unpack());
        }
        self.row_changed(slot, true);
    }

    fn end_work(&mut self, slot: Slot) -> Option<Work> {
        self.set_due(slot, None);
        let row = &mut self.rows[slot];
        let work = *row.work.take()?;
        let (stack_id, node) = (row.stack, row.node);
        let stack = self.stacks.get_mut(&stack_id);
        if let Some(node) = node
            && self.nodes[node].sent.remove(&slot)
        {
            self.agenda.push_back(Todo::Pump(node));
            if let Some(stack) = stack {
                stack.active -= 1;
                if self.nodes[node].ready {
                    stack.in_flight -= 1;
                    self.agenda.push_back(Todo::PumpStack(stack_id));
                }
            }
        } else if let Some(stack) = stack {
            stack.active -= 1;
        }
        self.agenda.push_back(Todo::CheckEnd(stack_id));
        Some(work)
    }

    fn set_work(&mut self, slot: Slot, state: WorkState) {
        let now = self.now;
        let row = &mut self.rows[slot];
        let stack = row.stack;
        if let Some(work) = &mut row.work
            && work.state != state
        {
            work.state = state;
            work.since = now;
            self.touch(stack);
        }
    }

    fn set_due(&mut self, slot: Slot, due: Option<MonoTime>) {
        let Some(work) = &mut self.rows[slot].work else { return };
        if let Some(old) = std::mem::replace(&mut work.due, due) {
            self.timers.clear(old, TimerKey::Work(slot));
        }
        if let Some(due) = due {
            self.timers.set(due, TimerKey::Work(slot));
        }
    }

    /// A backoff is over, or an agent has not answered in time.
    pub(crate) fn work_due(&mut self, slot: Slot, due: MonoTime) {
        let Some(row) = self.rows.get_mut(slot) else { return };
        let Some(work) = row.work.as_mut().filter(|work| work.due == Some(due)) else { return };
        work.due = None;
        match work.state {
            WorkState::Backoff => {
                row.attempt += 1;
                let Some(node) = row.node else { return };
                let state = if self.nodes[node].ready { WorkState::Queued } else { WorkState::NodeAway };
                self.set_work(slot, state);
                self.row_changed(slot, false);
                self.nodes[node].queue.push_back(slot);
                self.agenda.push_back(Todo::Pump(node));
            }
            WorkState::Withdrawing => {
                if let Some(node) = row.node {
                    self.transmit(slot, node);
                }
            }
            WorkState::Sent | WorkState::Running | WorkState::Settling => {
                self.attempt_failed(slot, "no answer from the agent in time", false);
            }
            WorkState::NodeAway | WorkState::Queued => {}
        }
    }

    fn attempt_failed(&mut self, slot: Slot, reason: &str, permanent: bool) {
        let limit = self.limits.retries;
        let wanted = self.rows[slot].role != Role::Steady;
        let row = &mut self.rows[slot];
        row.reason = Some(reason.into());
        if permanent || row.retry_count >= limit || !wanted {
            self.end_work(slot);
            self.fail_row(slot, reason.to_owned());
            return;
        }
        row.retry_count += 1;
        let delay = BACKOFF_FIRST.saturating_mul(1 << (row.retry_count - 1).min(16)).min(BACKOFF_MAX);
        let (stack, node) = (row.stack, row.node);
        if let Some(node) = node
            && self.nodes[node].sent.remove(&slot)
        {
            if self.nodes[node].ready
                && let Some(stack) = self.stacks.get_mut(&stack)
            {
                stack.in_flight -= 1;
            }
            self.agenda.push_back(Todo::Pump(node));
            self.agenda.push_back(Todo::PumpStack(stack));
        }
        self.set_work(slot, WorkState::Backoff);
        self.set_due(slot, Some(self.now + delay));
        self.row_changed(slot, false);
    }

    pub(crate) fn connected(&mut self, name: &NodeId, connection: u64) {
        let Some(key) = self.nodes.find(name) else { return };
        if self.nodes[key].joined.as_ref().is_none_or(|joined| joined.revoked) {
            return;
        }
        self.away(key);
        self.nodes[key].connection = Some(connection);
    }

    pub(crate) fn disconnected(&mut self, name: &NodeId, connection: u64) {
        let Some(key) = self.nodes.find(name) else { return };
        if self.nodes[key].connection == Some(connection) {
            self.away(key);
        }
    }

    /// What is in flight stays so, but takes no room and has no deadline until the node is back.
    fn away(&mut self, key: NodeKey) {
        let node = &mut self.nodes[key];
        node.connection = None;
        node.pages = None;
        if !std::mem::take(&mut node.ready) {
            return;
        }
        for slot in node.sent.clone() {
            self.set_due(slot, None);
            let id = self.rows[slot].stack;
            if let Some(stack) = self.stacks.get_mut(&id) {
                stack.in_flight -= 1;
            }
            self.touch(id);
            self.agenda.push_back(Todo::PumpStack(id));
        }
        for slot in self.nodes[key].queue.clone() {
            self.set_work_if_waiting(slot, WorkState::NodeAway);
        }
    }

    fn set_work_if_waiting(&mut self, slot: Slot, state: WorkState) {
        let waits = self.rows.get(slot).and_then(|row| row.work.as_ref()).is_some_and(|w| !w.state.is_sent());
        if waits {
            self.set_work(slot, state);
        }
    }

    pub(crate) fn received(&mut self, name: &NodeId, connection: u64, message: Up) {
        let Some(key) = self.nodes.find(name) else { return };
        if self.nodes[key].connection != Some(connection) {
            return; // from a connection that is over; said again on the present one
        }
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
                let Node { name, .. } = self.address(key);
                if wanted {
                    self.effect(Effect::SendChunk { node: name, connection, digest, offset });
                } else {
                    self.send(key, Down::Chunk { digest, offset, bytes: Vec::new() });
                }
            }
            Up::Heartbeat => {}
        }
    }

    fn hello(&mut self, key: NodeKey, hello: Hello) {
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
            self.change(Change::Node(joined));
        }
        let welcome = Welcome { epoch: self.epoch, want_ledger, heartbeat: self.limits.heartbeat };
        self.send(key, Down::Welcome(welcome));
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
        for slot in self.nodes[key].queue.clone() {
            self.set_work_if_waiting(slot, WorkState::Queued);
        }
        self.agenda.push_back(Todo::Pump(key));
    }

    fn report(&mut self, key: NodeKey, report: Report) {
        self.send(key, Down::Acknowledge(report.key));
        let Some(slot) = self.by_physical.get(&report.key.resource).copied() else { return };
        let row = &self.rows[slot];
        if row.node != Some(key) {
            return;
        }
        if let Outcome::Superseded { by } = report.outcome
            && row.is_sent()
            && row.generation == report.key.generation
        {
            self.superseded(slot, key, by);
            return;
        }
        // An answer to a withdrawal counts whatever attempt it names: the generation is over either way.
        let current = row.generation == report.key.generation
            && (row.attempt == report.key.attempt.0 || report.outcome == Outcome::Withdrawn);
        if !current || (!row.is_sent() && row.status != Some(Status::Failed)) {
            return;
        }
        match report.outcome {
            Outcome::Done(observed) => self.done(slot, key, observed),
            Outcome::Failed { reason, permanent } => {
                let withdrawing = row.work.as_ref().is_some_and(|work| work.state == WorkState::Withdrawing);
                if withdrawing {
                    self.end_work(slot);
                    let row = &mut self.rows[slot];
                    row.status = Some(Status::Failed);
                    row.reason = Some(reason.into());
                    self.row_changed(slot, false);
                    self.agenda.push_back(Todo::Visit(slot));
                } else if row.is_sent() {
                    self.attempt_failed(slot, &reason, permanent);
                }
            }
            Outcome::Withdrawn if row.is_sent() => {
                self.undo_work(slot);
                self.agenda.push_back(Todo::Visit(slot));
            }
            Outcome::Withdrawn | Outcome::Superseded { .. } => {}
        }
    }

    /// The agent knows a newer generation than this controller: the store is older than the fleet.
    fn superseded(&mut self, slot: Slot, node: NodeKey, by: Generation) {
        self.rise_above(by);
        let generation = self.next_generation();
        let row = &mut self.rows[slot];
        row.generation = generation;
        row.attempt = 0;
        self.row_changed(slot, false);
        self.transmit(slot, node);
    }

    fn done(&mut self, slot: Slot, node: NodeKey, observed: Observed) {
        let late = self.rows[slot].work.is_none();
        let previous = self.end_work(slot).and_then(|work| work.previous);
        let row = &mut self.rows[slot];
        let (resource, generation, deleted) =
            (row.physical, row.generation, row.action == Some(Action::Delete));
        let held = std::mem::replace(&mut row.held, (!deleted).then_some(generation));
        let ledger = &mut self.nodes[node].ledger;
        for generation in [held, self.rows[slot].held].into_iter().flatten() {
            *ledger ^= LedgerEntry { resource, generation }.digest();
        }
        let row = &mut self.rows[slot];
        row.status = Some(Status::Complete);
        row.reason = None;
        row.applied = !deleted;
        let (stack, role) = (row.stack, row.role);
        if !deleted {
            row.handed_over = false;
            let spec = row.spec.as_ref().map(PackedSpec::unpack);
            let differs = |name: &String, value: &String| {
                spec.as_ref().and_then(|spec| spec.attribute(name)).is_none_or(|v| v.as_str() != Some(value))
            };
            let attributes: std::collections::BTreeMap<_, _> =
                observed.attributes.into_iter().filter(|(name, value)| differs(name, value)).collect();
            row.attributes = (!attributes.is_empty()).then(|| Box::new(attributes));
            self.forget_previous(slot, node, previous, spec.as_ref());
        }
        self.row_changed(slot, true);
        self.event(stack, Some(slot));
        if late && let Some(walk) = self.stacks.get_mut(&stack).and_then(|stack| stack.walk.as_mut()) {
            walk.failed = walk.failed.saturating_sub(1);
            walk.ended = false;
        }
        match role {
            Role::Cleanup if deleted => self.drop_row(slot),
            // Either it is what this traversal wants, or visit() finds what is to be done after it.
            Role::Cleanup | Role::Forward => self.agenda.push_back(Todo::Visit(slot)),
            Role::Steady => {}
        }
    }

    /// What only the state before needed is let go.
    fn forget_previous(
        &mut self,
        slot: Slot,
        node: NodeKey,
        previous: Option<Previous>,
        spec: Option<&Spec>,
    ) {
        let Some(old) = previous.and_then(|previous| previous.spec).map(|old| old.unpack()) else { return };
        let kept = spec.map(Spec::claims).unwrap_or_default();
        for claim in old.claims().iter().filter(|claim| !kept.contains(claim)) {
            self.claims.release(node, claim, slot);
        }
        self.release_content(&old);
    }

    /// Compares an agent's whole ledger with the rows: what the agent has lost is made again.
    fn ledger(&mut self, key: NodeKey, entries: Vec<LedgerEntry>, last: bool) {
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
            if theirs == row.held {
                continue;
            }
            for generation in [row.held, theirs].into_iter().flatten() {
                self.nodes[key].ledger ^= LedgerEntry { resource, generation }.digest();
            }
            if let Some(theirs) = theirs {
                self.rise_above(theirs);
            }
            let row = &mut self.rows[slot];
            row.held = theirs;
            self.row_changed(slot, false);
            if theirs.is_none() {
                self.make_again(slot, key);
            }
        }
    }

    /// The agent has no record of a resource that was in place: its state was lost.
    fn make_again(&mut self, slot: Slot, node: NodeKey) {
        let row = &self.rows[slot];
        if row.work.is_some() || row.status != Some(Status::Complete) || row.role == Role::Cleanup {
            return; // the traversal sees to it
        }
        let spec = row.spec.clone();
        self.queue_job(slot, node, Action::Create, spec, None);
    }
}

struct Node {
    name: NodeId,
    connection: Option<u64>,
}

fn job_timeout(spec: &Spec) -> Duration {
    match spec {
        Spec::Dummy(dummy) => JOB_TIMEOUT + Duration::from_millis(dummy.milliseconds),
        Spec::Network(network) => JOB_TIMEOUT + Duration::from_secs(network.confirm_timeout.into()),
        Spec::File(_) => JOB_TIMEOUT,
    }
}
