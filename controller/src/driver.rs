//! The driver loop: takes what waits, feeds the engine, commits once, and only then lets anything leave.
//!
//! ```text
//!   requests, link events, time ──▶ engine ──▶ one transaction ──▶ messages, answers, watchers
//! ```
//!
//! What arrives while a commit runs waits and shares the next one: no fixed delay. If the store cannot write (a
//! full disk), what was in hand is answered with that, the engine is built again from what is durable, agents
//! are disconnected so that they say again what was lost, and until a probe succeeds only reads are answered.

mod handle;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use muster_engine::record::Change;
use muster_engine::view::StackView;
use muster_engine::{Answer, Config, Effect, Engine, Input, JoinAsk, Refusal, Request, Source};
use muster_shared::model::Down;
use muster_shared::{MonoTime, NodeId, StackName, wire};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout_at;

use handle::{Ask, Query, Watcher};
pub use handle::{DriverHandle, DriverInbox, channel};

use crate::link::{JoinGrant, LinkEvent, LinkHandle};
use crate::store::{Store, StoreError};

/// Inputs in one turn: bounds how long a commit can get, and with it how long an answer can take.
const TURN_MAX: usize = 8192;
/// Link events that wait; more hold their connections up.
pub const LINK_EVENTS_MAX: usize = 4096;
/// While the store cannot write, it is tried this often.
const PROBE: Duration = Duration::from_secs(1);
/// Deleted stacks whose end can still be watched for.
const GONE_MAX: usize = 1000;
/// Watchers at a time.
const WATCHERS_MAX: usize = 4096;

/// Where messages to nodes go.
pub trait Outbox {
    /// Sends, or drops: the resync repairs it.
    fn send(&self, node: &NodeId, connection: u64, messages: &[Down]);
    /// Ends the node's connection.
    fn close(&self, node: &NodeId);
}

impl Outbox for LinkHandle {
    fn send(&self, node: &NodeId, connection: u64, messages: &[Down]) {
        LinkHandle::send(self, node, connection, messages);
    }

    fn close(&self, node: &NodeId) {
        LinkHandle::close(self, node);
    }
}

/// Whoever waits for an answer of the engine.
enum Waiter {
    Operator(oneshot::Sender<Result<Answer, Refusal>>),
    Joiner(oneshot::Sender<Result<JoinGrant, String>>),
}

/// The loop and what it holds.
pub struct Driver<S, O> {
    engine: Engine,
    store: S,
    outbox: O,
    make_config: Box<dyn FnMut(muster_shared::Epoch) -> Config + Send>,
    started: Instant,
    waiters: BTreeMap<u64, Waiter>,
    next_id: u64,
    watchers: Vec<Watcher>,
    /// They see what is durable: they wait for the commit of their turn.
    queries: Vec<Query>,
    /// Stacks whose delete has ended: the traversal that did it, newest last.
    gone: VecDeque<(StackName, u64)>,
    /// Nodes that are there, with their newest connection.
    here: BTreeMap<NodeId, u64>,
    seen: Vec<NodeId>,
    /// Why nothing can be written, while that is so.
    read_only: Option<String>,
    /// While that is so: when to try again.
    probe_at: Instant,
    /// The engine knows of what is not durable, for it could not be built again yet.
    stale: bool,
}

impl<S: Store, O: Outbox> Driver<S, O> {
    /// Loads the engine from the store, with a new epoch.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read or written.
    pub fn new(
        mut store: S,
        outbox: O,
        mut make_config: impl FnMut(muster_shared::Epoch) -> Config + Send + 'static,
    ) -> Result<Self, StoreError> {
        let epoch = store.next_epoch()?;
        let engine = Engine::load(make_config(epoch), store.load()?, MonoTime::default());
        Ok(Self {
            engine,
            store,
            outbox,
            make_config: Box::new(make_config),
            started: Instant::now(),
            waiters: BTreeMap::new(),
            next_id: 0,
            watchers: Vec::new(),
            queries: Vec::new(),
            gone: VecDeque::new(),
            here: BTreeMap::new(),
            seen: Vec::new(),
            read_only: None,
            probe_at: Instant::now(),
            stale: false,
        })
    }

