//! Changes of a row without a job: it fails, is as desired, is found otherwise, or its agent holds something else than
//! was known.
//!
//! Absent: the outcome of a job (`row/task.rs`).

use std::collections::BTreeMap;

use muster_shared::Generation;
use muster_shared::model::Action;

use crate::record::{Observation, PackedSpec, Status};
use crate::row::{Held, Row};

impl Row {
    /// Sets the reason that operators read: of the job that is out, or of the row.
    pub fn set_reason(&mut self, reason: &str) {
        let row = &mut self.0;
        let place = row.task.as_mut().map_or(&mut row.last.reason, |task| &mut task.reason);
        *place = Some(reason.into());
    }

    /// The row has failed for good. A row without any job has failed to be created.
    pub fn fail(&mut self, reason: &str) {
        self.0.last.action.get_or_insert(Action::Create);
        self.fail_as_it_is(reason);
    }

    /// The row has failed; its last action stays.
    pub fn fail_as_it_is(&mut self, reason: &str) {
        let last = &mut self.0.last;
        (last.status, last.reason) = (Some(Status::Failed), Some(reason.into()));
    }

    /// An operator marks the thing unhealthy.
    pub fn mark_unhealthy(&mut self) {
        self.details_mut().unhealthy = true;
        if self.task.is_none() {
            self.0.last.action.get_or_insert(Action::Check);
        }
    }

    /// The environment refuses this action before it becomes a job.
    pub fn refuse(&mut self, action: Action) {
        self.0.last.action = Some(action);
    }

    /// The thing is as desired.
    pub fn be_complete(&mut self) {
        (self.0.last.status, self.0.last.reason) = (Some(Status::Complete), None);
    }

    /// A row that failed without a job is wanted unchanged. A removal that failed is no longer wanted.
    pub fn mend(&mut self) {
        self.be_complete();
        if self.is_going() {
            self.0.last.action = Some(Action::Update);
        }
    }

    /// Attributes in the last job's report that do not follow from the spec.
    pub fn set_attributes(&mut self, attributes: BTreeMap<String, String>) {
        self.0.attributes = attributes;
    }

    pub fn add_attribute(&mut self, name: &str, value: String) {
        self.0.attributes.insert(name.to_owned(), value);
    }

    /// Whether another row has taken over a claim of this one.
    pub fn set_handed_over(&mut self, handed_over: bool) {
        self.0.handed_over = handed_over;
    }

    /// Sets how the thing was found. While a job is out, the row before the job keeps what it was found as.
    pub fn set_observed(&mut self, observed: Observation) {
        let row = &mut self.0;
        *row.task.as_mut().map_or(&mut row.seen, |task| &mut task.seen) = observed;
    }

    /// The agent reports drift with this reason, or the end of drift. `None` leaves the reason of a failure.
    pub fn drift(&mut self, reason: Option<Box<str>>) {
        self.0.last.reason = reason;
        self.details_mut().drift_event.get_or_insert_default();
    }

    /// Drift is ignored from now on. The reason of a COMPLETE row can only be drift.
    pub fn ignore_drift(&mut self) {
        if self.status() == Some(Status::Complete) {
            self.0.last.reason = None;
        }
    }

    /// The agent has lost the thing, so the status of the last job says nothing any more.
    pub fn lose_status(&mut self) {
        self.0.last.status = None;
    }

    /// The node's thing is newer than the store. The next operation applies the row, even if the
    /// template has not changed.
    pub fn be_outdated(&mut self) {
        // The node has the thing, so the next job does not create it.
        if self.held().is_some() && matches!(self.action(), Some(Action::Create | Action::Adopt)) {
            self.0.last.action = Some(Action::Update);
        }
        self.0.definition = 0;
        self.fail_as_it_is("the store is older than its server: the next update of the stack applies it");
    }

    /// Sets the generation in the agent's ledger. Returns the one known before. A thing in the ledger needs a job to
    /// remove it, even if the job that made it is not known.
    pub fn hold(&mut self, held: Option<Generation>) -> Option<Generation> {
        let before = self.held();
        self.0.held = match (held, self.held) {
            (Some(generation), _) => Held::Listed(generation),
            (None, Held::Nothing) => Held::Nothing,
            (None, Held::Unlisted | Held::Listed(_)) => Held::Unlisted,
        };
        before
    }

    /// The node has nothing of the row. Returns the spec that the row had.
    pub fn clear(&mut self) -> Option<PackedSpec> {
        self.0.held = Held::Nothing;
        self.0.spec.take()
    }

    pub fn clear_reason(&mut self) {
        self.0.last.reason = None;
    }

    /// Forgets the result of a check, so that the next one asks again.
    pub fn forget_verdict(&mut self) {
        self.be_complete();
        self.0.failed = false;
    }
}
