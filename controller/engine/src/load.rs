//! Builds the engine after a controller restart from the rows and stacks of the store. The engine
//! asks about a job in flight when its node says `Hello`.
//!
//! Absent: how the store is read (`controller/src/store/load.rs`), and how a traversal goes on
//! (`traversal/derive.rs`).

use std::collections::BTreeMap;

use muster_flow::record::FlowSnapshot;
use muster_shared::MonoTime;
use muster_shared::model::{ContentDigest, LedgerEntry};
use muster_template::{Policies, names_digest};

use crate::content::stored_content;
use crate::elapsed::Elapsed;
use crate::engine::{Config, Engine};
use crate::job::next_attempt::backoff;
use crate::record::{
    Change, NodeRecord, PackedSpec, ResourceRecord, RolloutSnapshot, StackAction, StackRecord, Status,
    TokenRecord, UserRecord,
};
use crate::request::{Refusal, Request, Source};
use crate::restored::{Restored, RestoredRecord};
use crate::row::{Row, Slot, TaskState};
use crate::stack::Stack;
use crate::todo::Todo;
use crate::traversals::Traversals;

/// The contents of the store for the engine.
#[derive(Default)]
pub struct Snapshot {
    /// Each stack, with the source of its current revision unless it is COMPLETE.
    pub stacks: Vec<(StackRecord, Option<Source>)>,
    /// Stacks with a row that cannot be read, and the reason.
    pub damaged: BTreeMap<u64, String>,
    /// Policies in the environments of current revisions, by stack. A stack without policies is absent.
    pub policies: BTreeMap<u64, Policies>,
    /// Rows of all stacks, in any order.
    pub resources: Vec<ResourceRecord>,
    /// (row, row it needs)
    pub edges: Vec<(u64, u64)>,
    pub nodes: Vec<NodeRecord>,
    pub tokens: Vec<TokenRecord>,
    pub users: Vec<UserRecord>,
    pub contents: Vec<ContentDigest>,
    pub flows: FlowSnapshot,
    /// Intents, and the network as agents reported it.
    pub intents: muster_intent::record::IntentSnapshot,
    pub rollouts: RolloutSnapshot,
    /// Things that nodes of a restored site hold. `None`: the site is not restored.
    pub restored: Option<RestoredRecord>,
    /// The highest numbers given so far: row, stack, traversal.
    pub highest: (u64, u64, u64),
}

impl Engine {
    /// Builds the engine from the store. Deadlines of jobs under way start again at `now`.
    pub fn load(config: Config, snapshot: Snapshot, now: MonoTime) -> Self {
        let mut engine = Self::new(config);
        (engine.traversals.jobs.graph.ctx.now, engine.traversals.jobs.graph.ctx.began) = (now, now);
        engine.traversals.jobs.graph.ctx.ids.go_on(snapshot.highest);
        for record in snapshot.nodes {
            engine.traversals.jobs.graph.nodes.join(record);
        }
        if let Some(record) = snapshot.restored {
            let joined =
                engine.traversals.jobs.graph.nodes.iter().filter_map(|(_, node)| node.joined.as_ref());
            let names: Vec<_> = joined.filter(|it| !it.revoked).map(|it| it.name.clone()).collect();
            engine.traversals.jobs.graph.restored = Restored::load(
                record,
                names.into_iter(),
                engine.traversals.jobs.graph.ctx.limits.held_per_node,
            );
            engine.traversals.jobs.graph.end_restored();
        }
        for record in snapshot.tokens {
            engine.traversals.jobs.graph.nodes.tokens.load(record);
        }
        for record in snapshot.users {
            engine.traversals.jobs.graph.users.load(record);
        }
        let mut slots: BTreeMap<u64, Slot> = BTreeMap::new();
        let mut by_stack: BTreeMap<u64, Vec<Slot>> = BTreeMap::new();
        for record in snapshot.resources {
            let (id, stack) = (record.id, record.stack);
            let slot = engine.traversals.load_row(record);
            slots.insert(id, slot);
            by_stack.entry(stack).or_default().push(slot);
        }
        let mut requires: BTreeMap<Slot, Vec<Slot>> = BTreeMap::new();
        for (needed_by, required) in snapshot.edges {
            if let (Some(needed_by), Some(required)) = (slots.get(&needed_by), slots.get(&required)) {
                requires.entry(*needed_by).or_default().push(*required);
            }
        }
        for (slot, requires) in requires {
            engine.traversals.jobs.graph.rows[slot].set_requires(requires.into());
        }
        engine.traversals.load_plan();
        let devices = snapshot.flows.devices.values().map(|record| &record.node);
        for node in devices.chain(snapshot.flows.forgotten.keys().map(|(node, _)| node)) {
            engine.traversals.jobs.graph.nodes.key(node);
        }
        let jobs = engine.traversals.jobs.flow_jobs();
        engine.with_flows(|flows, turn| flows.load(turn, snapshot.flows, jobs));
        engine.load_intents(snapshot.intents);
        engine.traversals.jobs.rollouts.load(snapshot.rollouts);
        for key in engine.traversals.jobs.graph.nodes.iter().map(|(key, _)| key).collect::<Vec<_>>() {
            engine.traversals.jobs.graph.count_lost(key);
        }
        // Only the state before a job referred to these contents; a restart forgets that state.
        for digest in snapshot.contents {
            if !engine.traversals.jobs.contents.has(&digest) {
                engine.traversals.jobs.graph.ctx.change(Change::ContentRemoved(digest));
            }
        }
        engine.traversals.jobs.graph.stacks.load_damage(snapshot.damaged);
        let mut policies = snapshot.policies;
        for (record, source) in snapshot.stacks {
            let rows = by_stack.remove(&record.id).unwrap_or_default();
            let policies = policies.remove(&record.id).unwrap_or_default();
            engine.traversals.load_stack(record, source, policies, rows);
        }
        engine.traversals.jobs.graph.follow_all();
        engine
    }
}

