//! A virtual resource is made or taken away: the controller itself realises it.

use crate::engine::{Engine, Todo};
use crate::record::{Observation, Status};
use crate::resource::Slot;

impl Engine {
    /// It is as it is to be.
    pub(crate) fn is_made(&mut self, slot: Slot) {
        let row = &mut self.rows[slot];
        row.status = Some(Status::Complete);
        let stack = row.stack;
        self.observe(slot, Observation::InSync);
        self.row_changed(slot, true);
        self.event(stack, Some(slot));
        self.job_ended(slot);
        if !self.waits_after(slot) {
            self.row_ready(slot);
        }
    }

    pub(crate) fn unmade(&mut self, slot: Slot) {
        self.end_pause(slot);
        self.job_begins(slot);
        if let Err(reason) = self.take_out_of_plan(slot) {
            let reason = self.shown_of_plan(slot, &reason);
            let row = &mut self.rows[slot];
            row.action = Some(row.farewell());
            return self.fail_row(slot, reason);
        }
        let row = &mut self.rows[slot];
        row.action = Some(row.farewell());
        row.status = Some(Status::Complete);
        (row.reason, row.applied) = (None, false);
        let stack = row.stack;
        self.row_changed(slot, true);
        self.event(stack, Some(slot));
        self.agenda.push_back(Todo::Visit(slot));
    }
}
