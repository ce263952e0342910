//! The machine's face and its state; what it does lies beside: operations, traversals, jobs, nodes.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use muster_flow::{Asked, Failure, Flows, Job};
use muster_shared::model::{ContentDigest, Down, Up};
use muster_shared::{Epoch, MonoTime, NodeId, StackName};
use muster_template::Tree;

use crate::address::AddressPlan;
use crate::by_name::AwaitedNodes;
use crate::claim::Claims;
use crate::content::Contents;
use crate::fetches::Fetches;
use crate::history::{History, Starts};
use crate::ids::Ids;
use crate::intent::Intents;
use crate::job::Limits;
use crate::journal::{Journal, Touched};
use crate::node::{NodeKey, Nodes};
use crate::record::{Change, Counters, Status};
use crate::request::{Answer, Refusal, Request, Source};
use crate::resource::{Rows, Slot};
use crate::restored::Restored;
use crate::revision::{Pending, Purpose};
use crate::rollout::Rollouts;
use crate::stacks::Stacks;
use crate::timer::{TimerKey, Timers};
use crate::unsettled::Unsettled;

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
pub struct Engine {
    /// The epoch in force, the source of generations, and the starts before this one.
    pub(crate) history: History,
    pub(crate) limits: Limits,
    pub(crate) ids: Ids,
    pub(crate) now: MonoTime,
    /// When it was built: nobody is known to have been away before.
    pub(crate) began: MonoTime,
    pub(crate) stacks: Stacks,
    pub(crate) rollouts: Rollouts,
    pub(crate) rows: Rows,
    pub(crate) nodes: Nodes,
    pub(crate) claims: Claims,
    /// Which port has which address.
    pub(crate) addresses: AddressPlan,
    pub(crate) flows: Flows,
    pub(crate) intents: Intents,
    /// What agents hold and the store, which was restored, does not know.
    pub(crate) restored: Restored,
    /// Large contents that rows refer to.
    pub(crate) contents: Contents,
    /// Which nodes fetch them.
    pub(crate) fetches: Fetches<NodeKey>,
    pub(crate) timers: Timers,
    /// Rows that are to be put right outside of an operation.
    pub(crate) unsettled: Unsettled,
    /// Rows that wait for a server to be known.
    pub(crate) awaited: AwaitedNodes,
    /// What follows from the input in hand.
    pub(crate) agenda: VecDeque<Todo>,
    /// How often a row was looked at: what grows with the square of something is found by counting.
    #[cfg(test)]
    pub(crate) visits: usize,
    /// What has changed and is to be done.
    pub(crate) journal: Journal,
}

/// A step that follows from another; taken in turn so that nothing recurses.
#[derive(Debug)]
pub(crate) enum Todo {
    /// All this graph node needs is ready.
    Visit(Slot),
    /// Has the traversal come to an end?
    CheckEnd(u64),
    /// There may be room for more jobs.
    Pump(NodeKey),
    /// The same, for a stack.
    PumpStack(u64),
    /// A stack follows the nodes that its selectors mean.
    Fit(u64),
    /// It may be somebody's turn in a rollout of this stack.
    Turn(u64),
    /// It is not as it should be, and nothing may be in the way of putting it right.
    Correct(Slot),
    /// Something of this stack was put right, for which units are restarted.
    Restart(u64),
    /// The job of this generation and attempt waited for another's write, and begins.
    Begin(Job),
    /// The flow rules of a row's job are for its table, which gets them or is asked to leave them out.
    Write(Slot),
    /// The write that carries a row's job has come to its end.
    FlowJobEnded(Job, Result<(), Failure>),
    /// The job of a row has nothing that could be sent to its agent.
    Unsendable(Slot),
    /// A stack has FAILED and is rolled back.
    RollBack(u64),
}

impl Engine {
    /// With nothing in it. [`Engine::load`] makes one from the store.
    pub fn new(config: Config) -> Self {
        let mut engine = Self {
            history: History::new(config.epoch, config.epoch_bits, config.starts),
            ids: Ids::new(config.seed),
            limits: config.limits,
            now: MonoTime::default(),
            began: MonoTime::default(),
            stacks: Stacks::default(),
            rollouts: Rollouts::default(),
            rows: Rows::default(),
            nodes: Nodes::default(),
            claims: Claims::default(),
            addresses: AddressPlan::default(),
            flows: Flows::new(muster_flow::Limits {
                retries: config.limits.retries,
                operations_kept: config.limits.flow_operations_kept,
            }),
            intents: Intents::default(),
            restored: Restored::new(config.limits.held_per_node),
            contents: Contents::default(),
            fetches: Fetches::default(),
            timers: Timers::default(),
            unsettled: Unsettled::default(),
            awaited: AwaitedNodes::default(),
            agenda: VecDeque::new(),
            #[cfg(test)]
            visits: 0,
            journal: Journal::new(config.epoch),
        };
        engine.change(Change::Counters(Counters { epoch: config.epoch }));
        engine
    }