impl Traversals {
    fn load_row(&mut self, record: ResourceRecord) -> Slot {
        self.jobs.graph.ctx.rise_above(record.progress.generation);
        let node = record.node.as_ref().map(|name| self.jobs.graph.nodes.key(name));
        let (observed, retries, physical) =
            (record.progress.observed, record.progress.retry_count, record.physical);
        let had_spec = record.spec.is_some();
        let row = Row::load(record, node, self.jobs.graph.ctx.now);
        // A spec that no job has brought to its node is dropped, in the store too: it would count as
        // one that refers to its content.
        let drops_spec = had_spec && row.spec().is_none();
        let (node, held, sent) = (row.node, row.held(), row.is_sent());
        let lost = row.is_lost();
        let slot = self.jobs.graph.rows.insert(row);
        self.jobs.observe(slot, observed);
        self.jobs.graph.hear_again(slot);
        if drops_spec {
            self.jobs.graph.row_changed(slot, true);
        }
        if self.jobs.graph.rows[slot].task().is_some_and(|task| task.state == TaskState::Backoff) {
            self.jobs.graph.set_due(slot, Some(self.jobs.graph.ctx.now + backoff(retries)));
        }
        if self.jobs.graph.rows[slot].details().breaker.is_some() {
            self.jobs.unsettled.set_counted(slot, true);
            self.jobs.graph.ctx.agenda.push_back(Todo::Correct(slot));
        }
        self.jobs.note_owed(slot);
        self.look_for_server(slot);
        if let Some(key) = node {
            let node = &mut self.jobs.graph.nodes[key];
            node.rows.insert(slot);
            if sent {
                node.sent.insert(slot);
            } else if self.jobs.waits_in_line(slot, key) {
                self.jobs.graph.nodes[key].queue.push_back(slot);
            }
            let node = &mut self.jobs.graph.nodes[key];
            if let Some(generation) = held {
                node.ledger ^= LedgerEntry { resource: physical, generation }.digest();
            }
            if let Some(spec) = self.jobs.graph.rows[slot].spec().map(PackedSpec::unpack) {
                for claim in spec.claims().into_iter().filter(|_| !lost) {
                    self.jobs.load_claim(key, claim, slot);
                }
                if let Some(digest) = stored_content(&spec) {
                    self.jobs.contents.count_up(digest);
                }
            }
        }
        if lost {
            self.jobs.graph.rows[slot].await_cleanup();
            if let Some(key) = node {
                self.jobs.graph.nodes[key].lost.insert(slot);
            }
        }
        slot
    }

