//! The driver without its clock and its channels: inputs, one commit for all that follows from them, and only then
//! what leaves. The loop around it says what time it is; so the simulator drives the very same code.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_engine::record::Change;
use muster_engine::{Answer, Config, Effect, Engine, Input, Refusal, Request, Source};
use muster_shared::model::{Down, Up};
use muster_shared::{Epoch, MonoTime, NodeId, StackName, wire};
use muster_template::Tree;

use super::Outbox;
use crate::store::{Store, StoreError};

/// While the store cannot write, it is tried this often.
const PROBE: Duration = Duration::from_secs(1);

/// What became known in a turn, for those who wait for it.
#[derive(Debug, Default)]
pub struct Told {
    /// By the ids that [`Turns::request`] gave.
    pub answers: Vec<(u64, Result<Answer, Refusal>)>,
    /// Stacks that are gone now, with the traversal that did it.
    pub ended: Vec<(StackName, u64)>,
    /// What takes its time to free.
    pub discarded: Vec<Arc<Tree>>,
}

/// Why nothing can be written at present.
struct ReadOnly {
    why: String,
    probe_at: MonoTime,
}

/// The engine with its store and the way to its nodes.
pub struct Turns<S, O> {
    engine: Engine,
    store: S,
    outbox: O,
    make_config: Box<dyn FnMut(Epoch) -> Config + Send>,
    next_id: u64,
    /// Requests that are not answered.
    open: BTreeSet<u64>,
    /// Nodes that are there, with their newest connection.
    here: BTreeMap<NodeId, u64>,
    seen: Vec<NodeId>,
    told: Told,
    read_only: Option<ReadOnly>,
    /// The engine knows of what is not durable, for it could not be built again yet.
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
        let engine = Engine::load(make_config(epoch), store.load()?, now);
        Ok(Self {
            engine,
            store,
            outbox,
            make_config: Box::new(make_config),
            next_id: 0,
            open: BTreeSet::new(),
            here: BTreeMap::new(),
            seen: Vec::new(),
            told: Told::default(),
            read_only: None,
            stale: false,
        })
    }

    /// As it is; between two turns only what is durable shows.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Why nothing can be written, while that is so. What agents say is to wait then.
    pub fn read_only(&self) -> Option<&str> {
        self.read_only.as_ref().map(|it| it.why.as_str())
    }

    /// When to call [`Turns::wake`].
    pub fn poll_timeout(&self) -> Option<MonoTime> {
        match &self.read_only {
            Some(it) => Some(it.probe_at),
            None => self.engine.poll_timeout().map(|(due, _)| due),
        }
    }

    /// The time of [`Turns::poll_timeout`] has come. Also once at the start: it takes up what the store had under way.
    pub fn wake(&mut self, now: MonoTime) {
        let Some(it) = &mut self.read_only else {
            return self.engine.handle(now, Input::Timeout);
        };
        it.probe_at = now + PROBE;
        if self.store.probe().is_ok() && (!self.stale || self.reload(now).is_ok()) {
            tracing::info!("the database can be written again");
            self.read_only = None;
            self.engine.handle(now, Input::Timeout); // takes up what the store has under way
        }
    }

    /// Somebody is about to look: what is shown says how long it has been so.
    pub fn pass(&mut self, now: MonoTime) {
        if self.read_only.is_none() {
            self.engine.handle(now, Input::Timeout);
        }
    }

    /// Builds the engine again from what is durable.
    pub(super) fn reload(&mut self, now: MonoTime) -> Result<(), StoreError> {
        self.stale = true;
        let snapshot = self.store.load()?;
        self.engine = Engine::load((self.make_config)(self.engine.epoch()), snapshot, now);
        self.stale = false;
        Ok(())
    }

    /// Asks the engine; the answer is in [`Told`], perhaps of a later turn.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`] while nothing can be written.
    pub fn request(&mut self, now: MonoTime, request: Request) -> Result<u64, Refusal> {
        if let Some(it) = &self.read_only {
            return Err(Refusal::Unavailable(it.why.clone()));
        }
        self.next_id += 1;
        self.open.insert(self.next_id);
        self.engine.handle(now, Input::Request { id: self.next_id, request: Box::new(request) });
        Ok(self.next_id)
    }

    /// A node is here; one that was revoked since it was let in is sent away.
    pub fn connected(&mut self, now: MonoTime, node: NodeId, connection: u64) {
        if self.engine.node_seal(&node).is_none() {
            self.outbox.close(&node);
            return;
        }
        self.here.insert(node.clone(), connection);
        self.seen.push(node.clone());
        self.engine.handle(now, Input::Connected { node, connection });
    }

    /// One of a node's connections is gone.
    pub fn disconnected(&mut self, now: MonoTime, node: NodeId, connection: u64) {
        if self.here.get(&node) == Some(&connection) {
            self.here.remove(&node);
        }
        self.seen.push(node.clone());
        self.engine.handle(now, Input::Disconnected { node, connection });
    }

    /// A node said something.
    pub fn received(&mut self, now: MonoTime, node: &NodeId, connection: u64, messages: Vec<Up>) {
        for message in messages {
            self.engine.handle(now, Input::Received { node: node.clone(), connection, message });
        }
    }

    /// Commits what the inputs of this turn led to, then lets it leave; again until nothing follows.
    pub fn turn_over(&mut self, now: MonoTime) -> Told {
        // An engine that knows of what is not durable writes nothing, also when the disk takes it again.
        while !self.stale {
            let (mut effects, mut ended) = (Vec::new(), Vec::new());
            let seen = std::mem::take(&mut self.seen);
            let engine = &mut self.engine;
            let mut changes = std::iter::from_fn(|| {
                loop {
                    match engine.poll_effect()? {
                        Effect::Persist(change) => {
                            if let Change::StackRemoved { name, traversal, .. } = &change {
                                ended.push((name.clone(), *traversal));
                            }
                            return Some(change);
                        }
                        other => effects.push(other),
                    }
                }
            });
            if let Err(error) = self.store.commit(&mut changes, &seen) {
                self.cannot_write(now, &error);
                break;
            }
            self.told.ended.extend(ended);
            let follows = self.let_leave(now, effects);
            if !follows {
                break;
            }
        }
        std::mem::take(&mut self.told)
    }

    /// Carries out what had to wait for the commit; true if that led to new inputs.
    fn let_leave(&mut self, now: MonoTime, effects: Vec<Effect>) -> bool {
        let mut follows = false;
        let mut outgoing: BTreeMap<(NodeId, u64), Vec<Down>> = BTreeMap::new();
        for effect in effects {
            match effect {
                Effect::Persist(_) => {} // committed above
                Effect::Send { node, connection, message } => {
                    outgoing.entry((node, connection)).or_default().push(message);
                }
                Effect::SendChunk { node, connection, digest, offset } => {
                    let bytes = self.store.content(digest, offset, wire::CHUNK_MAX).unwrap_or_else(|error| {
                        tracing::warn!(%node, %error, "a content cannot be read");
                        None
                    });
                    let chunk = Down::Chunk { digest, offset, bytes: bytes.unwrap_or_default() };
                    outgoing.entry((node, connection)).or_default().push(chunk);
                }
                Effect::Close { node } => self.outbox.close(&node),
                Effect::Answer { id, answer } => {
                    // Who has the name from now on has other keys: the old ones get no more jobs.
                    if let Ok(Answer::Joined { node }) = &answer {
                        self.outbox.close(node);
                    }
                    self.open.remove(&id);
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

    /// The disk is full, or worse: forget what is not durable, say so, and serve reads only.
    fn cannot_write(&mut self, now: MonoTime, error: &StoreError) {
        let advice = match error {
            StoreError::Full { .. } => "raise that and restart it",
            StoreError::Sqlite(_) | StoreError::Key(_) | StoreError::Format(_) => "free space on its disk",
        };
        let why = format!("the controller cannot write and is read-only: {error}; {advice}");
        tracing::error!("{why}");
        for id in std::mem::take(&mut self.open) {
            self.told.answers.push((id, Err(Refusal::Unavailable(why.clone()))));
        }
        for node in self.here.keys() {
            self.outbox.close(node);
        }
        if let Err(error) = self.reload(now) {
            tracing::error!(%error, "the database cannot be read either");
        }
        self.read_only = Some(ReadOnly { why, probe_at: now + PROBE });
    }
}
