//! Tasks of the driver that the machine may cancel, by job. They tell which of a job's answers still counts.
//!
//! Absent: the commands of jobs, which go on without a task (`agent/host/src/run.rs`).

use std::collections::BTreeMap;

use muster_shared::model::ReportKey;
use tokio::task::{AbortHandle, Id};

/// At most one task per job: a later one replaces it.
#[derive(Default)]
pub(super) struct Runs(BTreeMap<ReportKey, AbortHandle>);

impl Runs {
    pub(super) fn begin(&mut self, key: ReportKey, task: AbortHandle) {
        if let Some(older) = self.0.insert(key, task) {
            older.abort();
        }
    }

    pub(super) fn cancel(&mut self, key: ReportKey) {
        if let Some(run) = self.0.remove(&key) {
            run.abort();
        }
    }

    /// Whether the answer of this task counts: a cancelled task may have ended just before, and another task
    /// of the same job, which undoes its changes, may be under way.
    pub(super) fn ended(&mut self, key: ReportKey, task: Id) -> bool {
        let is_it = self.0.get(&key).is_some_and(|run| run.id() == task);
        if is_it {
            self.0.remove(&key);
        }
        is_it
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::{Attempt, Epoch, Generation, ResourceId};
    use tokio::task::{JoinSet, LocalSet};

    use super::*;

    /// A job that ends in the moment in which its time is over: it has ended, so it cannot be aborted
    /// any more.
    #[tokio::test]
    async fn a_cancelled_tasks_answer_does_not_count_for_the_next_task() {
        let key = ReportKey {
            resource: ResourceId(uuid::Uuid::from_u128(1)),
            generation: Generation { epoch: Epoch(1), number: 1 },
            attempt: Attempt(0),
        };
        let mut runs = Runs::default();
        let mut tasks = JoinSet::new();
        LocalSet::new()
            .run_until(async {
                runs.begin(key, tasks.spawn_local(async { "ran" }));
                while !runs.0[&key].is_finished() {
                    tokio::task::yield_now().await;
                }
                runs.cancel(key);
                runs.begin(key, tasks.spawn_local(async { "restored" }));
                let mut counted = Vec::new();
                while let Some(done) = tasks.join_next_with_id().await {
                    let (id, word) = done.unwrap();
                    counted.extend(runs.ended(key, id).then_some(word));
                }
                assert_eq!(counted, ["restored"]);
                assert!(runs.is_empty());
            })
            .await;
    }
}