    /// Takes one input.
    pub fn handle(&mut self, now: MonoTime, input: Input) {
        self.now = self.now.max(now);
        // After a stall, what is due may have come to an end: the word of that waits to be read.
        let fires = matches!(input, Input::Timeout);
        match input {
            Input::Request { id, request } => self.request(id, *request),
            Input::Connected { node, connection } => self.connected(&node, connection),
            Input::Disconnected { node, connection } => self.disconnected(&node, connection),
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
            let is_due = |due: Option<MonoTime>| due.is_some_and(|due| due <= self.now);
            if is_due(self.flows.next_due()) {
                self.with_flows(|flows, turn| flows.timeout(turn));
            } else if is_due(self.intents.ports.next_due()) {
                self.listened();
            } else if is_due(self.fetches.timeout()) {
                self.serve_fetches();
            } else {
                return;
            }
            self.run_agenda();
            self.run_own_timers();
        }
    }

    fn run_own_timers(&mut self) {
        while let Some((due, key)) = self.timers.pop(self.now) {
            match key {
                TimerKey::Work(slot) => self.work_due(slot, due),
                TimerKey::Pause(slot) => self.pause_due(slot, due),
                TimerKey::Stack(stack, traversal) => self.stack_due(stack, traversal),
                TimerKey::Quiet(stack) => self.quiet_due(stack, due),
                TimerKey::Tidings(slot) => self.tidings_due(slot, due),
                TimerKey::Correct(slot) => self.correct(slot),
                TimerKey::Facts(node) => self.answer_facts(node),
                TimerKey::Intents => self.intents_due(),
                TimerKey::Fit(stack) => self.fit_due(stack, due),
                TimerKey::Turn(stack) => self.turn_due(stack, due),
            }
            self.run_agenda();
        }
    }

