//! Changes of a row by its job, from the decision to the outcome, and changes of a virtual resource
//! without a job.
//!
//! Absent: which job a row gets (`row/needed.rs`), and when it is sent or withdrawn (`job.rs`).

use std::collections::BTreeMap;

use muster_shared::model::Action;
use muster_shared::{Generation, MonoTime};
use muster_template::Kind;

use crate::cause::Cause;
use crate::record::{Observation, PackedSpec, Status};
use crate::row::{PriorState, Row, Slot, Work, WorkState};

impl Row {
    /// Starts a job. Returns the state to restore if the job never starts at the agent.
    pub fn begin(
        &mut self,
        cause: Cause,
        action: Action,
        generation: Generation,
        spec: Option<PackedSpec>,
    ) -> PriorState {
        let row = &mut self.0;
        let prior = PriorState {
            action: row.action,
            status: row.status,
            reason: row.reason.take(),
            spec: row.spec.clone(),
            applied: row.applied,
            observed: row.observed,
            cause: row.cause,
        };
        (row.action, row.cause, row.status) = (Some(action), cause, Some(Status::InProgress));
        (row.generation, row.attempt, row.retry_count) = (generation, 0, 0);
        row.converges = false;
        if let Some(details) = &mut row.details {
            details.causes.clear();
        }
        if let Some(spec) = spec {
            row.spec = Some(spec);
        }
        prior
    }

    /// Gives the row a job in this state.
    pub fn give_work(&mut self, state: WorkState, now: MonoTime, previous: Option<PriorState>) {
        self.0.work = Some(Box::new(Work { state, since: now, due: None, behind: None, previous }));
    }

    /// Sets the state of the job. Returns whether it differs from the state before.
    pub fn set_work_state(&mut self, state: WorkState, now: MonoTime) -> bool {
        match &mut self.0.work {
            Some(work) if work.state != state => {
                (work.state, work.since) = (state, now);
                true
            }
            Some(_) | None => false,
        }
    }

    /// Sets the latest end of the job's present state. Returns the time set before. `None`: there
    /// is no job.
    pub fn set_work_due(&mut self, due: Option<MonoTime>) -> Option<Option<MonoTime>> {
        self.0.work.as_mut().map(|work| std::mem::replace(&mut work.due, due))
    }

    /// The timer of the job has run out. Returns the state that is over. `None`: the timer is of an
    /// earlier state.
    pub fn work_is_due(&mut self, due: MonoTime) -> Option<WorkState> {
        let work = self.0.work.as_mut().filter(|work| work.due == Some(due))?;
        work.due = None;
        Some(work.state)
    }

    /// Notes whether the job waits in its lane for the job of another row.
    pub fn queue_behind(&mut self, other: Option<Slot>) {
        if let Some(work) = &mut self.0.work {
            work.behind = other;
        }
    }

    pub fn end_work(&mut self) -> Option<Work> {
        self.0.work.take().map(|work| *work)
    }

    /// Gives the job another generation before it is sent.
    pub fn renumber(&mut self, generation: Generation) {
        self.0.generation = generation;
    }

    /// The job is sent to its agent.
    pub fn leave(&mut self) {
        self.0.applied |= self.action != Some(Action::Check);
    }

    pub fn next_attempt(&mut self) {
        self.0.attempt += 1;
    }

    /// The agent has made more attempts than the store knows.
    pub fn catch_up_with(&mut self, attempt: u32) {
        self.0.attempt = attempt;
    }

    /// Counts a failed attempt. Returns how many have failed.
    pub fn count_retry(&mut self) -> u32 {
        self.0.retry_count += 1;
        self.retry_count
    }

    /// The job was withdrawn before it started. After a restart there is no prior state: the row
    /// then needs another job.
    pub fn withdraw(&mut self, prior: Option<PriorState>) {
        let row = &mut self.0;
        match prior {
            Some(prior) => {
                (row.action, row.status, row.reason) = (prior.action, prior.status, prior.reason);
                (row.spec, row.applied, row.cause) = (prior.spec, prior.applied, prior.cause);
            }
            None => {
                (row.cause, row.status, row.definition) = (Cause::Traversal, Some(Status::Failed), 0);
                row.reason.get_or_insert_with(|| {
                    "its job was withdrawn: it is applied again when it is wanted".into()
                });
            }
        }
    }

