//! Requests of the API to the driver: how many wait, how long, and when one is refused because the driver is busy.
//!
//! Absent: the refusal while nothing can be written (`turn/read_only.rs`), and messages to nodes (`link/handle.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_engine::view::StackView;
use muster_engine::{Answer, Refusal, Request, View};
use muster_shared::StackName;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::audit::{Caller, NotLetIn};
use crate::durations::Durations;

/// Requests that wait for the driver; more are refused as overload.
const REQUESTS_MAX: usize = 1024;
/// The pause after which such a request may be sent again: the driver takes all that wait in one turn.
const OVERLOAD_PAUSE: Duration = Duration::from_secs(1);
/// The longest wait of a look: a turn takes longer only with a very large stack, or a database that stalls.
const LOOK_MAX: Duration = Duration::from_secs(20);

/// Memory that a request takes while it waits for the driver; given back when this is dropped.
pub type Room = Option<muster_front::Place>;

/// A request of the API to the driver.
pub(super) enum Ask {
    Request {
        request: Box<Request>,
        caller: Caller,
        reply: oneshot::Sender<Result<Answer, Refusal>>,
        room: Room,
    },
    /// A request that did not come so far: the audit tells of it.
    NotLetIn(Box<NotLetIn>),
    Query(Query),
    Watch(Watcher),
    WatchFlow(u64, oneshot::Sender<()>),
    WatchIntents(Vec<Box<str>>, oneshot::Sender<()>),
    Stop,
}

/// Looks between two turns.
pub(super) type Query = Box<dyn FnOnce(&Look<'_>) + Send>;

/// The state that can be seen between two turns.
pub struct Look<'a> {
    /// The durable state.
    pub site: View<'a>,
    /// The reason why nothing can be written, if that is so.
    pub read_only: Option<&'a str>,
}

pub(super) struct Watcher {
    pub name: StackName,
    pub traversal: Option<u64>,
    pub seq: u64,
    pub reply: oneshot::Sender<Option<StackView>>,
}

/// The reason why the driver does not answer at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// Deciding what follows from the inputs.
    Deciding,
    /// Writing the results, and answering the requests that waited for them.
    Writing,
}

/// Sends a caller's requests to the driver; clones reach the same driver.
#[derive(Clone)]
pub struct DriverHandle {
    caller: Caller,
    asks: mpsc::Sender<Ask>,
    writing: Arc<AtomicBool>,
    turns: Durations,
    /// The longest wait of a look.
    pub(super) patience: Duration,
}

impl DriverHandle {
    /// The same driver, asked by somebody else.
    #[must_use]
    pub fn of(&self, caller: Caller) -> Self {
        Self { caller, ..self.clone() }
    }

    /// Whoever asks.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Carries out the caller's wish; answered once it is durable.
    ///
    /// # Errors
    /// The engine's refusal; [`Refusal::Later`] when the controller is overloaded or waits for its database;
    /// [`Refusal::Unavailable`] when it stops or cannot write.
    pub async fn request(&self, request: Request) -> Result<Answer, Refusal> {
        self.request_in(request, None).await
    }

    /// Notes that the caller was not let in with a request: in the journal, and in the audit as far as there is room.
    pub fn not_let_in(&self, action: String, path: &str, why: &str) {
        let (path, why) = (path.to_owned(), why.to_owned());
        let who = NotLetIn { caller: self.caller.clone(), action, path, why };
        who.log();
        // The audit of an overloaded controller is not the first thing that it needs.
        drop(self.ask(Ask::NotLetIn(Box::new(who))));
    }