    /// Runs until [`DriverHandle::stop`], or until all handles are gone.
    pub async fn run(mut self, mut inbox: DriverInbox, mut link: mpsc::Receiver<LinkEvent>) {
        self.input(Input::Timeout); // takes up what the store had under way
        self.turn_over();
        loop {
            let wake = match (&self.read_only, self.engine.poll_timeout()) {
                (Some(_), _) => self.probe_at,
                (None, Some((due, _))) => self.started + due.0,
                (None, None) => Instant::now() + Duration::from_secs(3600),
            };
            let writable = self.read_only.is_none();
            tokio::select! {
                biased;
                // First: neither operators nor agents can keep what is due from happening.
                _ = timeout_at(wake.into(), std::future::pending::<()>()) => self.wake(),
                ask = inbox.0.recv() => match ask {
                    None | Some(Ask::Stop) => return,
                    Some(ask) => self.ask(ask),
                },
                event = link.recv(), if writable => match event {
                    None => return,
                    Some(event) => self.link_event(event),
                },
            }
            // What came meanwhile shares the commit.
            for _ in 1..TURN_MAX {
                match inbox.0.try_recv() {
                    Ok(Ask::Stop) => {
                        self.turn_over();
                        return;
                    }
                    Ok(ask) => self.ask(ask),
                    // While nothing can be written, what agents say waits with them.
                    Err(_) if self.read_only.is_some() => break,
                    Err(_) => match link.try_recv() {
                        Ok(event) => self.link_event(event),
                        Err(_) => break,
                    },
                }
            }
            self.turn_over();
        }
    }

    fn wake(&mut self) {
        if self.read_only.is_none() {
            self.input(Input::Timeout);
        } else if self.store.probe().is_ok() && (!self.stale || self.reload().is_ok()) {
            tracing::info!("the database can be written again");
            self.read_only = None;
            self.input(Input::Timeout); // takes up what the store has under way
        } else {
            self.probe_at = Instant::now() + PROBE;
        }
    }

    /// Builds the engine again from what is durable.
    fn reload(&mut self) -> Result<(), StoreError> {
        self.stale = true;
        let snapshot = self.store.load()?;
        let now = MonoTime(self.started.elapsed());
        self.engine = Engine::load((self.make_config)(self.engine.epoch()), snapshot, now);
        self.stale = false;
        Ok(())
    }

    fn input(&mut self, input: Input) {
        let now = MonoTime(self.started.elapsed());
        self.engine.handle(now, input);
    }

    fn ask(&mut self, ask: Ask) {
        match ask {
            Ask::Request(request, reply) => match &self.read_only {
                // The asker may have given up.
                Some(why) => drop(reply.send(Err(Refusal::Unavailable(why.clone())))),
                None => self.request(*request, Waiter::Operator(reply)),
            },
            Ask::Query(look) => self.queries.push(look),
            Ask::Watch(watcher) => {
                if self.watchers.len() < WATCHERS_MAX {
                    self.watchers.push(watcher);
                }
            }
            Ask::Stop => {}
        }
    }

    fn request(&mut self, request: Request, waiter: Waiter) {
        self.next_id += 1;
        self.waiters.insert(self.next_id, waiter);
        self.input(Input::Request { id: self.next_id, request: Box::new(request) });
    }

