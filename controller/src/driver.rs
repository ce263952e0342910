//! The driver loop: takes waiting inputs, feeds the engine, commits once, and only then sends messages
//! and answers.
//!
//! ```text
//!   requests, link events, time ──▶ engine ──▶ one transaction ──▶ messages, answers, watchers
//! ```
//!
//! Inputs that arrive during a commit wait and share the next one: there is no fixed delay. If the database
//! is busy, the commit is tried again. If the commit fails otherwise (`turn.rs`: no room, a broken disk, our own
//! mistake), pending requests get that error, and the engine is rebuilt from the durable state. Agents keep
//! their connections: each is greeted once more and sends lost messages again (`conversations.rs`). Until a
//! probe succeeds only reads are answered; after a mistake the driver continues at once, unless the mistake
//! is repeated (`driver/pause_after_bad_commit.rs`).
//!
//! Absent: when the site is read-only, and when it is tried again (`turn/read_only.rs`); which messages of agents a
//! turn takes (`link/intake/fair.rs`).

mod audit;
mod conversations;
mod handle;
mod pause_after_bad_commit;
mod turn;

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use muster_engine::view::StackView;
use muster_engine::{Answer, Config, JoinAsk, Refusal, Request};
use muster_shared::model::Down;
use muster_shared::{MonoTime, NodeId, StackName};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout_at;

pub use audit::{Caller, stranger};
use handle::{Ask, Query, Watcher};
pub use handle::{Busy, DriverHandle, DriverInbox, Look, Room, channel};
pub use turn::{ParsedRevision, TurnResults, Turns, UnparsedRevision};

use crate::link::intake::Intake;
use crate::link::{Admitted, Grant, JoinGrant, LinkEvent, LinkHandle, NotJoined};
use crate::store::{Store, StoreError};
use crate::telemetry::Telemetry;

/// The most requests of operators in one turn: bounds the size of a commit, and so the time to an answer. The
/// intake bounds the messages of agents.
const ASKS_IN_TURN: usize = 1024;
/// The most deleted stacks whose end can still be watched.
const GONE_MAX: usize = 1000;
/// Templates with fewer resources are freed in the turn: that takes a millisecond.
const DISCARDED_HERE: usize = 5000;
/// Revisions of fewer bytes are parsed in the turn: that takes a millisecond.
const PARSED_HERE: usize = 16 << 10;
/// The pause before a server asks again to join that cannot be taken up now. It asks with the same keys, so it joins once
/// even if its first request was carried out.
const JOIN_PAUSE: Duration = Duration::from_secs(5);
/// Watchers at a time.
const WATCHERS_MAX: usize = 4096;

/// The destination of messages to nodes.
pub trait Outbox {
    /// Sends the messages, or drops them: the resync repairs a loss.
    fn send(&self, node: &NodeId, connection: u64, messages: &[Down]);
    /// Sends a part of a content, or drops it: the agent asks again.
    fn send_chunk(&self, grant: Grant);
    /// Ends the node's connection.
    fn close(&self, node: &NodeId);
}

impl Outbox for LinkHandle {
    fn send(&self, node: &NodeId, connection: u64, messages: &[Down]) {
        LinkHandle::send(self, node, connection, messages);
    }

    fn send_chunk(&self, grant: Grant) {
        LinkHandle::send_chunk(self, grant);
    }

    fn close(&self, node: &NodeId) {
        LinkHandle::close(self, node);
    }
}

/// The receiver of an answer from the engine.
enum Waiter {
    Operator(oneshot::Sender<Result<Answer, Refusal>>),
    Joiner(oneshot::Sender<Result<JoinGrant, NotJoined>>),
}

impl Waiter {
    fn tell(self, answer: Result<Answer, Refusal>) {
        match self {
            // The receiver may have given up.
            Waiter::Operator(reply) => drop(reply.send(answer)),
            Waiter::Joiner(reply) => drop(reply.send(match answer {
                Ok(_) => Ok(JoinGrant),
                Err(refusal) => Err(NotJoined {
                    reason: refusal.to_string(),
                    after: match refusal {
                        Refusal::Later { after, .. } => Some(after),
                        Refusal::Unavailable(_) => Some(JOIN_PAUSE),
                        Refusal::NotFound(_)
                        | Refusal::Conflict(_)
                        | Refusal::Invalid(_)
                        | Refusal::Forbidden(_) => None,
                    },
                }),
            })),
        }
    }
}

/// Seconds since 1970.
fn wall() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The loop and its state.
pub struct Driver<S, O> {
    turns: Turns<S, O>,
    started: Instant,
    waiters: BTreeMap<u64, Waiter>,
    watchers: Vec<Watcher>,
    flow_watchers: Vec<(u64, oneshot::Sender<()>)>,
    /// Each with the intents that are still under way.
    intent_watchers: Vec<(Vec<Box<str>>, oneshot::Sender<()>)>,
    /// Queries see durable state only: they wait for the commit of their turn.
    queries: Vec<Query>,
    /// Deleted stacks: the traversal that deleted each, newest last.
    gone: VecDeque<(StackName, u64)>,
    /// Tells whether the driver is writing.
    writing: Arc<AtomicBool>,
    /// Where revisions go that were parsed beside the driver. The engine waits for a few of each stack.
    parsed: Option<mpsc::UnboundedSender<std::thread::Result<ParsedRevision>>>,
}

