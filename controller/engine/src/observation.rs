//! How things were found: in sync, drifted or missing, by whoever looked.

use crate::jobs::Jobs;
use crate::record::Observation;
use crate::row::Slot;

impl Jobs {
    /// How the thing was found, or that nobody knows any more.
    pub(crate) fn observe(&mut self, slot: Slot, observed: Observation) {
        self.set_observed(slot, observed);
        self.forget_drift_event(slot);
    }

    pub(crate) fn set_observed(&mut self, slot: Slot, observed: Observation) {
        self.graph.rows[slot].set_observed(observed);
        self.unsettled.set_drifted(slot, observed.differs());
        if observed.differs() {
            self.turn_disturbed(slot);
        }
    }

    /// What a job or a check has found is told by itself.
    pub(crate) fn forget_drift_event(&mut self, slot: Slot) {
        let row = &mut self.graph.rows[slot];
        let observed = row.observed;
        if let Some(drift_event) = row.drift_event_mut() {
            drift_event.replace(observed);
        }
    }
}
