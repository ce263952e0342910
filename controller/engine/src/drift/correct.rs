//! Correction removes drift with a job of the same desired state. The breaker ends a fight with
//! someone who undoes the correction again and again.
//!
//! ```text
//!   Closed ─ drift: at once the first time, then a little later each time ─▶ a job ─▶ in sync, Closed
//!    ▲  │                                                                      ▲         └─ calm for long ─▶ forgotten
//!    │  └─ corrected too often ─▶ Open: the drift stays                        │
//!    │                             │  └─────── calm for long: one more try ────┘
//!    └── an update, a rollback ────┘
//! ```
//!
//! An operation of the stack goes first, and its jobs are not corrections. A node in maintenance gets no correction
//! (`Jobs::takes_corrections`, `drift/background_rows.rs`). Only rows that stand are corrected. A resource that failed, is
//! external or is restricted is only reported.
//!
//! A correction, and the unit restart that follows it, is a background job (`row/cause.rs`), also while
//! an operation goes on because of nodes. A correction that failed for good is tried again after a
//! long calm. A restart that failed is tried again when an operator asks for an operation.
//!
//! Absent: when the breaker opens (`drift/breaker.rs`), a thing that its agent has lost (`drift/rebuild.rs`), and who
//! changed the thing: the agent sees the difference, not its author.

use muster_shared::MonoTime;
use muster_shared::model::{Action, Down};
use muster_template::{DriftPolicy, Restriction};

use crate::drift::breaker::{CALM, CORRECTIONS_MAX, NextTry};
use crate::graph::Graph;
use crate::job::NewJob;
use crate::jobs::Jobs;
use crate::node::NodeKey;
use crate::record::{Observation, StackAction, Status};
use crate::row::cause::Cause;
use crate::row::{Row, Slot};
use crate::timer::TimerKey;

impl Row {
    /// The policy for drift of this row.
    pub fn drift_policy(&self) -> DriftPolicy {
        match self.details().drift_policy {
            // Muster never changes what others own.
            Some(DriftPolicy::Ignore) => DriftPolicy::Ignore,
            _ if self.is_external() => DriftPolicy::Report,
            Some(policy) => policy,
            None => DriftPolicy::of_kind(self.kind),
        }
    }

    /// The number of corrections that the breaker counts, for operators.
    pub fn corrections(&self) -> u32 {
        self.details().breaker.map_or(0, |breaker| breaker.corrected.count)
    }

    /// State of the breaker, for operators.
    pub fn breaker(&self) -> &'static str {
        if self.is_breaker_open() { "open" } else { "closed" }
    }

    /// Whether corrections stopped because they kept being undone.
    pub fn is_breaker_open(&self) -> bool {
        self.details().breaker.is_some_and(|breaker| breaker.open) || self.is_lost_again_and_again()
    }

    /// Whether the agent lost the thing so often that it is not made again. Its ledger does not
    /// have what was made last.
    fn is_lost_again_and_again(&self) -> bool {
        let lost = self.observed() == Observation::Missing && self.held() != Some(self.generation);
        lost && self.details().breaker.is_some_and(|breaker| breaker.made_again.count >= CORRECTIONS_MAX)
    }
}

impl Jobs {
    /// Corrects a row if it may be now, or sets a timer for that. Also starts a unit restart that
    /// is owed.
    pub(crate) fn correct(&mut self, slot: Slot) {
        let now = self.graph.ctx.now;
        if self.unsettled.owed().contains(&slot) {
            self.restart_owed(slot);
        }
        let Some(node) = self.may_correct(slot) else { return };
        let row = &self.graph.rows[slot];
        let breaker = row.details().breaker;
        // The end of another job is no reason to retry earlier.
        let ago = breaker.filter(|_| row.could_not_be_corrected()).map(|breaker| breaker.corrected.ago(now));
        if let Some(ago) = ago.filter(|ago| *ago < CALM) {
            return self.correct_at(slot, now + (CALM - ago));
        }
        if !self.takes_corrections(slot, node) {
            return;
        }
        match breaker.map_or(NextTry::Now, |breaker| breaker.next_try(now)) {
            NextTry::Now => {
                let breaker = self.graph.rows[slot].breaker_or_new(now);
                breaker.strike(now);
                self.unsettled.set_counted(slot, true);
                let spec = self.graph.rows[slot].spec().cloned();
                let job =
                    NewJob { cause: Cause::Correction, node, action: Action::Update, spec, content: None };
                self.queue_job(slot, job);
            }
            NextTry::At(due) => self.correct_at(slot, due),
            NextTry::AfterCalm(due) => {
                self.correct_at(slot, due);
                self.open_breaker(slot);
            }
        }
    }

