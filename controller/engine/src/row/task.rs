//! The life of a row's job, from the decision to the outcome. The job lies over the row: what the row was before shows
//! again if the job never began, and the outcome of a job that ended becomes the row's.
//!
//! ```text
//!   begin ─▶ NodeAway, Queued ─ leave ─▶ Sent ─▶ Running ─▶ Settling ─┬─▶ complete
//!                 │    ▲                  │                           └─▶ abandon
//!                 │    └── next_attempt ── Backoff
//!                 └──────── undo ◀─────── Withdrawing
//! ```
//!
//! Absent: which job a row gets (`row/needed.rs`), what an outcome leads to (`row/outcome.rs`), and when a
//! job is sent or withdrawn (`job.rs`, `job/withdraw.rs`).

use muster_shared::model::Action;
use muster_shared::{Generation, MonoTime};

use crate::record::{Observation, PackedSpec, Status};
use crate::row::cause::Cause;
use crate::row::{Held, Row, Slot};
use crate::view::phase::Phase;

/// A job without a known outcome.
#[derive(Debug)]
pub(crate) struct Task {
    pub cause: Cause,
    pub action: Action,
    /// The desired state that the job brings. `None`: the row's own.
    pub spec: Option<PackedSpec>,
    pub state: TaskState,
    /// When the job entered this state.
    pub since: MonoTime,
    /// The latest end of this state; the key of its timer.
    pub due: Option<MonoTime>,
    /// The row whose job this one waits for in the agent's lane.
    pub behind: Option<Slot>,
    /// Whether an attempt was sent.
    pub left: bool,
    pub before: Before,
    /// The state in which the thing was found since the job began.
    pub seen: Observation,
    /// The reason why the last attempt failed.
    pub reason: Option<Box<str>>,
}

/// Whether the row is known as it was before its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// The row's columns say it, and the agent holds that: drift from one is drift from the other.
    AsHeld,
    /// The row's columns say it. The agent may hold something earlier.
    InColumns,
    /// After a controller restart, or because the agent knew a newer generation. The row has the job's spec already.
    Unknown,
}

/// State of a job that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskState {
    /// The node is away, or has never joined.
    NodeAway,
    /// The job waits for room in flight.
    Queued,
    /// The agent may have the job.
    Sent,
    /// The agent reports that the job runs.
    Running,
    /// The agent reports that it waits for the observed state to equal the desired state.
    Settling,
    /// The agent may have the job, and was asked not to start it.
    Withdrawing,
    /// An attempt failed; the next one starts when due.
    Backoff,
}

impl TaskState {
    /// Whether the agent may have the job.
    pub fn is_sent(self) -> bool {
        match self {
            TaskState::Sent | TaskState::Running | TaskState::Settling | TaskState::Withdrawing => true,
            TaskState::NodeAway | TaskState::Queued | TaskState::Backoff => false,
        }
    }

    /// The phase that operators see.
    pub fn phase(self) -> Phase {
        match self {
            TaskState::NodeAway => Phase::NodeAway,
            TaskState::Queued | TaskState::Sent | TaskState::Withdrawing => Phase::Queued,
            TaskState::Running => Phase::Running,
            TaskState::Settling => Phase::Settling,
            TaskState::Backoff => Phase::Backoff,
        }
    }
}

/// A job that begins.
pub(crate) struct NewTask {
    pub cause: Cause,
    pub action: Action,
    pub generation: Generation,
    /// See [`Task::spec`].
    pub spec: Option<PackedSpec>,
    pub state: TaskState,
}

impl Row {
    /// Starts a job.
    pub fn begin(&mut self, new: NewTask, now: MonoTime) {
        let NewTask { cause, action, generation, spec, state } = new;
        let is_as_held = match self.task() {
            Some(earlier) => earlier.before == Before::AsHeld,
            None => self.is_as_held(),
        };
        let before = if is_as_held { Before::AsHeld } else { Before::InColumns };
        let row = &mut self.0;
        // A question changes nothing, so what was seen still counts.
        let seen = if action == Action::Check { row.seen } else { Observation::Unknown };
        (row.generation, row.attempt, row.retry_count) = (generation, 0, 0);
        (row.converges, row.had_begun) = (false, false);
        if let Some(details) = &mut row.details {
            details.causes.clear();
        }
        row.task = Some(Box::new(Task {
            cause,
            action,
            spec,
            state,
            since: now,
            due: None,
            behind: None,
            left: false,
            before,
            seen,
            reason: None,
        }));
    }

    /// Takes up a job of the store in this state. What its row was before is not known.
    pub(super) fn take_up(&mut self, action: Action, state: TaskState, now: MonoTime) {
        let row = &mut self.0;
        let last = std::mem::take(&mut row.last);
        row.task = Some(Box::new(Task {
            cause: last.cause,
            action,
            spec: None,
            state,
            since: now,
            due: None,
            behind: None,
            left: state.is_sent(),
            before: Before::Unknown,
            seen: row.seen,
            reason: last.reason,
        }));
    }

