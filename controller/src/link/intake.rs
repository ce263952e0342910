//! Between the connections and the driver: messages wait here, and the driver takes them in turns.
//!
//! [`fair`] decides whose turn it is. Here are the lock, the wake-up, and the newcomers, which are no nodes yet.

pub mod fair;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use muster_shared::model::Up;
use muster_shared::{MonoTime, NodeId};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout_at;

use self::fair::{Bounds, Fair, Taken};
use super::LinkEvent;

/// The most questions of newcomers that wait: as many as are admitted at a time, and those of connections
/// that gave up.
const QUESTIONS_MAX: usize = 8192;
/// The most questions of newcomers in a turn. Each is a lookup in a table, or a join, which is recorded.
const QUESTIONS_IN_TURN: usize = 1024;

/// Resolves once the driver has taken all of a packet. An error: the driver never will.
pub type Receipt = oneshot::Receiver<()>;

/// The connections' end; clones feed the same intake.
#[derive(Clone, Debug)]
pub struct Feed(Arc<Open>);

/// The driver's end.
#[derive(Debug)]
pub struct Intake(Arc<Shared>);

/// Tells how much waits.
#[derive(Clone, Debug)]
pub struct Arrivals(Arc<Shared>);

/// The lengths of the queues before the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Nodes of which something waits: a packet of each connection at most.
    pub nodes: usize,
    /// Questions of newcomers.
    pub questions: usize,
}

/// Shared by all feeds: after the last one is dropped, no more events come.
#[derive(Debug)]
struct Open(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// An event may be available.
    arrived: Notify,
    started: Instant,
}

#[derive(Debug)]
struct Waiting {
    nodes: Fair<Up, oneshot::Sender<()>>,
    questions: VecDeque<LinkEvent>,
    /// Questions that may still be taken in this turn.
    questions_left: usize,
    /// Whether there are feeds, and whether there is a driver.
    open: (bool, bool),
}

/// A feed and its intake.
pub fn channel(bounds: Bounds) -> (Feed, Intake) {
    let waiting = Waiting {
        nodes: Fair::new(bounds),
        questions: VecDeque::new(),
        questions_left: QUESTIONS_IN_TURN,
        open: (true, true),
    };
    let shared = Shared { waiting: Mutex::new(waiting), arrived: Notify::new(), started: Instant::now() };
    let shared = Arc::new(shared);
    (Feed(Arc::new(Open(Arc::clone(&shared)))), Intake(shared))
}

impl Shared {
    /// The state is whole at every point that can panic.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> MonoTime {
        MonoTime(self.started.elapsed())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.lock().open.0 = false;
        self.0.arrived.notify_one();
    }
}

impl Feed {
    /// A node is here.
    pub fn connected(&self, node: &NodeId, connection: u64) {
        self.put(|waiting, now| waiting.nodes.connected(now, node, connection));
    }

    /// Messages of a node, in a packet of this size. Its connection must send nothing more before the
    /// receipt arrives.
    pub fn received(&self, node: &NodeId, connection: u64, messages: Vec<Up>, bytes: usize) -> Receipt {
        let (taken, receipt) = oneshot::channel();
        self.put(|waiting, now| waiting.nodes.heard(now, node, connection, messages, bytes, Some(taken)));
        receipt
    }

    /// A message of a node, taken only if nothing of its connection waits; returns false otherwise.
    pub fn received_alone(&self, node: &NodeId, connection: u64, message: &Up) -> bool {
        let mut alone = true;
        self.put(|waiting, now| {
            alone = !waiting.nodes.waits(node, connection);
            if alone {
                waiting.nodes.heard(now, node, connection, vec![message.clone()], 0, None);
            }
        });
        alone
    }

    /// A connection has ended.
    pub fn disconnected(&self, node: &NodeId, connection: u64) {
        self.put(|waiting, now| waiting.nodes.disconnected(now, node, connection));
    }

    /// A newcomer's question. If too many wait, the question is dropped, which its asker sees.
    pub fn ask(&self, question: LinkEvent) {
        self.put(|waiting, _| {
            if waiting.questions.len() < QUESTIONS_MAX {
                waiting.questions.push_back(question);
            }
        });
    }

    /// Without a driver everything is dropped, including the receipts.
    fn put(&self, put: impl FnOnce(&mut Waiting, MonoTime)) {
        let shared = &self.0.0;
        let mut waiting = shared.lock();
        if waiting.open.1 {
            put(&mut waiting, shared.now());
            drop(waiting);
            shared.arrived.notify_one();
        }
    }
}

impl Arrivals {
    /// The lengths of this moment.
    pub fn lengths(&self) -> Lengths {
        let waiting = self.0.lock();
        Lengths { nodes: waiting.nodes.waiting(), questions: waiting.questions.len() }
    }
}

impl Intake {
    /// The handle that tells how much waits.
    pub fn arrivals(&self) -> Arrivals {
        Arrivals(Arc::clone(&self.0))
    }

    /// Waits until a new turn can take an event; false if no more events come.
    pub async fn ready(&mut self) -> bool {
        loop {
            let arrived = self.0.arrived.notified();
            let ready_at = {
                let waiting = self.0.lock();
                let ready_at = waiting.nodes.ready_at();
                let rested = ready_at.is_some_and(|at| at <= self.0.now());
                if rested || waiting.nodes.is_ready() || !waiting.questions.is_empty() {
                    return true;
                }
                if !waiting.open.0 {
                    return false;
                }
                ready_at
            };
            match ready_at {
                // Either event leads to another look.
                Some(at) => drop(timeout_at((self.0.started + at.0).into(), arrived).await),
                None => arrived.await,
            }
        }
    }

    /// Begins a turn: from now on [`Intake::take`] returns the events of one turn.
    pub fn begin_turn(&mut self) {
        let mut waiting = self.0.lock();
        waiting.nodes.begin_turn(self.0.now());
        waiting.questions_left = QUESTIONS_IN_TURN;
    }

    /// The next event of this turn.
    pub fn take(&mut self) -> Option<LinkEvent> {
        let mut waiting = self.0.lock();
        if waiting.questions_left > 0
            && let Some(question) = waiting.questions.pop_front()
        {
            waiting.questions_left -= 1;
            return Some(question);
        }
        let (node, taken) = waiting.nodes.take(self.0.now())?;
        drop(waiting);
        Some(match taken {
            Taken::Connected(connection) => LinkEvent::Connected { node, connection },
            Taken::Disconnected(connection) => LinkEvent::Disconnected { node, connection },
            Taken::Heard(connection, messages, receipt) => {
                // The connection may have ended.
                let _ = receipt.map(|receipt| receipt.send(()));
                LinkEvent::Received { node, connection, messages }
            }
        })
    }

    /// The next event, each in a turn of its own: for users that commit nothing.
    pub async fn next(&mut self) -> Option<LinkEvent> {
        loop {
            if !self.ready().await {
                return None;
            }
            self.begin_turn();
            if let Some(event) = self.take() {
                return Some(event);
            }
        }
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.open.1 = false;
        waiting.nodes = Fair::new(Bounds::default());
        waiting.questions.clear();
    }
}
