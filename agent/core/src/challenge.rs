//! The challenge that proves a new connection to the controller. The controller must return the challenge's
//! bytes by the deadline, over a connection made after the change. Changes of the network (`jobs/confirm.rs`)
//! and changes of flow rules (`flow/guard.rs`) use the same challenge.
//!
//! Absent: the controller's answer, which its link gives at once (`controller/src/link/inbox.rs`).

use std::time::Duration;

use muster_shared::MonoTime;

/// The pause between challenges on one connection: an answer takes milliseconds, and each challenge is
/// 16 KiB.
const ASK_EVERY: Duration = Duration::from_secs(3);
/// The reason recorded when the controller is reachable but does not answer.
const NO_ANSWER: &str = "the controller was reached, but a challenge of 16 KiB got no answer";

/// The reason for undoing an unconfirmed change when the agent stops.
pub(crate) const STOPPED: &str = "the agent was stopped before the change was confirmed";

/// A challenge that waits for its answer or its deadline.
#[derive(Debug)]
pub(crate) struct Challenge {
    pub(crate) deadline: MonoTime,
    bytes: Vec<u8>,
    /// When to send the challenge (again) on this connection; `None` without a connection made since
    /// the change.
    ask: Option<MonoTime>,
    /// The latest observation of the controller since the change.
    seen: Option<String>,
}

impl Challenge {
    pub(crate) fn new(bytes: Vec<u8>, deadline: MonoTime) -> Self {
        Self { deadline, bytes, ask: None, seen: None }
    }

    /// The agent has reached the controller on a connection made since the change.
    pub(crate) fn reached(&mut self, now: MonoTime) {
        (self.ask, self.seen) = (Some(now), Some(NO_ANSWER.into()));
    }

    /// The connection is lost, or an attempt to connect failed.
    pub(crate) fn lost(&mut self, reason: String) {
        (self.ask, self.seen) = (None, Some(reason));
    }

    pub(crate) fn why_not_reached(&self, within: u64) -> String {
        let seen = self.seen.as_deref().unwrap_or("no connection could be made");
        format!("the controller was not reached again within {within} s of the change: {seen}")
    }

    pub(crate) fn is_late(&self, now: MonoTime) -> bool {
        now >= self.deadline
    }

    /// The bytes to send now, if a challenge is due.
    pub(crate) fn due(&mut self, now: MonoTime) -> Option<Vec<u8>> {
        self.ask.take_if(|at| now >= *at)?;
        self.ask = Some(now + ASK_EVERY);
        Some(self.bytes.clone())
    }

    /// Late, wrong and repeated answers are normal on a network; they decide nothing.
    pub(crate) fn is_answered_by(&self, now: MonoTime, bytes: &[u8]) -> bool {
        !self.is_late(now) && self.ask.is_some() && self.bytes == bytes
    }

    pub(crate) fn timeouts(&self) -> impl Iterator<Item = (MonoTime, &'static str)> {
        let ask = self.ask.map(|at| (at, "challenge"));
        [Some((self.deadline, "confirmation of a change")), ask].into_iter().flatten()
    }
}
