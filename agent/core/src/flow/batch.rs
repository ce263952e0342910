//! A batch from its arrival to its end: decides whether it is refused, waits for its switch, or is applied.
//!
//! Absent: confirming and undoing it (`guard.rs`), and what the controller does after a refusal
//! (`controller/flow/src/batch.rs`).

use std::sync::Arc;
use std::time::Duration;

use muster_shared::model::Content;
use muster_shared::model::flow::{Bridge, FlowBatch, FlowRefusal, FlowState, FlowUp, SwitchState};
use muster_shared::{Generation, MonoTime};

use super::stage::{Batch, Stage};
use super::{
    Appended, BATCH_BYTES_MAX, DEVICES_MAX, Device, DivergentForms, ENTRIES_MAX, FlowEffect, Flows,
    NotApplied, Switch, Turn, Work, bounded,
};
use crate::challenge::STOPPED;
use crate::ledger::Order;

/// A switch that restarts is back within this time; a batch that arrives meanwhile waits.
pub(super) const SWITCH_WITHIN: Duration = Duration::from_secs(20);

fn refusal(reason: String, permanent: bool) -> FlowRefusal {
    FlowRefusal { id: None, reason: bounded(reason), permanent }
}

impl Flows {
    /// [`FlowDown::Batch`](muster_shared::model::flow::FlowDown::Batch)
    pub(super) fn batch(&mut self, batch: FlowBatch, turn: &mut Turn) {
        if !self.devices.contains_key(&batch.device) && !self.add_device(&batch.device, turn) {
            let reason =
                format!("this node has {DEVICES_MAX} flow tables already, which is the most it keeps");
            return turn.say(no_place(batch, refusal(reason, true)));
        }
        if let Some(device) = self.devices.get_mut(&batch.device) {
            device.offer(batch, turn);
        }
    }

    /// Makes a place for one more device, if necessary by dropping one that is forgotten or empty.
    fn add_device(&mut self, bridge: &Bridge, turn: &mut Turn) -> bool {
        if self.devices.len() >= DEVICES_MAX {
            let is_free = |it: &&Device| {
                let is_idle = it.batch.is_none() && it.next.is_none() && it.work.is_none() && !it.logging;
                is_idle && (it.forgotten || it.log.is_none())
            };
            let free = self.devices.values().filter(is_free).min_by_key(|it| it.decided);
            let Some(free) = free.map(|it| it.bridge.clone()).and_then(|free| self.devices.remove(&free))
            else {
                return false;
            };
            free.effect(if free.forgotten { FlowEffect::Drop } else { FlowEffect::Leave }, turn);
        }
        let device = self.devices.entry(bridge.clone()).or_insert(Device::new(bridge.clone()));
        device.effect(FlowEffect::Watch, turn);
        true
    }
}

/// The refusal for a device that has no place.
fn no_place(batch: FlowBatch, refused: FlowRefusal) -> FlowUp {
    let state = FlowState {
        device: batch.device,
        decided: batch.generation,
        refused: Some(refused),
        root: 0,
        entries: 0,
        wrong: 0,
        foreign: 0,
        switch: SwitchState::Absent,
        reason: String::new(),
        entry: None,
    };
    FlowUp::States { states: vec![state], complete: false }
}

impl Device {
    fn offer(&mut self, batch: FlowBatch, turn: &mut Turn) {
        match batch.generation.cmp(&self.newest()) {
            // The controller does not know the newer generation if the table was forgotten since.
            std::cmp::Ordering::Less => self.asked |= self.forgotten,
            // The batch may have arrived twice, or the controller missed its outcome.
            std::cmp::Ordering::Equal => self.asked = true,
            std::cmp::Ordering::Greater
                if self.batch.as_ref().is_some_and(|it| it.stage.has_begun())
                    || self.forgetting.is_some() =>
            {
                self.next = Some(batch);
            }
            std::cmp::Ordering::Greater => {
                self.drop_unbegun(batch.generation, turn);
                self.begin_batch(batch, turn);
            }
        }
    }

