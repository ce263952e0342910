//! Derives from the outcome of a job what the agent has from then on, how the thing was found, and whether the job has
//! succeeded, is tried again or has failed, and whose failure that is. Pure; a table test has a row for each cause and
//! action, with a column for each outcome.
//!
//! Absent: which outcome a report stands for (`row/report_meaning.rs`), and what is done about it (`job/apply_outcome.rs`).

use muster_shared::model::{Action, Observed};

use crate::record::{Observation, PackedSpec};
use crate::row::{Held, Row, TaskState};

/// The outcome of a job, or of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskOutcome {
    /// The agent did it.
    Done(Observed),
    /// A question found the thing as desired.
    InSync,
    /// A question found a difference. If `missing`, there is no thing at all.
    Differs { reason: String, missing: bool },
    /// The attempt failed. If `permanent`, another one cannot help.
    Failed { reason: String, permanent: bool },
    /// The attempt failed because a disk has no room.
    NoRoom { reason: String },
    /// The agent did not answer in time.
    Unanswered,
    /// The job was being withdrawn, had started, and did not succeed.
    Interrupted { reason: String },
    /// The job was withdrawn, and this attempt has not started.
    Withdrawn,
    /// Between two attempts, what the job needs became unready.
    NeedsUnready,
    /// The node was removed while it may have had the job.
    Lost,
}

impl TaskOutcome {
    /// A failure that another attempt cannot help.
    pub fn refused(reason: String) -> Self {
        Self::Failed { reason, permanent: true }
    }

    /// The outcome with another text for its reason.
    pub fn with_reason(mut self, text: impl FnOnce(String) -> String) -> Self {
        match &mut self {
            Self::Differs { reason, .. }
            | Self::Failed { reason, .. }
            | Self::NoRoom { reason }
            | Self::Interrupted { reason } => *reason = text(std::mem::take(reason)),
            Self::Done(_)
            | Self::InSync
            | Self::Unanswered
            | Self::Withdrawn
            | Self::NeedsUnready
            | Self::Lost => {}
        }
        self
    }
}

/// The consequences of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct After {
    pub held: Held,
    /// The state in which the thing was found. `None`: the outcome does not say.
    pub seen: Option<Observation>,
    pub then: Then,
}

/// The fate of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// The job has succeeded.
    Complete,
    /// Another attempt follows. If it `counts`, there is one attempt less.
    TryAgain { counts: bool },
    /// The job has failed.
    Failed(FailureOf),
    /// The row is as it was before the job.
    Undone,
    /// The row is as it was before the question, but for what its agent reported in the meantime.
    Unasked,
}

/// The operation or job that a failure counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureOf {
    /// The operation in progress fails with it.
    Operation,
    /// A background job: no operation fails with it.
    Background,
    /// No failure counts: the job is no longer wanted, and the next visit decides.
    Nobody,
}

impl Row {
    /// Returns the consequences of the outcome of the row's job. The job fails for good after `retries_max` attempts
    /// that counted.
    pub fn after(&self, outcome: &TaskOutcome, retries_max: u32) -> After {
        let may_be = self.held_in_doubt();
        let (held, seen, then) = match outcome {
            TaskOutcome::Done(_) => (self.held_when_done(), None, Then::Complete),
            TaskOutcome::InSync => (may_be, Some(Observation::InSync), Then::Complete),
            TaskOutcome::Differs { missing, .. } => {
                let seen = if *missing { Observation::Missing } else { Observation::Drifted };
                let then = match self.is_asked() {
                    true => Then::Failed(FailureOf::Operation),
                    // Others may yet make an external thing so.
                    false => self.again_or_failed(false, retries_max),
                };
                (may_be, Some(seen), then)
            }
            TaskOutcome::Failed { permanent, .. } => {
                let then = self.again_or_failed(*permanent, retries_max);
                (may_be, self.seen_after_failure(then), then)
            }
            TaskOutcome::Unanswered => {
                let then = self.again_or_failed(false, retries_max);
                (may_be, self.seen_after_failure(then), then)
            }
            TaskOutcome::NoRoom { .. } => (may_be, None, Then::TryAgain { counts: false }),
            TaskOutcome::Withdrawn if self.is_asked() => (may_be, None, Then::Unasked),
            // An earlier attempt may have changed something.
            TaskOutcome::Withdrawn if self.attempt_has_ended() => {
                (may_be, None, Then::Failed(FailureOf::Nobody))
            }
            TaskOutcome::Withdrawn => (self.held, None, Then::Undone),
            TaskOutcome::Interrupted { .. } | TaskOutcome::NeedsUnready | TaskOutcome::Lost => {
                (may_be, None, Then::Failed(FailureOf::Nobody))
            }
        };
        After { held, seen, then }
    }

    /// Whether an attempt of the present job has ended.
    fn attempt_has_ended(&self) -> bool {
        self.attempt > 0 || self.task().is_some_and(|task| task.state == TaskState::Backoff)
    }

