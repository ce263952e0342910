//! Notes how a thing was found: in sync, drifted or missing. The rollout of a member that differs
//! learns of that.
//!
//! Absent: what a report of drift changes (`drift/drift_report.rs`), and whether drift is corrected
//! (`drift/correct.rs`).

use crate::jobs::Jobs;
use crate::record::Observation;
use crate::row::Slot;

impl Jobs {
    /// Sets how the thing was found, or that its state is not known.
    pub(crate) fn observe(&mut self, slot: Slot, observed: Observation) {
        self.set_observed(slot, observed);
        self.forget_drift_event(slot);
    }

    pub(crate) fn set_observed(&mut self, slot: Slot, observed: Observation) {
        self.graph.rows[slot].set_observed(observed);
        self.unsettled.set_drifted(slot, observed.differs());
        if observed.differs() {
            self.member_disturbed(slot);
        }
    }

    /// Resets the drift event of a row: a job or a check reports its finding itself.
    pub(crate) fn forget_drift_event(&mut self, slot: Slot) {
        let row = &mut self.graph.rows[slot];
        let observed = row.observed();
        if let Some(drift_event) = row.drift_event_mut() {
            drift_event.replace(observed);
        }
    }
}
