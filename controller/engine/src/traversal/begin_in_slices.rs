//! A large operation enters its rows in slices. All nodes wait for a turn of the engine and for its
//! commit; a stack of a million rows must not make that long.
//!
//! ```text
//!   begun ─▶ entering: each turn visits and writes a slice of rows; no job of the stack is sent
//!              ├── all rows are in ─▶ the operation goes on as any other
//!              ├── it is cancelled, replaced or laid out again ─▶ the rest is written in one turn
//!              └── the controller ends ─▶ the next start begins the operation again
//! ```
//!
//! Other visits of many rows come in slices as well: after a restart, in a larger tree, and of a
//! clean-up. A row is as it was until its visit, so a start finds those again. The store has all of
//! these operations, so the job of a row is sent once the row was visited: after a restart, nodes do
//! not wait for the visits of a whole site. The first of these slices are small, for the same reason.
//!
//! **Invariant.** A row that the store does not have, or has as of an earlier operation, has no job
//! at a node but its removal. So nothing is lost when the operation begins again.

use std::collections::{BTreeSet, VecDeque};

use crate::graph::Graph;
use crate::jobs::Jobs;
use crate::record::{StackAction, Status};
use crate::request::{Request, Source};
use crate::row::Slot;
use crate::stack::Stack;
use crate::todo::Todo;
use crate::traversal::derive::{Kept, Occasion};
use crate::traversal::layout::LayoutContext;
use crate::traversal::plan::{Plan, PlanInput, plan};
use crate::traversal::walk::Stage;
use crate::traversals::Traversals;

/// The part of the rows of a turn that the first slice has, where jobs leave between the slices: so a job is on its way
/// after some ms, and not after the commit of 10,000 rows. Each slice has twice as many rows as the one before, up to
/// those of a turn.
const FIRST_SLICE_PART: usize = 16;

/// Rows of an operation that are not entered yet.
pub(crate) struct Entering {
    /// Rows to visit.
    visits: VecDeque<Slot>,
    /// Rows to write, unless something has happened to them since.
    unwritten: VecDeque<Slot>,
    /// The operation begins. A start begins it again, because the store does not have all of it.
    pub begins: bool,
    /// Rows to visit that had a job: it may be one of the operation before.
    with_job: BTreeSet<Slot>,
    /// Rows of the next slice.
    slice: usize,
}

impl Entering {
    /// Takes the rows of the next slice: those to visit, and those to write.
    fn next_slice(&mut self, rows_per_turn: usize) -> (Vec<Slot>, Vec<Slot>) {
        let most = self.slice.clamp(1, rows_per_turn.max(1));
        self.slice = most.saturating_mul(2);
        let visits: Vec<Slot> = self.visits.drain(..most.min(self.visits.len())).collect();
        visits.iter().for_each(|slot| _ = self.with_job.remove(slot));
        let rest = (most - visits.len()).min(self.unwritten.len());
        (visits, self.unwritten.drain(..rest).collect())
    }
}

/// Stacks that enter their rows. Each in turn has a slice.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    stacks: VecDeque<u64>,
    /// The slice before is with the driver, so the next one has a commit of its own.
    is_due: bool,
}

impl Slices {
    /// The stack has slices from now on.
    pub fn begin(&mut self, id: u64) {
        self.stacks.push_back(id);
    }

    /// The stack has none any more.
    fn end(&mut self, id: u64) {
        self.stacks.retain(|other| *other != id);
    }

    pub fn len(&self) -> usize {
        self.stacks.len()
    }

    /// Whether a stack has a slice to come.
    pub fn has_next(&self) -> bool {
        !self.stacks.is_empty()
    }

    /// The driver has taken all changes so far.
    pub fn all_taken(&mut self) {
        self.is_due = true;
    }

    /// Takes the stack whose turn it is.
    fn next(&mut self) -> Option<u64> {
        if !std::mem::take(&mut self.is_due) {
            return None;
        }
        self.stacks.pop_front()
    }
}

impl Stack {
    /// Whether jobs of the stack are not sent yet: not all rows are in the store, or a row that was not
    /// visited may have a job of the operation before. Removals are those of this operation.
    pub fn holds_jobs(&self) -> bool {
        let cleans = self.walk.as_ref().is_some_and(|walk| walk.stage == Stage::Cleanup);
        self.entering.is_some() && !cleans && self.action != StackAction::Delete
    }

    /// Whether the job of this row is one that is not sent yet.
    pub fn holds_job(&self, slot: Slot) -> bool {
        let is_early = |entering: &Entering| entering.begins || entering.with_job.contains(&slot);
        self.holds_jobs() && self.entering.as_deref().is_some_and(is_early)
    }

    /// Whether a decision about the whole traversal has to wait for visits to come.
    pub fn waits_for_visits(&self) -> bool {
        let cleans_next = self.walk.as_ref().is_some_and(|walk| walk.stage == Stage::Forward)
            && self.action == StackAction::Delete;
        self.entering.is_some() && !cleans_next
    }
}

impl Plan {
    /// Rows that an operation with this plan has to visit or write.
    fn size(&self) -> usize {
        self.dropped.len() + self.dirty.iter().filter(|dirty| **dirty).count()
    }
}

impl Graph {
    /// Whether an operation with this plan is too large for one turn.
    pub(crate) fn is_large(&self, plan: &Plan) -> bool {
        plan.size() > self.ctx.limits.rows_per_turn
    }

    /// Whether rows of the stack are still to be entered.
    pub(crate) fn is_entering(&self, id: u64) -> bool {
        self.stacks.get(&id).is_some_and(|stack| stack.entering.is_some())
    }

