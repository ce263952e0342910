//! A batch on a device that carries the way to the controller: kept if the controller is reached anew, else undone.
//!
//! The same question as for a change of the network (`challenge.rs`), and never both at a time. What undoes a batch
//! needs no record of its own: the table has not changed yet, so it says what was there.

use std::sync::Arc;
use std::time::Duration;

use muster_shared::model::flow::{Bridge, EntryState, FlowId, FlowRefusal};
use muster_shared::model::{Lane, ReportKey, Up};
use muster_shared::{Attempt, MonoTime};

use super::batch::Stage;
use super::{Compared, FlowEffect, Flows, NotApplied, Odd, Switch, Work, bounded};
use crate::agent::Agent;
use crate::challenge::Challenge;
use crate::confirm::STOPPED;
use crate::restore::HURRY;

/// Attempts to undo before the batch is over, and the device left to be compared: about 15 s of them.
const UNDO_TRIES: u32 = 5;
const UNDO_AGAIN_FIRST: Duration = Duration::from_secs(1);
const PUT_BY_OTHERS: &str = "somebody else put a rule with Muster's cookie before the change was confirmed";

impl Flows {
    /// A batch that can cut the node off is under way.
    pub(crate) fn is_guarding(&self) -> bool {
        self.guarding.is_some()
    }

    /// It waits for the controller.
    pub(crate) fn is_confirming(&self) -> bool {
        let guarding = self.guarding.as_ref().and_then(|bridge| self.devices.get(bridge));
        let stage = guarding.and_then(|device| device.batch.as_ref()).map(|batch| &batch.stage);
        matches!(stage, Some(Stage::Confirming { .. }))
    }
}

impl Agent {
    /// Nothing else that can cut the node off is under way.
    pub(super) fn may_guard(&self) -> bool {
        self.guard.is_none() && !self.flows.is_guarding() && !self.lanes.is_busy(Lane::Network)
    }

    fn challenge_mut(&mut self) -> Option<&mut Challenge> {
        let bridge = self.flows.guarding.clone()?;
        match &mut self.flows.devices.get_mut(&bridge)?.batch.as_mut()?.stage {
            Stage::Confirming { challenge, .. } => Some(challenge),
            Stage::Fetching { .. }
            | Stage::Ready { .. }
            | Stage::Appending { .. }
            | Stage::Logged { .. }
            | Stage::Applying { .. }
            | Stage::Undoing { .. }
            | Stage::Deciding { .. } => None,
        }
    }

    /// The batch is in force.
    pub(super) fn confirm_flows(&mut self, bridge: &Bridge, bytes: Vec<u8>, deadline: MonoTime) {
        self.with_batch(bridge, |batch| {
            if let Some(ops) = batch.stage.in_force().map(Arc::clone) {
                batch.stage = Stage::Confirming { ops, challenge: Challenge::new(bytes, deadline) };
            }
        });
        let why = "to confirm a change of flow rules over a new connection";
        self.connection.reconnect(self.now, why, &mut self.fetch, &mut self.effects);
    }

    /// The controller is there, on a connection made since the change.
    pub(crate) fn flow_confirms_over_new_connection(&mut self) {
        let now = self.now;
        if let Some(challenge) = self.challenge_mut() {
            challenge.reached(now);
        }
    }

    /// The connection is gone, or was not made.
    pub(crate) fn flow_disconnected(&mut self, reason: String) {
        if let Some(challenge) = self.challenge_mut() {
            challenge.lost(reason);
        }
    }

    /// [`Down::Answer`](muster_shared::model::Down::Answer); true if it was for a device.
    pub(crate) fn flow_answer(&mut self, key: ReportKey, bytes: &[u8]) -> bool {
        let Some(bridge) = self.flows.resource_of(key.resource) else { return false };
        let now = self.now;
        let generation = self.flows.devices[&bridge].batch.as_ref().map(|batch| batch.generation);
        let right = self.challenge_mut().is_some_and(|challenge| challenge.is_answered_by(now, bytes));
        if right && generation == Some(key.generation) && self.flows.guarding.as_ref() == Some(&bridge) {
            self.compare_before_deciding(&bridge);
        }
        true
    }

