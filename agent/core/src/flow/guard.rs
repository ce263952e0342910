//! A batch on a device that carries the path to the controller. The agent keeps the batch if it reaches the
//! controller over a new connection; otherwise it undoes the batch.
//!
//! The challenge is that of a change of the network (`challenge.rs`), and only one is open at a time.
//! Undoing a batch needs no record of its own: the table has not changed yet, so it still holds the state
//! before the batch.
//!
//! Absent: whether a device may carry the path to the controller (`agent/src/flows/management.rs`), and changes
//! of the network (`jobs/confirm.rs`).

use std::sync::Arc;
use std::time::Duration;

use muster_shared::model::flow::{EntryState, FlowId, FlowRefusal};
use muster_shared::model::{ReportKey, Up};
use muster_shared::{Attempt, Generation, MonoTime};

use super::stage::Stage;
use super::{Compared, Device, DivergentForms, FlowEffect, Flows, NotApplied, Switch, Turn, Work, bounded};
use crate::challenge::{Challenge, STOPPED};

/// Attempts to undo before the batch is over, and the device left to be compared: about 15 s of them.
const UNDO_TRIES: u32 = 5;
const UNDO_AGAIN_FIRST: Duration = Duration::from_secs(1);
const PUT_BY_OTHERS: &str = "somebody else put a rule with Muster's cookie before the change was confirmed";

impl Flows {
    /// A batch that can cut the node off is under way.
    pub(crate) fn guards(&self) -> bool {
        self.devices.values().any(Device::guards)
    }

    /// The batch waits for the controller.
    pub(crate) fn is_confirming(&self) -> bool {
        self.devices.values().any(Device::is_confirming)
    }

    fn challenge(&mut self) -> Option<&mut Challenge> {
        self.devices.values_mut().find_map(Device::challenge)
    }

    /// The agent has reached the controller on a connection made since the change.
    pub(crate) fn reached(&mut self, now: MonoTime) {
        if let Some(challenge) = self.challenge() {
            challenge.reached(now);
        }
    }

    /// The connection is lost, or an attempt to connect failed.
    pub(crate) fn disconnected(&mut self, reason: String) {
        if let Some(challenge) = self.challenge() {
            challenge.lost(reason);
        }
    }

    /// [`Down::Answer`](muster_shared::model::Down::Answer); true if it was for a device.
    pub(crate) fn answer(&mut self, key: ReportKey, bytes: &[u8], turn: &mut Turn) -> bool {
        let device = self.device_of(key.resource);
        device.map(|device| device.answer(key.generation, bytes, turn)).is_some()
    }

    /// The agent stops: unconfirmed batches are undone, and batches that have not started wait for the
    /// next start.
    pub(crate) fn stop(&mut self, turn: &mut Turn) {
        if let Some(device) = self.devices.values_mut().find(|device| device.guards()) {
            device.stop(turn);
        }
    }
}