    /// Drops a batch that has not started, in favour of a newer one.
    pub(super) fn drop_unbegun(&mut self, newer: Generation, turn: &mut Turn) {
        let unbegun = self.batch.take_if(|it| !it.stage.has_begun() && it.generation <= newer);
        turn.release(self.resource, unbegun.and_then(|it| it.stage.unbegun_content()));
    }

    fn begin_batch(&mut self, batch: FlowBatch, turn: &mut Turn) {
        let FlowBatch { generation, confirm_timeout, ops, .. } = batch;
        if std::mem::take(&mut self.forgotten) {
            self.effect(FlowEffect::Watch, turn);
        }
        let confirm = confirm_timeout.map(|s| Duration::from_secs(u64::from(s.max(1))));
        let wait_until = turn.now + SWITCH_WITHIN;
        let wanted = ops.stored();
        let stage = Stage::Fetching { ops };
        self.batch = Some(Batch { generation, confirm, guards: false, wait_until, stage });
        match wanted {
            None => self.make_ready(turn.now),
            Some((_, size)) if size > BATCH_BYTES_MAX => {
                let reason = format!("a batch of {size} bytes is over the limit of {BATCH_BYTES_MAX}");
                self.refuse_unbegun(refusal(reason, true), turn);
            }
            // Tables wait for no lane, and come before every job.
            Some((digest, size)) => match turn.fetch.want(self.resource, Order::default(), digest, size) {
                Ok(true) => self.make_ready(turn.now),
                Ok(false) => turn.fetch.pump(turn.now, turn.effects),
                Err(reason) => self.refuse_unbegun(refusal(reason, false), turn),
            },
        }
    }

    /// The content has arrived, or cannot be fetched.
    pub(super) fn settled(&mut self, failed: Option<&str>, turn: &mut Turn) {
        match (failed, self.batch.as_ref().map(|batch| &batch.stage)) {
            (None, _) => self.make_ready(turn.now),
            (Some(reason), Some(Stage::Fetching { .. })) => {
                self.refuse_unbegun(refusal(reason.to_owned(), false), turn);
            }
            (Some(_), _) => {}
        }
    }

    fn make_ready(&mut self, now: MonoTime) {
        if let Some(batch) = &mut self.batch
            && let Stage::Fetching { ops } = &mut batch.stage
        {
            let ops = std::mem::replace(ops, Content::Inline(Vec::new()));
            (batch.stage, batch.wait_until) = (Stage::Ready { ops }, now + SWITCH_WITHIN);
        }
    }

    /// Begins the next stage, where it can.
    pub(super) fn advance(&mut self, turn: &mut Turn) {
        if !turn.is_stopping
            && self.batch.is_none()
            && self.forgetting.is_none()
            && let Some(next) = self.next.take()
        {
            self.begin_batch(next, turn);
        }
        let Some(batch) = &self.batch else { return };
        let (is_idle, is_late) = (self.work.is_none(), turn.now >= batch.wait_until);
        let gone = match &self.switch {
            Switch::Back { .. } => None,
            Switch::Unknown => is_late.then(|| format!("the switch of {} did not answer", self.bridge)),
            Switch::Gone { reason } => (is_late || !self.was_back).then(|| reason.clone()),
        };
        let (is_back, is_filled) = (self.is_back(), self.is_filled());
        match &batch.stage {
            Stage::Ready { .. } | Stage::Logged { .. } if turn.is_stopping => {}
            Stage::Ready { .. } => match gone {
                Some(reason) => self.refuse_unbegun(refusal(reason, false), turn),
                None if is_back => self.append(turn),
                None => {}
            },
            Stage::Logged { after_filling, .. } => match gone {
                Some(reason) => self.decide(Some(refusal(reason, false)), turn),
                None if *after_filling && !is_filled && is_late => {
                    let bridge = &self.bridge;
                    let reason = format!("{bridge} could not be filled again after its switch had restarted");
                    self.decide(Some(refusal(reason, false)), turn);
                }
                None if is_idle && is_back && (is_filled || !*after_filling) => self.apply(turn),
                None => {}
            },
            Stage::Applying { .. } | Stage::Confirming { .. } => self.ask_in_time(turn),
            Stage::Undoing { .. } => self.undo(turn),
            Stage::Fetching { .. } | Stage::Appending { .. } | Stage::Deciding { .. } => {}
        }
    }