    /// The controller was reached with what the device holds, which is to be what the table will say: where somebody has
    /// changed a rule meanwhile, putting that right afterwards could cut the node off with nobody to undo it.
    fn compare_before_deciding(&mut self, bridge: &Bridge) {
        let Some(device) = self.device(bridge) else { return };
        let Some(Stage::Confirming { ops, .. }) = device.batch.as_ref().map(|batch| &batch.stage) else {
            return;
        };
        if device.work.is_none() {
            let (kept, odd) = (Arc::new(device.table.with(ops)), Arc::clone(&device.watching.odd));
            let number = self.begin_work(bridge, Work::Confirmed);
            self.flow_effect(bridge, FlowEffect::Compare { number, kept, odd });
        }
    }

    /// The answer to that.
    pub(super) fn flow_confirmed(&mut self, bridge: &Bridge, result: Result<Compared, String>) {
        let Some(device) = self.device(bridge) else { return };
        let Some(Stage::Confirming { ops, .. }) = device.batch.as_ref().map(|batch| &batch.stage) else {
            return;
        };
        let table = &device.table;
        // What could not be put right before is none the worse for the batch.
        let was_right = |id: &&FlowId| {
            let is_asked = ops.binary_search_by_key(*id, |op| op.id).is_ok();
            let is_wrong = table.get(**id).is_some_and(|it| it.state == EntryState::Wrong);
            !device.watching.has_ended(**id) && (is_asked || !is_wrong)
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
            None => self.decide(bridge, None),
            Some(why) => self.begin_undoing(bridge, why),
        }
    }

