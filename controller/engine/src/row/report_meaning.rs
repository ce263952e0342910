//! The meaning of a report for its row: done, failed, withdrawn, or old. Pure; a table test has a
//! row for each case.
//!
//! Absent: what follows from an outcome (`row/outcome.rs`).

use muster_shared::model::{Action, Outcome, Report};
use muster_shared::{Attempt, Generation};

use crate::record::Status;
use crate::row::outcome::TaskOutcome;
use crate::row::{Row, TaskState};

/// The meaning of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The report is known already or is about another job.
    Old,
    /// The agent knows this newer generation.
    Superseded(Generation),
    /// The outcome of the row's job.
    Outcome(TaskOutcome),
}

/// State of the row's last job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastJob {
    /// The agent may have the job.
    Out,
    /// The job is being withdrawn: the agent may have it, and was asked not to start it.
    Withdrawing,
    /// An attempt has ended, and the next one was not sent.
    BetweenAttempts,
    /// The controller gave the job up. The agent may still have done it.
    GivenUp,
    /// The outcome is known, or the job was never sent.
    Over,
}

impl Row {
    fn standing(&self) -> LastJob {
        match self.task().map(|task| task.state) {
            Some(TaskState::Sent | TaskState::Running | TaskState::Settling) => LastJob::Out,
            Some(TaskState::Withdrawing) => LastJob::Withdrawing,
            Some(TaskState::Backoff) => LastJob::BetweenAttempts,
            Some(TaskState::Queued | TaskState::NodeAway) if self.attempt > 0 => LastJob::BetweenAttempts,
            Some(TaskState::Queued | TaskState::NodeAway) | None => {
                match self.status() == Some(Status::Failed) && !self.failed_since() {
                    true => LastJob::GivenUp,
                    false => LastJob::Over,
                }
            }
        }
    }