    fn append(&mut self, turn: &mut Turn) {
        let Some(batch) = self.batch.as_mut().filter(|_| !self.logging) else { return };
        let (generation, guard) = (batch.generation, batch.confirm.is_some());
        if guard && !turn.may_guard {
            return;
        }
        let Stage::Ready { ops } = &mut batch.stage else { return };
        let ops = std::mem::replace(ops, Content::Inline(Vec::new()));
        let stored = ops.stored().map(|(digest, _)| digest);
        (batch.stage, batch.guards) = (Stage::Appending { stored }, guard);
        self.effect(FlowEffect::Append { generation, ops, guard }, turn);
    }

    pub(super) fn appended(
        &mut self,
        generation: Generation,
        result: Result<Appended, FlowRefusal>,
        turn: &mut Turn,
    ) {
        let Some(batch) = self.batch.as_mut().filter(|it| it.generation == generation) else { return };
        let Stage::Appending { stored } = batch.stage else { return };
        self.log = self.log.or(Some(0));
        turn.release(self.resource, stored);
        let Appended { ops, challenge } = match result {
            Ok(appended) => appended,
            Err(refused) => return self.refuse_unbegun(refused, turn),
        };
        let is_guarded = challenge.is_some();
        batch.guards &= is_guarded;
        let entries = self.table.len_after(&ops);
        let Some(ops) = self.table.resolve(ops).map(Arc::new) else {
            let reason = "a batch names an entry twice: a bug of the controller, please report it";
            return self.decide(Some(refusal(reason.into(), true)), turn);
        };
        batch.stage = Stage::Logged { ops, challenge, after_filling: is_guarded };
        if entries > ENTRIES_MAX {
            let bridge = &self.bridge;
            let reason = format!("{bridge} would have {entries} entries, over the limit of {ENTRIES_MAX}");
            self.decide(Some(refusal(reason, true)), turn);
        } else if is_guarded && turn.is_stopping {
            self.decide(Some(refusal(STOPPED.into(), false)), turn);
        }
    }

    fn apply(&mut self, turn: &mut Turn) {
        let Some(batch) = &mut self.batch else { return };
        let Stage::Logged { ops, challenge, .. } = &mut batch.stage else { return };
        let (ops, challenge) = (Arc::clone(ops), challenge.take());
        let window = batch.confirm.unwrap_or_default().max(Duration::from_secs(1));
        let is_guarded = challenge.is_some();
        let deadline = is_guarded.then(|| turn.now + window);
        batch.stage = Stage::Applying { ops: Arc::clone(&ops), challenge, deadline };
        let number = self.begin(Work::Applying, turn);
        // Undoing also removes entries that were there before as somebody else's.
        self.effect(FlowEffect::Apply { number, ops, take_over: !is_guarded }, turn);
    }