    /// The job ended without success.
    pub fn abandon(&mut self) {
        self.0.status = Some(Status::Failed);
    }

    /// Sets the reason that operators read.
    pub fn set_reason(&mut self, reason: &str) {
        self.0.reason = Some(reason.into());
    }

    /// The row has failed for good. A row without any job has failed to be created.
    pub fn fail(&mut self, reason: &str) {
        self.0.action.get_or_insert(Action::Create);
        self.fail_as_it_is(reason);
    }

    /// The row has failed; its last action stays.
    pub fn fail_as_it_is(&mut self, reason: &str) {
        (self.0.status, self.0.reason) = (Some(Status::Failed), Some(reason.into()));
    }

    /// An operator marks the thing unhealthy.
    pub fn mark_unhealthy(&mut self) {
        self.details_mut().unhealthy = true;
        if self.work.is_none() {
            self.0.action.get_or_insert(Action::Check);
        }
    }

    /// The environment refuses this action before it becomes a job.
    pub fn refuse(&mut self, action: Action) {
        self.0.action = Some(action);
    }

    /// The agent knows a newer generation than the job has. Returns the prior state, which the row
    /// no longer has.
    pub fn supersede(&mut self, generation: Generation) -> Option<PriorState> {
        let row = &mut self.0;
        (row.generation, row.attempt) = (generation, 0);
        row.work.as_mut().and_then(|work| work.previous.take())
    }

    /// The job succeeded. `held` is the generation in the agent's ledger from now on.
    pub fn complete(&mut self, held: Option<Generation>) {
        self.be_complete();
        (self.0.held, self.0.applied) = (held, !self.is_going());
    }

    /// Drops the cause of the last job.
    pub fn forget_cause(&mut self) {
        self.0.cause = Cause::Traversal;
    }

    /// The thing is as desired.
    pub fn be_complete(&mut self) {
        (self.0.status, self.0.reason) = (Some(Status::Complete), None);
    }