    /// Begins to enter the rows of an operation.
    pub(crate) fn begin_entering(&mut self, id: u64) {
        let (visits, unwritten, with_job) = Default::default();
        let slice = self.ctx.limits.rows_per_turn;
        self.enter(id, Entering { visits, unwritten, begins: true, with_job, slice });
    }

    /// Visits rows of the stack: in this turn, or in slices if they are too many.
    pub(crate) fn visit_all(&mut self, id: u64, rows: VecDeque<Slot>) {
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        let has_job = |slot: &Slot| self.rows[*slot].task().is_some();
        match &mut stack.entering {
            Some(entering) => {
                entering.with_job = rows.iter().copied().filter(has_job).collect();
                entering.visits = rows;
            }
            None if rows.len() > self.ctx.limits.rows_per_turn => {
                // A start takes a failure of the operation before for one of this operation, so these
                // are tried at once.
                let has_failed = |slot: &Slot| self.rows[*slot].status() == Some(Status::Failed);
                let (failed, visits) = rows.into_iter().partition::<VecDeque<_>, _>(has_failed);
                self.ctx.agenda.extend(failed.into_iter().map(Todo::Visit));
                let with_job = visits.iter().copied().filter(has_job).collect();
                let (unwritten, slice) = (VecDeque::new(), self.ctx.limits.rows_per_turn / FIRST_SLICE_PART);
                self.enter(id, Entering { visits, unwritten, begins: false, with_job, slice });
            }
            None => self.ctx.agenda.extend(rows.into_iter().map(Todo::Visit)),
        }
    }

    fn enter(&mut self, id: u64, entering: Entering) {
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        if stack.entering.replace(Box::new(entering)).is_none() {
            self.ctx.slices.begin(id);
        }
    }

    /// Leaves the writing of a row to a later slice, if the operation alone has marked it.
    pub(crate) fn write_later(&mut self, slot: Slot) {
        let id = self.rows[slot].stack;
        let Some(entering) = self.stacks.get_mut(&id).and_then(|stack| stack.entering.as_mut()) else {
            return;
        };
        if self.ctx.journal.leave(&mut self.rows, slot) {
            entering.unwritten.push_back(slot);
        }
    }

    fn write_now(&mut self, slot: Slot) {
        if self.rows.get(slot).is_some_and(|row| row.dirty.is_left) {
            self.ctx.journal.row(&mut self.rows, slot, None, false);
        }
    }
}

impl Jobs {
    /// Visits and writes the next rows of the stack whose turn it is.
    pub(crate) fn enter_slice(&mut self) {
        let Some(id) = self.graph.ctx.slices.next() else { return };
        let rows_per_turn = self.graph.ctx.limits.rows_per_turn;
        let entering = self.graph.stacks.get_mut(&id).and_then(|stack| stack.entering.as_mut());
        let Some(entering) = entering else { return };
        let (visits, unwritten) = entering.next_slice(rows_per_turn);
        let is_last = entering.visits.is_empty() && entering.unwritten.is_empty();
        self.graph.ctx.agenda.extend(visits.into_iter().map(Todo::Visit));
        unwritten.into_iter().for_each(|slot| self.graph.write_now(slot));
        match is_last {
            true => self.end_entering(id),
            false => self.graph.ctx.slices.begin(id),
        }
    }

    /// The operation goes on as any other: the rest is visited and written in this turn.
    pub(crate) fn end_entering(&mut self, id: u64) {
        let visits = self.leave_entering(id);
        self.graph.ctx.agenda.extend(visits.into_iter().map(Todo::Visit));
        self.graph.ctx.agenda.extend([Todo::Rollouts(id), Todo::CheckEnd(id)]);
        self.graph.fit_if_owed(id);
    }

    /// Writes the rest in this turn. Returns the rows that were not visited.
    pub(crate) fn leave_entering(&mut self, id: u64) -> VecDeque<Slot> {
        let entering = self.graph.stacks.get_mut(&id).and_then(|stack| stack.entering.take());
        let Some(entering) = entering else { return VecDeque::new() };
        self.graph.ctx.slices.end(id);
        entering.unwritten.into_iter().for_each(|slot| self.graph.write_now(slot));
        self.graph.stack_changed(id);
        self.graph.ctx.agenda.push_back(Todo::PumpStack(id));
        entering.visits
    }
}

impl Traversals {
    /// An operator is answered about a row or a rollout of the stack: a start that begins the
    /// operation again would forget it, so all rows are entered in this turn.
    pub(crate) fn enter_at_once(&mut self, request: &Request) {
        let (Request::ClearHook { stack: name, .. } | Request::Rollout { name, .. }) = request else {
            return;
        };
        let id = self.jobs.graph.stacks.id_of(name);
        if let Some(id) = id.filter(|id| self.jobs.graph.is_entering(*id)) {
            self.jobs.end_entering(id);
        }
    }

    /// After a restart: begins an operation again whose rows were not all entered.
    pub(crate) fn enter_again(&mut self, id: u64, source: Source) {
        let Some(stack) = self.jobs.graph.stacks.get(&id) else { return };
        let tree = match self.jobs.graph.grown(stack, &source.tree, true) {
            Ok(tree) => tree,
            Err(errors) => {
                let why = stack.without_hidden(&source.tree, &errors.to_string());
                let why = format!("its revision does not fit what is there: {why}; update the stack");
                return self.jobs.abandon(id, &why);
            }
        };
        let plan = plan(&PlanInput::of(stack, &self.jobs.graph.rows), &tree);
        if self.jobs.graph.is_large(&plan) {
            self.jobs.graph.begin_entering(id);
        }
        self.jobs.graph.stack_changed(id);
        self.lay_out(id, &plan, LayoutContext { steady: false, anew: false, ended: false }, &tree);
        self.derive(id, tree, Some(plan.needed_by), Occasion::BegunAgain, Kept::nothing());
    }
}
