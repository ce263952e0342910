//! Whether a device holds what its table says, and what is done where it does not.
//!
//! A hint only wakes: then all is compared. What differs is repaired entry by entry, and compared once more. What cannot
//! be put right is [`EntryState::Wrong`](muster_shared::model::flow::EntryState::Wrong), and tried again, ever more
//! seldom. Nothing is put right while a batch is being applied, confirmed or undone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::flow::{Bridge, EntryState, FlowId};

use super::batch::{Batch, Stage};
use super::{Compared, Device, EXTRANEOUS_MAX, FlowEffect, Kept, Odd, Op, Repaired, Switch, Work, bounded};
use crate::agent::Agent;

/// After a hint, for one change is seldom alone.
const SETTLE: Duration = Duration::from_millis(20);
/// What comparing took, so many times over, is rest: a table that others keep changing costs a tenth of a processor.
const REST: u32 = 10;
/// Rest also ends after this, however long comparing took.
const REST_MAX: Duration = Duration::from_secs(10);
/// Without any hint, for one may be lost; a tenth more or less.
const SCAN: Duration = Duration::from_secs(300);
/// What could not be put right, or compared, is tried again after this, then after twice as long …
const AGAIN_FIRST: Duration = Duration::from_secs(1);
/// … and no longer than this: a port that is back is used within a minute.
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// Ends that the switch told of and that are not compared yet; of more, the host says at comparing what has ended.
pub const ENDED_MAX: usize = 64 * 1024;

/// When a device is compared, and what is known of it besides its table.
#[derive(Debug, Default)]
pub(super) struct Watching {
    due: Option<MonoTime>,
    rest_until: MonoTime,
    scan: MonoTime,
    /// Rounds in a row that did not end with all as it is to be.
    rounds: u32,
    pub(super) odd: Arc<Odd>,
    /// The switch said that these ended.
    ended: BTreeSet<FlowId>,
    pub(super) foreign: u32,
    /// Of the first entry that is wrong.
    pub(super) reason: String,
}

impl Watching {
    pub(super) fn compare_now(&mut self, now: MonoTime) {
        self.due = Some(now);
    }

    pub(super) fn hint(&mut self, now: MonoTime) {
        let at = self.rest_until.max(now + SETTLE);
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// The switch said that it did, and it was not looked at since.
    pub(super) fn has_ended(&self, id: FlowId) -> bool {
        self.ended.contains(&id)
    }

    /// These are on the device, and these of them in another form.
    pub(super) fn applied(&mut self, ops: &[Op], odd: Odd) {
        if !self.odd.is_empty() {
            let known = Arc::make_mut(&mut self.odd);
            ops.iter().for_each(|op| {
                known.remove(&op.id);
            });
        }
        self.odd(odd);
        ops.iter().for_each(|op| {
            self.ended.remove(&op.id);
        });
    }

    /// These are undone: what was said of them before is of something else.
    pub(super) fn undone(&mut self, ops: &[Op]) {
        ops.iter().for_each(|op| {
            self.ended.remove(&op.id);
        });
    }

    fn odd(&mut self, odd: Odd) {
        if !odd.is_empty() {
            Arc::make_mut(&mut self.odd).extend(odd);
        }
    }

    fn again(&mut self, now: MonoTime) {
        let wait = (AGAIN_FIRST * 2u32.pow(self.rounds.min(10))).min(AGAIN_MAX);
        self.rounds = self.rounds.saturating_add(1);
        self.due = Some(now + wait);
    }
}

impl Device {
    /// Nothing else is under way that comparing would disturb, or be disturbed by.
    fn may_compare(&self) -> bool {
        let in_force = self.batch.as_ref().is_some_and(|batch| batch.stage.in_force().is_some());
        let is_idle = self.work.is_none() && !in_force;
        // While the log is written anew, the entries may lie elsewhere already.
        self.is_back() && is_idle && self.log.is_some() && !self.logging && !self.forgotten
    }

