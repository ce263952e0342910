//! Reports of jobs: what follows when one is done, failed, withdrawn, interrupted or superseded.
//! The controller acknowledges a report once its effects are durable.
//!
//! Absent: what a report means for its row (`row/heard.rs`), and the next attempt of a failed job
//! (`retry.rs`).

use muster_shared::Generation;
use muster_shared::model::{Action, Down, LedgerEntry, Observed, Report};

use crate::cause::Cause;
use crate::job_end::JobEnd;
use crate::jobs::Jobs;
use crate::node::NodeKey;
use crate::record::PackedSpec;
use crate::rollout::Ended;
use crate::row::heard::Heard;
use crate::row::{Role, Row, Slot, WorkState};
use crate::todo::Todo;

/// Above any number of attempts of an honest controller: a larger one in a report is a lie.
const ATTEMPTS_MAX: u32 = 1 << 20;

impl Jobs {
    pub(crate) fn report(&mut self, key: NodeKey, report: Report) {
        self.graph.send(key, Down::Acknowledge(report.key));
        let Some(slot) = self.graph.rows.of_thing(&report.key.resource) else {
            return self.graph.stray_reported(key, &report);
        };
        if self.graph.rows[slot].node != Some(key) {
            return;
        }
        self.catch_up_with_attempts(slot, &report);
        match self.graph.rows[slot].heard(report) {
            Heard::Old => {}
            Heard::Superseded(by) => self.superseded(slot, key, by),
            Heard::InSync => self.found_in_sync(slot),
            Heard::Done(observed) => self.done(slot, key, observed),
            Heard::Interrupted { reason } => {
                let reason = self.graph.shown(slot, &reason);
                self.interrupted(slot, reason);
            }
            Heard::Failed { reason, permanent } => {
                let reason = self.graph.shown(slot, &reason);
                self.attempt_failed(slot, &reason, permanent);
            }
            Heard::NoRoom { reason } => {
                let reason = self.graph.shown(slot, &reason);
                self.found_no_room(slot, &reason);
            }
            Heard::Differs { reason, missing } => {
                let reason = self.graph.shown(slot, &reason);
                self.found_different(slot, missing, &reason);
            }
            Heard::Withdrawn => {
                match self.graph.rows[slot].is_asked() {
                    true => self.end_check(slot),
                    false => self.undo_work(slot),
                }
                self.graph.ctx.agenda.push_back(Todo::Visit(slot));
            }
        }
    }

    /// Raises the row's attempt to that of the report. A restored store knows fewer attempts than
    /// the agent has made, and the answer of the later one counts.
    fn catch_up_with_attempts(&mut self, slot: Slot, report: &Report) {
        let (row, theirs) = (&mut self.graph.rows[slot], report.key.attempt.0);
        let is_later = row.generation == report.key.generation && theirs > row.attempt;
        if is_later && row.is_sent() && theirs <= ATTEMPTS_MAX {
            row.catch_up_with(theirs);
        }
    }

    /// A withdrawn job had started. Its outcome is reported as that of any job, but does not fail
    /// the operation.
    pub(crate) fn interrupted(&mut self, slot: Slot, reason: String) {
        self.left_ended(slot, Ended::Untold);
        self.abandon_work(slot, JobEnd::Interrupted);
        self.graph.rows[slot].set_reason(&reason);
        self.graph.event(self.graph.rows[slot].stack, Some(slot));
        self.graph.ctx.agenda.push_back(Todo::Visit(slot));
    }

    /// The agent knows a newer generation than this controller: the store is older than the fleet.
    /// The job is sent again with a higher generation.
    pub(crate) fn superseded(&mut self, slot: Slot, node: NodeKey, by: Generation) {
        if !self.graph.ctx.rise_above(by) {
            let reason = format!("the agent says that it knows generation {by}, which no controller gives");
            return self.attempt_failed(slot, &reason, true);
        }
        let generation = self.graph.ctx.next_generation();
        let row = &mut self.graph.rows[slot];
        // The store's state of the row before the job is not what the node has.
        let previous = row.supersede(generation);
        if !row.is_going() {
            self.release_previous(previous);
        }
        self.graph.row_changed(slot, false);
        self.transmit(slot, node);
    }

