//! The end of a virtual resource's change or removal, which the controller itself realises.

use crate::jobs::Jobs;
use crate::record::Observation;
use crate::row::Slot;
use crate::todo::Todo;
use crate::traversals::Traversals;

impl Jobs {
    /// The virtual resource is as desired.
    pub(crate) fn is_made(&mut self, slot: Slot) {
        let row = &mut self.graph.rows[slot];
        row.be_made();
        let stack = row.stack;
        self.observe(slot, Observation::InSync);
        self.graph.row_changed(slot, true);
        self.graph.event(stack, Some(slot));
        self.graph.job_ended(slot);
        if !self.graph.waits_after(slot) {
            self.row_ready(slot);
        }
    }
}

impl Traversals {
    pub(crate) fn unmade(&mut self, slot: Slot) {
        self.jobs.graph.end_pause(slot);
        self.jobs.graph.job_begins(slot);
        if let Err(reason) = self.take_out_of_plan(slot) {
            let reason = self.shown_of_plan(slot, &reason);
            let row = &mut self.jobs.graph.rows[slot];
            row.refuse(row.farewell());
            return self.jobs.fail_row(slot, reason);
        }
        let row = &mut self.jobs.graph.rows[slot];
        row.be_unmade();
        let stack = row.stack;
        self.jobs.graph.row_changed(slot, true);
        self.jobs.graph.event(stack, Some(slot));
        self.jobs.graph.not_failed(slot); // it may have been needed when it was to go before
        self.jobs.graph.ctx.agenda.push_back(Todo::Visit(slot));
    }
}
