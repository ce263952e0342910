//! Reports of jobs, and jobs that have none: what was superseded is sent again, and what cannot be sent ends. The
//! controller acknowledges a report once its effects are durable.
//!
//! Absent: which outcome a report stands for (`row/report_meaning.rs`), and what is done about it (`job/apply_outcome.rs`).

use muster_shared::Generation;
use muster_shared::model::{Action, Down, Observed, Report};

use crate::jobs::Jobs;
use crate::node::NodeKey;
use crate::row::outcome::TaskOutcome;
use crate::row::report_meaning::Heard;
use crate::row::{Row, Slot, TaskState};
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
            Heard::Outcome(outcome) => {
                let is_withdrawn = outcome == TaskOutcome::Withdrawn;
                let outcome = outcome.with_reason(|reason| self.graph.shown(slot, &reason));
                self.settle(slot, outcome);
                if is_withdrawn {
                    self.graph.ctx.agenda.push_back(Todo::Visit(slot));
                }
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

    /// The agent knows a newer generation than this controller: the store is older than the fleet.
    /// The job is sent again with a higher generation.
    pub(crate) fn superseded(&mut self, slot: Slot, node: NodeKey, by: Generation) {
        if !self.graph.ctx.rise_above(by) {
            let reason = format!("the agent says that it knows generation {by}, which no controller gives");
            return self.settle(slot, TaskOutcome::refused(reason));
        }
        let generation = self.graph.ctx.next_generation();
        let row = &mut self.graph.rows[slot];
        let before = row.supersede(generation);
        self.release_spec(before);
        self.graph.row_changed(slot, false);
        self.transmit(slot, node);
    }

    /// The agent of a row cannot be told what to do. A stray to be removed waits for a newer agent,
    /// and a job of a type that its agent does not know fails.
    /// A row that leaves its thing is complete without a job if the backup of a restored store does
    /// not know its spec. The thing then stays in the agent's ledger like one that was adopted.
    pub(crate) fn unsendable(&mut self, slot: Slot) {
        let is_queued = |row: &Row| row.task().is_some_and(|task| task.state == TaskState::Queued);
        let row = self.graph.rows.get(slot).filter(|row| row.is_sent() || is_queued(row));
        let Some(row) = row else { return };
        let (thing, Some(node)) = (row.physical, row.node) else { return };
        if row.spec().is_some() {
            if let Some(reason) = self.graph.too_old_for(row, node) {
                self.settle(slot, TaskOutcome::refused(reason));
            }
            return;
        }
        if row.action() == Some(Action::Delete) {
            if !self.graph.nodes[node].reads_strays() {
                let reason = "its agent is too old to remove what the store does not know: upgrade the agent"
                    .to_owned();
                self.settle(slot, TaskOutcome::refused(reason));
            }
            return;
        }
        self.graph.restored.leave_unlisted(&self.graph.nodes[node].name, thing);
        self.settle(slot, TaskOutcome::Done(Observed::default()));
    }
}
