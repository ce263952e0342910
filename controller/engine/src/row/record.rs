//! A row's record in the store.

use muster_shared::model::Action;
use muster_shared::{MonoTime, NodeId};

use crate::drift::breaker::Breaker;
use crate::elapsed::Elapsed;
use crate::node::NodeKey;
use crate::record::{ProgressRecord, ResourceRecord, Status};
use crate::row::{Goal, Held, Last, Row, RowDetails, TaskState};
use crate::traversal::waiting_rows::Pause;

impl Row {
    /// Builds a row from the store. `node` is the key of its node, `now` the time of the start.
    pub fn load(record: ResourceRecord, node: Option<NodeKey>, now: MonoTime) -> Self {
        let ResourceRecord { id, physical, stack, name, kind, progress, .. } = record;
        let mut row = Self::new(id, physical, stack, name, kind);
        let columns = &mut row.0;
        columns.node = node;
        columns.definition = record.definition;
        columns.revision = record.revision;
        if let Some(since) = record.dropped {
            columns.goal = Goal::Gone { since, replaced_by: record.replaced_by };
        }
        columns.spec = record.spec;
        columns.handed_over = record.handed_over;
        columns.replaces = record.replaces;
        columns.retain = record.retain;
        columns.last = Last {
            action: progress.action,
            cause: progress.cause,
            status: progress.status,
            reason: progress.reason,
        };
        columns.held = match progress.held {
            Some(generation) => Held::Listed(generation),
            None if progress.applied => Held::Unlisted,
            None => Held::Nothing,
        };
        columns.generation = progress.generation;
        columns.attempt = progress.attempt;
        columns.retry_count = progress.retry_count;
        columns.ready = progress.observed_ready;
        columns.attributes = progress.attributes;
        columns.changed = true;
        let details = RowDetails {
            type_name: record.type_name,
            external_id: record.external_id,
            lost_from: record.lost_from,
            unhealthy: progress.unhealthy,
            hook: progress.hook,
            hook_since: progress.hook.map(|_| now),
            hooks_cleared: progress.hooks_cleared,
            causes: progress.causes,
            pause: progress.waited.map(|earlier| {
                let of_batch = progress.status != Some(Status::InProgress);
                Pause { began: Elapsed::load(earlier, now), due: None, of_batch }
            }),
            drift_event: None,
            drift_policy: record.drift_policy,
            notes: progress.notes,
            breaker: progress.corrections.map(|corrections| Breaker::load(&corrections, now)),
        };
        columns.details = (details != RowDetails::default()).then(|| Box::new(details));
        if row.last.status == Some(Status::InProgress) {
            row.take_up_job(progress.in_flight, now);
        }
        row
    }

    /// Takes up a job that was in progress when the controller stopped.
    fn take_up_job(&mut self, in_flight: bool, now: MonoTime) {
        let Some(action) = self.last.action else { return self.lose_status() };
        match in_flight {
            // The agent may have the job, and is asked about it.
            true => self.take_up(action, TaskState::Sent, now),
            // The row stood. If the check is taken up, it asks again.
            false if self.ready && action == Action::Check => {
                (self.0.last.status, self.0.last.action) = (Some(Status::Complete), Some(Action::Update));
            }
            // An attempt is over and the job goes on with the next one. The last answer may come
            // late, and a script that was given up may have run.
            false if self.was_tried() && (self.ready || action != Action::Check) => {
                self.take_up(action, TaskState::Backoff, now);
            }
            // The job is a correction or a rebuild. No traversal would queue it again.
            false if self.ready => self.take_up(action, TaskState::NodeAway, now),
            // The next visit decides again. A job that was never sent claims nothing.
            false => {
                self.lose_status();
                self.0.had_begun = true;
                let applied = self.is_applied();
                self.0.spec.take_if(|_| !applied);
            }
        }
    }

    pub fn record(&self, node: Option<NodeId>, now: MonoTime) -> ResourceRecord {
        ResourceRecord {
            id: self.id,
            physical: self.physical,
            stack: self.stack,
            name: self.name.clone(),
            kind: self.kind,
            node,
            definition: self.definition,
            revision: self.revision,
            dropped: self.dropped(),
            spec: self.spec().cloned(),
            handed_over: self.handed_over,
            replaces: self.replaces,
            replaced_by: self.replaced_by(),
            retain: self.retain,
            drift_policy: self.details().drift_policy,
            external_id: self.details().external_id.clone(),
            type_name: self.details().type_name.clone(),
            lost_from: self.details().lost_from.clone(),
            progress: self.progress_record(now),
        }
    }

    pub fn progress_record(&self, now: MonoTime) -> ProgressRecord {
        ProgressRecord {
            id: self.id,
            action: self.action(),
            cause: self.cause(),
            status: self.status(),
            reason: self.reason().map(Box::from),
            applied: self.is_applied(),
            held: self.held(),
            generation: self.generation,
            attempt: self.attempt,
            in_flight: self.is_sent(),
            retry_count: self.retry_count,
            observed_ready: self.ready,
            attributes: self.attributes.clone(),
            notes: self.details().notes.clone(),
            observed: self.observed(),
            unhealthy: self.details().unhealthy,
            hook: self.details().hook,
            hooks_cleared: self.details().hooks_cleared,
            causes: self.details().causes.clone(),
            waited: self.details().pause.map(|pause| pause.waited(now)),
            corrections: self.details().breaker.map(|breaker| breaker.record(now)),
        }
    }
}