    pub(crate) fn done(&mut self, slot: Slot, node: NodeKey, observed: Observed) {
        let previous = self.end_work(slot, JobEnd::Completed).and_then(|work| work.previous);
        self.left_ended(slot, Ended::Well);
        let row = &mut self.graph.rows[slot];
        let (resource, generation, deleted) = (row.physical, row.generation, row.is_going());
        // No agent's ledger has a flow table.
        let is_kept = !deleted && !row.spec.as_ref().is_some_and(PackedSpec::is_flows);
        let was_held = row.held;
        row.complete(is_kept.then_some(generation));
        for generation in [was_held, row.held].into_iter().flatten() {
            self.graph.nodes[node].ledger ^= LedgerEntry { resource, generation }.digest();
        }
        let (stack, role) = (row.stack, row.role);
        if !deleted {
            let spec = row.spec.as_ref().map(PackedSpec::unpack);
            // Another row may have taken a claim since the job was sent.
            let claims = spec.as_ref().map(|spec| spec.claims()).unwrap_or_default();
            let owned = |claim| self.claims.owner(node, claim) == Some(slot);
            row.set_handed_over(!claims.iter().all(owned));
            let differs = |name: &String, value: &String| {
                spec.as_ref().and_then(|spec| spec.attribute(name)).is_none_or(|v| v.as_str() != Some(value))
            };
            let told = observed.attributes.into_iter().filter(|(name, value)| differs(name, value));
            row.set_attributes(told.collect());
            self.claims.keep(slot, &claims);
            self.release_previous(previous);
        }
        self.graph.row_changed(slot, true);
        self.graph.event(stack, Some(slot));
        self.graph.not_failed(slot); // the outcome may come late
        if self.graph.rows[slot].cause == Cause::Correction {
            self.correction_ended(slot);
            self.was_put_right(slot);
        }
        self.graph.rows[slot].forget_cause();
        self.graph.mended(slot);
        self.graph.job_ended(slot);
        self.graph.answered(slot);
        match role {
            // Either the row has what this traversal wants, or visit() finds the next step. That
            // step must wait for its turn: a row whose thing is gone may still be needed by one
            // that was made on it.
            Role::Cleanup | Role::Forward => self.graph.ctx.agenda.push_back(Todo::Visit(slot)),
            Role::Steady => {}
        }
    }

    /// The agent of a row cannot be told what to do. A stray to be removed waits for a newer agent,
    /// and a job of a type that its agent does not know fails.
    /// A row that leaves its thing is complete without a job if the backup of a restored store does
    /// not know its spec. The thing then stays in the agent's ledger like one that was adopted.
    pub(crate) fn unsendable(&mut self, slot: Slot) {
        let is_queued = |row: &Row| row.work.as_ref().is_some_and(|work| work.state == WorkState::Queued);
        let row = self.graph.rows.get(slot).filter(|row| row.is_sent() || is_queued(row));
        let Some(row) = row else { return };
        let (thing, Some(node)) = (row.physical, row.node) else { return };
        if row.spec.is_some() {
            if let Some(why) = self.graph.too_old_for(row, node) {
                self.attempt_failed(slot, &why, true);
            }
            return;
        }
        if row.action == Some(Action::Delete) {
            if !self.graph.nodes[node].reads_strays() {
                let why = "its agent is too old to remove what the store does not know: upgrade the agent";
                self.attempt_failed(slot, why, true);
            }
            return;
        }
        self.graph.restored.leave_unlisted(&self.graph.nodes[node].name, thing);
        self.done(slot, node, Observed::default());
    }
}
