//! A turn: inputs, one commit for all their results, and only then the effects. Decides when a commit waits for a busy
//! database, when the site is read-only, and when it is tried again. The loop around it (`driver.rs`) passes the time,
//! so that the simulator runs the same code.
//!
//! Absent: which error is busy, full, broken or a mistake (`store/failure.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use muster_engine::record::{AuditRecord, Change};
use muster_engine::{Answer, Config, Effect, Engine, Input, Refusal, Request, Source, View};
use muster_shared::model::{Down, Up};
use muster_shared::seal::SealPublic;
use muster_shared::{Epoch, MonoTime, NodeId, StackName};
use muster_template::Tree;

use super::Outbox;
use super::audit::{Audit, Caller, NotLetIn, log_refusal};
use super::conversations::{Conversations, Resumed};
use super::pause_after_bad_commit::Mistakes;
use super::read_only::{PROBE_FIRST, ReadOnly};
use crate::link::{Admitted, Grant};
use crate::store::{Failure, Store, StoreError};
use crate::telemetry::{Note, Operations, Telemetry};

/// Between two tries of a commit for which the database was busy.
const BUSY_PAUSE: Duration = Duration::from_millis(250);
/// The time that another program may hold the database while requests wait; afterwards the site is read-only.
const BUSY_MAX: Duration = Duration::from_secs(30);

/// Results of a turn, for the waiting requests.
#[derive(Debug, Default)]
pub struct TurnResults {
    /// Answers by the ids that [`Turns::request`] gave.
    pub answers: Vec<(u64, Result<Answer, Refusal>)>,
    /// Stacks that are deleted now, with the traversal of each.
    pub ended: Vec<(StackName, u64)>,
    /// Trees that take time to free.
    pub discarded: Vec<Arc<Tree>>,
}

/// A commit that waits for another program's lock.
struct Busy {
    commit: Box<Commit>,
    retry_at: MonoTime,
    until: MonoTime,
}

/// The changes of a turn, as far as the engine was asked for them.
#[derive(Default)]
struct Commit {
    /// The first change; the others are still the engine's.
    first: Option<Change>,
    /// The store took the first change: it cannot be taken back.
    is_taken: bool,
    seen: Vec<NodeId>,
    not_let_in: VecDeque<AuditRecord>,
    /// The notes for traces about its changes, if there are traces.
    notes: Option<Vec<Note>>,
    /// Effects to carry out once the commit is durable.
    effects: Vec<Effect>,
    ended: Vec<(StackName, u64)>,
    keys: Vec<(NodeId, Option<SealPublic>)>,
}

/// The engine with its store and the way to its nodes.
pub struct Turns<S, O> {
    engine: Engine,
    store: S,
    outbox: O,
    make_config: Box<dyn FnMut(Epoch) -> Config + Send>,
    next_id: u64,
    audit: Audit,
    /// The traces of operations, as an option.
    traces: Option<Operations>,
    conversations: Conversations,
    /// The nodes that may connect, as it is durable.
    admitted: Admitted,
    seen: BTreeSet<NodeId>,
    told: TurnResults,
    read_only: Option<ReadOnly>,
    busy: Option<Busy>,
    mistakes: Mistakes,
    /// The engine was rebuilt, and needs a turn of its own.
    goes_on: bool,
    /// The engine contains changes that are not durable, since it could not be rebuilt yet.
    stale: bool,
}

impl<S: Store, O: Outbox> Turns<S, O> {
    /// Loads the engine from the store, with a new epoch.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read or written.
    pub fn new(
        mut store: S,
        outbox: O,
        mut make_config: impl FnMut(Epoch) -> Config + Send + 'static,
        now: MonoTime,
    ) -> Result<Self, StoreError> {
        let epoch = store.next_epoch()?;
        let first = make_config(epoch);
        let starts = store.record_start(epoch, first.epoch_bits)?;
        let engine = Engine::load(Config { starts: starts.clone(), ..first }, store.load()?, now);
        let make_config = move |epoch| Config { starts: starts.clone(), ..make_config(epoch) };
        Ok(Self {
            engine,
            store,
            outbox,
            make_config: Box::new(make_config),
            next_id: 0,
            audit: Audit::default(),
            traces: None,
            conversations: Conversations::default(),
            admitted: Admitted::default(),
            seen: BTreeSet::new(),
            told: TurnResults::default(),
            read_only: None,
            busy: None,
            mistakes: Mistakes::default(),
            goes_on: false,
            stale: false,
        })
    }