    fn load_stack(
        &mut self,
        record: StackRecord,
        source: Option<Source>,
        policies: Policies,
        mut rows: Vec<Slot>,
    ) {
        let id = record.id;
        let mut stack = Stack::new(id, record.name.clone());
        stack.action = record.action;
        stack.status = record.status;
        stack.reason = record.reason;
        stack.revision = record.revision;
        stack.traversal = record.traversal;
        stack.timeout_s = record.timeout_s;
        stack.runs = Elapsed::load(record.ran.unwrap_or_default(), self.jobs.graph.ctx.now);
        stack.rollback = record.rollback;
        stack.delete_first = record.delete_first;
        (stack.converge, stack.adopt) = (record.converge, record.adopt);
        stack.cancelled = record.cancelled;
        stack.timed_out = record.timed_out;
        stack.complete = record.complete;
        stack.outputs = record.outputs;
        stack.parameters = record.parameters;
        stack.hidden_digests = record.hidden_digests;
        stack.forget_hidden();
        stack.events = record.events;
        stack.failures = record.failures;
        // The store does not know the operation of each failure: a rollback keeps them all.
        stack.failures_before = if stack.action == StackAction::Rollback { stack.failures.len() } else { 0 };
        stack.policies = policies;
        stack.scope = record.scope;
        stack.seq = self.jobs.graph.ctx.journal.seq();
        rows.sort_by(|a, b| {
            let (a, b) = (&self.jobs.graph.rows[*a], &self.jobs.graph.rows[*b]);
            (&a.name, a.id).cmp(&(&b.name, b.id))
        });
        for slot in rows {
            let row = &mut self.jobs.graph.rows[slot];
            if row.task().is_some() {
                stack.working.insert(slot);
            }
            stack.hidden.hide_of_others(&row.others_hide());
            if row.dropped().is_some() {
                stack.extras.insert(slot);
            } else {
                row.set_index(stack.forward.len());
                stack.forward.push(slot);
            }
        }
        // `settled` is not in the store: the next plan looks at the rows.
        stack.settled = vec![0; stack.forward.len()];
        stack.names = names_digest(stack.forward.iter().map(|slot| &*self.jobs.graph.rows[*slot].name));
        self.jobs.graph.stacks.insert(id, stack);
        self.jobs.graph.stacks.name(id);
        self.jobs.graph.load_sets(id);
        if let Some(reason) = self.jobs.graph.stacks.damage(id).map(str::to_owned) {
            return self.hold_back(id, reason);
        }
        let stack = &self.jobs.graph.stacks[&id];
        // The source was valid when the request was accepted.
        let source = source.and_then(|source| source.of_stack(&stack.name, &stack.id.to_string()).ok());
        let goes_on = record.entering && stack.status == Status::InProgress;
        match source {
            Some(source) if goes_on => self.enter_again(id, source),
            Some(source) => self.resume(id, source),
            None => self.jobs.abandon(id, "its revision cannot be read: update or delete the stack"),
        }
        self.jobs.graph.ctx.agenda.push_back(Todo::RollBack(id));
    }

    /// Fails a stack with a damaged row and leaves it as it is. The thing of that row is not known,
    /// and might be made twice.
    fn hold_back(&mut self, id: u64, reason: String) {
        self.jobs.end_checks(id);
        let Some(stack) = self.jobs.graph.stacks.get_mut(&id) else { return };
        // The stack does not follow its nodes.
        stack.sets.clear();
        stack.rollback = false;
        if stack.status != Status::Failed || stack.reason != reason {
            (stack.status, stack.reason) = (Status::Failed, reason);
            self.jobs.graph.stack_changed(id);
            self.jobs.graph.event(id, None);
        }
    }

    /// # Errors
    /// [`Refusal::Conflict`] if the request needs a stack of which a row is damaged.
    pub(crate) fn is_whole(&self, request: &Request) -> Result<(), Refusal> {
        let (Request::Update { name, .. }
        | Request::Rollback { name, .. }
        | Request::Check { name }
        | Request::Rollout { name, .. }
        | Request::Unhealthy { stack: name, .. }
        | Request::ClearHook { stack: name, .. }) = request
        else {
            return Ok(());
        };
        let damage = self.jobs.graph.stacks.id_of(name).and_then(|id| self.jobs.graph.stacks.damage(id));
        damage.map_or(Ok(()), |reason| Err(Refusal::Conflict(reason.to_owned())))
    }

    /// Takes up a traversal where the store left it.
    pub(crate) fn resume(&mut self, id: u64, source: Source) {
        let Source { tree, .. } = source;
        let Some(stack) = self.jobs.graph.stacks.get(&id) else { return };
        // The tree may depend on a value that became known just before the controller ended.
        let fits = tree.names() == stack.names || tree.looks_at_what_is_there();
        if !fits && stack.action != StackAction::Check {
            let unfit = "the store's rows do not fit its revision: update or delete the stack";
            return self.jobs.abandon(id, unfit);
        }
        self.take_up(id, &tree);
    }
}
