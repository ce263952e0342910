//! Drift that agents report outside of jobs. The row changes at once. Events are written less often.
//!
//! A report counts only if the agent compared the thing with the state that this engine believes it
//! holds. While the agent has a job no report counts: the agent looks again afterwards. A drifted
//! row stays COMPLETE, and the next operation that wants the row applies it again.
//!
//! Absent: whether drift is corrected (`drift/correct.rs`), a lost carrier (`node/carrier.rs`), and when an
//! agent looks (`agent/core/src/watch.rs`).

use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::{Drift, DriftState};
use muster_template::DriftPolicy;

use crate::jobs::Jobs;
use crate::node::NodeKey;
use crate::node::carrier::ToldCarriers;
use crate::record::{Observation, Status};
use crate::row::Slot;
use crate::timer::TimerKey;
use crate::todo::Todo;

/// Interval between two events about one resource, so that flapping does not fill the stack's
/// events. The last state is always reported.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// The last drift event of a row, and what the next one reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DriftEvent {
    /// When the last event was written. `None`: there was none.
    at: Option<MonoTime>,
    observed: Observation,
    reason: Box<str>,
    carriers: ToldCarriers,
}

impl DriftEvent {
    /// A job or a check found the resource in this state and reports that itself.
    pub fn replace(&mut self, observed: Observation) {
        (self.observed, self.reason) = (observed, Box::default());
    }

    /// Carriers that changed since the last event.
    pub fn carriers(&mut self) -> &mut ToldCarriers {
        &mut self.carriers
    }
}

impl Jobs {
    /// Handles drift reports of a connected agent.
    pub(crate) fn drifts(&mut self, node: NodeKey, drifts: Vec<Drift>) {
        if self.graph.nodes[node].presence.is_ready() {
            for drift in drifts {
                self.graph.hear(node, &drift);
                self.drift(node, drift);
            }
        }
    }

    fn drift(&mut self, node: NodeKey, drift: Drift) {
        let Some(slot) = self.graph.rows.of_thing(&drift.resource) else { return };
        let row = &self.graph.rows[slot];
        let is_believed = row.node == Some(node) && row.held() == Some(drift.generation);
        if !is_believed || row.is_lost() || row.handed_over || row.is_sent() {
            return;
        }
        let observed = match drift.state {
            _ if row.drift_policy() == DriftPolicy::Ignore => Observation::InSync,
            DriftState::InSync => Observation::InSync,
            DriftState::Drifted => Observation::Drifted,
            DriftState::Missing => Observation::Missing,
        };
        let why = observed.differs().then(|| {
            let reason = self.graph.shown(slot, &drift.reason);
            format!("{}: {reason}", observed.as_str()).into_boxed_str()
        });
        let row = &mut self.graph.rows[slot];
        if row.task().is_some() {
            // If the job turns out never to have started, the row is as it was before, with this drift.
            return row.drift_before_task(observed, why);
        }
        if !row.is_as_held() || !(observed.differs() || row.observed().differs()) {
            return;
        }
        let reason = if row.status() == Some(Status::Complete) { why } else { row.reason().map(Box::from) };
        if observed.differs() {
            self.graph.ctx.agenda.push_back(Todo::Correct(slot));
        }
        let row = &mut self.graph.rows[slot];
        if (row.observed(), row.reason()) == (observed, reason.as_deref()) {
            return;
        }
        row.drift(reason);
        self.set_observed(slot, observed);
        self.graph.row_changed(slot, false);
        self.tell_soon(slot);
    }

    /// Writes an event now, or later if one has just been written.
    pub(crate) fn tell_soon(&mut self, slot: Slot) {
        let told =
            self.graph.rows[slot].details().drift_event.as_ref().and_then(|drift_event| drift_event.at);
        match told.map(|at| at + TOLD_EVERY).filter(|due| *due > self.graph.ctx.now) {
            Some(due) => self.graph.ctx.timers.set(due, TimerKey::DriftEvent(slot)),
            None => self.tell_drift(slot),
        }
    }

    /// The timer of the next drift event.
    pub(crate) fn drift_event_due(&mut self, slot: Slot, due: MonoTime) {
        let drift_event = self.graph.rows.get(slot).and_then(|row| row.details().drift_event.as_ref());
        if drift_event.is_some_and(|drift_event| drift_event.at.is_some_and(|at| at + TOLD_EVERY == due)) {
            self.tell_drift(slot);
        }
    }

    /// Writes events for what differs from the last report.
    fn tell_drift(&mut self, slot: Slot) {
        let now = self.graph.ctx.now;
        let row = &mut self.graph.rows[slot];
        let (observed, reason) = (row.observed(), row.reason().map(Box::<str>::from).unwrap_or_default());
        let node = row.node;
        let Some(drift_event) = row.drift_event_mut() else { return };
        let mut words = Vec::new();
        let is_news = match observed.differs() {
            true => (drift_event.observed, &drift_event.reason) != (observed, &reason),
            false => drift_event.observed.differs(),
        };
        if is_news {
            words.push(if observed.differs() { reason.to_string() } else { "in sync again".to_owned() });
        }
        (drift_event.observed, drift_event.reason) = (observed, reason);
        let carriers = std::mem::take(&mut drift_event.carriers);
        if let Some(facts) = node.and_then(|node| self.graph.nodes[node].facts.as_ref()) {
            words.extend(carriers.changes(facts));
        }
        if words.is_empty() {
            return;
        }
        if let Some(drift_event) = self.graph.rows[slot].drift_event_mut() {
            drift_event.at = Some(now);
        }
        words.into_iter().for_each(|word| self.graph.tell_of(slot, word));
    }
}

impl Default for DriftEvent {
    fn default() -> Self {
        let observed = Observation::Unknown;
        Self { at: None, observed, reason: Box::default(), carriers: ToldCarriers::default() }
    }
}
