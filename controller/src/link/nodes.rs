//! What every link shares: the nodes that are connected, and the ways from them to the driver and back.

use std::sync::Arc;
use std::time::Duration;

use muster_shared::NodeId;
use muster_shared::model::Up;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::contents::Contents;
use super::heartbeats::Heartbeats;
use super::intake::Feed;
use super::quiet::Quiet;
use super::reason::{Reason, Refusal};
use super::registry::Registry;
use super::{Common, LinkEvent};
use crate::pki::Pki;

/// How long a client waits to be let in: less than an agent waits for it.
const ENTER_WITHIN: Duration = Duration::from_secs(6);
/// Between two looks whether it may.
const ENTER_LOOK: Duration = Duration::from_millis(100);

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
            common,
            answer_within,
            registry: Registry::new(connections),
            heartbeats: Heartbeats::default(),
            contents: Contents::default(),
            refusals: Quiet::default(),
        }
    }

    /// Whether this controller may speak for the site.
    ///
    /// # Errors
    /// It may not: the refusal says which one does, as far as that is known.
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

    /// Whether a client may come in. It waits for a controller that is about to be active, or loads the site.
    ///
    /// # Errors
    /// It may not, or not soon.
    pub async fn may_enter(&self) -> Result<(), Refusal> {
        let until = Instant::now() + ENTER_WITHIN;
        loop {
            let (holds, is_open) = (self.common.tenure.holds(), self.common.is_open());
            if holds && is_open {
                return Ok(());
            }
            if Instant::now() >= until || !holds && !self.common.tenure.is_vacant() {
                self.may_speak()?;
                return Err(Refusal::new(Reason::ServerUnavailable, "the controller is starting"));
            }
            sleep(ENTER_LOOK).await;
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