    /// Sets the state of the job. Returns whether it differs from the state before.
    pub fn set_task_state(&mut self, state: TaskState, now: MonoTime) -> bool {
        match &mut self.0.task {
            Some(task) if task.state != state => {
                (task.state, task.since) = (state, now);
                true
            }
            Some(_) | None => false,
        }
    }

    /// Sets the latest end of the job's present state. Returns the time set before. `None`: there
    /// is no job.
    pub fn set_task_due(&mut self, due: Option<MonoTime>) -> Option<Option<MonoTime>> {
        self.0.task.as_mut().map(|task| std::mem::replace(&mut task.due, due))
    }

    /// The timer of the job has run out. Returns the state that is over. `None`: the timer is of an
    /// earlier state.
    pub fn task_is_due(&mut self, due: MonoTime) -> Option<TaskState> {
        let task = self.0.task.as_mut().filter(|task| task.due == Some(due))?;
        task.due = None;
        Some(task.state)
    }

    /// Notes whether the job waits in its lane for the job of another row.
    pub fn queue_behind(&mut self, other: Option<Slot>) {
        if let Some(task) = &mut self.0.task {
            task.behind = other;
        }
    }

    /// Gives the job another generation before it is sent.
    pub fn renumber(&mut self, generation: Generation) {
        self.0.generation = generation;
    }