    fn link_event(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Connected { node, connection } => {
                if self.engine.node_seal(&node).is_none() {
                    self.outbox.close(&node); // revoked since it was let in
                    return;
                }
                self.here.insert(node.clone(), connection);
                self.seen.push(node.clone());
                self.input(Input::Connected { node, connection });
            }
            LinkEvent::Disconnected { node, connection } => {
                if self.here.get(&node) == Some(&connection) {
                    self.here.remove(&node);
                }
                self.seen.push(node.clone());
                self.input(Input::Disconnected { node, connection });
            }
            LinkEvent::Received { node, connection, messages } => {
                for message in messages {
                    self.input(Input::Received { node: node.clone(), connection, message });
                }
            }
            LinkEvent::Join { ask, reply } => {
                let wall =
                    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                let ask = JoinAsk {
                    token_id: ask.token_id.0,
                    secret: ask.secret,
                    name: ask.name,
                    seal_public: ask.seal_public,
                    agent_version: ask.agent_version,
                    wall: wall.as_secs(),
                };
                self.request(Request::Join(ask), Waiter::Joiner(reply));
            }
            // The asker may have given up.
            LinkEvent::NodeKey { node, reply } => {
                let look = move |engine: &Engine| {
                    let _ = reply.send(engine.node_seal(&node));
                };
                self.queries.push(Box::new(look));
            }
        }
    }

    /// Commits what the inputs of this turn led to, then lets it leave; again until nothing follows.
    fn turn_over(&mut self) {
        loop {
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
                self.cannot_write(&error);
                break;
            }
            self.gone.extend(ended);
            while self.gone.len() > GONE_MAX {
                self.gone.pop_front();
            }
            let follows = self.let_leave(effects);
            if !follows {
                break;
            }
        }
        for look in std::mem::take(&mut self.queries) {
            look(&self.engine);
        }
        self.serve_watchers();
    }

    /// Carries out what had to wait for the commit; true if that led to new inputs.
    fn let_leave(&mut self, effects: Vec<Effect>) -> bool {
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
                Effect::Answer { id, answer } => match self.waiters.remove(&id) {
                    // Whoever asked may have given up.
                    Some(Waiter::Operator(reply)) => drop(reply.send(answer)),
                    Some(Waiter::Joiner(reply)) => {
                        // Who has the name from now on has other keys: the old ones get no more jobs.
                        if let Ok(Answer::Joined { node }) = &answer {
                            self.outbox.close(node);
                        }
                        drop(reply.send(answer.map(|_| JoinGrant).map_err(|refusal| refusal.to_string())));
                    }
                    None => {}
                },
                Effect::LoadRevision { load, stack, revision } => {
                    let source = self.load_revision(&stack, revision);
                    self.input(Input::RevisionLoaded { load, source });
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
    fn cannot_write(&mut self, error: &StoreError) {
        let why = format!("the controller cannot write and is read-only: {error}; free space on its disk");
        tracing::error!("{why}");
        for waiter in std::mem::take(&mut self.waiters).into_values() {
            match waiter {
                // Whoever asked may have given up.
                Waiter::Operator(reply) => drop(reply.send(Err(Refusal::Unavailable(why.clone())))),
                Waiter::Joiner(reply) => drop(reply.send(Err(why.clone()))),
            }
        }
        for node in self.here.keys() {
            self.outbox.close(node);
        }
        if let Err(error) = self.reload() {
            tracing::error!(%error, "the database cannot be read either");
        }
        self.read_only = Some(why);
        self.probe_at = Instant::now() + PROBE;
    }

    fn serve_watchers(&mut self) {
        for watcher in std::mem::take(&mut self.watchers) {
            if watcher.reply.is_closed() {
                continue;
            }
            let view = match self.engine.stack_seq(&watcher.name) {
                Some(seq) if seq == watcher.seq => {
                    self.watchers.push(watcher);
                    continue;
                }
                Some(_) => self.engine.stack_view(&watcher.name),
                None => self.ended(&watcher),
            };
            // The watcher may be gone.
            drop(watcher.reply.send(view));
        }
    }

    fn ended(&self, watcher: &Watcher) -> Option<StackView> {
        let wanted = |(name, traversal): &&(StackName, u64)| {
            *name == watcher.name && watcher.traversal.is_none_or(|wanted| wanted == *traversal)
        };
        let (name, traversal) = self.gone.iter().rev().find(wanted)?;
        Some(StackView {
            name: name.to_string(),
            action: "DELETE".into(),
            status: "COMPLETE".into(),
            traversal: *traversal,
            seq: watcher.seq.wrapping_add(1),
            ..StackView::default()
        })
    }
}

#[cfg(test)]
mod tests;