    fn again_or_failed(&self, permanent: bool, retries_max: u32) -> Then {
        match permanent || self.retry_count >= retries_max {
            false => Then::TryAgain { counts: true },
            true if self.cause().is_drift() => Then::Failed(FailureOf::Background),
            true => Then::Failed(FailureOf::Operation),
        }
    }

    /// A question without an answer leaves no thing in sync.
    fn seen_after_failure(&self, then: Then) -> Option<Observation> {
        let is_question = self.action() == Some(Action::Check) && matches!(then, Then::Failed(_));
        (is_question && self.observed() == Observation::InSync).then_some(Observation::Unknown)
    }

    /// Returns what the agent has once the job has succeeded. No agent's ledger has a flow table.
    fn held_when_done(&self) -> Held {
        match self.spec().is_some_and(PackedSpec::is_flows) {
            _ if self.is_going() => Held::Nothing,
            true => Held::Unlisted,
            false => Held::Listed(self.generation),
        }
    }

    /// Returns what the agent has if the job came to nothing that is known.
    pub(super) fn held_in_doubt(&self) -> Held {
        match self.held {
            Held::Nothing if self.is_applied() => Held::Unlisted,
            held @ (Held::Nothing | Held::Unlisted | Held::Listed(_)) => held,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use muster_shared::model::{Dummy, Spec};
    use muster_shared::{Epoch, Generation, MonoTime, ResourceId};
    use muster_template::{Desired, Kind};

    use super::*;
    use crate::row::NewTask;
    use crate::row::cause::Cause;

    const RETRIES: u32 = 3;

    fn generation(number: u64) -> Generation {
        Generation { epoch: Epoch(1), number }
    }

    /// A row with a job of generation 2. If it is `made`, its thing was made with generation 1.
    fn row(cause: Cause, action: Action, made: bool, state: TaskState) -> Row {
        let mut row = Row::new(1, ResourceId(uuid::Uuid::nil()), 1, "a".into(), Kind::Dummy);
        let spec = Some(PackedSpec::new(&Desired::Node(Spec::Dummy(Dummy::default()))));
        let begin = |row: &mut Row, cause, action, number| {
            let (generation, spec) = (generation(number), spec.clone());
            row.begin(NewTask { cause, action, generation, spec, state }, MonoTime::default());
        };
        if made {
            begin(&mut row, Cause::Traversal, Action::Create, 1);
            let after = row.after(&TaskOutcome::Done(Observed::default()), RETRIES);
            row.complete(after.held);
            row.be_ready(1, 1);
            row.set_observed(Observation::InSync);
        }
        begin(&mut row, cause, action, 2);
        if state.is_sent() || state == TaskState::Backoff {
            row.leave();
        }
        if action == Action::Check && !made {
            row.details_mut().external_id = Some("theirs".into());
        }
        row
    }

    /// Each outcome as two signs: what the agent has (`0` nothing, `?` unlisted, `1` and `2` the generation), and what
    /// follows (`C`omplete, try `a`gain, the same without counting `n`, `F`ailed, failed in the `B`ackground, failed for
    /// `N`obody, `U`ndone, un`Q`uestioned).
    fn signs(row: &Row) -> String {
        let reason = String::new;
        let outcomes = [
            TaskOutcome::Done(Observed::default()),
            TaskOutcome::InSync,
            TaskOutcome::Differs { reason: reason(), missing: true },
            TaskOutcome::Failed { reason: reason(), permanent: false },
            TaskOutcome::Failed { reason: reason(), permanent: true },
            TaskOutcome::NoRoom { reason: reason() },
            TaskOutcome::Unanswered,
            TaskOutcome::Interrupted { reason: reason() },
            TaskOutcome::Withdrawn,
            TaskOutcome::NeedsUnready,
            TaskOutcome::Lost,
        ];
        let mut signs = String::new();
        for outcome in outcomes {
            let After { held, then, .. } = row.after(&outcome, RETRIES);
            let held = match held {
                Held::Nothing => "0".to_owned(),
                Held::Unlisted => "?".to_owned(),
                Held::Listed(generation) => generation.number.to_string(),
            };
            let then = match then {
                Then::Complete => 'C',
                Then::TryAgain { counts: true } => 'a',
                Then::TryAgain { counts: false } => 'n',
                Then::Failed(FailureOf::Operation) => 'F',
                Then::Failed(FailureOf::Background) => 'B',
                Then::Failed(FailureOf::Nobody) => 'N',
                Then::Undone => 'U',
                Then::Unasked => 'Q',
            };
            write!(signs, "{held}{then} ").expect("a text takes all");
        }
        signs.trim_end().to_owned()
    }

    #[test]
    fn what_follows_from_an_outcome() {
        use Action::{Adopt, Check, Create, Delete, Retain, Update};
        use Cause::{Correction, LostCleanup, Rebuild, Traversal, UnitRestart};
        use TaskState::{Backoff, NodeAway, Queued, Running, Sent, Settling, Withdrawing};
        let rows = [
            // Cause, action, whether the thing was made before, state of the job; for each outcome of `signs`.
            (Traversal, Create, false, Queued, "2C 0C 0a 0a 0F 0n 0a 0N 0U 0N 0N"),
            (Traversal, Create, false, NodeAway, "2C 0C 0a 0a 0F 0n 0a 0N 0U 0N 0N"),
            (Traversal, Create, false, Sent, "2C ?C ?a ?a ?F ?n ?a ?N 0U ?N ?N"),
            (Traversal, Create, false, Running, "2C ?C ?a ?a ?F ?n ?a ?N 0U ?N ?N"),
            (Traversal, Create, false, Settling, "2C ?C ?a ?a ?F ?n ?a ?N 0U ?N ?N"),
            (Traversal, Create, false, Withdrawing, "2C ?C ?a ?a ?F ?n ?a ?N 0U ?N ?N"),
            (Traversal, Create, false, Backoff, "2C ?C ?a ?a ?F ?n ?a ?N ?N ?N ?N"),
            (Traversal, Adopt, false, Sent, "2C ?C ?a ?a ?F ?n ?a ?N 0U ?N ?N"),
            (Traversal, Update, true, Queued, "2C 1C 1a 1a 1F 1n 1a 1N 1U 1N 1N"),
            (Traversal, Update, true, Sent, "2C 1C 1a 1a 1F 1n 1a 1N 1U 1N 1N"),
            (Traversal, Delete, true, Sent, "0C 1C 1a 1a 1F 1n 1a 1N 1U 1N 1N"),
            (Traversal, Retain, true, Sent, "0C 1C 1a 1a 1F 1n 1a 1N 1U 1N 1N"),
            (Cause::Check, Check, true, Queued, "2C 1C 1F 1a 1F 1n 1a 1N 1Q 1N 1N"),
            (Cause::Check, Check, true, Sent, "2C 1C 1F 1a 1F 1n 1a 1N 1Q 1N 1N"),
            (Traversal, Check, false, Sent, "2C 0C 0a 0a 0F 0n 0a 0N 0U 0N 0N"),
            (Correction, Update, true, Queued, "2C 1C 1a 1a 1B 1n 1a 1N 1U 1N 1N"),
            (Correction, Update, true, Sent, "2C 1C 1a 1a 1B 1n 1a 1N 1U 1N 1N"),
            (UnitRestart, Update, true, Sent, "2C 1C 1a 1a 1B 1n 1a 1N 1U 1N 1N"),
            (Rebuild, Update, true, Sent, "2C 1C 1a 1a 1F 1n 1a 1N 1U 1N 1N"),
            (Rebuild, Create, true, Sent, "2C 1C 1a 1a 1F 1n 1a 1N 1U 1N 1N"),
            (LostCleanup, Delete, true, Sent, "0C 1C 1a 1a 1F 1n 1a 1N 1U 1N 1N"),
        ];
        for (cause, action, made, state, expected) in rows {
            let row = row(cause, action, made, state);
            assert_eq!(signs(&row), expected, "{cause:?} {action:?} {made} {state:?}");
        }
    }

    #[test]
    fn attempts_are_counted_and_the_last_one_fails() {
        let failed = TaskOutcome::Failed { reason: String::new(), permanent: false };
        for (cause, of) in
            [(Cause::Traversal, FailureOf::Operation), (Cause::UnitRestart, FailureOf::Background)]
        {
            let mut row = row(cause, Action::Update, true, TaskState::Sent);
            for _ in 0..RETRIES {
                assert_eq!(row.after(&failed, RETRIES).then, Then::TryAgain { counts: true });
                row.count_retry();
            }
            for outcome in [&failed, &TaskOutcome::Unanswered] {
                assert_eq!(row.after(outcome, RETRIES).then, Then::Failed(of), "{cause:?} {outcome:?}");
            }
            let full = TaskOutcome::NoRoom { reason: String::new() };
            assert_eq!(row.after(&full, RETRIES).then, Then::TryAgain { counts: false }, "it waits for room");
        }
    }

    #[test]
    fn what_was_tried_is_not_undone() {
        let mut row = row(Cause::Traversal, Action::Update, true, TaskState::Queued);
        assert_eq!(row.after(&TaskOutcome::Withdrawn, RETRIES).then, Then::Undone);
        row.next_attempt();
        assert_eq!(row.after(&TaskOutcome::Withdrawn, RETRIES).then, Then::Failed(FailureOf::Nobody));
    }

    #[test]
    fn a_question_says_how_the_thing_was_found() {
        let row = row(Cause::Check, Action::Check, true, TaskState::Sent);
        let seen = |outcome| row.after(&outcome, RETRIES).seen;
        let (reason, missing) = (String::new(), true);
        assert_eq!(seen(TaskOutcome::InSync), Some(Observation::InSync));
        assert_eq!(seen(TaskOutcome::Differs { reason, missing }), Some(Observation::Missing));
        assert_eq!(seen(TaskOutcome::refused(String::new())), Some(Observation::Unknown), "it was in sync");
        assert_eq!(seen(TaskOutcome::Unanswered), None, "it is asked again");
        assert_eq!(seen(TaskOutcome::Withdrawn), None);
    }
}