    /// The job is sent to its agent.
    pub fn leave(&mut self) {
        if let Some(task) = &mut self.0.task {
            task.left = true;
        }
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

    /// The agent knows a newer generation than the job has, so the row before the job is not what the node has. Returns
    /// the spec that no longer counts.
    pub fn supersede(&mut self, generation: Generation) -> Option<PackedSpec> {
        self.0.held = self.held_in_doubt();
        let row = &mut self.0;
        (row.generation, row.attempt) = (generation, 0);
        let task = row.task.as_mut()?;
        task.before = Before::Unknown;
        row.seen = task.seen;
        task.spec.take().and_then(|spec| row.spec.replace(spec))
    }

    /// The job succeeded. Returns the spec that no longer counts.
    pub fn complete(&mut self, held: Held) -> Option<PackedSpec> {
        let before = self.end_task(held);
        self.be_complete();
        before
    }

    /// The job ended without success. Returns the spec that no longer counts.
    pub fn abandon(&mut self, held: Held) -> Option<PackedSpec> {
        let before = self.end_task(held);
        self.0.last.status = Some(Status::Failed);
        before
    }

    /// Drops the cause of the last job.
    pub fn forget_cause(&mut self) {
        self.0.last.cause = Cause::Traversal;
    }

    /// The job never began: the row is as it was. Returns the job. A row that is not known as it was needs another job.
    pub fn undo(&mut self) -> Option<Task> {
        let task = match self.task()?.before {
            Before::AsHeld | Before::InColumns => self.0.task.take(),
            Before::Unknown => {
                self.end_task(self.held_in_doubt());
                let row = &mut self.0;
                (row.last.cause, row.last.status, row.definition) =
                    (Cause::Traversal, Some(Status::Failed), 0);
                row.last.reason.get_or_insert_with(|| {
                    "the job was withdrawn; the next operation applies it again".into()
                });
                None
            }
        };
        task.map(|task| *task)
    }

    /// The question of a check is withdrawn. Returns the drift that the agent reported of its own in the meantime, and
    /// the spec that no longer counts.
    pub fn end_check(&mut self, generation: Generation) -> (Option<Observation>, Option<PackedSpec>) {
        let row = &mut self.0;
        (row.generation, row.attempt, row.retry_count) = (generation, 0, 0);
        let Some(mut task) = row.task.take() else { return (None, None) };
        let before = task.spec.take().and_then(|spec| row.spec.replace(spec));
        if task.before == Before::Unknown {
            row.seen = task.seen;
        }
        // The agent may have reported drift before the question was sent.
        let told = row.seen != task.seen;
        let action = row.last.action.or(Some(Action::Update));
        let reason = row.last.reason.take();
        (row.last.action, row.last.status, row.last.reason) = match task.seen {
            _ if told => (action, Some(Status::Complete), reason),
            Observation::Unknown | Observation::InSync => (action, Some(Status::Complete), None),
            // The check before found the difference.
            Observation::Drifted | Observation::Missing => (
                Some(Action::Check),
                Some(Status::Failed),
                Some("not as desired when it was looked at".into()),
            ),
        };
        row.last.cause = task.cause;
        (told.then_some(row.seen), before)
    }

    /// The agent reported drift while a job is out. The row gets that if the job turns out never to have started.
    pub fn drift_before_task(&mut self, observed: Observation, reason: Option<Box<str>>) {
        let row = &mut self.0;
        if row.task.as_ref().is_some_and(|task| task.before == Before::AsHeld) {
            row.seen = observed;
            if row.last.status == Some(Status::Complete) {
                row.last.reason = reason;
            }
        }
    }

    /// Drift from before the job is ignored from now on.
    pub fn ignore_drift_before_task(&mut self) {
        if self.task.is_some() && self.seen.differs() {
            self.drift_before_task(Observation::Unknown, None);
        }
    }

    /// An operation takes the row over from drift: the present job counts as its own, and so does the last one.
    pub fn take_over(&mut self) {
        self.leave_to_operation(Cause::is_drift);
    }

    /// As [`Row::take_over`], for corrections only.
    pub fn take_over_correction(&mut self) {
        self.leave_to_operation(|cause| cause == Cause::Correction);
    }

    fn leave_to_operation(&mut self, is_left: impl Fn(Cause) -> bool) {
        let task = self.0.task.as_mut().map(|task| &mut task.cause);
        for cause in task.into_iter().chain([&mut self.0.last.cause]) {
            if is_left(*cause) {
                *cause = Cause::Traversal;
            }
        }
    }

    /// The job becomes the row's last one, whose status the caller sets. Returns the spec that no longer counts.
    fn end_task(&mut self, held: Held) -> Option<PackedSpec> {
        let row = &mut self.0;
        row.held = held;
        let task = row.task.take()?;
        (row.last.action, row.last.cause, row.last.reason) = (Some(task.action), task.cause, task.reason);
        row.seen = task.seen;
        task.spec.and_then(|spec| row.spec.replace(spec))
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::model::{Dummy, Observed, Spec};
    use muster_shared::{Epoch, ResourceId};
    use muster_template::{Desired, Kind};

    use super::*;
    use crate::row::outcome::TaskOutcome;

    fn spec(value: &str) -> PackedSpec {
        let values = [("v".to_owned(), value.to_owned())].into();
        PackedSpec::new(&Desired::Node(Spec::Dummy(Dummy { values, ..Dummy::default() })))
    }

    fn row() -> Row {
        Row::new(1, ResourceId(uuid::Uuid::nil()), 1, "a".into(), Kind::Dummy)
    }

    fn generation(number: u64) -> Generation {
        Generation { epoch: Epoch(1), number }
    }

    /// Returns what a reader sees of a row that a job may change, without the job's numbers.
    fn state(row: &Row) -> String {
        format!(
            "{:?}",
            (
                row.action(),
                row.status(),
                row.reason(),
                row.spec(),
                row.is_applied(),
                row.observed(),
                row.cause(),
                row.held(),
            )
        )
    }

    fn begin(row: &mut Row, action: Action) {
        let spec = Some(spec("2"));
        let new = NewTask {
            cause: Cause::Traversal,
            action,
            generation: generation(2),
            spec,
            state: TaskState::Queued,
        };
        row.begin(new, MonoTime::default());
    }

    #[test]
    fn a_job_that_never_begins_leaves_the_row_as_it_was() {
        let mut failed = row();
        failed.fail("no room");
        let mut complete = row();
        begin(&mut complete, Action::Create);
        complete.leave();
        complete.complete(Held::Listed(generation(1)));
        for mut row in [row(), failed, complete] {
            for sent in [false, true] {
                let before = state(&row);
                begin(&mut row, Action::Update);
                if sent {
                    row.leave();
                }
                assert_ne!(state(&row), before);
                assert_eq!(row.undo().and_then(|task| task.spec), Some(spec("2")));
                assert_eq!(state(&row), before);
            }
        }
    }

    #[test]
    fn a_job_without_a_known_past_has_to_be_applied_again() {
        let mut row = row();
        begin(&mut row, Action::Update);
        row.leave();
        row.supersede(generation(5));
        assert!(row.undo().is_none());
        assert_eq!((row.status(), row.definition), (Some(Status::Failed), 0));
        assert_eq!((row.spec(), row.is_applied()), (Some(&spec("2")), true), "the agent may have done it");
    }

    /// Made as `spec("1")`, and seen so.
    fn made() -> Row {
        let mut row = row();
        let (action, generation) = (Action::Create, generation(1));
        let spec = Some(spec("1"));
        let new = NewTask { cause: Cause::Traversal, action, generation, spec, state: TaskState::Queued };
        row.begin(new, MonoTime::default());
        row.leave();
        row.complete(Held::Listed(generation));
        row.set_observed(Observation::InSync);
        row
    }

    #[test]
    fn drift_from_an_earlier_spec_says_nothing_of_the_rows_own() {
        let mut row = made();
        begin(&mut row, Action::Update);
        row.leave();
        row.supersede(generation(5));
        assert!(row.undo().is_none(), "the row has the spec of a job that never began");
        begin(&mut row, Action::Update);
        row.drift_before_task(Observation::InSync, None);
        row.undo();
        assert_eq!((row.observed(), row.is_intact()), (Observation::Unknown, false));

        let mut row = made();
        begin(&mut row, Action::Update);
        row.drift_before_task(Observation::Drifted, None);
        row.undo();
        assert_eq!(row.observed(), Observation::Drifted, "the agent held what the row was before");
    }

    #[test]
    fn a_row_that_failed_without_a_job_is_as_it_was_seen() {
        let mut row = made();
        assert!(row.is_as_held());
        begin(&mut row, Action::Check);
        row.complete(Held::Listed(generation(1)));
        row.set_observed(Observation::InSync);
        row.refuse(Action::Update);
        row.fail("replace is restricted");
        assert!(row.is_as_held(), "drift that is reported now counts");
        begin(&mut row, Action::Update);
        row.leave();
        row.abandon(Held::Listed(generation(1)));
        assert!(!row.is_as_held(), "the job may have changed something");
    }

    #[test]
    fn a_row_is_applied_from_when_its_job_leaves_until_it_is_gone() {
        for (action, leaves, ends) in
            [(Action::Create, true, true), (Action::Delete, true, false), (Action::Check, false, true)]
        {
            let mut row = row();
            begin(&mut row, action);
            assert!(!row.is_applied());
            row.leave();
            assert_eq!(row.is_applied(), leaves, "{action:?}");
            let outcome = TaskOutcome::Done(Observed::default());
            row.complete(row.after(&outcome, 0).held);
            assert_eq!(row.is_applied(), ends, "{action:?}");
        }
    }

    #[test]
    fn the_end_of_a_job_says_which_spec_no_longer_counts() {
        let mut row = row();
        begin(&mut row, Action::Create);
        assert_eq!(row.abandon(Held::Unlisted), None, "there was none before");
        begin(&mut row, Action::Update);
        assert_eq!(row.complete(Held::Listed(generation(2))), Some(spec("2")));
        let new = NewTask {
            cause: Cause::Traversal,
            action: Action::Delete,
            generation: generation(3),
            spec: None,
            state: TaskState::Queued,
        };
        row.begin(new, MonoTime::default());
        assert_eq!(
            (row.complete(Held::Nothing), row.spec()),
            (None, Some(&spec("2"))),
            "its claims are still needed"
        );
    }

    #[test]
    fn a_withdrawn_check_leaves_what_was_known() {
        use Observation::{Drifted, InSync, Missing, Unknown};
        let rows = [
            // Observation before the question and by drift reports since, status of the row, and the result of `end_check`.
            (Unknown, Unknown, Status::Complete, None),
            (InSync, InSync, Status::Complete, None),
            (Drifted, Drifted, Status::Failed, None),
            (Missing, Missing, Status::Failed, None),
            (InSync, Drifted, Status::Complete, Some(Drifted)),
            (Drifted, InSync, Status::Complete, Some(InSync)),
        ];
        for (before, now, status, told) in rows {
            let mut row = made();
            row.set_observed(before);
            begin(&mut row, Action::Check);
            row.drift_before_task(now, None);
            assert_eq!(row.end_check(generation(3)).0, told, "{before:?} {now:?}");
            assert_eq!((row.status(), row.observed()), (Some(status), now), "{before:?} {now:?}");
            assert_eq!((row.generation, row.attempt), (generation(3), 0));
        }
    }

    #[test]
    fn a_withdrawn_check_from_the_store_keeps_the_observation() {
        let mut row = row();
        row.take_up(Action::Check, TaskState::Sent, MonoTime::default());
        row.set_observed(Observation::Drifted); // as a load does
        assert_eq!(row.end_check(generation(3)).0, None);
        assert_eq!((row.status(), row.observed()), (Some(Status::Failed), Observation::Drifted));
    }

    #[test]
    fn an_attempt_that_comes_to_nothing_counts() {
        let mut row = row();
        begin(&mut row, Action::Create);
        row.set_task_due(Some(MonoTime::default()));
        assert_eq!(row.task_is_due(MonoTime(std::time::Duration::from_secs(1))), None, "another timer");
        assert_eq!(row.task_is_due(MonoTime::default()), Some(TaskState::Queued));
        assert_eq!(row.task_is_due(MonoTime::default()), None, "once");
        row.next_attempt();
        assert_eq!((row.count_retry(), row.count_retry(), row.attempt), (1, 2, 1));
        begin(&mut row, Action::Create);
        assert_eq!((row.attempt, row.retry_count), (0, 0), "another job begins at nothing");
    }
}