    /// The meaning of a report about the row from its node.
    pub fn heard(&self, report: Report) -> Heard {
        let Report { key, outcome } = report;
        if key.generation != self.generation {
            return Heard::Old;
        }
        let is_present = key.attempt == Attempt(self.attempt);
        let checks = self.action() == Some(Action::Check);
        Heard::Outcome(match (self.standing(), outcome) {
            (LastJob::Out | LastJob::Withdrawing, Outcome::Superseded { by }) => {
                return Heard::Superseded(by);
            }
            // A withdrawal counts for any attempt: the last one may never have reached the agent.
            (LastJob::Out | LastJob::Withdrawing, Outcome::Withdrawn) => TaskOutcome::Withdrawn,
            (LastJob::Withdrawing, Outcome::Done(_)) if checks => TaskOutcome::InSync,
            (LastJob::Withdrawing, Outcome::Done(observed)) => TaskOutcome::Done(observed),
            (
                LastJob::Withdrawing,
                Outcome::Failed { reason, .. } | Outcome::NoRoom { reason } | Outcome::Differs { reason, .. },
            ) => TaskOutcome::Interrupted { reason },
            // The late success of an earlier attempt makes the next one unnecessary.
            (LastJob::BetweenAttempts, Outcome::Done(observed)) if !checks => TaskOutcome::Done(observed),
            (LastJob::GivenUp, Outcome::Done(observed)) if !checks && is_present => {
                TaskOutcome::Done(observed)
            }
            (LastJob::Out, Outcome::Done(_)) if is_present && checks => TaskOutcome::InSync,
            (LastJob::Out, Outcome::Done(observed)) if is_present => TaskOutcome::Done(observed),
            (LastJob::Out, Outcome::Failed { reason, permanent }) if is_present => {
                TaskOutcome::Failed { reason, permanent }
            }
            (LastJob::Out, Outcome::NoRoom { reason }) if is_present => TaskOutcome::NoRoom { reason },
            (LastJob::Out, Outcome::Differs { missing, reason }) if is_present && checks => {
                TaskOutcome::Differs { reason, missing }
            }
            (LastJob::Out, Outcome::Differs { reason, .. })
                if is_present && self.action() == Some(Action::Adopt) =>
            {
                let reason = format!("the server differs from the template, and was not changed: {reason}");
                TaskOutcome::Failed { reason, permanent: true }
            }
            (LastJob::Out | LastJob::BetweenAttempts | LastJob::GivenUp | LastJob::Over, _) => {
                return Heard::Old;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::model::{Observed, ReportKey};
    use muster_shared::{MonoTime, ResourceId};
    use muster_template::Kind;

    use super::*;
    use crate::row::cause::Cause;
    use crate::row::{Held, NewTask};

    /// A row in the second attempt of its job of generation 7, which has ended if `state` is `None`.
    fn row(action: Action, state: Option<TaskState>, status: Status) -> Row {
        let mut row = Row::new(1, ResourceId(uuid::Uuid::nil()), 1, "a".into(), Kind::Dummy);
        let generation = Generation { number: 7, ..Generation::default() };
        let (cause, spec) = (Cause::Traversal, None);
        let state_of_job = state.unwrap_or(TaskState::Sent);
        row.begin(NewTask { cause, action, generation, spec, state: state_of_job }, MonoTime::default());
        row.0.attempt = 1;
        match (state, status) {
            (None, Status::Complete) => drop(row.complete(Held::Unlisted)),
            (None, _) => drop(row.abandon(Held::Unlisted)),
            (Some(_), _) => {}
        }
        row
    }

    /// Six letters, of: done, failed, withdrawn, superseded, differs, no room.
    fn told(row: &Row, attempt: u32) -> String {
        let outcomes = [
            Outcome::Done(Observed::default()),
            Outcome::Failed { reason: "r".into(), permanent: true },
            Outcome::Withdrawn,
            Outcome::Superseded { by: Generation::default() },
            Outcome::Differs { missing: true, reason: "r".into() },
            Outcome::NoRoom { reason: "r".into() },
        ];
        let key = ReportKey { attempt: Attempt(attempt), ..row.key() };
        let letter = |outcome| match row.heard(Report { key, outcome }) {
            Heard::Old => '.',
            Heard::Superseded(_) => 'S',
            Heard::Outcome(outcome) => match outcome {
                TaskOutcome::Done(_) => 'D',
                TaskOutcome::Failed { permanent: true, .. } => 'F',
                TaskOutcome::NoRoom { .. } => 'R',
                TaskOutcome::Interrupted { .. } => 'I',
                TaskOutcome::Withdrawn => 'W',
                TaskOutcome::InSync => '=',
                TaskOutcome::Differs { missing: true, .. } => 'M',
                other => panic!("no report says {other:?}"),
            },
        };
        outcomes.into_iter().map(letter).collect()
    }

    #[test]
    fn what_a_report_says_of_a_row() {
        use Action::{Adopt, Check, Create, Delete};
        use TaskState::{Backoff, NodeAway, Queued, Running, Sent, Settling, Withdrawing};
        let (going, failed, complete) = (Status::InProgress, Status::Failed, Status::Complete);
        let rows = [
            // action, state of its task, status; of this attempt, of the one before
            (Create, Some(Sent), going, "DFWS.R", "..WS.."),
            (Create, Some(Running), going, "DFWS.R", "..WS.."),
            (Delete, Some(Settling), going, "DFWS.R", "..WS.."),
            (Create, Some(Withdrawing), going, "DIWSII", "DIWSII"),
            (Create, Some(Backoff), going, "D.....", "D....."),
            (Create, Some(Queued), going, "D.....", "D....."),
            (Delete, Some(NodeAway), going, "D.....", "D....."),
            (Create, None, failed, "D.....", "......"),
            (Create, None, complete, "......", "......"),
            (Adopt, Some(Sent), going, "DFWSFR", "..WS.."),
            (Adopt, Some(Withdrawing), going, "DIWSII", "DIWSII"),
            (Adopt, None, failed, "D.....", "......"),
            (Check, Some(Sent), going, "=FWSMR", "..WS.."),
            (Check, Some(Withdrawing), going, "=IWSII", "=IWSII"),
            (Check, Some(Backoff), going, "......", "......"),
            (Check, None, failed, "......", "......"),
        ];
        for (action, state, status, this, before) in rows {
            let row = row(action, state, status);
            assert_eq!((&*told(&row, 1), &*told(&row, 0)), (this, before), "{action:?} {state:?} {status:?}");
        }
    }

    #[test]
    fn a_report_of_another_generation_or_an_unsent_job_is_ignored() {
        let mut unsent = row(Action::Create, Some(TaskState::Queued), Status::InProgress);
        unsent.0.attempt = 0;
        assert_eq!(told(&unsent, 0), "......");
        let mut newer = row(Action::Create, Some(TaskState::Sent), Status::InProgress);
        let report = Report { key: newer.key(), outcome: Outcome::Done(Observed::default()) };
        newer.0.generation.number += 1;
        assert_eq!(newer.heard(report), Heard::Old);
    }

    #[test]
    fn a_job_that_failed_of_something_else_since_is_said_again() {
        let mut row = row(Action::Update, None, Status::Failed);
        row.0.held = Held::Listed(row.generation);
        assert_eq!(told(&row, 1), "......");
    }
}
