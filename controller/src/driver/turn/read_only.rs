//! While the database cannot be written, the site is read-only: what was not durable is dropped, requests are refused
//! with the reason, views go on, and the database is tried again and again.
//!
//! Absent: which kind of failure an error is (`store/failure.rs`), the commit that waits while the database is only
//! busy (`Turns::turn_over` in `turn.rs`), and the pause after a mistake (`pause_after_bad_commit.rs`).

use std::time::Duration;

use muster_engine::{Input, Refusal};
use muster_shared::MonoTime;

use super::Turns;
use crate::driver::Outbox;
use crate::store::{Failure, Store, StoreError};
use crate::telemetry::Operations;

/// While the store cannot write, it is tried after this at first.
const PROBE_FIRST: Duration = Duration::from_secs(1);
/// The pauses between tries grow up to this: a probe may write as much as the commit that failed.
const PROBE_MAX: Duration = Duration::from_secs(15);
/// The pause after which a refused request may be sent again, where the database is only busy or away.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// The reason why nothing can be written at present, and when it is tried again.
pub(super) struct ReadOnly {
    why: String,
    /// Whether it ends without an operator's help, as far as can be told.
    passes: bool,
    probe_at: MonoTime,
    /// The pause after the next probe.
    pause: Duration,
}

impl ReadOnly {
    /// From a commit that failed `now`.
    pub fn new(error: &StoreError, now: MonoTime) -> Self {
        let passes = error.failure() == Failure::Busy;
        Self { why: why(error), passes, probe_at: now + PROBE_FIRST, pause: PROBE_FIRST }
    }

    /// The same, with the first probe at `probe_at`.
    pub fn until(self, probe_at: MonoTime) -> Self {
        Self { probe_at, ..self }
    }

    pub fn why(&self) -> &str {
        &self.why
    }

    /// When to probe next.
    pub fn probe_at(&self) -> MonoTime {
        self.probe_at
    }

    /// A probe begins: the next one, should it fail, comes after a longer pause.
    pub fn probes(&mut self, now: MonoTime) {
        self.probe_at = now + self.pause;
        self.pause = (self.pause * 2).min(PROBE_MAX);
    }

    /// The refusal of a request that comes meanwhile.
    pub fn refusal(&self) -> Refusal {
        let why = self.why.clone();
        if self.passes { Refusal::Later { why, after: AGAIN_AFTER } } else { Refusal::Unavailable(why) }
    }

    /// The refusal of the requests whose commit failed with `error`.
    pub fn refusal_of_the_commit(&self, error: &StoreError) -> Refusal {
        match error.is_undecided() {
            true => Refusal::Unavailable(format!(
                "what you asked for may have been done, or not: {error}; look before you ask again, once the database answers"
            )),
            false => self.refusal(),
        }
    }
}

impl<S: Store, O: Outbox> Turns<S, O> {
    /// The reason why nothing can be written, while that is so.
    pub fn read_only(&self) -> Option<&str> {
        self.read_only.as_ref().map(ReadOnly::why)
    }

    /// Looks whether the database can be written again, and goes on if so.
    pub(super) fn probe(&mut self, now: MonoTime) {
        if let Some(it) = &mut self.read_only {
            it.probes(now);
        }
        match self.store.probe() {
            Ok(()) if !self.stale || self.reload(now).is_ok() => {
                tracing::info!("the database can be written again");
                self.read_only = None;
                self.resume(now);
            }
            Ok(()) => {}
            Err(error) => tracing::debug!(%error, "the database cannot be written yet"),
        }
    }

    /// Drops changes that are not durable, and reports the error. Agents send lost messages again, so none of
    /// them is disconnected.
    pub(super) fn cannot_write(&mut self, now: MonoTime, error: &StoreError) {
        let read_only = ReadOnly::new(error, now);
        tracing::error!("{}", read_only.why());
        let refusal = read_only.refusal_of_the_commit(error);
        self.traces.iter_mut().for_each(Operations::give_up);
        for id in self.audit.give_up(&refusal) {
            self.told.answers.push((id, Err(refusal.clone())));
        }
        let reloaded = self.reload(now);
        if let Err(error) = &reloaded {
            tracing::error!(%error, "the database cannot be read either");
        }
        let pause = match error.failure() {
            Failure::Mistake => self.mistakes.made(now),
            Failure::Full | Failure::Busy | Failure::Broken => Some(PROBE_FIRST),
        };
        let pause = if reloaded.is_err() { pause.or(Some(PROBE_FIRST)) } else { pause };
        let Some(pause) = pause else {
            self.goes_on = true;
            return self.resume(now);
        };
        self.read_only = Some(read_only.until(now + pause));
        // Meanwhile operators see the connected nodes.
        for (node, connection) in self.conversations.connections() {
            self.engine.handle(now, Input::Connected { node, connection });
        }
    }
}

/// For operators: the error and its remedy.
fn why(error: &StoreError) -> String {
    let advice = match (error.failure(), error) {
        (Failure::Busy | Failure::Broken, _) if error.is_of_server() => {
            "look after the database server and the way to it; the controller goes on when it can write again"
        }
        (Failure::Full, StoreError::Full { .. }) => "raise that and restart it",
        (Failure::Full, _) => "free space on its disk",
        (Failure::Busy, _) => "another program holds the database: end it",
        (Failure::Broken, _) => "look after its disk; if the database is damaged, restore a backup",
        (Failure::Mistake, _) => {
            return format!(
                "the controller made a mistake, and nothing of what was asked for is done: {error}; please report it"
            );
        }
    };
    format!("the controller cannot write and is read-only: {error}; {advice}")
}