    /// Keeps this table of the nodes that may connect.
    pub fn keep(&mut self, admitted: Admitted) {
        admitted.begin(self.engine.view().node_seals().into_iter());
        self.admitted = admitted;
    }

    /// The nodes that may connect, by what is durable.
    pub fn admitted(&self) -> &Admitted {
        &self.admitted
    }

    /// Tells the spans of operations and jobs from now on.
    pub fn trace(&mut self, telemetry: &Telemetry) {
        self.traces = Operations::new(telemetry);
    }

    /// The present view; between two turns it shows only durable state.
    pub fn view(&self) -> View<'_> {
        self.engine.view()
    }

    pub fn store(&self) -> &S {
        &self.store
    }

    /// The reason why nothing can be written, while that is so.
    pub fn read_only(&self) -> Option<&str> {
        self.read_only.as_ref().map(ReadOnly::why)
    }

    /// A commit waits for the database. Inputs wait with it, for [`BUSY_MAX`] at most.
    pub fn is_busy(&self) -> bool {
        self.busy.is_some()
    }

    /// When to call [`Turns::wake`].
    pub fn poll_timeout(&self) -> Option<MonoTime> {
        match (&self.busy, &self.read_only) {
            (Some(it), _) => Some(it.retry_at),
            (None, Some(it)) => Some(it.probe_at()),
            (None, None) if self.goes_on => Some(MonoTime::default()),
            (None, None) => {
                let due = self.engine.poll_timeout().map(|(due, _)| due);
                [due, self.conversations.timeout()].into_iter().flatten().min()
            }
        }
    }

    /// The time of [`Turns::poll_timeout`] has come. Also called once at the start, to continue the
    /// store's operations.
    pub fn wake(&mut self, now: MonoTime) {
        if self.busy.is_some() {
            return; // the turn's end tries again
        }
        let Some(it) = &mut self.read_only else {
            for node in self.conversations.late(now) {
                self.outbox.close(&node);
            }
            return self.engine.handle(now, Input::Timeout);
        };
        it.probes(now);
        match self.store.probe() {
            Ok(()) if !self.stale || self.reload(now).is_ok() => {
                tracing::info!("the database can be written again");
                self.read_only = None;
                self.resume(now);
            }
            Ok(()) => {}
            Err(error) => tracing::debug!(%error, "the database cannot be written yet"),
        }
    }

    /// The engine was rebuilt: tells it of the connected nodes, and continues the store's operations.
    fn resume(&mut self, now: MonoTime) {
        for resumed in self.conversations.resume(now) {
            match resumed {
                Resumed::Ended { node } => self.outbox.close(&node),
                Resumed::Connected { node, connection } => drop(self.is_here(now, node, connection)),
                Resumed::Greeted { node, connection, hello } => {
                    if self.is_here(now, node.clone(), connection) {
                        let message = Up::Hello(hello);
                        self.engine.handle(now, Input::Received { node, connection, message });
                    }
                }
            }
        }
        self.engine.handle(now, Input::Timeout);
    }

    /// Passes time before a view is taken: views show how long a state has lasted.
    pub fn pass(&mut self, now: MonoTime) {
        if self.read_only.is_none() && self.busy.is_none() {
            self.engine.handle(now, Input::Timeout);
        }
    }

    /// Rebuilds the engine from the durable state.
    pub(super) fn reload(&mut self, now: MonoTime) -> Result<(), StoreError> {
        self.stale = true;
        let snapshot = self.store.load()?;
        self.engine = Engine::load((self.make_config)(self.engine.view().epoch()), snapshot, now);
        self.stale = false;
        Ok(())
    }

    /// Asks the engine; the answer is in [`TurnResults`], perhaps of a later turn. What a caller changes is in the audit.
    ///
    /// # Errors
    /// [`Refusal::Later`] or [`Refusal::Unavailable`] while nothing can be written.
    pub fn request(
        &mut self,
        now: MonoTime,
        caller: Option<&Caller>,
        request: Request,
    ) -> Result<u64, Refusal> {
        if let Some(it) = &self.read_only {
            let refusal = it.refusal();
            caller.into_iter().for_each(|caller| log_refusal(caller, &request, &refusal));
            return Err(refusal);
        }
        self.next_id += 1;
        self.audit.opens(self.next_id, caller, &request);
        if let (Some(traces), Some(trace)) = (&mut self.traces, caller.and_then(|caller| caller.trace)) {
            traces.asked(self.next_id, trace);
        }
        // A server that joins asks for nothing that stacks do.
        let is_of_somebody = !matches!(request, Request::Join(_));
        let input = Input::Request { id: self.next_id, request: Box::new(request) };
        match caller.filter(|_| is_of_somebody) {
            Some(caller) => self.engine.handle_of(now, &caller.actor, input),
            None => self.engine.handle(now, input),
        }
        Ok(self.next_id)
    }

    /// Notes somebody who was not let in. Where nothing can be written, the journal has it.
    pub(super) fn not_let_in(&mut self, now: MonoTime, who: &NotLetIn) {
        if self.read_only.is_none() {
            self.audit.not_let_in(who, now);
        }
    }

    /// Notes a request that its caller may not make.
    pub(super) fn refused(&mut self, now: MonoTime, caller: &Caller, request: &Request, refusal: &Refusal) {
        match self.read_only {
            None => self.audit.refused(caller, request, refusal, now),
            Some(_) => log_refusal(caller, request, refusal),
        }
    }

    /// A node is connected; one that was revoked since it was admitted is disconnected.
    pub fn connected(&mut self, now: MonoTime, node: NodeId, connection: u64) {
        self.conversations.connected(node.clone(), connection);
        if self.is_here(now, node.clone(), connection) {
            self.seen.insert(node);
        }
    }

    fn is_here(&mut self, now: MonoTime, node: NodeId, connection: u64) -> bool {
        let is_known = self.engine.view().node_seal(&node).is_some();
        if is_known {
            self.engine.handle(now, Input::Connected { node, connection });
        } else {
            self.conversations.ended(&node);
            self.outbox.close(&node);
        }
        is_known
    }

    /// A connection of a node has ended.
    pub fn disconnected(&mut self, now: MonoTime, node: NodeId, connection: u64) {
        self.conversations.disconnected(&node, connection);
        self.seen.insert(node.clone());
        self.engine.handle(now, Input::Disconnected { node, connection });
    }

    /// Messages of a node. While nothing can be written they are ignored: the node sends them
    /// again afterwards.
    pub fn received(&mut self, now: MonoTime, node: &NodeId, connection: u64, messages: Vec<Up>) {
        let deaf = self.read_only.is_some();
        for message in messages {
            if self.conversations.says(node, connection, &message, deaf) {
                if let Some(traces) = &mut self.traces {
                    traces.heard(node, &message, SystemTime::now());
                }
                self.engine.handle(now, Input::Received { node: node.clone(), connection, message });
            }
        }
    }

    /// Commits the results of this turn's inputs, then executes the effects; repeats until nothing follows.
    pub fn turn_over(&mut self, now: MonoTime) -> TurnResults {
        self.goes_on = false;
        // An engine with changes that are not durable must write nothing, even if the disk works again.
        while self.read_only.is_none() && !self.stale {
            let (commit, until) = match self.busy.take_if(|it| now >= it.retry_at) {
                Some(it) => (it.commit, it.until),
                None if self.busy.is_some() => break,
                None => (self.next_commit(now), now + BUSY_MAX),
            };
            let follows = match self.commit(commit, now) {
                Ok(effects) => self.let_leave(now, effects),
                Err((commit, error)) if commit.may_wait(&error) && now < until => {
                    tracing::warn!(%error, "the database is busy; a commit waits");
                    self.busy = Some(Busy { commit, retry_at: now + BUSY_PAUSE, until });
                    break;
                }
                Err((_, error)) => {
                    self.cannot_write(now, &error);
                    false
                }
            };
            if !follows {
                break;
            }
        }
        std::mem::take(&mut self.told)
    }

    /// Up to the first change of the next commit.
    fn next_commit(&mut self, now: MonoTime) -> Box<Commit> {
        let mut commit =
            Commit { seen: std::mem::take(&mut self.seen).into_iter().collect(), ..Commit::default() };
        commit.not_let_in = self.audit.take_not_let_in();
        commit.notes = self.traces.as_ref().map(|_| Vec::new());
        commit.first = commit.next(&mut self.engine, &mut self.audit, now);
        Box::new(commit)
    }

    /// Writes the commit, and returns the effects that may leave. If the database is busy, returns
    /// the commit as it was.
    fn commit(
        &mut self,
        mut commit: Box<Commit>,
        now: MonoTime,
    ) -> Result<Vec<Effect>, (Box<Commit>, StoreError)> {
        if commit.first.is_some() || !commit.seen.is_empty() {
            let seen = std::mem::take(&mut commit.seen);
            let (engine, audit) = (&mut self.engine, &mut self.audit);
            let has_first = commit.first.is_some();
            let mut changes =
                std::iter::from_fn(|| commit.first.take().or_else(|| commit.next(engine, audit, now)));
            let written = self.store.commit(&mut changes, &seen);
            (commit.seen, commit.is_taken) = (seen, has_first && commit.first.is_none());
            if let Err(error) = written {
                return Err((commit, error));
            }
        } else if commit.answers()
            && let Err(error) = self.store.may_write()
        {
            // "There is nothing to do" is the site's answer, which another controller may give by now.
            return Err((commit, error));
        }
        self.told.ended.append(&mut commit.ended);
        self.trace_commit(&mut commit);
        for (node, key) in commit.keys {
            self.admitted.set(node, key);
        }
        Ok(commit.effects)
    }

    /// Tells the traces what is durable now. Answers come first, for changes are of the operations that they begin.
    fn trace_commit(&mut self, commit: &mut Commit) {
        let Some(traces) = &mut self.traces else { return };
        let at = SystemTime::now();
        for effect in &commit.effects {
            if let Effect::Answer { id, answer } = effect {
                traces.answered(*id, answer, at);
            }
        }
        traces.durable(commit.notes.take().unwrap_or_default(), at);
        let view = self.engine.view();
        for effect in &commit.effects {
            if let Effect::Send { node, message: Down::Job(job), .. } = effect
                && let Some(of) = view.job_view(&job.resource)
            {
                traces.sent(node, job, &of, at);
            }
        }
    }

    /// Executes the effects that waited for the commit. Returns whether new inputs followed.
    fn let_leave(&mut self, now: MonoTime, effects: Vec<Effect>) -> bool {
        let mut follows = false;
        let mut outgoing: BTreeMap<(NodeId, u64), Vec<Down>> = BTreeMap::new();
        for effect in effects {
            match effect {
                Effect::Persist(_) => {} // committed above
                Effect::Send { node, connection, message } => {
                    self.conversations.told(&node, &message);
                    outgoing.entry((node, connection)).or_default().push(message);
                }
                Effect::SendChunk { node, connection, digest, offset } => {
                    self.outbox.send_chunk(Grant { node, connection, digest, offset });
                }
                Effect::Warn(what) => tracing::warn!("{what}"),
                Effect::Close { node } => self.outbox.close(&node),
                Effect::Answer { id, answer } => {
                    // The node of that name now has other keys: the old connection gets no more jobs.
                    if let Ok(Answer::Joined { node }) = &answer {
                        self.outbox.close(node);
                    }
                    self.audit.answered(id, &answer);
                    self.told.answers.push((id, answer));
                }
                Effect::Discard(template) => self.told.discarded.push(template),
                Effect::LoadRevision { load, stack, revision } => {
                    let source = self.load_revision(&stack, revision);
                    self.engine.handle(now, Input::RevisionLoaded { load, source });
                    follows = true;
                }
            }
        }
        for ((node, connection), messages) in outgoing {
            self.outbox.send(&node, connection, &messages);
        }
        follows
    }

    fn load_revision(&mut self, stack: &StackName, revision: u32) -> Result<Source, String> {
        let text = self.store.source(stack, revision).map_err(|error| error.to_string())?;
        let text = text.ok_or_else(|| "it is not kept any more".to_owned())?;
        Source::parse(text).map_err(|errors| errors.to_string())
    }

    /// Drops changes that are not durable, and reports the error. Agents send lost messages again, so none of
    /// them is disconnected.
    fn cannot_write(&mut self, now: MonoTime, error: &StoreError) {
        let read_only = ReadOnly::new(error, now);
        tracing::error!("{}", read_only.why());
        let refusal = read_only.refusal_of_the_commit(error);
        self.traces.iter_mut().for_each(Operations::give_up);
        for id in self.audit.give_up(&refusal) {
            self.told.answers.push((id, Err(refusal.clone())));
        }
        let reloaded = self.reload(now);
        if let Err(error) = &reloaded {
            tracing::error!(%error, "the database cannot be read either");
        }
        let pause = match error.failure() {
            Failure::Mistake => self.mistakes.made(now),
            Failure::Full | Failure::Busy | Failure::Broken => Some(PROBE_FIRST),
        };
        let pause = if reloaded.is_err() { pause.or(Some(PROBE_FIRST)) } else { pause };
        let Some(pause) = pause else {
            self.goes_on = true;
            return self.resume(now);
        };
        self.read_only = Some(read_only.until(now + pause));
        // Meanwhile operators see the connected nodes.
        for (node, connection) in self.conversations.connections() {
            self.engine.handle(now, Input::Connected { node, connection });
        }
    }
}

