//! The question that proves a new connection to the controller: bytes that the controller has to
//! return, over a connection made since the change, by the deadline. A change of the network
//! (`jobs/confirm.rs`) and one of flow rules (`flow/guard.rs`) use the same.

use std::time::Duration;

use muster_shared::MonoTime;

/// Between questions on one connection: an answer takes milliseconds, and each question is 16 KiB.
const ASK_EVERY: Duration = Duration::from_secs(3);
/// What is seen of a controller that is there and says nothing.
const NO_ANSWER: &str = "the controller was reached, but a challenge of 16 KiB got no answer";

/// Why a change that is not confirmed is undone when the agent stops.
pub(crate) const STOPPED: &str = "the agent was stopped before the change was confirmed";

/// One question, until it is answered or too late.
#[derive(Debug)]
pub(crate) struct Challenge {
    pub(crate) deadline: MonoTime,
    bytes: Vec<u8>,
    /// When to ask (again) on this connection; none: there is no connection made since the change.
    ask: Option<MonoTime>,
    /// The last sight of the controller since the change.
    seen: Option<String>,
}

impl Challenge {
    pub(crate) fn new(bytes: Vec<u8>, deadline: MonoTime) -> Self {
        Self { deadline, bytes, ask: None, seen: None }
    }

    /// The controller is there, on a connection made since the change.
    pub(crate) fn reached(&mut self, now: MonoTime) {
        (self.ask, self.seen) = (Some(now), Some(NO_ANSWER.into()));
    }

    /// That connection is gone, or none could be made.
    pub(crate) fn lost(&mut self, reason: String) {
        (self.ask, self.seen) = (None, Some(reason));
    }

    pub(crate) fn why_not_reached(&self, within: u64) -> String {
        let seen = self.seen.as_deref().unwrap_or("no connection could be made");
        format!("the controller was not reached anew within {within} s of the change: {seen}")
    }

    pub(crate) fn is_late(&self, now: MonoTime) -> bool {
        now >= self.deadline
    }

    /// What to ask now, if it is time.
    pub(crate) fn due(&mut self, now: MonoTime) -> Option<Vec<u8>> {
        self.ask.take_if(|at| now >= *at)?;
        self.ask = Some(now + ASK_EVERY);
        Some(self.bytes.clone())
    }

    /// Late, wrong and repeated answers are what networks do; they decide nothing.
    pub(crate) fn is_answered_by(&self, now: MonoTime, bytes: &[u8]) -> bool {
        !self.is_late(now) && self.ask.is_some() && self.bytes == bytes
    }

    pub(crate) fn timeouts(&self) -> impl Iterator<Item = (MonoTime, &'static str)> {
        let ask = self.ask.map(|at| (at, "challenge"));
        [Some((self.deadline, "confirmation of a change")), ask].into_iter().flatten()
    }
}