    pub(super) fn compare_timeout(&self) -> Option<(MonoTime, &'static str)> {
        let due = self.watching.due.unwrap_or(self.watching.scan).min(self.watching.scan);
        (self.may_compare() && !self.is_leaving()).then_some((due, "comparing a flow table"))
    }
}

impl Agent {
    pub(super) fn flow_back(&mut self, bridge: &Bridge) {
        let now = self.now;
        let Some(device) = self.device(bridge) else { return };
        device.switch = Switch::Back { filled: false };
        device.was_back = true;
        device.changed = true;
        device.watching.rounds = 0;
        device.watching.compare_now(now);
        if let Some(Work::Comparing { stale, .. } | Work::Repairing { stale, .. }) = &mut device.work {
            *stale = true;
        }
        let is_confirming = |batch: &Batch| matches!(batch.stage, Stage::Confirming { .. });
        if device.batch.as_ref().is_some_and(is_confirming) {
            // What the node was reached through is not what would be kept.
            self.begin_undoing(bridge, "the switch was restarted before the change was confirmed".into());
        }
    }

    pub(super) fn flow_gone(&mut self, bridge: &Bridge, reason: String) {
        let now = self.now;
        let Some(device) = self.device(bridge) else { return };
        let was_back = device.is_back();
        device.switch = Switch::Gone { reason: bounded(reason) };
        device.changed = true;
        if let Some(batch) = device.batch.as_mut().filter(|_| was_back) {
            batch.wait_until = now + super::batch::SWITCH_WITHIN;
        }
    }

    pub(super) fn flow_hint(&mut self, bridge: &Bridge, ended: Vec<FlowId>) {
        let now = self.now;
        let Some(device) = self.device(bridge) else { return };
        let room = ENDED_MAX.saturating_sub(device.watching.ended.len());
        device.watching.ended.extend(ended.into_iter().take(room));
        device.watching.hint(now);
    }

    pub(super) fn advance_comparing(&mut self, bridge: &Bridge) {
        let now = self.now;
        let scan = SCAN.mul_f64(0.9) + self.flows.random.below(SCAN / 5);
        let Some(device) = self.flows.devices.get_mut(bridge) else { return };
        if device.compare_timeout().is_none_or(|(at, _)| now < at) {
            return;
        }
        (device.watching.due, device.watching.scan) = (None, now + scan);
        let (kept, odd) = (device.table.kept(), Arc::clone(&device.watching.odd));
        let number = self.begin_work(bridge, Work::Comparing { since: now, stale: false });
        self.flow_effect(bridge, FlowEffect::Compare { number, kept, odd });
    }

    pub(super) fn flow_compared(&mut self, bridge: &Bridge, result: Result<Compared, String>) {
        let now = self.now;
        let Some(device) = self.device(bridge) else { return };
        let since = match device.work.take() {
            Some(Work::Comparing { since, stale: false }) => since,
            Some(Work::Comparing { stale: true, .. }) => return,
            Some(Work::Confirmed) => return self.flow_confirmed(bridge, result),
            other => {
                device.work = other;
                return;
            }
        };
        device.changed = true;
        let watching = &mut device.watching;
        watching.rest_until = now + (now.since(since) * REST).min(REST_MAX);
        let mut compared = match result {
            Ok(compared) => compared,
            Err(reason) => {
                watching.reason = bounded(reason);
                watching.again(now);
                device.asked |= std::mem::take(&mut device.looking);
                return;
            }
        };
        watching.foreign = compared.foreign;
        let said = std::mem::take(&mut watching.ended);
        let (ended, missing): (Vec<_>, Vec<_>) = compared.missing.drain(..).partition(|id| said.contains(id));
        compared.ended.extend(ended);
        let ids = device.table.set(&compared.ended, EntryState::Expired);
        let mut differing = missing;
        differing.append(&mut compared.altered);
        differing.sort_unstable();
        differing.dedup();
        device.table.right_but(&differing);
        let wanted =
            |id: &FlowId| device.table.get(*id).filter(|it| it.state != EntryState::Expired).copied();
        let put: Vec<Kept> = differing.iter().filter_map(wanted).collect();
        if !ids.is_empty() {
            self.flow_effect(bridge, FlowEffect::Expire { ids });
        }
        if put.is_empty() && compared.extraneous.is_empty() {
            return self.flow_is_right(bridge);
        }
        let ids = put.iter().map(|it| it.id).collect();
        let mut remove = compared.extraneous;
        remove.truncate(EXTRANEOUS_MAX);
        let more = compared.more || remove.len() == EXTRANEOUS_MAX;
        let number = self.begin_work(bridge, Work::Repairing { put: ids, since: now, more, stale: false });
        self.flow_effect(bridge, FlowEffect::Repair { number, put, remove });
    }

