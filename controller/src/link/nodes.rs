//! The parts that every link shares: the nodes that are connected, and the ways from them to the driver and back.
//! Decides whether this controller lets clients in, or sends them to the active one (`may_enter`), and that newcomers wait
//! while it loads the site (`LoadPause`).
//!
//! Absent: who is active (`lease.rs`), and the reasons to refuse one node (`link/direct/connection.rs`).

use std::sync::Arc;
use std::time::Duration;

use muster_shared::NodeId;
use muster_shared::model::Up;
use muster_shared::seal::{Seal, SealPublic};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::contents::Contents;
use super::heartbeats::Heartbeats;
use super::intake::Feed;
use super::limit_warnings::Quiet;
use super::reason::{Reason, Refusal};
use super::registry::Registry;
use super::{Common, LinkEvent};
use crate::pki::Pki;

/// The longest time that a client waits to be let in. With [`LOAD_PAUSE`] and a handshake it is less than the ten seconds
/// that an agent waits.
const ENTER_WITHIN: Duration = Duration::from_secs(6);
/// The longest time for which newcomers are not heard while the site is loaded. If that takes longer, they are told that the
/// controller is starting.
const LOAD_PAUSE: Duration = Duration::from_secs(3);
/// The longest look at the lease before a client is sent to another controller.
const LOOK_WITHIN: Duration = Duration::from_millis(100);

/// State that all connections of a link share.
pub(super) struct Nodes {
    pub pki: Arc<Pki>,
    pub feed: Feed,
    pub registry: Registry,
    pub heartbeats: Heartbeats,
    pub contents: Contents,
    pub common: Common,
    /// Limits warnings that clients cause.
    pub refusals: Quiet,
    /// The time limit of the driver's answers.
    answer_within: Duration,
}

/// A pause of the link while the site is loaded: handshakes of a whole fleet would take the processors from that, and
/// nobody comes in before it is done. The kernel keeps some thousands that knock, and lets others knock again.
#[derive(Debug, Default)]
pub(super) struct LoadPause {
    since: Option<Instant>,
}

impl LoadPause {
    /// Returns at once where no site is being loaded.
    pub async fn is_over(&mut self, common: &Common) {
        if !common.loads() {
            self.since = None;
            return;
        }
        let until = *self.since.get_or_insert_with(Instant::now) + LOAD_PAUSE;
        // The sender lives as long as `common`.
        let _ = timeout_at(until, common.opens().wait_for(|is_open| *is_open)).await;
    }
}

impl Nodes {
    /// With room for so many connections.
    pub fn new(
        pki: Arc<Pki>,
        feed: Feed,
        common: Common,
        connections: usize,
        answer_within: Duration,
    ) -> Self {
        Self {
            pki,
            feed,
            registry: Registry::new(connections, common.tenure.clone()),
            common,
            answer_within,
            heartbeats: Heartbeats::default(),
            contents: Contents::default(),
            refusals: Quiet::default(),
        }
    }

    /// The seal of a node that was admitted with this key.
    pub fn seal(&self, node: &NodeId, key: &SealPublic) -> Arc<Seal> {
        self.common.admitted.seal(node, key, || self.pki.seal(node, key))
    }

    /// Whether this controller may speak for the site.
    ///
    /// # Errors
    /// The controller may not: the refusal says which one does, as far as that is known.
    pub fn may_speak(&self) -> Result<(), Refusal> {
        if self.common.tenure.holds() {
            return Ok(());
        }
        let Some((active, _)) = self.common.tenure.seen().active else {
            return Err(Refusal::new(Reason::ServerUnavailable, "this controller stands by"));
        };
        let why = format!("this controller stands by for {}", active.name);
        Err(Refusal::elsewhere(why, active.addresses.into_iter().next()))
    }