    /// Handles the answer to [`FlowEffect::Apply`], for a batch or for undoing one.
    pub(super) fn applied(&mut self, result: Result<DivergentForms, NotApplied>, turn: &mut Turn) {
        let now = turn.now;
        if let Err(NotApplied::Gone { reason }) = &result {
            self.gone(reason.clone(), now);
        }
        match self.work.take() {
            Some(Work::Applying) => {}
            Some(Work::Undoing) => return self.undone(result, turn),
            other => {
                self.work = other;
                return;
            }
        }
        let is_filled = self.is_filled();
        let Some(batch) = &mut self.batch else { return };
        let Stage::Applying { ops, challenge, deadline } = &mut batch.stage else { return };
        let (ops, challenge, deadline) = (Arc::clone(ops), challenge.take(), *deadline);
        match (result, challenge, deadline) {
            (Ok(odd), challenge, deadline) => {
                self.watching.applied(&ops, odd);
                match (challenge, deadline) {
                    (Some(_), Some(_)) if !is_filled => {
                        self.begin_undoing("the switch was restarted while it was applied".into(), turn);
                    }
                    (Some(bytes), Some(deadline)) => self.confirm(bytes, deadline, turn),
                    (_, _) => self.decide(None, turn),
                }
            }
            (Err(NotApplied::Refused(_)), challenge, _) if !is_filled => {
                // A switch that has just come may lack entries that the batch needs.
                batch.wait_until = now + SWITCH_WITHIN;
                batch.stage = Stage::Logged { ops, challenge, after_filling: true };
            }
            (Err(NotApplied::Refused(refused)), ..) => {
                let refused = FlowRefusal { reason: bounded(refused.reason), ..refused };
                self.decide(Some(refused), turn);
            }
            (Err(NotApplied::Gone { reason }), Some(_), _) => {
                // Whether the device took the batch is unknown, and the node may be cut off.
                self.begin_undoing(reason, turn);
            }
            (Err(NotApplied::Gone { .. }), None, _) => {
                batch.wait_until = now + SWITCH_WITHIN;
                batch.stage = Stage::Logged { ops, challenge: None, after_filling: false };
                self.watching.compare_now(now);
            }
        }
    }

    /// Records the batch's end.
    pub(super) fn decide(&mut self, refused: Option<FlowRefusal>, turn: &mut Turn) {
        let Some(batch) = &mut self.batch else { return };
        let ops =
            if let Stage::Logged { ops, .. } = &batch.stage { Some(ops) } else { batch.stage.in_force() };
        let ops = ops.map(Arc::clone).unwrap_or_default();
        batch.stage = Stage::Deciding { ops, refused: refused.clone() };
        let generation = batch.generation;
        self.effect(FlowEffect::Decide { generation, refused }, turn);
    }

    /// The answer to [`FlowEffect::Decide`].
    pub(super) fn end_deciding(
        &mut self,
        generation: Generation,
        result: Result<u64, String>,
        turn: &mut Turn,
    ) {
        if let Ok(log) = &result {
            self.log = Some(*log);
        }
        let deciding = self.batch.as_mut().filter(|batch| batch.generation == generation);
        let Some(Stage::Deciding { ops, refused }) = deciding.map(|batch| &mut batch.stage) else {
            // This answers the retry of a refused record.
            self.logging = false;
            if result.is_err() && generation == self.decided {
                self.owed = Some((generation, self.refused.clone()));
            }
            return;
        };
        if result.is_ok() {
            // Recording the end of an older batch would imply that this one never was.
            self.owed = None;
        }
        match (refused.take(), result) {
            (None, Ok(_)) => {
                self.table.apply(ops);
                self.finish(None);
            }
            (Some(refused), Ok(_)) => self.finish(Some(refused)),
            (Some(refused), Err(reason)) => {
                turn.effects.warn(format!("cannot record how a batch of {} ended: {reason}", self.bridge));
                self.owed = Some((generation, Some(refused.clone())));
                self.finish(Some(refused));
            }
            (None, Err(reason)) => {
                self.begin_undoing(format!("cannot write on the node's disk: {reason}"), turn);
            }
        }
    }

    /// Refuses a batch that never touched the device and is not in the log.
    fn refuse_unbegun(&mut self, refused: FlowRefusal, turn: &mut Turn) {
        let stored = self.batch.as_ref().and_then(|it| it.stage.unbegun_content());
        turn.release(self.resource, stored);
        self.finish(Some(FlowRefusal { reason: bounded(refused.reason), ..refused }));
    }

    /// The batch has ended; reports how.
    fn finish(&mut self, refused: Option<FlowRefusal>) {
        let Some(batch) = self.batch.take() else { return };
        (self.decided, self.refused) = (batch.generation, refused);
        self.asked = true;
    }
}