    /// What is to be done next. The removal of stacks comes first, for a new stack may have the name of one that is gone;
    /// then changes of stacks and rows, each once.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        let mut touched =
            Touched { rows: &mut self.rows, stacks: &self.stacks, nodes: &self.nodes, now: self.now };
        let change = self
            .journal
            .first_change(&mut touched)
            .or_else(|| self.flows.poll_change().map(Change::Flow))
            .or_else(|| self.next_intent_change())
            .or_else(|| self.journal.next_change())
            .or_else(|| self.restored.changed().map(|record| Change::Restored(record.map(Box::new))));
        change.map(Effect::Persist).or_else(|| self.journal.next_effect())
    }

    /// When to call [`Engine::handle`] with [`Input::Timeout`], and why.
    pub fn poll_timeout(&self) -> Option<(MonoTime, &'static str)> {
        let flows = self.flows.next_due().map(|due| (due, "a device is due"));
        let ports = self.intents.ports.next_due().map(|due| (due, "an agent has listened for long enough"));
        let fetches = self.fetches.timeout().map(|due| (due, "another node may fetch"));
        self.timers.next().into_iter().chain(flows).chain(ports).chain(fetches).min()
    }

    fn run_agenda(&mut self) {
        let mut ends = BTreeSet::new();
        loop {
            match self.agenda.pop_front() {
                Some(Todo::Visit(slot)) => self.visit(slot),
                // A traversal has not come to its end while something of it is still to be visited.
                Some(Todo::CheckEnd(stack)) => drop(ends.insert(stack)),
                Some(Todo::Pump(node)) => self.pump(node),
                Some(Todo::PumpStack(stack)) => self.pump_stack(stack),
                Some(Todo::Fit(stack)) => self.fit(stack),
                Some(Todo::Turn(stack)) => self.turn(stack),
                Some(Todo::Correct(slot)) => self.correct(slot),
                Some(Todo::Restart(stack)) => self.mark_units(stack),
                Some(Todo::Begin(job)) => self.flow_job_begins(job),
                Some(Todo::Write(slot)) => self.write_flows(slot),
                Some(Todo::FlowJobEnded(job, how)) => self.flow_job_ended(job, how),
                Some(Todo::Unsendable(slot)) => self.unsendable(slot),
                Some(Todo::RollBack(stack)) => self.roll_back_if_owed(stack),
                None if self.run_intents() => {}
                None => match ends.pop_first() {
                    Some(stack) => self.check_end(stack),
                    None => return,
                },
            }
        }
    }

    fn request(&mut self, id: u64, request: Request) {
        self.give_names_back(&request);
        if let Err(refusal) = self.is_whole(&request) {
            return self.answer(id, Err(refusal));
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
            Request::Cancel { name } => self.cancel(&name),
            Request::Rollout { name, action, resource } => {
                self.steer_rollout(&name, action, resource.as_deref())
            }
            Request::ClearHook { stack, resource, hook } => self.clear_hook(&stack, &resource, hook),
            Request::Check { name } => match self.check_stack(&name, id) {
                Ok(()) => return, // answered when the revision is loaded
                Err(refusal) => Err(refusal),
            },
            Request::Facts { node } => match self.ask_facts(&node, id) {
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
            Request::Signal { stack, resource, signal } => self.signal(&stack, &resource, signal),
            Request::Unhealthy { stack, resource } => self.mark_unhealthy(&stack, &resource),
            Request::NewToken { token, wall } => self.new_token(token, wall),
            Request::RevokeToken { id } => self.revoke_token(id),
            Request::Join(ask) => self.join(ask),
            Request::LabelNode { node, labels } => self.label_node(&node, labels),
            Request::Maintenance { node, on } => self.maintain_node(&node, on),
            Request::RevokeNode { node } => self.revoke_node(&node),
            Request::RemoveNode { node } => self.remove_node(&node),
            Request::Restored { verdict, ids, node } => self.decide_held(verdict, ids, node.as_ref()),
        };
        self.answer(id, answer);
    }

    pub(crate) fn revision_loaded(&mut self, load: u64, source: Result<Source, String>) {
        let Some(pending) = self.stacks.take_pending(load) else { return };
        let Pending { stack, traversal, revision, request, purpose } = pending;
        // What went first may come to nothing.
        self.correct_all(|row| row.stack == stack);
        let source = match self.stacks.get(&stack) {
            Some(stack) if purpose != Purpose::RollBack => source.and_then(|source| {
                let source = source.of_stack(&stack.name, &stack.id.to_string());
                source.map_err(|errors| errors.to_string())
            }),
            _ => source, // as an operation of its own
        };
        match (purpose, request) {
            (Purpose::RollBack, _) => {}
            (Purpose::TakeUp, _) => return self.taken_up(stack, traversal, source),
            (Purpose::Check, request) => {
                let answer = self.check_loaded(stack, traversal, source);
                return request.into_iter().for_each(|request| self.answer(request, answer.clone()));
            }
        }
        if request.is_none() && self.stacks.get(&stack).is_some_and(|stack| stack.status != Status::Failed) {
            return; // what had failed has ended well meanwhile
        }
        let current = self.stacks.get(&stack).map(|stack| (stack.is_being_deleted(), stack.traversal));
        let result = match (current, source) {
            (current, _) if request.is_none() && current.is_none_or(|(_, now)| now != traversal) => return,
            (None | Some((true, _)), _) => Err(Refusal::Conflict("the stack is being deleted".into())),
            (Some(_), Err(why)) => {
                Err(Refusal::NotFound(format!("revision {revision} cannot be loaded: {why}")))
            }
            (Some(_), Ok(source)) => {
                let failures = self.stacks[&stack].failures.clone();
                let begun = self.roll_back_to(stack, revision, source, request.is_some());
                if begun.is_ok() && request.is_none() {
                    self.keep_failures(stack, failures);
                }
                begun
            }
        };
        match (request, result) {
            (Some(id), answer) => self.answer(id, answer),
            (None, Ok(_)) => {}
            (None, Err(refusal)) => {
                self.owe_no_rollback(stack);
                self.end_failed(stack, format!("rollback failed: {refusal}"));
            }
        }
    }

    /// The rollback that was asked for in case of failure. It is owed until it has begun, also over a restart.
    pub(crate) fn roll_back_if_owed(&mut self, id: u64) {
        let Some(stack) = self.stacks.get(&id) else { return };
        let begins = |pending: &Pending| pending.traversal == stack.traversal;
        if !stack.rollback || stack.status != Status::Failed || self.stacks.pending_of(id).any(begins) {
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
            Some(revision) => self.load_revision(name, revision, pending),
            None => {
                self.stacks.wait(0, pending);
                self.revision_loaded(0, Ok(Source::nothing()));
            }
        }
    }
}
