//! The machine's face and its state; what it does lies beside: operations, traversals, jobs, nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_flow::{Asked, Flows};
use muster_shared::model::{ContentDigest, Down, Up};
use muster_shared::{Epoch, MonoTime, NodeId, StackName};
use muster_template::Tree;

use crate::history::Starts;
use crate::intent::Intents;
use crate::job::Limits;
use crate::journal::Touched;
use crate::record::{Change, Counters, Status};
use crate::request::{Answer, Refusal, Request, Source};
use crate::revision::{Pending, Purpose};
use crate::timer::TimerKey;
use crate::todo::Todo;
use crate::traversals::Traversals;
use crate::view::View;

/// What happened.
pub enum Input {
    /// An operator asks; `id` comes back with the answer.
    Request {
        /// Chosen by the caller.
        id: u64,
        /// The wish.
        request: Box<Request>,
    },
    /// A node's agent is there, over a new connection.
    Connected {
        /// Which.
        node: NodeId,
        /// Never used twice.
        connection: u64,
    },
    /// A connection ended.
    Disconnected {
        /// Which.
        node: NodeId,
        /// Which; an older one than the present changes nothing.
        connection: u64,
    },
    /// An agent said something.
    Received {
        /// Which.
        node: NodeId,
        /// Over which connection.
        connection: u64,
        /// What.
        message: Up,
    },
    /// The answer to [`Effect::LoadRevision`].
    RevisionLoaded {
        /// From the effect.
        load: u64,
        /// The revision, parsed and bound again; or why it could not be had.
        source: Result<Source, String>,
    },
    /// The time of [`Engine::poll_timeout`] has come.
    Timeout,
}

/// What is to be done, in order. Nothing but `Persist` may be done before all `Persist`s so far are durable.
#[derive(Debug)]
pub enum Effect {
    /// Make this durable.
    Persist(Change),
    /// Send this to a node.
    Send {
        /// To whom.
        node: NodeId,
        /// Over which connection; if it is gone, the message is moot.
        connection: u64,
        /// What.
        message: Down,
    },
    /// Send a part of a content as [`Down::Chunk`].
    SendChunk {
        /// To whom.
        node: NodeId,
        /// Over which connection.
        connection: u64,
        /// Of what.
        digest: ContentDigest,
        /// From where.
        offset: u64,
    },
    /// Tell the operator.
    Answer {
        /// From the request.
        id: u64,
        /// What.
        answer: Result<Answer, Refusal>,
    },
    /// Tell whoever reads the controller's log.
    Warn(String),
    /// End the node's connection: it may not speak any more.
    Close {
        /// Whose.
        node: NodeId,
    },
    /// Nobody needs this any more. To free a million resources takes a third of a second: elsewhere, if need be.
    Discard(Arc<Tree>),
    /// Read an older revision and give it back as [`Input::RevisionLoaded`].
    LoadRevision {
        /// To be given back.
        load: u64,
        /// Whose.
        stack: StackName,
        /// Which.
        revision: u32,
    },
}

/// What the engine is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// This start's; higher than any before.
    pub epoch: Epoch,
    /// Random bits of this start, which go with its epoch: see [`EpochId`]. The same while the process runs.
    pub epoch_bits: u64,
    /// This start and those before it, as the store has them; empty where it records none.
    pub starts: Starts,
    /// Makes physical ids unique: fresh random bytes for each start (a fixed value in tests).
    pub seed: [u8; 32],
    /// Bounds on work in flight.
    pub limits: Limits,
}

/// The controller's pure machine.
///
/// It is a stack of layers. Each owns its state and the layer below, calls down only, and says what it has for a layer above
/// as a [`Todo`](crate::todo::Todo), which the engine runs in turn.
pub struct Engine {
    pub(crate) traversals: Traversals,
    pub(crate) flows: Flows,
    pub(crate) intents: Intents,
}

impl Engine {
    /// With nothing in it. [`Engine::load`] makes one from the store.
    pub fn new(config: Config) -> Self {
        let (limits, epoch) = (config.limits, config.epoch);
        let flows =
            muster_flow::Limits { retries: limits.retries, operations_kept: limits.flow_operations_kept };
        let mut engine = Self {
            traversals: Traversals::new(config),
            flows: Flows::new(flows),
            intents: Intents::default(),
        };
        engine.traversals.jobs.graph.ctx.change(Change::Counters(Counters { epoch }));
        engine
    }

