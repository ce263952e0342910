//! A turn: inputs, one commit for all their results, and only then the effects. Decides when a commit waits for a busy
//! database. The loop around it (`driver.rs`) passes the time, so that the simulator runs the same code.
//!
//! Absent: what a commit has in it (`turn/commit.rs`), and what follows when it fails (`turn/read_only.rs`).

mod commit;
mod read_only;
mod revision;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use muster_engine::{Answer, Config, Effect, Engine, Input, Refusal, Request, View};
use muster_shared::model::{Down, Up};
use muster_shared::{Epoch, MonoTime, NodeId, StackName};
use muster_template::Tree;

use super::Outbox;
use super::audit::{Audit, Caller, NotLetIn, log_refusal};
use super::conversations::{Conversations, Resumed};
use super::pause_after_bad_commit::Mistakes;
use crate::link::{Admitted, Grant};
use crate::store::{Store, StoreError};
use crate::telemetry::{Operations, Telemetry};
use commit::Commit;
use read_only::ReadOnly;
pub use revision::{ParsedRevision, UnparsedRevision};

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
    /// Revisions that take time to parse: see [`Turns::parse_beside`].
    pub revisions: Vec<UnparsedRevision>,
}

/// A commit that waits for another program's lock.
struct Busy {
    commit: Box<Commit>,
    retry_at: MonoTime,
    until: MonoTime,
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
    /// The number of times that the engine was rebuilt.
    reloads: u64,
    /// Revisions of fewer bytes are parsed in the turn.
    parsed_here: usize,
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
            reloads: 0,
            parsed_here: usize::MAX,
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
        if self.read_only.is_some() {
            return self.probe(now);
        }
        for node in self.conversations.late(now) {
            self.outbox.close(&node);
        }
        self.engine.handle(now, Input::Timeout);
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
        (self.stale, self.reloads) = (true, self.reloads + 1);
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
                    follows |= self.load_revision(now, load, &stack, revision);
                }
            }
        }
        for ((node, connection), messages) in outgoing {
            self.outbox.send(&node, connection, &messages);
        }
        follows
    }
}