    /// A row that failed without a job is wanted unchanged. A removal that failed is no longer wanted.
    pub fn mend(&mut self) {
        self.be_complete();
        if self.is_going() {
            self.0.action = Some(Action::Update);
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

    pub fn set_observed(&mut self, observed: Observation) {
        self.0.observed = observed;
    }

    /// The agent reports drift with this reason, or the end of drift.
    pub fn drift(&mut self, reason: Option<Box<str>>) {
        self.0.reason = reason;
        self.details_mut().drift_event.get_or_insert_default();
    }

    /// Drift is ignored from now on. The reason of a COMPLETE row can only be drift.
    pub fn ignore_drift(&mut self) {
        if self.status == Some(Status::Complete) {
            self.0.reason = None;
        }
    }

    /// The question of a check is withdrawn. Returns the drift that the agent reported of its own
    /// in the meantime.
    pub fn end_check(&mut self, generation: Generation, prior: Option<&PriorState>) -> Option<Observation> {
        let row = &mut self.0;
        (row.generation, row.attempt, row.retry_count) = (generation, 0, 0);
        row.action = prior.and_then(|prior| prior.action).or(Some(Action::Update));
        // The agent may have reported drift before the question was sent.
        let told = prior.filter(|prior| prior.observed != row.observed);
        (row.status, row.reason) = match (row.observed, told) {
            (_, Some(told)) => (Some(Status::Complete), told.reason.clone()),
            (Observation::Unknown | Observation::InSync, None) => (Some(Status::Complete), None),
            // The check before found the difference.
            (Observation::Drifted | Observation::Missing, None) => {
                row.action = Some(Action::Check);
                (Some(Status::Failed), Some("not as desired when it was looked at".into()))
            }
        };
        told.map(|told| told.observed)
    }

    /// The agent has lost the thing: its status is not known.
    pub fn lose_status(&mut self) {
        self.0.status = None;
    }

    /// The agent has lost the thing while a job is out. The prior state no longer counts as good.
    pub fn lose_prior_status(&mut self) {
        if let Some(prior) = self.0.work.as_mut().and_then(|work| work.previous.as_mut()) {
            prior.status = None;
        }
    }

    /// The agent reported drift while a job is out. The prior state gets that.
    pub fn prior_drifts(&mut self, observed: Observation, reason: Option<Box<str>>) {
        if let Some(prior) = self.0.work.as_mut().and_then(|work| work.previous.as_mut()) {
            prior.observed = observed;
            if prior.status == Some(Status::Complete) {
                prior.reason = reason;
            }
        }
    }

    /// Drift of the prior state is ignored from now on.
    pub fn prior_ignores_drift(&mut self) {
        let prior = self.work.as_ref().and_then(|work| work.previous.as_ref());
        if prior.is_some_and(|prior| prior.observed.differs()) {
            self.prior_drifts(Observation::Unknown, None);
        }
    }

    /// The node's thing is newer than the store. The next operation applies the row, even if the
    /// template has not changed.
    pub fn be_outdated(&mut self) {
        // The node has the thing, so the next job does not create it.
        if self.held.is_some() && matches!(self.action, Some(Action::Create | Action::Adopt)) {
            self.0.action = Some(Action::Update);
        }
        self.0.definition = 0;
        self.fail_as_it_is("the store is older than its server: the next update of the stack applies it");
    }

    /// Sets the generation in the agent's ledger. Returns the one known before.
    pub fn set_held(&mut self, held: Option<Generation>) -> Option<Generation> {
        std::mem::replace(&mut self.0.held, held)
    }

    /// As [`Row::set_held`]. A thing in the ledger needs a job to remove it, even if the job that
    /// made it is not known.
    pub fn hold(&mut self, held: Option<Generation>) -> Option<Generation> {
        self.0.applied |= held.is_some();
        self.set_held(held)
    }

    /// A virtual resource could not be made.
    pub fn refuse_virtual(&mut self, kind: Kind, action: Action) {
        (self.0.kind, self.0.action) = (kind, Some(action));
    }

    /// A virtual resource is made or changed.
    pub fn realise(&mut self, kind: Kind, action: Action, spec: PackedSpec) {
        let row = &mut self.0;
        (row.kind, row.action, row.spec) = (kind, Some(action), Some(spec));
        (row.reason, row.retry_count, row.handed_over, row.applied) = (None, 0, false, true);
    }

    pub fn be_made(&mut self) {
        self.0.status = Some(Status::Complete);
    }

    /// A virtual resource is removed.
    pub fn be_unmade(&mut self) {
        self.0.action = Some(self.farewell());
        self.be_complete();
        self.0.applied = false;
    }

    /// The row is in progress while it waits.
    pub fn wait(&mut self, action: Action) {
        (self.0.action, self.0.status) = (Some(action), Some(Status::InProgress));
    }

    pub fn clear_reason(&mut self) {
        self.0.reason = None;
    }

    /// Replaces the spec with one that says more than the template does.
    pub fn bind(&mut self, spec: PackedSpec) {
        self.0.spec = Some(spec);
    }

    /// The node has nothing of the row. Returns the spec that the row had.
    pub fn clear(&mut self) -> Option<PackedSpec> {
        self.0.applied = false;
        self.0.spec.take()
    }

    /// An operation takes the row over from drift: the present job counts as its own, and so does
    /// the prior state.
    pub fn take_over(&mut self) {
        self.leave_to_operation(Cause::is_drift);
    }

    /// As [`Row::take_over`], for corrections only.
    pub fn take_over_correction(&mut self) {
        self.leave_to_operation(|cause| cause == Cause::Correction);
    }

    fn leave_to_operation(&mut self, is_left: impl Fn(Cause) -> bool) {
        let previous = self.0.work.as_mut().and_then(|work| work.previous.as_mut());
        for cause in previous.map(|previous| &mut previous.cause).into_iter().chain([&mut self.0.cause]) {
            if is_left(*cause) {
                *cause = Cause::Traversal;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::Epoch;
    use muster_shared::model::{Dummy, Spec};
    use muster_template::Desired;

    use super::*;

    fn spec(value: &str) -> PackedSpec {
        let values = [("v".to_owned(), value.to_owned())].into();
        PackedSpec::new(&Desired::Node(Spec::Dummy(Dummy { values, ..Dummy::default() })))
    }

    fn row() -> Row {
        Row::new(1, muster_shared::ResourceId(uuid::Uuid::nil()), 1, "a".into(), Kind::Dummy)
    }

    fn generation(number: u64) -> Generation {
        Generation { epoch: Epoch(1), number }
    }

    /// The parts of a row that a job may change, without its numbers.
    fn state(row: &Row) -> String {
        format!(
            "{:?}",
            (row.action, row.status, &row.reason, &row.spec, row.applied, row.observed, row.cause)
        )
    }

    fn begin(row: &mut Row, action: Action) {
        let prior = row.begin(Cause::Traversal, action, generation(2), Some(spec("2")));
        row.give_work(WorkState::Queued, MonoTime::default(), Some(prior));
    }

    #[test]
    fn a_job_that_never_begins_leaves_the_row_as_it_was() {
        let mut failed = row();
        failed.fail("no room");
        let mut complete = row();
        complete.begin(Cause::Traversal, Action::Create, generation(1), Some(spec("1")));
        complete.leave();
        complete.complete(Some(generation(1)));
        for mut row in [row(), failed, complete] {
            let before = state(&row);
            begin(&mut row, Action::Update);
            assert_ne!(state(&row), before);
            let work = row.end_work().unwrap();
            row.withdraw(work.previous);
            assert_eq!(state(&row), before);
        }
    }

    #[test]
    fn a_job_without_a_known_past_has_to_be_applied_again() {
        let mut row = row();
        begin(&mut row, Action::Update);
        row.withdraw(None);
        assert_eq!((row.status, row.definition), (Some(Status::Failed), 0));
    }

    #[test]
    fn a_thing_is_applied_from_the_time_its_job_leaves_until_it_is_gone() {
        for (action, leaves, ends) in
            [(Action::Create, true, true), (Action::Delete, true, false), (Action::Check, false, true)]
        {
            let mut row = row();
            begin(&mut row, action);
            assert!(!row.applied);
            row.leave();
            assert_eq!(row.applied, leaves, "{action:?}");
            row.complete(Some(generation(2)));
            assert_eq!(row.applied, ends, "{action:?}");
        }
    }

    #[test]
    fn a_withdrawn_check_leaves_what_was_known() {
        use Observation::{Drifted, InSync, Missing, Unknown};
        let rows = [
            // Observation before the check and now, status of the row, and the result of `end_check`.
            (Unknown, Unknown, Status::Complete, None),
            (InSync, InSync, Status::Complete, None),
            (Drifted, Drifted, Status::Failed, None),
            (Missing, Missing, Status::Failed, None),
            (InSync, Drifted, Status::Complete, Some(InSync)),
            (Drifted, InSync, Status::Complete, Some(Drifted)),
        ];
        for (before, now, status, told) in rows {
            let mut row = row();
            row.set_observed(now);
            let prior = PriorState {
                observed: before,
                ..row.begin(Cause::Check, Action::Check, generation(2), None)
            };
            assert_eq!(row.end_check(generation(3), Some(&prior)), told, "{before:?} {now:?}");
            assert_eq!(row.status, Some(status), "{before:?} {now:?}");
            assert_eq!((row.generation, row.attempt), (generation(3), 0));
        }
    }

    #[test]
    fn an_attempt_that_comes_to_nothing_counts() {
        let mut row = row();
        begin(&mut row, Action::Create);
        row.set_work_due(Some(MonoTime::default()));
        assert_eq!(row.work_is_due(MonoTime(std::time::Duration::from_secs(1))), None, "another timer");
        assert_eq!(row.work_is_due(MonoTime::default()), Some(WorkState::Queued));
        assert_eq!(row.work_is_due(MonoTime::default()), None, "once");
        row.next_attempt();
        assert_eq!((row.count_retry(), row.count_retry(), row.attempt), (1, 2, 1));
        begin(&mut row, Action::Create);
        assert_eq!((row.attempt, row.retry_count), (0, 0), "another job begins at nothing");
    }
}