    /// The same for a request that may be large. `room` stays with it until the driver takes it, also where nobody
    /// waits for the answer any more.
    ///
    /// # Errors
    /// As above.
    pub async fn request_in(&self, request: Request, room: Room) -> Result<Answer, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.ask(Ask::Request { request: Box::new(request), caller: self.caller.clone(), reply, room })?;
        answer.await.unwrap_or_else(|_| Err(stopping()))
    }

    /// Looks at the engine between two turns.
    ///
    /// # Errors
    /// [`Refusal::Later`] and [`Refusal::Unavailable`] as above.
    pub async fn query<T: Send + 'static>(
        &self,
        look: impl FnOnce(View<'_>) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        self.look(move |it| look(it.site)).await
    }

    /// The same, with the driver's state.
    ///
    /// # Errors
    /// [`Refusal::Later`] and [`Refusal::Unavailable`] as above.
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Look<'_>) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        // The asker may be gone by then.
        self.ask(Ask::Query(Box::new(move |it| drop(reply.send(look(it))))))?;
        match timeout(self.patience, answer).await {
            Ok(answer) => answer.map_err(|_| stopping()),
            Err(_elapsed) => Err(self.has_not_answered()),
        }
    }

    /// A stack's view, as soon as its `seq` differs from the given one; `None` if there is no such stack.
    /// After the stack's delete, its last view.
    ///
    /// # Errors
    /// [`Refusal::Later`] and [`Refusal::Unavailable`] as above.
    pub async fn watch(
        &self,
        name: StackName,
        traversal: Option<u64>,
        seq: u64,
    ) -> Result<Option<StackView>, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.ask(Ask::Watch(Watcher { name, traversal, seq, reply }))?;
        answer.await.map_err(|_| stopping())
    }

    /// Answered when an operation on flow tables has ended, or is not known.
    ///
    /// # Errors
    /// [`Refusal::Later`] and [`Refusal::Unavailable`] as above.
    pub async fn watch_flow(&self, operation: u64) -> Result<(), Refusal> {
        let (reply, ended) = oneshot::channel();
        self.ask(Ask::WatchFlow(operation, reply))?;
        ended.await.map_err(|_| stopping())
    }

    /// Answered when each of these intents was seen with nothing of it under way.
    ///
    /// # Errors
    /// [`Refusal::Later`] and [`Refusal::Unavailable`] as above.
    pub async fn watch_intents(&self, keys: Vec<Box<str>>) -> Result<(), Refusal> {
        let (reply, ended) = oneshot::channel();
        self.ask(Ask::WatchIntents(keys, reply))?;
        ended.await.map_err(|_| stopping())
    }

    /// Ends the loop after the present turn.
    pub async fn stop(&self) {
        // The driver may have ended already.
        let _ = self.asks.send(Ask::Stop).await;
    }

    /// The driver's present work.
    pub fn busy(&self) -> Busy {
        if self.writing.load(Ordering::Relaxed) { Busy::Writing } else { Busy::Deciding }
    }

    /// Requests that wait for the driver.
    pub fn waiting(&self) -> usize {
        self.asks.max_capacity() - self.asks.capacity()
    }

    /// The durations of the driver's turns.
    pub fn turns(&self) -> &Durations {
        &self.turns
    }

    fn has_not_answered(&self) -> Refusal {
        let does = match self.busy() {
            Busy::Deciding => "is busy with a large change",
            Busy::Writing => "waits for its database",
        };
        let why = format!("the controller {does}, and has not looked for {} s", self.patience.as_secs());
        Refusal::Later { why, after: OVERLOAD_PAUSE }
    }

    fn ask(&self, ask: Ask) -> Result<(), Refusal> {
        self.asks.try_send(ask).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Refusal::Later {
                why: format!("the controller is overloaded: {REQUESTS_MAX} requests wait already"),
                after: OVERLOAD_PAUSE,
            },
            mpsc::error::TrySendError::Closed(_) => stopping(),
        })
    }
}

fn stopping() -> Refusal {
    Refusal::Unavailable("the controller is stopping".into())
}

/// The receiving end of [`DriverHandle`].
pub struct DriverInbox {
    pub(super) asks: mpsc::Receiver<Ask>,
    pub(super) writing: Arc<AtomicBool>,
    pub(super) turns: Durations,
}

/// A handle that speaks for the controller itself, and what the driver reads.
pub fn channel() -> (DriverHandle, DriverInbox) {
    let (sender, receiver) = mpsc::channel(REQUESTS_MAX);
    let writing = Arc::new(AtomicBool::new(false));
    let caller =
        Caller { actor: "muster-controller".to_owned(), from: "itself".to_owned(), shown: None, trace: None };
    let turns = Durations::default();
    let inbox = DriverInbox { asks: receiver, writing: Arc::clone(&writing), turns: turns.clone() };
    (DriverHandle { caller, asks: sender, writing, turns, patience: LOOK_MAX }, inbox)
}