    /// Asks, and looks whether it is too late.
    pub(super) fn guard_flows(&mut self, bridge: &Bridge) {
        let now = self.now;
        let Some(device) = self.device(bridge) else { return };
        let (resource, is_gone) = (device.resource, matches!(device.switch, Switch::Gone { .. }));
        let Some(batch) = &mut device.batch else { return };
        let within = batch.confirm.unwrap_or_default().as_secs();
        match &mut batch.stage {
            Stage::Applying { deadline: Some(deadline), .. } if now >= *deadline => {
                device.work = None;
                let number = device.number;
                self.flow_effect(bridge, FlowEffect::Cancel { number });
                self.begin_undoing(bridge, format!("it was not applied within {within} s"));
            }
            Stage::Confirming { .. } if is_gone => {
                let why = "the switch went away before the change was confirmed";
                self.begin_undoing(bridge, why.into());
            }
            Stage::Confirming { challenge, .. } if challenge.is_late(now) => {
                let why = challenge.why_not_reached(within);
                self.begin_undoing(bridge, why);
            }
            Stage::Confirming { challenge, .. } => {
                if let Some(bytes) = challenge.due(now) {
                    let key = ReportKey { resource, generation: batch.generation, attempt: Attempt(0) };
                    self.effects.send(Up::Challenge { key, bytes });
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

    pub(super) fn begin_undoing(&mut self, bridge: &Bridge, why: String) {
        let (at, is_final) = (self.now, self.flows.guarding.as_ref() == Some(bridge));
        if let Some(device) = self.device(bridge)
            && device.work.take_if(|it| matches!(it, Work::Confirmed)).is_some()
        {
            let number = device.number;
            self.flow_effect(bridge, FlowEffect::Cancel { number });
        }
        self.with_batch(bridge, |batch| {
            if let Some(ops) = batch.stage.in_force().map(Arc::clone) {
                batch.stage = Stage::Undoing { ops, why, is_final, tries: 0, at };
            }
        });
        self.undo(bridge);
    }

    /// Puts back what the table says, once the host is idle.
    pub(super) fn undo(&mut self, bridge: &Bridge) {
        let now = self.now;
        let Some(device) = self.device(bridge) else { return };
        let Some(batch) = &device.batch else { return };
        let Stage::Undoing { ops, at, .. } = &batch.stage else { return };
        let is_late = now >= batch.wait_until;
        match &device.switch {
            Switch::Back { .. } if device.work.is_none() && now >= *at => {
                let ops = Arc::new(device.table.inverse(ops));
                let number = self.begin_work(bridge, Work::Undoing);
                self.flow_effect(bridge, FlowEffect::Apply { number, ops, take_over: true });
            }
            // What is there when it comes back is compared with the table, which does not have it.
            Switch::Gone { .. } if device.work.is_none() => self.is_undone(bridge, None),
            Switch::Unknown if is_late => self.is_undone(bridge, None),
            Switch::Back { .. } | Switch::Gone { .. } | Switch::Unknown => {}
        }
    }

    pub(super) fn undone(&mut self, bridge: &Bridge, result: Result<Odd, NotApplied>) {
        let now = self.now;
        let Some(device) = self.device(bridge) else { return };
        let Some(Stage::Undoing { ops, tries, at, .. }) = device.batch.as_mut().map(|batch| &mut batch.stage)
        else {
            return;
        };
        let failed = match result {
            Ok(odd) => {
                let ops = Arc::clone(ops);
                device.watching.applied(&ops, odd);
                None
            }
            // It is compared when it is back.
            Err(NotApplied::Gone { .. }) => None,
            Err(NotApplied::Refused(refused)) => {
                *tries += 1;
                *at = now + UNDO_AGAIN_FIRST * 2u32.pow(*tries - 1);
                if *tries < UNDO_TRIES {
                    return;
                }
                Some(refused.reason)
            }
        };
        self.is_undone(bridge, failed);
    }

    fn is_undone(&mut self, bridge: &Bridge, failed: Option<String>) {
        let now = self.now;
        let Some(device) = self.device(bridge) else { return };
        // Also what undoing did not say is put right then.
        device.watching.compare_now(now);
        device.undo_unseen = failed.is_some() || !device.is_back();
        let Some(batch) = &device.batch else { return };
        let Stage::Undoing { ops, why, is_final, .. } = &batch.stage else { return };
        // What ended of it by a timeout is not what the table has in its place.
        device.watching.undone(ops);
        // Of many nobody knows which one it was.
        let id = if ops.len() == 1 { ops.first().map(|op| op.id) } else { None };
        let (permanent, is_asked) = (*is_final, batch.confirm.is_some());
        let how = match failed {
            None => "what was there before has been put back".to_owned(),
            Some(reason) => {
                format!("what was there before cannot be put back at once, it is tried again: {reason}")
            }
        };
        let reason = bounded(format!("{why}; {how}"));
        // Nobody wants a server cut off again by itself.
        self.decide(bridge, Some(FlowRefusal { id, reason, permanent }));
        if permanent {
            self.connection.hurry_until(now + HURRY);
            // Not where nobody has connected since, as after a restart.
            if is_asked {
                let why = "the flow rules were put back";
                self.connection.reconnect(now, why, &mut self.fetch, &mut self.effects);
            }
        }
    }

    /// The agent is to end: what is not confirmed is undone, what has not begun waits for the next start.
    pub(crate) fn stop_flows(&mut self) {
        let Some(bridge) = self.flows.guarding.clone() else { return };
        let Some(device) = self.flows.devices.get_mut(&bridge) else { return };
        match device.batch.as_ref().map(|batch| &batch.stage) {
            Some(Stage::Applying { .. }) => {
                device.work = None;
                let number = device.number;
                self.flow_effect(&bridge, FlowEffect::Cancel { number });
                self.begin_undoing(&bridge, STOPPED.into());
            }
            Some(Stage::Confirming { .. }) => self.begin_undoing(&bridge, STOPPED.into()),
            Some(Stage::Appending { .. } | Stage::Undoing { .. } | Stage::Deciding { .. }) => {}
            // It is in the log as one that is to be undone: it was never begun, and may be tried again.
            Some(Stage::Logged { .. }) => {
                let refused = FlowRefusal { id: None, reason: STOPPED.into(), permanent: false };
                self.decide(&bridge, Some(refused));
            }
            Some(Stage::Fetching { .. } | Stage::Ready { .. }) | None => self.flows.guarding = None,
        }
    }
}
