//! Decides which controller the agent obeys on its connection, and when the agent may send.
//!
//! ```text
//!   Welcome ─▶ epoch lower, or of another history ─▶ refused, closed
//!      ├─────▶ epoch known ─▶ obeyed
//!      └─────▶ epoch higher ─▶ on its way to disk ─┬─Written─▶ obeyed
//!                                                  └─no room─▶ heard, and given no job
//! ```
//!
//! Absent: when to connect (`reconnect.rs`), and the connection itself (`agent/link/src/connection.rs`).

use std::time::Duration;

use muster_shared::model::{Report, Up, Welcome};
use muster_shared::{EpochId, MonoTime};

use crate::effects::Effects;
use crate::face::{Effect, WriteId};
use crate::fetch::Fetch;
use crate::ledger::Ledger;
use crate::reconnect::{Due, Reconnect};

/// The pause between attempts to connect while a change waits for confirmation: a fleet's backoff would be
/// too slow.
const CONNECT_EVERY: Duration = Duration::from_secs(1);
/// After a restore, the agent connects without backoff for this long: the operator waits to see the
/// server again.
const HURRY: Duration = Duration::from_secs(60);

/// The connection, and the epoch of the controller obeyed last.
#[derive(Debug)]
pub(crate) struct Connection {
    reconnect: Reconnect,
    epoch: EpochId,
    /// A greeting whose epoch is being written to disk.
    greeting: Option<(WriteId, Welcome)>,
    /// The disk has no room for the controller's epoch.
    epoch_refused: bool,
    /// Until this time, the agent connects without backoff.
    hurry_until: Option<MonoTime>,
}

impl Connection {
    /// Starts from the highest epoch found on disk.
    pub(crate) fn new(seed: u64, epoch: EpochId) -> Self {
        let reconnect = Reconnect::new(seed);
        Self { reconnect, epoch, greeting: None, epoch_refused: false, hurry_until: None }
    }

    pub(crate) fn epoch(&self) -> EpochId {
        self.epoch
    }

    /// The agent has accepted the controller's greeting.
    pub(crate) fn is_open(&self) -> bool {
        self.reconnect.is_open()
    }

    /// The agent expects a greeting or an order.
    pub(crate) fn listens(&self) -> bool {
        self.reconnect.listens()
    }

    /// The controller has shown its epoch. Until then, the peer may be a controller that was replaced.
    pub(crate) fn is_greeted(&self) -> bool {
        self.is_open() || self.greeting.is_some()
    }

    /// The agent hears the controller but accepts no job, because the disk refused the controller's epoch.
    pub(crate) fn is_only_heard(&self) -> bool {
        self.epoch_refused
    }

    pub(crate) fn timeout(&self) -> Option<(MonoTime, &'static str)> {
        self.reconnect.timeout()
    }

    pub(crate) fn due(&mut self, now: MonoTime) -> Option<Due> {
        self.reconnect.due(now)
    }

    /// Records a new connection. Returns true if the agent must send `Hello`.
    pub(crate) fn connected(&mut self, now: MonoTime) -> bool {
        self.epoch_refused = false;
        self.reconnect.connected(now)
    }

    /// Records the end of the connection. Returns whether the agent had closed it.
    pub(crate) fn disconnected(&mut self, now: MonoTime) -> bool {
        self.greeting = None;
        let is_ours = self.reconnect.is_closing();
        self.reconnect.disconnected(now);
        is_ours
    }

    pub(crate) fn close(&mut self, now: MonoTime) {
        self.greeting = None;
        self.reconnect.close(now);
    }

    /// Makes the next attempt come soon.
    pub(crate) fn hasten(&mut self, now: MonoTime) {
        self.reconnect.hasten(now + CONNECT_EVERY);
    }

    /// Returns the greeting if the agent obeys the controller from now on; `None` if the epoch must be
    /// recorded first.
    ///
    /// # Errors
    /// The reason why the agent does not obey the controller.
    pub(crate) fn welcome(
        &mut self,
        welcome: Welcome,
        ledger: &mut Ledger,
        effects: &mut Effects,
    ) -> Result<Option<Welcome>, String> {
        // An epoch on its way to disk counts as seen.
        let seen = self.greeting.as_ref().map_or(self.epoch, |(_, greeting)| greeting.epoch);
        let (theirs, ours) = (welcome.epoch.number, seen.number);
        if theirs < ours {
            return Err(format!(
                "the controller is of epoch {}, this node has obeyed epoch {}: it was replaced or restored \
                 from a backup",
                theirs.0, ours.0
            ));
        }
        if welcome.epoch.contradicts(seen) {
            return Err(format!(
                "the controller is of epoch {}, and so was another one that this node has obeyed: one of the two is \
                 a copy of the other's store; stop the one that is to go",
                theirs.0
            ));
        }
        // A controller of an older version sends no bits: the known bits of this number stay.
        if welcome.epoch == self.epoch || (welcome.epoch.bits.is_none() && theirs == self.epoch.number) {
            return Ok(Some(welcome));
        }
        let write = ledger.next_write();
        effects.push(Effect::WriteEpoch { write, epoch: welcome.epoch });
        self.greeting = Some((write, welcome));
        Ok(None)
    }

    /// The greeting whose epoch this write was to record.
    pub(crate) fn take_greeting(&mut self, write: WriteId) -> Option<Welcome> {
        self.greeting.take_if(|(id, _)| *id == write).map(|(_, welcome)| welcome)
    }

    /// The controller's epoch is on disk.
    pub(crate) fn recorded(&mut self, epoch: EpochId) {
        self.epoch = epoch;
    }

    pub(crate) fn obey(&mut self, now: MonoTime, welcome: &Welcome) {
        self.reconnect.welcome(now, welcome.heartbeat);
    }

    /// The disk has no room for the controller's epoch.
    pub(crate) fn only_hear(&mut self, now: MonoTime, welcome: &Welcome) {
        self.epoch_refused = true;
        self.reconnect.welcome(now, welcome.heartbeat);
    }

    /// Sends the report if the controller listens; a durable report is sent again after the next greeting.
    pub(crate) fn report(&self, report: Report, effects: &mut Effects) {
        if report.key.resource.is_local() {
            effects.push(Effect::LocalEnded(report.outcome));
        } else if self.is_greeted() {
            effects.send(Up::Report(report));
        }
    }

    /// Connects without backoff for a while.
    pub(crate) fn hurry(&mut self, now: MonoTime) {
        self.hurry_until = Some(now + HURRY);
    }

    pub(crate) fn hurries(&self, now: MonoTime) -> bool {
        self.hurry_until.is_some_and(|until| now < until)
    }

    /// Sends every unacknowledged outcome again. An outcome that is being written is sent once it is on disk.
    pub(crate) fn report_again(&self, ledger: &Ledger, effects: &mut Effects) {
        let reports = ledger.iter().flat_map(|entry| &entry.unacknowledged);
        for report in reports.filter(|report| !ledger.is_ending(&report.key)) {
            self.report(report.clone(), effects);
        }
    }

    /// Opens a new connection at once.
    pub(crate) fn reconnect(&mut self, now: MonoTime, why: &str, fetch: &mut Fetch, effects: &mut Effects) {
        self.greeting = None;
        if self.reconnect.reconnect(now) {
            fetch.set_online(false, now, effects);
            effects.push(Effect::Disconnect { reason: why.to_owned() });
        }
    }
}
