//! Where handshakes are computed: threads of their own, which yield to the controller's others.
//!
//! A fleet that comes back at once needs seconds of processor time for its handshakes. Meanwhile the driver goes on, a site
//! is loaded, the lease is renewed, and nodes that are in are heard.

use std::io;

use rustix::process::{getpriority_process, setpriority_process};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// How much a thread yields: as `nice` has it, where 19 is most. With this one, another thread that has work gets nine times
/// the processor time of one that computes handshakes. Other programs on the machine do not starve them.
const NICENESS: i32 = 10;

/// See the module's head.
#[derive(Debug)]
pub struct Handshakes(Option<Runtime>);

impl Handshakes {
    /// Starts the threads, one for each processor.
    ///
    /// # Errors
    /// There are no threads for it.
    pub fn start() -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.thread_name("handshakes").enable_time().on_thread_start(yield_to_others);
        Ok(Self(Some(builder.build()?)))
    }

    /// Computes a handshake; it ends when nobody waits for it any more. `None`: its task failed.
    pub async fn compute<T: Send + 'static>(
        &self,
        handshake: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let threads = self.0.as_ref()?;
        let mut tasks = JoinSet::new();
        tasks.spawn_on(handshake, threads.handle());
        tasks.join_next().await?.inspect_err(|error| tracing::error!(%error, "a handshake failed")).ok()
    }
}

impl Drop for Handshakes {
    fn drop(&mut self) {
        if let Some(threads) = self.0.take() {
            // The last one to drop it may be within a runtime, where nobody may wait.
            threads.shutdown_background();
        }
    }
}

/// On Linux a thread has a niceness of its own, and `None` is the calling thread.
fn yield_to_others() {
    let set = getpriority_process(None).and_then(|own| setpriority_process(None, own + NICENESS));
    if let Err(error) = set {
        tracing::debug!(%error, "handshakes do not yield to others");
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
            assert!(is_dropped.try_recv().is_err_and(|it| it == tokio::sync::oneshot::error::TryRecvError::Empty));
        }
        assert!(is_dropped.await.is_err());
    }
}
