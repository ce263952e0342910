//! Resources that are flow rules. Their jobs go to the flow table of their device instead of an
//! agent. The outcome of the write is the outcome of the job.
//!
//! Absent: what a table does with the job's entries (`controller/flow/src/resource.rs`).

use std::time::Duration;

use muster_flow::{Failure, Job, Owner, ResourceWrite, Want};
use muster_shared::model::{Action, Observed};
use muster_template::{Desired, FlowSet};

use crate::engine::Engine;
use crate::jobs::Jobs;
use crate::record::{Observation, PackedSpec};
use crate::row::notes::Notes;
use crate::row::outcome::TaskOutcome;
use crate::row::{Row, Slot, TaskState};
use crate::todo::Todo;
use crate::traversals::Traversals;

/// A batch may wait for the batch before it, and for the bridge.
const JOB_TIMEOUT: Duration = Duration::from_secs(330);

fn job_of(row: &Row) -> Job {
    Job { owner: Owner(row.id), generation: row.generation, attempt: row.attempt }
}

impl Row {
    /// Whether hidden values went into the flow rules of the row.
    pub fn hides_flows(&self) -> bool {
        self.details().notes == Some(Notes::HidesFlows)
    }
}

impl Engine {
    /// Gives a row's job to the flow table, or withdraws it there.
    pub(crate) fn write_flows(&mut self, slot: Slot) {
        let Some(row) = self.graph().rows.get(slot).filter(|row| row.is_sent()) else { return };
        let Some(Desired::Flows(set)) = row.spec().map(PackedSpec::unpack) else { return };
        let set = &set;
        let (Some(action), Some(task)) = (row.action(), row.task()) else { return };
        let (job, asker) = (job_of(row), row.name.clone());
        let is_withdrawing = task.state == TaskState::Withdrawing;
        let due =
            self.graph().ctx.now + JOB_TIMEOUT + Duration::from_secs(set.confirm_timeout.unwrap_or(0).into());
        self.graph_mut().set_due(slot, Some(due));
        if is_withdrawing {
            return self.withdraw_flows(slot, set);
        }
        let want = match action {
            Action::Check => return self.check_flow_row(slot, set),
            Action::Retain => Want::Left,
            Action::Delete => Want::Gone,
            Action::Create | Action::Update | Action::Adopt => Want::Be { set, asker: &asker },
        };
        if let Err(refusal) = self.graph_mut().name_nodes([&set.device].into_iter()) {
            return self.traversals.jobs.settle(slot, TaskOutcome::refused(refusal.to_string()));
        }
        let write = ResourceWrite {
            device: &set.device,
            job,
            want,
            confirm_timeout: set.confirm_timeout,
            foreign: set.foreign,
        };
        match self.with_flows(|flows, turn| flows.write_resource(turn, write)) {
            Ok(true) => self.traversals.jobs.flow_job_ended(job, Ok(())),
            Ok(false) => {}
            Err(refused) => {
                self.traversals.jobs.settle(slot, TaskOutcome::refused(refused.to_string()));
            }
        }
    }

    /// The flow table can take the write of a row's job now.
    pub(crate) fn flow_job_begins(&mut self, job: Job) {
        let Some(slot) = self.graph().rows.of_id(job.owner.0) else { return };
        let row = &self.graph().rows[slot];
        if row.is_sent() && job_of(row) == job {
            self.write_flows(slot);
        }
    }

    /// Answers a check from the flow table, which is compared with the device all the time.
    fn check_flow_row(&mut self, slot: Slot, set: &FlowSet) {
        match self.flows.difference(set) {
            None => self.traversals.jobs.settle(slot, TaskOutcome::InSync),
            Some(differs) => {
                let reason = self.graph().shown(slot, &differs.reason);
                let missing = differs.missing;
                self.traversals.jobs.settle(slot, TaskOutcome::Differs { reason, missing });
            }
        }
    }

    /// Withdraws a write that no agent has. A write that is out goes on to its outcome.
    fn withdraw_flows(&mut self, slot: Slot, set: &FlowSet) {
        let owner = Owner(self.graph().rows[slot].id);
        if !self.with_flows(|flows, turn| flows.withdraw(turn, &set.device, owner)) {
            return;
        }
        self.traversals.jobs.settle(slot, TaskOutcome::Withdrawn);
        self.graph_mut().ctx.agenda.push_back(Todo::Visit(slot));
    }
}

impl Traversals {
    /// Marks whether hidden values go into the row's new rules. Rules on the device may be of the
    /// properties before, so a mark goes only when those are `settled`.
    pub(crate) fn mark_hidden_flows(&mut self, slot: Slot, hides: bool, settled: bool) {
        let row = &mut self.jobs.graph.rows[slot];
        let (owner, node, applied) = (Owner(row.id), row.node, row.is_applied());
        let changed = match hides {
            true => row.set_notes(Some(Notes::HidesFlows)),
            false => (settled || !applied) && row.set_notes(None),
        };
        if !changed {
            return;
        }
        self.jobs.graph.row_changed(slot, true);
        let Some(node) = node.map(|node| self.jobs.graph.nodes[node].name.clone()) else { return };
        let agenda = &mut self.jobs.graph.ctx.agenda;
        match hides {
            true => agenda.push_back(Todo::HideFlows { node, owner, applied }),
            false if settled => agenda.push_back(Todo::RevealFlows { node, owner }),
            false => {}
        }
    }
}

impl Jobs {
    /// The write of a row's job has ended.
    pub(crate) fn flow_job_ended(&mut self, job: Job, ended: Result<(), Failure>) {
        let Some(slot) = self.graph.rows.of_id(job.owner.0) else { return };
        let row = &self.graph.rows[slot];
        if row.node.is_none() || !row.is_sent() || job_of(row) != job {
            return;
        }
        let is_withdrawing = row.task().is_some_and(|task| task.state == TaskState::Withdrawing);
        match ended {
            Ok(()) => {
                let is_going = row.is_going();
                self.settle(slot, TaskOutcome::Done(Observed::default()));
                if !is_going && self.graph.rows.get(slot).is_some_and(|row| row.task().is_none()) {
                    self.observe(slot, Observation::InSync);
                }
            }
            Err(failure) => {
                let reason = self.graph.shown(slot, &failure.text());
                self.settle(
                    slot,
                    match is_withdrawing {
                        true => TaskOutcome::Interrupted { reason },
                        // The batches have retried the write already.
                        false => TaskOutcome::refused(reason),
                    },
                );
            }
        }
    }

    /// Jobs of flow rules that were out when the controller stopped, with their rules.
    pub(crate) fn flow_jobs(&self) -> Vec<(Job, FlowSet)> {
        let of_flows = |slot: Slot| {
            let row = self.graph.rows.get(slot)?;
            let is_out = row.is_sent() && !row.is_asked();
            let spec = row.spec().filter(|spec| is_out && spec.is_flows())?;
            let Desired::Flows(set) = spec.unpack() else { return None };
            Some((job_of(row), set))
        };
        self.graph.rows.slots().filter_map(of_flows).collect()
    }
}
