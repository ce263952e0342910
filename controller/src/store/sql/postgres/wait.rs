//! Waits for answers on the caller's thread, each with a bound. The connections run on one thread of their own.
//!
//! Absent: how long each bound is (`Patience` in `store/sql/postgres.rs`).

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::{AbortHandle, unconstrained};
use tokio_postgres::{Client, Error};

use super::error::PostgresError;
use super::server::Server;
use super::tls::Tls;

/// When a wait ends without an answer.
#[derive(Clone, Copy)]
pub(super) struct Deadline(Instant);

impl Deadline {
    pub fn after(bound: Duration) -> Self {
        Self(Instant::now() + bound)
    }

    pub fn is_over(self) -> bool {
        Instant::now() >= self.0
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future; `None`: the deadline came first.
pub(super) fn until<T>(future: impl Future<Output = T>, deadline: Deadline) -> Option<T> {
    // The driver calls from within its own runtime, whose budget is not for this.
    let mut future = pin!(unconstrained(future));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return Some(done);
        }
        let left = deadline.0.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        thread::park_timeout(left);
    }
}

/// Begins a future without waiting: a request is sent by that.
pub(super) fn start<T>(future: &mut Pin<Box<dyn Future<Output = T> + Send>>) -> Option<T> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(unconstrained(future)).poll(&mut context) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

/// The thread of all connections of this process. It is made once, whoever asks first: a runtime that came second could not
/// be dropped from within another.
fn runtime() -> Result<&'static Runtime, PostgresError> {
    static RUNTIME: LazyLock<std::io::Result<Runtime>> = LazyLock::new(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("postgres").enable_io().enable_time().build()
    });
    RUNTIME.as_ref().map_err(|error| PostgresError::NoThread { why: error.to_string() })
}

/// A connection under way on the connections' thread.
pub(super) struct Connection(AbortHandle);

impl Connection {
    pub fn close(&self) {
        self.0.abort();
    }
}

/// Connects to the first host that answers within `bound`.
pub(super) fn connect(
    server: &Server,
    tls: &Tls,
    bound: Duration,
) -> Result<(Client, Connection), PostgresError> {
    let runtime = runtime()?;
    let mut failed = None;
    for host in server.hosts() {
        let (config, tls) = (host.clone(), tls.clone());
        let connecting = runtime.spawn(async move {
            let (client, connection) = config.connect(tls).await?;
            // An error of it is that of the requests under way, too.
            let task = tokio::spawn(async move { drop(connection.await) });
            Ok::<_, Error>((client, Connection(task.abort_handle())))
        });
        let abort = connecting.abort_handle();
        match until(connecting, Deadline::after(bound)) {
            Some(Ok(Ok(connected))) => return Ok(connected),
            Some(Ok(Err(error))) => failed = failed.or(Some(PostgresError::of_connect(server, &error))),
            Some(Err(error)) => return Err(PostgresError::NoThread { why: error.to_string() }),
            None => {
                abort.abort();
                let why = format!("no answer within {} s", bound.as_secs_f32());
                failed = failed.or(Some(PostgresError::Away { server: server.to_string(), why }));
            }
        }
    }
    Err(failed.unwrap_or_else(|| PostgresError::Url("it names no host".to_owned())))
}
