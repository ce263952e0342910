//! Decides when a device is compared with its table, and repairs what differs.
//!
//! A hint only wakes; the agent then compares the whole table. The agent repairs differing entries one by
//! one, and compares once more. An entry that cannot be repaired is
//! [`EntryState::Wrong`](muster_shared::model::flow::EntryState::Wrong), and the repair is repeated at
//! growing intervals. No repair happens while a batch is being applied, confirmed or undone.
//!
//! Absent: the comparison of this table with the controller's (`controller/flow/src/compare_with_agent.rs`), and whether
//! a missing entry has ended by its timeout (`agent/src/flows/device.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::flow::{EntryState, FlowId};

use super::{
    Compared, Device, DivergentForms, EXTRANEOUS_MAX, FlowEffect, Op, Repaired, Switch, TableEntry, Turn,
    Work, bounded,
};
use crate::random::Random;

/// The pause after a hint, since one change is seldom alone.
const SETTLE: Duration = Duration::from_millis(20);
/// The pause after comparing, in multiples of its duration: a table that others keep changing costs a tenth
/// of a processor.
const REST: u32 = 10;
/// The longest pause after comparing.
const REST_MAX: Duration = Duration::from_secs(10);
/// The interval of comparing without a hint, since a hint may be lost; varied by a tenth.
const SCAN: Duration = Duration::from_secs(300);
/// A failed repair or comparison is repeated after this time, then after twice as long …
const AGAIN_FIRST: Duration = Duration::from_secs(1);
/// … and no longer than this: a port that is back is used within a minute.
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// Ends reported by the switch and not compared yet. Beyond these, the host finds ended entries when
/// it compares.
pub const ENDED_MAX: usize = 64 * 1024;

/// When to compare a device, and what the agent knows of the device beside its table.
#[derive(Debug, Default)]
pub(super) struct Watching {
    due: Option<MonoTime>,
    rest_until: MonoTime,
    scan: MonoTime,
    /// Rounds in a row after which the device still differed from the table.
    rounds: u32,
    pub(super) odd: Arc<DivergentForms>,
    /// Entries whose end the switch reported.
    ended: BTreeSet<FlowId>,
    /// Entries of a batch that was undone unseen. The switch may still hold them, and their ends are
    /// not those of the entries that the table has in their places.
    undone: BTreeSet<FlowId>,
    pub(super) foreign: u32,
    /// Why something is wrong; empty if nothing is.
    pub(super) reason: String,
    /// The entry that the reason is about.
    pub(super) wrong: Option<FlowId>,
}

impl Watching {
    /// Notes why something is wrong, and the entry that this is about.
    fn because(&mut self, entry: Option<FlowId>, reason: String) {
        (self.wrong, self.reason) = (entry, bounded(reason));
    }

    pub(super) fn compare_now(&mut self, now: MonoTime) {
        self.due = Some(now);
    }