    /// What is there.
    pub fn view(&self) -> View<'_> {
        let Self { traversals, flows, intents } = self;
        let jobs = &traversals.jobs;
        View { graph: &jobs.graph, jobs, traversals, flows, intents }
    }

    /// Takes one input.
    pub fn handle(&mut self, now: MonoTime, input: Input) {
        self.traversals.jobs.graph.ctx.now = self.traversals.jobs.graph.ctx.now.max(now);
        // After a stall, what is due may have come to an end: the word of that waits to be read.
        let fires = matches!(input, Input::Timeout);
        match input {
            Input::Request { id, request } => self.request(id, *request),
            Input::Connected { node, connection } => self.traversals.connected(&node, connection),
            Input::Disconnected { node, connection } => self.traversals.disconnected(&node, connection),
            Input::Received { node, connection, message } => self.received(&node, connection, message),
            Input::RevisionLoaded { load, source } => self.revision_loaded(load, source),
            Input::Timeout => {}
        }
        self.run_agenda();
        if fires {
            self.run_timers();
        }
    }

    fn run_timers(&mut self) {
        self.run_own_timers();
        loop {
            let is_due =
                |due: Option<MonoTime>| due.is_some_and(|due| due <= self.traversals.jobs.graph.ctx.now);
            if is_due(self.flows.next_due()) {
                self.with_flows(|flows, turn| flows.timeout(turn));
            } else if is_due(self.intents.ports.next_due()) {
                self.listened();
            } else if is_due(self.traversals.jobs.fetches.timeout()) {
                self.traversals.jobs.serve_fetches();
            } else {
                return;
            }
            self.run_agenda();
            self.run_own_timers();
        }
    }

    fn run_own_timers(&mut self) {
        while let Some((due, key)) =
            self.traversals.jobs.graph.ctx.timers.pop(self.traversals.jobs.graph.ctx.now)
        {
            match key {
                TimerKey::Work(slot) => self.traversals.jobs.work_due(slot, due),
                TimerKey::Pause(slot) => self.pause_due(slot, due),
                TimerKey::Stack(stack, traversal) => self.traversals.stack_due(stack, traversal),
                TimerKey::Quiet(stack) => self.traversals.quiet_due(stack, due),
                TimerKey::Tidings(slot) => self.traversals.jobs.tidings_due(slot, due),
                TimerKey::Correct(slot) => self.traversals.jobs.correct(slot),
                TimerKey::Facts(node) => self.traversals.answer_facts(node),
                TimerKey::Intents => self.intents_due(),
                TimerKey::Fit(stack) => self.traversals.fit_due(stack, due),
                TimerKey::Turn(stack) => self.traversals.jobs.turn_due(stack, due),
            }
            self.run_agenda();
        }
    }

    /// What is to be done next. The removal of stacks comes first, for a new stack may have the name of one that is gone;
    /// then changes of stacks and rows, each once.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        let mut touched = Touched {
            rows: &mut self.traversals.jobs.graph.rows,
            stacks: &self.traversals.jobs.graph.stacks,
            nodes: &self.traversals.jobs.graph.nodes,
            now: self.traversals.jobs.graph.ctx.now,
        };
        let change = self
            .traversals
            .jobs
            .graph
            .ctx
            .journal
            .first_change(&mut touched)
            .or_else(|| self.flows.poll_change().map(Change::Flow))
            .or_else(|| self.next_intent_change())
            .or_else(|| self.traversals.jobs.graph.ctx.journal.next_change())
            .or_else(|| {
                self.traversals
                    .jobs
                    .graph
                    .restored
                    .changed()
                    .map(|record| Change::Restored(record.map(Box::new)))
            });
        change.map(Effect::Persist).or_else(|| self.traversals.jobs.graph.ctx.journal.next_effect())
    }

    /// When to call [`Engine::handle`] with [`Input::Timeout`], and why.
    pub fn poll_timeout(&self) -> Option<(MonoTime, &'static str)> {
        let flows = self.flows.next_due().map(|due| (due, "a device is due"));
        let ports = self.intents.ports.next_due().map(|due| (due, "an agent has listened for long enough"));
        let fetches = self.traversals.jobs.fetches.timeout().map(|due| (due, "another node may fetch"));
        self.traversals
            .jobs
            .graph
            .ctx
            .timers
            .next()
            .into_iter()
            .chain(flows)
            .chain(ports)
            .chain(fetches)
            .min()
    }

    fn run_agenda(&mut self) {
        let mut ends = BTreeSet::new();
        loop {
            match self.traversals.jobs.graph.ctx.agenda.pop_front() {
                Some(Todo::Visit(slot)) => self.traversals.visit(slot),
                // A traversal has not come to its end while something of it is still to be visited.
                Some(Todo::CheckEnd(stack)) => drop(ends.insert(stack)),
                Some(Todo::Pump(node)) => self.traversals.jobs.pump(node),
                Some(Todo::PumpStack(stack)) => self.traversals.jobs.pump_stack(stack),
                Some(Todo::Fit(stack)) => self.traversals.fit(stack),
                Some(Todo::Turn(stack)) => self.traversals.jobs.turn(stack),
                Some(Todo::Correct(slot)) => self.traversals.jobs.correct(slot),
                Some(Todo::Restart(stack)) => self.traversals.jobs.mark_units(stack),
                Some(Todo::Begin(job)) => self.flow_job_begins(job),
                Some(Todo::Write(slot)) => self.write_flows(slot),
                Some(Todo::FlowJobEnded(job, how)) => self.traversals.jobs.flow_job_ended(job, how),
                Some(Todo::Unsendable(slot)) => self.traversals.jobs.unsendable(slot),
                Some(Todo::RollBack(stack)) => self.roll_back_if_owed(stack),
                Some(Todo::Settle { slot, kind, action, spec }) => self.settle(slot, kind, action, spec),
                Some(Todo::Unmake(slot)) => self.unmake(slot),
                Some(Todo::Expand(slot)) => self.expand(slot),
                Some(Todo::HideFlows { node, owner, applied }) => self.flows.hide(&node, owner, applied),
                Some(Todo::RevealFlows { node, owner }) => self.flows.reveal(&node, owner),
                Some(Todo::Away(node)) => {
                    self.with_flows(|flows, _| flows.away(&node));
                    self.ports_away(&node);
                }
                Some(Todo::CompareAnew(node)) => self.flows.compare_anew(&node),
                Some(Todo::Left(node)) => self.ports_left(&node),
                None if self.run_intents() => {}
                None => match ends.pop_first() {
                    Some(stack) => self.traversals.check_end(stack),
                    None => return,
                },
            }
        }
    }

    fn request(&mut self, id: u64, request: Request) {
        self.give_names_back(&request);
        if let Err(refusal) = self.traversals.is_whole(&request) {
            return self.traversals.jobs.graph.answer(id, Err(refusal));
        }
        let answer = match request {
            Request::Create { name, source, options } => self.create(name, source, options),
            Request::Update { name, source, options } => self.update(&name, source, options),
            Request::Delete { name } => self.delete(&name),
            Request::Rollback { name, to } => match self.rollback(&name, to, Some(id)) {
                Ok(Some(answer)) => Ok(answer),
                Ok(None) => return, // answered when the revision is loaded
                Err(refusal) => Err(refusal),
            },
            Request::Cancel { name } => self.traversals.jobs.cancel(&name),
            Request::Rollout { name, action, resource } => {
                self.traversals.jobs.steer_rollout(&name, action, resource.as_deref())
            }
            Request::ClearHook { stack, resource, hook } => {
                self.traversals.jobs.graph.clear_hook(&stack, &resource, hook)
            }
            Request::Check { name } => match self.traversals.jobs.check_stack(&name, id) {
                Ok(()) => return, // answered when the revision is loaded
                Err(refusal) => Err(refusal),
            },
            Request::Facts { node } => match self.traversals.ask_facts(&node, id) {
                Ok(Some(answer)) => Ok(answer),
                Ok(None) => return, // answered when the node has
                Err(refusal) => Err(refusal),
            },
            Request::ApplyFlows { stages, confirm_timeout } => self.apply_flows(stages, confirm_timeout),
            Request::DeleteFlows { device, ids, confirm_timeout } => self
                .with_flows(|flows, turn| flows.delete(turn, device, ids, confirm_timeout))
                .map_or_else(|refused| Err(refused.into()), |begun| Ok(begun.into())),
            Request::PurgeFlows { device, forget, confirm_timeout } => self
                .with_flows(|flows, turn| flows.purge(turn, device, forget, confirm_timeout))
                .map_or_else(|refused| Err(refused.into()), |begun| Ok(begun.into())),
            Request::ReconcileFlows { device, foreign } => {
                let done = self.with_flows(|flows, turn| flows.reconcile(turn, &device, foreign));
                done.map(|()| Answer::Done).map_err(Refusal::from)
            }
            Request::FlowStats { device } => {
                match self.with_flows(|flows, turn| flows.ask_stats(turn, &device, id)) {
                    Ok(Asked::Known) => Ok(Answer::Done),
                    Ok(Asked::Waits) => return, // answered when the node has
                    Err(refused) => Err(refused.into()),
                }
            }
            Request::SampleFlows => {
                self.with_flows(|flows, turn| flows.sample(turn.now));
                Ok(Answer::Done)
            }
            Request::SubmitIntents { intents } => self.submit_intents(intents),
            Request::WithdrawIntents { keys } => self.withdraw_intents(keys),
            Request::PurgeIntents { keys } => self.purge_intents(keys),
            Request::ForeignFlows { device } => {
                match self.with_flows(|flows, turn| flows.ask_foreign(turn, &device, id)) {
                    Ok(Asked::Known) => Ok(Answer::Done),
                    Ok(Asked::Waits) => return, // answered when the node has
                    Err(refused) => Err(refused.into()),
                }
            }
            Request::Signal { stack, resource, signal } => {
                self.traversals.jobs.signal(&stack, &resource, signal)
            }
            Request::Unhealthy { stack, resource } => self.traversals.jobs.mark_unhealthy(&stack, &resource),
            Request::NewToken { token, wall } => self.traversals.jobs.graph.new_token(token, wall),
            Request::RevokeToken { id } => self.traversals.jobs.graph.revoke_token(id),
            Request::Join(ask) => self.traversals.join(ask),
            Request::LabelNode { node, labels } => self.traversals.jobs.label_node(&node, labels),
            Request::Maintenance { node, on } => self.traversals.jobs.maintain_node(&node, on),
            Request::RevokeNode { node } => self.traversals.revoke_node(&node),
            Request::RemoveNode { node } => self.traversals.remove_node(&node).map(|lost| {
                let lost_total = lost.len() as u64;
                let lost = self.view().lost_views(lost.into_iter());
                Answer::NodeRemoved { node, lost, lost_total }
            }),
            Request::Restored { verdict, ids, node } => self.decide_held(verdict, ids, node.as_ref()),
        };
        self.traversals.jobs.graph.answer(id, answer);
    }

    pub(crate) fn revision_loaded(&mut self, load: u64, source: Result<Source, String>) {
        let Some(pending) = self.traversals.jobs.graph.stacks.take_pending(load) else { return };
        let Pending { stack, traversal, revision, request, purpose } = pending;
        // What went first may come to nothing.
        self.traversals.jobs.correct_all(|row| row.stack == stack);
        let source = match self.traversals.jobs.graph.stacks.get(&stack) {
            Some(stack) if purpose != Purpose::RollBack => source.and_then(|source| {
                let source = source.of_stack(&stack.name, &stack.id.to_string());
                source.map_err(|errors| errors.to_string())
            }),
            _ => source, // as an operation of its own
        };
        match (purpose, request) {
            (Purpose::RollBack, _) => {}
            (Purpose::TakeUp, _) => return self.traversals.taken_up(stack, traversal, source),
            (Purpose::Check, request) => {
                let answer = self.traversals.jobs.check_loaded(stack, traversal, source);
                return request
                    .into_iter()
                    .for_each(|request| self.traversals.jobs.graph.answer(request, answer.clone()));
            }
        }
        if request.is_none()
            && self
                .traversals
                .jobs
                .graph
                .stacks
                .get(&stack)
                .is_some_and(|stack| stack.status != Status::Failed)
        {
            return; // what had failed has ended well meanwhile
        }
        let current = self
            .traversals
            .jobs
            .graph
            .stacks
            .get(&stack)
            .map(|stack| (stack.is_being_deleted(), stack.traversal));
        let result = match (current, source) {
            (current, _) if request.is_none() && current.is_none_or(|(_, now)| now != traversal) => return,
            (None | Some((true, _)), _) => Err(Refusal::Conflict("the stack is being deleted".into())),
            (Some(_), Err(why)) => {
                Err(Refusal::NotFound(format!("revision {revision} cannot be loaded: {why}")))
            }
            (Some(_), Ok(source)) => {
                let failures = self.traversals.jobs.graph.stacks[&stack].failures.clone();
                let begun = self.roll_back_to(stack, revision, source, request.is_some());
                if begun.is_ok() && request.is_none() {
                    self.traversals.jobs.graph.keep_failures(stack, failures);
                }
                begun
            }
        };
        match (request, result) {
            (Some(id), answer) => self.traversals.jobs.graph.answer(id, answer),
            (None, Ok(_)) => {}
            (None, Err(refusal)) => {
                self.traversals.jobs.owe_no_rollback(stack);
                self.traversals.jobs.end_failed(stack, format!("rollback failed: {refusal}"));
            }
        }
    }

    /// The rollback that was asked for in case of failure. It is owed until it has begun, also over a restart.
    pub(crate) fn roll_back_if_owed(&mut self, id: u64) {
        let Some(stack) = self.traversals.jobs.graph.stacks.get(&id) else { return };
        let begins = |pending: &Pending| pending.traversal == stack.traversal;
        if !stack.rollback
            || stack.status != Status::Failed
            || self.traversals.jobs.graph.stacks.pending_of(id).any(begins)
        {
            return;
        }
        let (name, traversal) = (stack.name.clone(), stack.traversal);
        let revision = stack.complete.first().copied();
        let pending = Pending {
            stack: id,
            traversal,
            revision: revision.unwrap_or(0),
            request: None,
            purpose: Purpose::RollBack,
        };
        match revision {
            Some(revision) => self.traversals.jobs.graph.load_revision(name, revision, pending),
            None => {
                self.traversals.jobs.graph.stacks.wait(0, pending);
                self.revision_loaded(0, Ok(Source::nothing()));
            }
        }
    }
}