    /// Whether a client may come in. It waits for a controller that is about to be active, or loads the site. A standby
    /// looks at the lease before it sends a client elsewhere, for that one may come because the active one has gone.
    ///
    /// # Errors
    /// The controller may not, or not soon.
    pub async fn may_enter(&self) -> Result<(), Refusal> {
        let tenure = &self.common.tenure;
        let (mut opens, mut changes) = (self.common.opens(), tenure.changes());
        let (until, mut has_looked) = (Instant::now() + ENTER_WITHIN, false);
        loop {
            changes.mark_unchanged();
            let (holds, is_open) = (tenure.holds(), *opens.borrow_and_update());
            if holds && is_open {
                return Ok(());
            }
            let is_elsewhere = !holds && !tenure.is_vacant();
            if Instant::now() >= until || is_elsewhere && has_looked {
                self.may_speak()?;
                return Err(Refusal::new(Reason::ServerUnavailable, "the controller is starting"));
            }
            if is_elsewhere {
                has_looked = true;
                tenure.look_now();
            }
            let at = if is_elsewhere { Instant::now() + LOOK_WITHIN } else { until };
            tokio::select! {
                _ = opens.changed() => {}
                _ = changes.changed() => {}
                () = sleep_until(at) => {}
            }
        }
    }

    /// Never ends.
    pub async fn hand_heartbeats_on(&self) {
        self.heartbeats
            .run(|node: &NodeId, connection, heartbeat: &Up| {
                self.feed.received_alone(node, connection, heartbeat)
            })
            .await;
    }

    /// Asks the driver; `None` if no answer comes in time.
    pub async fn ask<T>(&self, event: impl FnOnce(oneshot::Sender<T>) -> LinkEvent) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.feed.ask(event(reply));
        timeout(self.answer_within, answer).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use muster_shared::MonoTime;

    use super::*;
    use crate::lease::Tenure;
    use crate::link::intake::{self, fair::Bounds};

    /// Longer than any test.
    const FAR: MonoTime = MonoTime(Duration::from_secs(u32::MAX as u64));

    /// Less than a client waits.
    const SOON: Duration = Duration::from_secs(1);

    fn standby() -> (Nodes, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let pki = Arc::new(Pki::open(dir.path()).unwrap());
        let (feed, _) = intake::channel(Bounds::default());
        (Nodes::new(pki, feed, Common::new(Tenure::none()), 8, Duration::from_secs(1)), dir)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_waits_while_a_controller_takes_over_the_site() {
        let (nodes, _dir) = standby();
        let tenure = &nodes.common.tenure;
        tenure.set_vacant(true);
        let mut enters = std::pin::pin!(nodes.may_enter());
        assert!(timeout(SOON, &mut enters).await.is_err(), "the lease is vacant");
        tenure.set(FAR);
        tenure.set_vacant(false);
        assert!(timeout(SOON, &mut enters).await.is_err(), "the site is not loaded");
        nodes.common.open();
        enters.await.unwrap();
        nodes.may_enter().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn newcomers_wait_while_the_site_is_loaded_and_not_for_long() {
        let common = Common::new(Tenure::none());
        let mut pause = LoadPause::default();
        let began = Instant::now();
        pause.is_over(&common).await;
        assert_eq!(began.elapsed(), Duration::ZERO, "a standby loads nothing");
        common.tenure.set(FAR);
        assert!(timeout(SOON, pause.is_over(&common)).await.is_err(), "the site is not loaded");
        pause.is_over(&common).await;
        pause.is_over(&common).await;
        assert_eq!(began.elapsed(), LOAD_PAUSE, "one load has one pause");
        let opens = async {
            sleep_until(Instant::now() + SOON).await;
            common.open();
        };
        let mut other = LoadPause::default();
        tokio::join!(opens, other.is_over(&common));
        assert_eq!(began.elapsed(), LOAD_PAUSE + SOON);
        other.is_over(&common).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_waits_no_longer_than_it_would_wait_for_an_answer() {
        let (nodes, _dir) = standby();
        nodes.common.tenure.set_vacant(true);
        let began = Instant::now();
        assert_eq!(nodes.may_enter().await.unwrap_err().reason, Reason::ServerUnavailable);
        assert_eq!(began.elapsed(), ENTER_WITHIN);
    }

    #[tokio::test(start_paused = true)]
    async fn a_standby_checks_the_lease_before_it_redirects_a_client() {
        let (nodes, _dir) = standby();
        nodes.common.tenure.keep();
        let began = Instant::now();
        nodes.may_enter().await.unwrap_err();
        assert_eq!(began.elapsed(), LOOK_WITHIN);
        // Returns at once, for this thread was asked to look.
        let (waits, began) = (Duration::from_secs(60), std::time::Instant::now());
        thread::park_timeout(waits);
        assert!(began.elapsed() < waits, "nobody asked for a look");
    }
}
