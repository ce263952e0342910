//! Writes to a device's log other than batches: ends by timeout, records that the disk refused before, a
//! compacted log, and the end of the table.
//!
//! Absent: the log on disk (`agent/src/flow_log.rs`).

use muster_shared::Generation;
use muster_shared::model::flow::{EntryState, FlowId};

use super::{COMPACT_FROM, Compacted, Device, FlowEffect, Turn};

impl Device {
    pub(super) fn forget(&mut self, generation: Generation, turn: &mut Turn) {
        self.next.take_if(|next| next.generation <= generation);
        // Reported once recorded: an earlier report would be taken for the state after the order to forget.
        self.forgetting = Some(generation);
        self.drop_unbegun(generation, turn);
    }

    pub(super) fn advance_forgetting(&mut self, turn: &mut Turn) {
        let Some(generation) = self.forgetting else { return };
        // Once the agent leaves the device, it removes nothing more from the switch.
        if !self.is_leaving() || self.batch.is_some() || self.work.is_some() || self.logging {
            return;
        }
        self.logging = true;
        self.effect(FlowEffect::Leave, turn);
        self.effect(FlowEffect::Forget { generation }, turn);
    }

    /// The answer to [`FlowEffect::Forget`]; true if it was awaited.
    pub(super) fn end_forgetting(&mut self, result: Result<(), String>, turn: &mut Turn) -> bool {
        self.logging = false;
        // Refused or not, the controller repeats the order as long as it hears of the table.
        let Some(decided) = self.forgetting.take() else { return false };
        match result {
            Ok(()) => {
                let (bridge, next) = (self.bridge.clone(), self.next.take());
                *self = Self { decided, forgotten: true, log: Some(0), next, ..Self::new(bridge) };
            }
            Err(reason) => {
                self.effect(FlowEffect::Watch, turn);
                turn.effects.warn(format!("cannot forget the flow table of {}: {reason}", self.bridge));
            }
        }
        true
    }

    /// Compacts the log once most of it is dead.
    pub(super) fn advance_log(&mut self, turn: &mut Turn) {
        let is_idle = self.batch.is_none() && self.work.is_none() && !self.logging;
        let is_due = |log: u64| log > COMPACT_FROM && log / 2 > self.table.live();
        if !is_idle || self.forgotten || self.forgetting.is_some() || !self.log.is_some_and(is_due) {
            return;
        }
        self.logging = true;
        let (kept, decided, refused) = (self.table.kept(), self.decided, self.refused.clone());
        self.effect(FlowEffect::Compact { kept, decided, refused }, turn);
    }

    pub(super) fn compacted(&mut self, result: Result<Compacted, String>, turn: &mut Turn) {
        self.logging = false;
        match result {
            Ok(compacted) => {
                self.table.moved(&compacted.at);
                self.log = Some(compacted.log);
                // A compacted log contains the refused records too.
                self.owed = None;
                self.owed_expired.clear();
            }
            Err(reason) => {
                // The next decided batch tries again.
                self.log = Some(0);
                turn.effects.warn(format!("cannot rewrite the log of {}: {reason}", self.bridge));
            }
        }
    }

    /// Writes records again that the disk refused.
    pub(super) fn write_owed(&mut self, turn: &mut Turn) {
        let is_idle = self.batch.is_none() && !self.logging && !self.forgotten;
        if let Some((generation, refused)) = self.owed.take_if(|_| is_idle) {
            self.logging = true;
            self.effect(FlowEffect::Decide { generation, refused }, turn);
        } else if is_idle && !self.owed_expired.is_empty() {
            let mut ids = std::mem::take(&mut self.owed_expired);
            // Entries that were put again since have not ended.
            ids.retain(|id| self.table.get(*id).is_some_and(|it| it.state == EntryState::Expired));
            if !ids.is_empty() {
                self.effect(FlowEffect::Expire { ids: ids.into_iter().collect() }, turn);
            }
        }
    }

    /// The answer to [`FlowEffect::Expire`].
    pub(super) fn expired(&mut self, ids: Vec<FlowId>, result: Result<u64, String>, turn: &mut Turn) {
        self.changed = true;
        match result {
            Ok(log) => self.log = Some(log),
            Err(reason) => {
                self.owed_expired.extend(ids);
                turn.effects.warn(format!(
                    "cannot record which rules of {} ended by their timeouts: {reason}",
                    self.bridge
                ));
            }
        }
    }
}