    fn correct_at(&mut self, slot: Slot, due: MonoTime) {
        let breaker = self.graph.rows.get_mut(slot).and_then(|row| row.breaker_mut());
        if let Some(before) = breaker.and_then(|breaker| breaker.due.replace(due)) {
            self.graph.ctx.timers.clear(before, TimerKey::Correct(slot));
        }
        self.graph.ctx.timers.set(due, TimerKey::Correct(slot));
    }

    fn open_breaker(&mut self, slot: Slot) {
        let node =
            self.graph.rows[slot].node.map(|key| self.graph.nodes[key].name.to_string()).unwrap_or_default();
        let row = &mut self.graph.rows[slot];
        let why = row.reason().map(str::to_owned).unwrap_or_default();
        let Some(breaker) = row.breaker_mut().filter(|breaker| !breaker.open) else {
            return;
        };
        breaker.open = true;
        let (count, lasted) = (breaker.corrected.count, breaker.corrected.lasted.as_secs());
        let (stack, calm) = (self.graph.stacks.get(&self.graph.rows[slot].stack), CALM.as_secs());
        let stack = stack.map(|stack| stack.name.to_string()).unwrap_or_default();
        self.graph.row_changed(slot, false);
        self.graph.tell_of(
            slot,
            format!(
                "somebody on {node} changes it again and again: corrected {count} times within {lasted} s, and it \
                 differs again ({why}); it is left as it is for {calm} s, or until 'muster stack update {stack} \
                 --existing --converge'"
            ),
        );
    }

    /// The node on which to correct the row, as far as row, stack and drift reports allow it. The
    /// breaker and the node's own state come after.
    pub(crate) fn may_correct(&self, slot: Slot) -> Option<NodeKey> {
        let row = self.graph.rows.get(slot).filter(|row| row.needs_correction())?;
        let node = self.graph.background_node(slot)?;
        // A check only asks: its findings are corrected once the agent reports the drift itself.
        let is_said = || self.graph.nodes[node].drifts.contains_key(&row.physical);
        (row.could_not_be_corrected() || is_said()).then_some(node)
    }

    /// Sets the drift policy of the template.
    pub(crate) fn set_drift_policy(&mut self, slot: Slot, policy: Option<DriftPolicy>) {
        let row = &mut self.graph.rows[slot];
        let was = row.drift_policy();
        if row.details().drift_policy == policy {
            return;
        }
        row.set_drift_policy(policy);
        let (is, node) = (row.drift_policy(), row.node);
        if is == DriftPolicy::Ignore {
            // A job that never begins would bring back what was said before it.
            row.ignore_drift_before_task();
            if row.observed().differs() && row.task().is_none() {
                row.ignore_drift();
                self.observe(slot, Observation::Unknown);
            }
        }
        // The agent has reported ignored drift too, so it is asked again.
        if let Some(node) =
            node.filter(|node| was == DriftPolicy::Ignore && self.graph.nodes[*node].presence.is_ready())
        {
            self.graph.send(node, Down::AskDrift);
        }
        self.graph.row_changed(slot, true);
    }
}

impl Graph {
    /// The node on which the row may have a background job, as far as its stack allows one.
    pub(crate) fn background_node(&self, slot: Slot) -> Option<NodeKey> {
        let row = self.rows.get(slot)?;
        let stack = self.stacks.get(&row.stack)?;
        // A node outside of the selector is never touched, even if its stack follows the nodes no longer.
        if self.is_outside(row) || self.restricted(slot, Restriction::Update).is_some() {
            return None;
        }
        let goes_first = stack.status == Status::InProgress
            || stack.action == StackAction::Delete
            || self.stacks.is_pending(stack.id);
        row.node.filter(|_| !goes_first)
    }
}