impl Device {
    pub(super) fn guards(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| batch.guards)
    }

    pub(super) fn is_confirming(&self) -> bool {
        matches!(self.batch.as_ref().map(|batch| &batch.stage), Some(Stage::Confirming { .. }))
    }

    fn challenge(&mut self) -> Option<&mut Challenge> {
        let Stage::Confirming { challenge, .. } = &mut self.batch.as_mut()?.stage else { return None };
        Some(challenge)
    }

    /// The batch is in force.
    pub(super) fn confirm(&mut self, bytes: Vec<u8>, deadline: MonoTime, turn: &mut Turn) {
        if let Some(batch) = &mut self.batch
            && let Some(ops) = batch.stage.in_force().map(Arc::clone)
        {
            batch.stage = Stage::Confirming { ops, challenge: Challenge::new(bytes, deadline) };
        }
        turn.reconnect("to confirm a change of flow rules over a new connection");
    }

    /// The agent reached the controller with the present state of the device, which must equal the batch's
    /// result. If somebody changed a rule meanwhile, a later repair could cut the node off, and nothing would
    /// undo it.
    fn answer(&mut self, generation: Generation, bytes: &[u8], turn: &mut Turn) {
        let Some(batch) = self.batch.as_ref().filter(|it| it.generation == generation) else { return };
        let Stage::Confirming { ops, challenge } = &batch.stage else { return };
        if challenge.is_answered_by(turn.now, bytes) && self.work.is_none() {
            let (kept, odd) = (Arc::new(self.table.with(ops)), Arc::clone(&self.watching.odd));
            let number = self.begin(Work::Confirmed, turn);
            self.effect(FlowEffect::Compare { number, kept, odd }, turn);
        }
    }

    /// Handles the comparison that follows the controller's answer.
    pub(super) fn confirmed(&mut self, result: Result<Compared, String>, turn: &mut Turn) {
        let Some(Stage::Confirming { ops, .. }) = self.batch.as_ref().map(|batch| &batch.stage) else {
            return;
        };
        // Entries that were wrong before do not count against the batch.
        let was_right = |id: &&FlowId| {
            let is_asked = ops.binary_search_by_key(*id, |op| op.id).is_ok();
            let is_wrong = self.table.get(**id).is_some_and(|it| it.state == EntryState::Wrong);
            !self.watching.has_ended(**id) && (is_asked || !is_wrong)
        };
        let why = match result {
            Err(reason) => Some(format!("whether it was still there could not be seen: {reason}")),
            Ok(Compared { missing, altered, extraneous, .. }) => {
                let differs = missing.iter().chain(&altered).find(was_right);
                differs
                    .map(|id| format!("{id} was changed by somebody else before the change was confirmed"))
                    .or_else(|| (!extraneous.is_empty()).then(|| PUT_BY_OTHERS.to_owned()))
            }
        };
        match why {
            None => self.decide(None, turn),
            Some(why) => self.begin_undoing(why, turn),
        }
    }

    /// Asks, and looks whether it is too late.
    pub(super) fn ask_in_time(&mut self, turn: &mut Turn) {
        let now = turn.now;
        let Some(batch) = &mut self.batch else { return };
        let within = batch.confirm.unwrap_or_default().as_secs();
        match &mut batch.stage {
            Stage::Applying { deadline: Some(deadline), .. } if now >= *deadline => {
                self.cancel(turn);
                self.begin_undoing(format!("it was not applied within {within} s"), turn);
            }
            Stage::Confirming { .. } if matches!(self.switch, Switch::Gone { .. }) => {
                let why = "the switch went away before the change was confirmed";
                self.begin_undoing(why.into(), turn);
            }
            Stage::Confirming { challenge, .. } if challenge.is_late(now) => {
                let why = challenge.why_not_reached(within);
                self.begin_undoing(why, turn);
            }
            Stage::Confirming { challenge, .. } => {
                if let Some(bytes) = challenge.due(now) {
                    let (resource, generation) = (self.resource, batch.generation);
                    let key = ReportKey { resource, generation, attempt: Attempt(0) };
                    turn.effects.send(Up::Challenge { key, bytes });
                }
            }
            Stage::Applying { .. }
            | Stage::Fetching { .. }
            | Stage::Ready { .. }
            | Stage::Appending { .. }
            | Stage::Logged { .. }
            | Stage::Undoing { .. }
            | Stage::Deciding { .. } => {}
        }
    }

    pub(super) fn begin_undoing(&mut self, why: String, turn: &mut Turn) {
        if matches!(self.work, Some(Work::Confirmed)) {
            self.cancel(turn);
        }
        if let Some(batch) = &mut self.batch
            && let Some(ops) = batch.stage.in_force().map(Arc::clone)
        {
            batch.stage = Stage::Undoing { ops, why, is_final: batch.guards, tries: 0, at: turn.now };
        }
        self.undo(turn);
    }

    /// Restores the table's entries, once the host is idle.
    pub(super) fn undo(&mut self, turn: &mut Turn) {
        let Some(batch) = &self.batch else { return };
        let Stage::Undoing { ops, at, .. } = &batch.stage else { return };
        let is_late = turn.now >= batch.wait_until;
        match &self.switch {
            Switch::Back { .. } if self.work.is_none() && turn.now >= *at => {
                let ops = Arc::new(self.table.inverse(ops));
                let number = self.begin(Work::Undoing, turn);
                self.effect(FlowEffect::Apply { number, ops, take_over: true }, turn);
            }
            // When the switch comes back, it is compared with the table, which does not contain the batch.
            Switch::Gone { .. } if self.work.is_none() => self.is_undone(None, turn),
            Switch::Unknown if is_late => self.is_undone(None, turn),
            Switch::Back { .. } | Switch::Gone { .. } | Switch::Unknown => {}
        }
    }

    pub(super) fn undone(&mut self, result: Result<DivergentForms, NotApplied>, turn: &mut Turn) {
        let Some(Stage::Undoing { ops, tries, at, .. }) = self.batch.as_mut().map(|batch| &mut batch.stage)
        else {
            return;
        };
        let failed = match result {
            Ok(odd) => {
                self.watching.applied(ops, odd);
                None
            }
            // The next comparison follows when the device is back.
            Err(NotApplied::Gone { .. }) => None,
            Err(NotApplied::Refused(refused)) => {
                *tries += 1;
                *at = turn.now + UNDO_AGAIN_FIRST * 2u32.pow(*tries - 1);
                if *tries < UNDO_TRIES {
                    return;
                }
                Some(refused.reason)
            }
        };
        self.is_undone(failed, turn);
    }

    fn is_undone(&mut self, failed: Option<String>, turn: &mut Turn) {
        // The comparison also repairs whatever the undo left out.
        self.watching.compare_now(turn.now);
        self.undo_unseen = failed.is_some() || !self.is_back();
        let Some(batch) = &self.batch else { return };
        let Stage::Undoing { ops, why, is_final, .. } = &batch.stage else { return };
        // An entry of the batch that ended by a timeout is not the entry that the table has in its place.
        self.watching.undone(ops, self.undo_unseen);
        let (permanent, is_asked) = (*is_final, batch.confirm.is_some());
        let how = match failed {
            None => "what was there before has been restored".to_owned(),
            Some(reason) => {
                format!("what was there before cannot be restored at once, it is tried again: {reason}")
            }
        };
        let reason = bounded(format!("{why}; {how}"));
        // A further try by the agent alone could cut the server off again. No single entry is known to be
        // the cause.
        self.decide(Some(FlowRefusal { id: None, reason, permanent }), turn);
        if permanent {
            turn.connection.hurry(turn.now);
            // Skipped if no connection was made since, as after a restart.
            if is_asked {
                turn.reconnect("the flow rules were restored");
            }
        }
    }

    fn stop(&mut self, turn: &mut Turn) {
        match self.batch.as_ref().map(|batch| &batch.stage) {
            Some(Stage::Applying { .. }) => {
                self.cancel(turn);
                self.begin_undoing(STOPPED.into(), turn);
            }
            Some(Stage::Confirming { .. }) => self.begin_undoing(STOPPED.into(), turn),
            // The log marks the batch as one to undo. The batch never began, and may be tried again.
            Some(Stage::Logged { .. }) => {
                let refused = FlowRefusal { id: None, reason: STOPPED.into(), permanent: false };
                self.decide(Some(refused), turn);
            }
            Some(
                Stage::Fetching { .. }
                | Stage::Ready { .. }
                | Stage::Appending { .. }
                | Stage::Undoing { .. }
                | Stage::Deciding { .. },
            )
            | None => {}
        }
    }
}
