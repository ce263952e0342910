//! Where handshakes are computed: threads of their own, which yield to the controller's others.
//!
//! A fleet that comes back at once needs seconds of processor time for its handshakes. Meanwhile the driver goes on, a site
//! is loaded, the lease is renewed, and nodes that are in are heard.

use std::io;
use std::sync::OnceLock;
use std::thread::available_parallelism;

use rustix::process::{getpriority_process, setpriority_process};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How much a thread yields: as `nice` has it, where 19 is most. With this one, another thread that has work gets three times
/// the processor time of one that computes handshakes. Other programs on the machine do not starve them.
const NICENESS: i32 = 5;
/// More threads compute more handshakes than a controller can let in nodes.
const THREADS_MAX: usize = 8;
/// Handshakes that are under way, or were given up and not yet dropped by a thread that yields to others: each has a socket.
const HANDSHAKES_MAX: usize = 4096;

/// All sites of the process share them.
static THREADS: OnceLock<Runtime> = OnceLock::new();
static PLACES: Semaphore = Semaphore::const_new(HANDSHAKES_MAX);

/// See the module's head.
#[derive(Clone, Copy, Debug)]
pub struct Handshakes(&'static Runtime);

impl Handshakes {
    /// Starts the threads, if they are not there: one for each processor, up to a bound.
    ///
    /// # Errors
    /// The kernel has no timer or no poll for them.
    ///
    /// # Panics
    /// It has no threads, as tokio does.
    pub fn start() -> io::Result<Self> {
        if THREADS.get().is_none() {
            let threads = available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(threads).thread_name("handshakes").enable_time();
            let made = builder.on_thread_start(yield_to_others).build()?;
            // Another site began at the same moment. Nobody may wait within a runtime.
            THREADS.set(made).unwrap_or_else(Runtime::shutdown_background);
        }
        Ok(Self(THREADS.wait()))
    }

    /// Computes a handshake; it ends when nobody waits for it any more. `None`: its task failed.
    pub async fn compute<T: Send + 'static>(
        self,
        handshake: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let place = PLACES.acquire().await.ok()?;
        let mut tasks = JoinSet::new();
        let handshake = async move {
            let _place = place;
            handshake.await
        };
        tasks.spawn_on(handshake, self.0.handle());
        tasks.join_next().await?.inspect_err(|error| tracing::error!(%error, "a handshake failed")).ok()
    }
}

/// On Linux a thread has a niceness of its own, and `None` is the calling thread.
fn yield_to_others() {
    let set = getpriority_process(None).and_then(|own| setpriority_process(None, own + NICENESS));
    if let Err(error) = set {
        tracing::warn!(%error, "handshakes do not yield to others");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn handshakes_yield_to_all_other_threads() {
        let handshakes = Handshakes::start().unwrap();
        let own = getpriority_process(None).unwrap();
        let theirs = handshakes.compute(async { getpriority_process(None) }).await;
        assert_eq!(theirs.unwrap().unwrap(), (own + NICENESS).min(19));
        assert_eq!(getpriority_process(None).unwrap(), own);
    }

    #[tokio::test]
    async fn a_handshake_ends_with_the_one_who_waits_for_it() {
        let handshakes = Handshakes::start().unwrap();
        let (held, mut is_dropped) = tokio::sync::oneshot::channel::<()>();
        let endless = async move {
            let _held = held;
            std::future::pending::<()>().await;
        };
        {
            let mut waits = std::pin::pin!(handshakes.compute(endless));
            assert!(futures_util::poll!(&mut waits).is_pending());
            assert!(
                is_dropped.try_recv().is_err_and(|it| it == tokio::sync::oneshot::error::TryRecvError::Empty)
            );
        }
        assert!(is_dropped.await.is_err());
    }
}