    /// The device may have changed, and the entries `ended` have ended.
    pub(super) fn hint(&mut self, now: MonoTime, ended: Vec<FlowId>) {
        let room = ENDED_MAX.saturating_sub(self.ended.len());
        // Beyond the bound no end is believed: what is missing is put again.
        let undone = &self.undone;
        let is_believed = |id: &FlowId| undone.len() < ENDED_MAX && !undone.contains(id);
        self.ended.extend(ended.into_iter().filter(is_believed).take(room));
        let at = self.rest_until.max(now + SETTLE);
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Whether the switch reported this entry's end, and no comparison has followed.
    pub(super) fn has_ended(&self, id: FlowId) -> bool {
        self.ended.contains(&id)
    }

    /// These are on the device, and these of them in another form.
    pub(super) fn applied(&mut self, ops: &[Op], odd: DivergentForms) {
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

    /// These operations are undone: earlier reports of ends concerned other entries. `unseen`: nobody
    /// has seen that the switch holds nothing of them, so later reports may, too.
    pub(super) fn undone(&mut self, ops: &[Op], unseen: bool) {
        ops.iter().for_each(|op| {
            self.ended.remove(&op.id);
        });
        let room = ENDED_MAX.saturating_sub(self.undone.len());
        self.undone.extend(ops.iter().map(|op| op.id).filter(|_| unseen).take(room));
    }

    fn odd(&mut self, odd: DivergentForms) {
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
        // During a compaction the entries may already have new places.
        self.is_back() && is_idle && self.log.is_some() && !self.logging && !self.forgotten
    }

    pub(super) fn compare_timeout(&self) -> Option<(MonoTime, &'static str)> {
        let due = self.watching.due.unwrap_or(self.watching.scan).min(self.watching.scan);
        (self.may_compare() && !self.is_leaving()).then_some((due, "comparing a flow table"))
    }

    pub(super) fn back(&mut self, turn: &mut Turn) {
        self.switch = Switch::Back { filled: false };
        self.was_back = true;
        self.changed = true;
        self.watching.rounds = 0;
        self.watching.compare_now(turn.now);
        if let Some(Work::Comparing { stale, .. } | Work::Repairing { stale, .. }) = &mut self.work {
            *stale = true;
        }
        if self.is_confirming() {
            // The restarted switch is no longer the path by which the agent reached the controller.
            self.begin_undoing("the switch was restarted before the change was confirmed".into(), turn);
        }
    }

    pub(super) fn gone(&mut self, reason: String, now: MonoTime) {
        let was_back = self.is_back();
        self.switch = Switch::Gone { reason: bounded(reason) };
        self.changed = true;
        if let Some(batch) = self.batch.as_mut().filter(|_| was_back) {
            batch.wait_until = now + super::batch::SWITCH_WITHIN;
        }
    }

    pub(super) fn advance_comparing(&mut self, random: &mut Random, turn: &mut Turn) {
        let now = turn.now;
        let scan = SCAN.mul_f64(0.9) + random.below(SCAN / 5);
        if self.compare_timeout().is_none_or(|(at, _)| now < at) {
            return;
        }
        (self.watching.due, self.watching.scan) = (None, now + scan);
        let (kept, odd) = (self.table.kept(), Arc::clone(&self.watching.odd));
        let number = self.begin(Work::Comparing { since: now, stale: false }, turn);
        self.effect(FlowEffect::Compare { number, kept, odd }, turn);
    }

    pub(super) fn compared(&mut self, result: Result<Compared, String>, turn: &mut Turn) {
        let now = turn.now;
        let since = match self.work.take() {
            Some(Work::Comparing { since, stale: false }) => since,
            Some(Work::Comparing { stale: true, .. }) => return,
            Some(Work::Confirmed) => return self.confirmed(result, turn),
            other => {
                self.work = other;
                return;
            }
        };
        self.changed = true;
        self.watching.rest_until = now + (now.since(since) * REST).min(REST_MAX);
        let mut compared = match result {
            Ok(compared) => compared,
            Err(reason) => return self.not_seen(reason, now),
        };
        self.watching.foreign = compared.foreign;
        let said = std::mem::take(&mut self.watching.ended);
        let (ended, missing): (Vec<_>, Vec<_>) = compared.missing.drain(..).partition(|id| said.contains(id));
        compared.ended.extend(ended);
        let ids = self.table.set(&compared.ended, EntryState::Expired);
        let mut differing = missing;
        differing.append(&mut compared.altered);
        differing.sort_unstable();
        differing.dedup();
        self.table.right_but(&differing);
        let wanted = |id: &FlowId| self.table.get(*id).filter(|it| it.state != EntryState::Expired).copied();
        let put: Vec<TableEntry> = differing.iter().filter_map(wanted).collect();
        if !ids.is_empty() {
            self.effect(FlowEffect::Expire { ids }, turn);
        }
        if put.is_empty() && compared.extraneous.is_empty() {
            return self.is_right(turn);
        }
        let ids = put.iter().map(|it| it.id).collect();
        let mut remove = compared.extraneous;
        remove.truncate(EXTRANEOUS_MAX);
        let more = compared.more || remove.len() == EXTRANEOUS_MAX;
        let number = self.begin(Work::Repairing { put: ids, since: now, more, stale: false }, turn);
        self.effect(FlowEffect::Repair { number, put, remove }, turn);
    }

    /// The device could not be compared, or not be repaired.
    fn not_seen(&mut self, reason: String, now: MonoTime) {
        self.watching.because(None, reason);
        self.watching.again(now);
        self.say_if_looking();
    }

    /// Reports the state if the controller asked for it, now that the comparison is as complete as it can be.
    fn say_if_looking(&mut self) {
        self.asked |= std::mem::take(&mut self.looking);
    }

    fn is_right(&mut self, turn: &mut Turn) {
        self.watching.rounds = 0;
        self.watching.because(None, String::new());
        self.say_if_looking();
        self.undo_is_seen();
        self.filled(turn);
    }

    /// The device holds nothing of a batch that was undone.
    fn undo_is_seen(&mut self) {
        self.undo_unseen = false;
        self.watching.undone.clear();
    }

    /// The device holds all entries that it can hold.
    fn filled(&mut self, turn: &mut Turn) {
        if let Switch::Back { filled } = &mut self.switch
            && !std::mem::replace(filled, true)
        {
            self.effect(FlowEffect::Filled, turn);
        }
    }

    pub(super) fn repaired(&mut self, result: Result<Repaired, String>, turn: &mut Turn) {
        let now = turn.now;
        let (put, since, more) = match self.work.take() {
            Some(Work::Repairing { put, since, more, stale: false }) => (put, since, more),
            // That repair was made on the switch before its restart, and says nothing about the
            // present switch.
            Some(Work::Repairing { stale: true, .. }) => return,
            other => {
                self.work = other;
                return;
            }
        };
        self.changed = true;
        let repaired = match result {
            Ok(repaired) => repaired,
            Err(reason) => return self.not_seen(reason, now),
        };
        let watching = &mut self.watching;
        watching.odd(repaired.odd);
        let mut failed = repaired.failed;
        failed.sort_unstable_by_key(|(id, _)| *id);
        let first = failed.first().cloned();
        watching.because(first.as_ref().map(|(id, _)| *id), first.map(|(_, why)| why).unwrap_or_default());
        let failed: Vec<FlowId> = failed.into_iter().map(|(id, _)| id).collect();
        let right: Vec<FlowId> = put.into_iter().filter(|id| failed.binary_search(id).is_err()).collect();
        self.table.set(&right, EntryState::Present);
        self.table.set(&failed, EntryState::Wrong);
        // A comparison shows the repair's effect: at once after the first round, since others changed
        // our entries.
        let is_again = more || failed.is_empty() && watching.rounds == 0;
        if is_again {
            watching.rounds += u32::from(!more);
            watching.compare_now(now);
        } else {
            watching.again(now);
        }
        watching.rest_until = watching.rest_until.max(now + (now.since(since) * REST).min(REST_MAX));
        if !is_again {
            self.say_if_looking();
        }
        if !more {
            self.undo_is_seen();
        }
        self.filled(turn);
    }
}