impl Commit {
    fn may_wait(&self, error: &StoreError) -> bool {
        error.failure() == Failure::Busy && !self.is_taken
    }

    /// Whether a request is answered with success.
    fn answers(&self) -> bool {
        self.effects.iter().any(|effect| matches!(effect, Effect::Answer { answer: Ok(_), .. }))
    }

    /// The next change; what has to wait for the commit is kept. An answer may have a row of the audit.
    fn next(&mut self, engine: &mut Engine, audit: &mut Audit, now: MonoTime) -> Option<Change> {
        if let Some(record) = self.not_let_in.pop_front() {
            return Some(Change::Audit(Box::new(record)));
        }
        loop {
            match engine.poll_effect()? {
                Effect::Persist(change) => {
                    if let Some(notes) = &mut self.notes {
                        notes.extend(Note::of(&change));
                    }
                    match &change {
                        Change::StackRemoved { name, traversal, .. } => {
                            self.ended.push((name.clone(), *traversal));
                        }
                        Change::Node(node) => {
                            let key = (!node.revoked).then_some(node.seal_public);
                            self.keys.push((node.name.clone(), key));
                        }
                        Change::NodeRemoved(name) => self.keys.push((name.clone(), None)),
                        _ => {}
                    }
                    return Some(change);
                }
                Effect::Answer { id, answer } => {
                    let record = audit.row(id, &answer, now);
                    self.effects.push(Effect::Answer { id, answer });
                    if let Some(record) = record {
                        return Some(Change::Audit(Box::new(record)));
                    }
                }
                other => self.effects.push(other),
            }
        }
    }
}