    fn flow_is_right(&mut self, bridge: &Bridge) {
        let Some(device) = self.device(bridge) else { return };
        device.watching.rounds = 0;
        device.watching.reason.clear();
        device.asked |= std::mem::take(&mut device.looking);
        device.undo_unseen = false;
        self.filled(bridge);
    }

    /// All that can be there is.
    fn filled(&mut self, bridge: &Bridge) {
        let Some(device) = self.device(bridge) else { return };
        if let Switch::Back { filled } = &mut device.switch
            && !std::mem::replace(filled, true)
        {
            self.flow_effect(bridge, FlowEffect::Filled);
        }
    }

    pub(super) fn flow_repaired(&mut self, bridge: &Bridge, result: Result<Repaired, String>) {
        let now = self.now;
        let Some(device) = self.device(bridge) else { return };
        let (put, since, more) = match device.work.take() {
            Some(Work::Repairing { put, since, more, stale: false }) => (put, since, more),
            // It was done on the switch before: nothing is known of this one.
            Some(Work::Repairing { stale: true, .. }) => return,
            other => {
                device.work = other;
                return;
            }
        };
        device.changed = true;
        let watching = &mut device.watching;
        let repaired = match result {
            Ok(repaired) => repaired,
            Err(reason) => {
                watching.reason = bounded(reason);
                watching.again(now);
                device.asked |= std::mem::take(&mut device.looking);
                return;
            }
        };
        watching.odd(repaired.odd);
        let mut failed = repaired.failed;
        failed.sort_unstable_by_key(|(id, _)| *id);
        watching.reason = failed.first().map(|(id, why)| bounded(format!("{id}: {why}"))).unwrap_or_default();
        let failed: Vec<FlowId> = failed.into_iter().map(|(id, _)| id).collect();
        let right: Vec<FlowId> = put.into_iter().filter(|id| failed.binary_search(id).is_err()).collect();
        device.table.set(&right, EntryState::Present);
        device.table.set(&failed, EntryState::Wrong);
        device.undo_unseen &= more;
        // Whether it took is seen by comparing: at once after the first round, for it is ours that was changed.
        if more || failed.is_empty() && watching.rounds == 0 {
            watching.rounds += u32::from(!more);
            watching.compare_now(now);
        } else {
            watching.again(now);
            device.asked |= std::mem::take(&mut device.looking);
        }
        watching.rest_until = watching.rest_until.max(now + (now.since(since) * REST).min(REST_MAX));
        self.filled(bridge);
    }

    /// The answer to [`FlowEffect::Expire`].
    pub(super) fn flow_expired(&mut self, bridge: &Bridge, ids: Vec<FlowId>, result: Result<u64, String>) {
        let Some(device) = self.device(bridge) else { return };
        device.changed = true;
        match result {
            Ok(log) => device.log = Some(log),
            Err(reason) => {
                device.owed_expired.extend(ids);
                self.effects
                    .warn(format!("cannot record which rules of {bridge} ended by their timeouts: {reason}"));
            }
        }
    }
}
