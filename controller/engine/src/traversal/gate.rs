//! Gates hold back a step of a row, and then its job: a hook, a batch or a rollout, a claim, a node
//! that is away, in maintenance or full. Each gate is one function. Its conditions are asked in
//! order, and the first that holds the row back counts.
//!
//! ```text
//!   decided ──▶ hold the step? ──▶ may it begin? ──▶ job ──▶ may it be sent? ──▶ agent
//! ```
//!
//! The part that ends a wait also keeps it: a rollout its members, a node its line, a row its hook.
//! This file only asks these parts, in a fixed order. [`Traversals::wait`] reads the same order for
//! operators.
//!
//! Absent: corrections on a node in maintenance (`Jobs::takes_corrections` in `drift/background_rows.rs`), and the
//! request that starts or ends maintenance (`node/requests.rs`).

use muster_shared::model::{Action, Claim};
use muster_template::{Hook, Restriction, Tree};

use crate::graph::Graph;
use crate::jobs::Jobs;
use crate::node::NodeKey;
use crate::record::Status;
use crate::restored::compare::HELD;
use crate::row::{Role, Row, Slot};
use crate::stack::Stack;
use crate::traversals::Traversals;

/// Reason why a row without a job waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// An operator clears the hook.
    Hook(Hook),
    /// Signals come.
    Signals,
    /// Time passes, or its batch begins.
    Time,
    /// The row's rollout starts it.
    Rollout,
    /// Rows that it needs are ready, or a stage before its own is over.
    Needs,
    /// A node tells its facts.
    Facts,
    /// A node joins that could have it.
    Node,
    /// The stack enters its rows: it is visited in a later turn.
    Entry,
}

/// The reason why a step does not begin.
pub(crate) enum Hold {
    /// The step waits, and is visited again.
    Waits,
    /// The row fails for this reason.
    Fails(String),
    /// The environment refuses the action.
    Refused(String),
}

/// The reason why a job is not sent to a node that gets others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobWait {
    /// The node's disk is full.
    Disk,
    /// The stack has as many jobs out as it may have.
    Stack,
}

impl Jobs {
    /// Holds the step of a row back: the stack timed out, or the row's batch or rollout has not come to
    /// the row. Returns whether the step is held. `same_task`: the present job already does it.
    pub(crate) fn hold_step(&mut self, slot: Slot, tree: &Tree, same_task: bool) -> bool {
        self.graph.comes_too_late(&self.graph.rows[slot])
            || self.graph.hold_for_batch(slot, tree)
            || self.hold_for_rollout(slot, same_task)
    }

    /// Whether a job may begin on a node, which then has its claims.
    pub(crate) fn may_begin(
        &mut self,
        slot: Slot,
        node: NodeKey,
        action: Action,
        claims: Vec<Claim>,
    ) -> Result<(), Hold> {
        if self.is_held_for_verdict(slot) {
            return Err(Hold::Fails(HELD.to_owned()));
        }
        self.graph.may_be_done(slot, action)?;
        self.claim(slot, node, claims).map_err(|reason| {
            let stack = &self.graph.stacks[&self.graph.rows[slot].stack];
            let shown = stack.walk.as_ref().map(|walk| stack.without_hidden(&walk.tree, &reason));
            Hold::Fails(shown.unwrap_or(reason))
        })
    }

    /// The row of a step that does not begin fails, or waits.
    pub(crate) fn hold_back(&mut self, slot: Slot, action: Action, held: Hold) {
        match held {
            Hold::Waits => {}
            Hold::Fails(reason) => self.fail_row(slot, reason),
            Hold::Refused(reason) => {
                self.graph.rows[slot].refuse(action);
                self.fail_row(slot, reason);
            }
        }
    }
}

impl Graph {
    /// Whether no restriction forbids the action and no hook holds it back.
    pub(crate) fn may_be_done(&mut self, slot: Slot, action: Action) -> Result<(), Hold> {
        if action == Action::Update
            && let Some(reason) = self.restricted(slot, Restriction::Update)
        {
            return Err(Hold::Refused(reason));
        }
        if self.waits_before(slot, action) {
            return Err(Hold::Waits);
        }
        Ok(())
    }

    /// Whether the node may get a job: the node is connected, is not in maintenance and has room in
    /// flight, does not move to another site, and its ledger is not awaited after a restore.
    pub(crate) fn may_send(&self, node: NodeKey) -> bool {
        let at = &self.nodes[node];
        !self.restored.awaits_ledger(&at.name)
            && at.presence.is_ready()
            && at.moving.is_none()
            && !self.is_in_maintenance(node)
            && at.sent.len() < self.ctx.limits.in_flight_per_node
    }

    /// The reason why the row's job is not sent to a node that gets others. A lost row has no stack.
    pub(crate) fn holds_job(&self, slot: Slot) -> Option<JobWait> {
        let row = &self.rows[slot];
        if self.waits_for_disk(row) {
            return Some(JobWait::Disk);
        }
        let most = self.ctx.limits.in_flight_per_stack;
        let is_full = |stack: &Stack| stack.in_flight.count() >= most || stack.holds_job(slot);
        self.stacks.get(&row.stack).is_some_and(is_full).then_some(JobWait::Stack)
    }
}

impl Traversals {
    /// The reason why a row without a job waits. `None`: there is nothing to do for it now.
    pub(crate) fn wait(&self, row: &Row) -> Option<Wait> {
        let graph = &self.jobs.graph;
        let is_still = graph.stacks.get(&row.stack).is_some_and(Stack::is_still);
        if row.task().is_some() || row.role == Role::Steady || row.ready || is_still {
            return None;
        }
        match row.details().hook {
            Some(hook) => Some(Wait::Hook(hook)),
            None if row.awaits_signals() => Some(Wait::Signals),
            None if row.pauses() => Some(Wait::Time),
            None if self.jobs.is_held(row) => self.jobs.rollout_may_start(row).then_some(Wait::Rollout),
            None if row.failed || graph.comes_too_late(row) => None,
            None if row.blocked > 0 || graph.waits_for_first(row) => Some(Wait::Needs),
            None if row.status() == Some(Status::Failed) => None,
            None if self.asks(row).is_some() => Some(Wait::Facts),
            None if graph.is_entering(row.stack) => Some(Wait::Entry),
            None => Some(Wait::Node),
        }
    }
}