impl<S: Store, O: Outbox> Driver<S, O> {
    /// Loads the engine from the store, with a new epoch.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read or written.
    pub fn new(
        store: S,
        outbox: O,
        make_config: impl FnMut(muster_shared::Epoch) -> Config + Send + 'static,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            turns: Turns::new(store, outbox, make_config, MonoTime::default())?,
            started: Instant::now(),
            waiters: BTreeMap::new(),
            watchers: Vec::new(),
            flow_watchers: Vec::new(),
            intent_watchers: Vec::new(),
            queries: Vec::new(),
            gone: VecDeque::new(),
            writing: Arc::default(),
            parsed: None,
        })
    }

    /// Keeps this table of the nodes that may enter.
    #[must_use]
    pub fn with_admitted(mut self, admitted: Admitted) -> Self {
        self.turns.keep(admitted);
        self
    }

    /// Tells the spans of operations and jobs.
    #[must_use]
    pub fn with_telemetry(mut self, telemetry: &Telemetry) -> Self {
        self.turns.trace(telemetry);
        self
    }

    /// Runs until [`DriverHandle::stop`], or until all handles are gone.
    pub async fn run(mut self, mut inbox: DriverInbox, mut link: Intake) {
        self.writing = Arc::clone(&inbox.writing);
        let (sender, mut parsed) = mpsc::unbounded_channel();
        self.parsed = Some(sender);
        self.turns.parse_beside(PARSED_HERE);
        self.wake();
        self.turn_over();
        loop {
            let wake = match self.turns.poll_timeout() {
                Some(due) => self.started + due.0,
                None => Instant::now() + Duration::from_secs(3600),
            };
            // While the database is busy, inputs wait for it, and share the next commit.
            let takes = !self.turns.is_busy();
            tokio::select! {
                biased;
                // The timeout comes first, so that operators and agents cannot delay it. But this turn takes
                // waiting inputs before the timeout: after a stall, they may cancel what is due.
                _ = timeout_at(wake.into(), std::future::pending::<()>()) => {}
                ask = inbox.asks.recv(), if takes => match ask {
                    None | Some(Ask::Stop) => return,
                    Some(ask) => self.ask(ask),
                },
                Some(revision) = parsed.recv(), if takes => self.revision_parsed(revision),
                open = link.ready(), if takes => if !open {
                    return;
                },
            }
            let begun = Instant::now();
            // Inputs that arrived meanwhile share the commit.
            let mut stops = false;
            if !self.turns.is_busy() {
                stops = self.take_asks(&mut inbox);
                while let Ok(revision) = parsed.try_recv() {
                    self.revision_parsed(revision);
                }
                link.begin_turn();
                while let Some(event) = link.take() {
                    self.link_event(event);
                }
            }
            self.wake_if_due();
            self.turn_over();
            inbox.turns.add(begun.elapsed());
            if stops {
                return;
            }
        }
    }

    /// Takes requests of operators. Returns true at the end.
    fn take_asks(&mut self, inbox: &mut DriverInbox) -> bool {
        for _ in 1..ASKS_IN_TURN {
            match inbox.asks.try_recv() {
                Ok(Ask::Stop) => return true,
                Ok(ask) => self.ask(ask),
                Err(_) => break,
            }
        }
        false
    }

    /// A revision was parsed beside the driver. A panic there is one of the driver.
    fn revision_parsed(&mut self, revision: std::thread::Result<ParsedRevision>) {
        match revision {
            Ok(revision) => self.turns.revision_parsed(self.now(), revision),
            Err(panic) => resume_unwind(panic),
        }
    }

    fn set_writing(&self, writing: bool) {
        self.writing.store(writing, Ordering::Relaxed);
    }

    fn now(&self) -> MonoTime {
        MonoTime(self.started.elapsed())
    }

    fn wake(&mut self) {
        let now = self.now();
        // While nothing can be written, this tries to write.
        self.set_writing(self.turns.read_only().is_some() || self.turns.is_busy());
        self.turns.wake(now);
        self.set_writing(self.turns.is_busy());
    }

    fn wake_if_due(&mut self) {
        let now = self.now();
        if self.turns.poll_timeout().is_some_and(|due| due <= now) {
            self.wake();
        }
    }

    fn ask(&mut self, ask: Ask) {
        match ask {
            Ask::Request { request, caller, reply, room } => {
                self.request(&caller, *request, Waiter::Operator(reply));
                drop(room);
            }
            Ask::NotLetIn(who) => self.turns.not_let_in(self.now(), &who),
            Ask::Query(look) => {
                self.turns.pass(self.now());
                self.queries.push(look);
            }
            Ask::Watch(watcher) => {
                if self.watchers.len() < WATCHERS_MAX {
                    self.watchers.push(watcher);
                }
            }
            Ask::WatchFlow(operation, reply) => {
                if self.flow_watchers.len() < WATCHERS_MAX {
                    self.flow_watchers.push((operation, reply));
                }
            }
            Ask::WatchIntents(keys, reply) => {
                if self.intent_watchers.len() < WATCHERS_MAX {
                    self.intent_watchers.push((keys, reply));
                }
            }
            Ask::Stop => {}
        }
    }

    fn request(&mut self, caller: &Caller, mut request: Request, waiter: Waiter) {
        let now = self.now();
        // The token counted when the request came. Its body may have come a minute later.
        if let Some(shown) = &caller.shown {
            let scope = match self.turns.view().user_role(&caller.actor, shown, wall()) {
                Ok((_, scope)) => scope,
                Err(why) => return waiter.tell(Err(Refusal::Conflict(why.to_owned()))),
            };
            if let Err(refusal) = self.turns.view().may_ask(&scope, &request) {
                self.turns.refused(now, caller, &request, &refusal);
                return waiter.tell(Err(refusal));
            }
            request.confine(&scope);
        }
        match self.turns.request(now, Some(caller), request) {
            Ok(id) => drop(self.waiters.insert(id, waiter)),
            Err(refusal) => waiter.tell(Err(refusal)),
        }
    }

    fn link_event(&mut self, event: LinkEvent) {
        let now = self.now();
        match event {
            LinkEvent::Connected { node, connection } => self.turns.connected(now, node, connection),
            LinkEvent::Disconnected { node, connection } => self.turns.disconnected(now, node, connection),
            LinkEvent::Received { node, connection, messages } => {
                self.turns.received(now, &node, connection, messages);
            }
            LinkEvent::Join { ask, reply } => {
                let ask = JoinAsk {
                    token_id: ask.token_id.0,
                    secret: ask.secret,
                    name: ask.name,
                    seal_public: ask.seal_public,
                    agent_version: ask.agent_version,
                    moves: ask.moves,
                    wall: wall(),
                };
                let caller = Caller {
                    actor: "a server".to_owned(),
                    from: "link".to_owned(),
                    shown: None,
                    trace: None,
                };
                self.request(&caller, Request::Join(ask), Waiter::Joiner(reply));
            }
        }
    }

    /// Commits, sends the effects, and answers requests.
    fn turn_over(&mut self) {
        self.set_writing(true);
        let told = self.turns.turn_over(self.now());
        self.set_writing(self.turns.is_busy());
        self.gone.extend(told.ended);
        while self.gone.len() > GONE_MAX {
            self.gone.pop_front();
        }
        for (id, answer) in told.answers {
            if let Some(waiter) = self.waiters.remove(&id) {
                waiter.tell(answer);
            }
        }
        if told.discarded.iter().any(|tree| tree.len() >= DISCARDED_HERE) {
            // Nothing waits for the result.
            drop(tokio::task::spawn_blocking(move || drop(told.discarded)));
        }
        if let Some(parsed) = self.parsed.as_ref().filter(|_| !told.revisions.is_empty()) {
            let parsed = parsed.clone();
            let parse = move || {
                for revision in told.revisions {
                    let revision = catch_unwind(AssertUnwindSafe(|| revision.parse()));
                    // The driver may have ended.
                    drop(parsed.send(revision));
                }
            };
            drop(tokio::task::spawn_blocking(parse));
        }
        for look in std::mem::take(&mut self.queries) {
            look(&Look { site: self.turns.view(), read_only: self.turns.read_only() });
        }
        self.serve_watchers();
    }

    fn serve_watchers(&mut self) {
        for (operation, reply) in std::mem::take(&mut self.flow_watchers) {
            match self.turns.view().flows().has_ended(operation) {
                true => drop(reply.send(())), // the watcher may be gone
                false if reply.is_closed() => {}
                false => self.flow_watchers.push((operation, reply)),
            }
        }
        for (mut keys, reply) in std::mem::take(&mut self.intent_watchers) {
            // From the back: an ended intent is removed and not queried again, so that a turn stays cheap
            // with many.
            while let Some(key) = keys.last()
                && self.turns.view().intents_ended(std::slice::from_ref(key))
            {
                keys.pop();
            }
            match keys.is_empty() {
                true => drop(reply.send(())), // the watcher may be gone
                false if reply.is_closed() => {}
                false => self.intent_watchers.push((keys, reply)),
            }
        }
        for watcher in std::mem::take(&mut self.watchers) {
            if watcher.reply.is_closed() {
                continue;
            }
            let view = match self.turns.view().stack_seq(&watcher.name) {
                Some(seq) if seq == watcher.seq => {
                    self.watchers.push(watcher);
                    continue;
                }
                Some(_) => self.turns.view().stack_view(&watcher.name),
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
