//! A traversal follows from the tree of its stack and the rows. One function derives it: when an
//! operation begins, when its tree grows, when nodes come or go, after a restart, and for a check.
//!
//! ```text
//!   begin, expand, fit ─ plan ─▶ lay_out ─┐
//!   restart, removed node ────────────────┴─▶ derive ─▶ Walk ─▶ visits
//! ```
//!
//! A row that is not ready is visited, and waits for its unready needs. Jobs of rows that are
//! dropped, and of rows that others block, are withdrawn here. The operation's time, batches,
//! rollouts and failures ([`Kept`]) go on.
//!
//! Absent: other jobs that no longer fit, which a visit withdraws (`traversal/visit.rs`), the choice of
//! rows (`traversal/plan.rs`), and that a newer operation takes the place of an older one (`operation.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_template::{Errors, Tree};

use crate::record::{StackAction, Status};
use crate::rollout::Rollout;
use crate::row::{Role, Row, Slot};
use crate::stack::Stack;
use crate::timer::TimerKey;
use crate::todo::Todo;
use crate::traversal::layout::LayoutContext;
use crate::traversal::plan::Plan;
use crate::traversal::walk::{Adjacency, KeptWalk, Walk};
use crate::traversals::Traversals;

/// The reason to derive a traversal. It decides which jobs already sent go on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// An operation begins.
    Begun,
    /// A value became known, and the tree with it.
    Expanded,
    /// Members of a set were added or dropped.
    Fitted,
    /// The controller restarted, or a node was removed with what was on it.
    TakenUp,
    /// The controller restarted before all rows of the operation were entered.
    BegunAgain,
}

/// State that goes on when a traversal is derived again within its operation.
pub(crate) struct Kept {
    /// Rows that have failed. They are not tried again.
    failed: BTreeSet<Slot>,
    rollouts: BTreeMap<Arc<str>, Rollout>,
    /// `None`: no walk was in memory.
    walk: Option<KeptWalk>,
}

impl Kept {
    /// For an operation that begins.
    pub fn nothing() -> Self {
        Self { failed: BTreeSet::new(), rollouts: BTreeMap::new(), walk: None }
    }
}

impl Traversals {
    /// Derives the traversal of a stack and starts or goes on with it. `needed_by`: the reversed
    /// edges of the tree, where they are known.
    pub(crate) fn derive(
        &mut self,
        id: u64,
        tree: Arc<Tree>,
        needed_by: Option<Adjacency>,
        occasion: Occasion,
        kept: Kept,
    ) {
        let Some(stack) = self.jobs.graph.stacks.get_mut(&id) else { return };
        stack.hidden.begin(tree.secrets());
        if stack.action == StackAction::Check {
            return self.jobs.derive_check(id, tree);
        }
        let is_cancelled = stack.cancelled;
        self.jobs.graph.note_sets(id, &tree);
        let is_loaded = kept.walk.is_none() && occasion != Occasion::Begun;
        let visits = self.give_roles(id, &tree, occasion, is_loaded);
        self.enter_walk(id, Arc::clone(&tree), visits, needed_by, kept.walk);
        // Earlier hidden names of networks are known only while their revision is in memory.
        if !is_loaded {
            self.hide_plan_of(id);
        }
        self.jobs.rollouts.begin(id, kept.rollouts);
        self.jobs.begin_rollouts(id, &tree);
        match is_cancelled {
            true => self.jobs.withdraw_all(id),
            false => {
                self.withdraw_unfit(id, occasion);
                self.jobs.begin_first(id);
            }
        }
        let mut failed = kept.failed;
        failed.retain(|slot| occasion != Occasion::TakenUp || self.is_unblocked(*slot));
        failed.retain(|slot| !is_loaded || self.is_failure_of_this_operation(*slot));
        failed.extend(self.jobs.aborted_sets(id));
        self.jobs.stay_failed(id, &failed);
        if !is_cancelled {
            self.jobs.visit_free(id);
        }
        self.jobs.graph.ctx.agenda.push_back(Todo::CheckEnd(id));
    }

    /// Gives each row its role. Returns the rows to visit, by index in the tree.
    fn give_roles(&mut self, id: u64, tree: &Tree, occasion: Occasion, is_loaded: bool) -> Vec<u32> {
        let graph = &mut self.jobs.graph;
        let Some(stack) = graph.stacks.get(&id) else { return Vec::new() };
        // A row that was laid out as settled is ready and rests. A stack of a million rows begins
        // without a look at each.
        let is_laid_out = occasion != Occasion::TakenUp;
        let mut visits = Vec::new();
        for (index, slot) in stack.forward.iter().enumerate() {
            if is_laid_out && stack.settled[index] != 0 {
                continue;
            }
            if graph.rows[*slot].ready {
                graph.rows[*slot].rest();
                continue;
            }
            let is_unready = |need: &&u32| !graph.rows[stack.forward[**need as usize]].ready;
            let blocked = tree.requires(index).iter().filter(is_unready).count();
            let row = &mut graph.rows[*slot];
            row.go_forward(blocked);
            if is_loaded {
                row.take_up_converge(stack.converge);
            }
            visits.push(row.index);
        }
        for slot in &stack.extras {
            graph.rows[*slot].go_to_cleanup();
        }
        visits
    }

    /// Puts the walk into memory, with its time.
    fn enter_walk(
        &mut self,
        id: u64,
        tree: Arc<Tree>,
        visits: Vec<u32>,
        needed_by: Option<Adjacency>,
        kept: Option<KeptWalk>,
    ) {
        let graph = &mut self.jobs.graph;
        let Some(stack) = graph.stacks.get_mut(&id) else { return };
        let needed_by = needed_by.unwrap_or_else(|| match visits.is_empty() {
            true => Adjacency::default(),
            false => Adjacency::reversed(tree.len(), |index| tree.requires(index)),
        });
        let whole = stack.deadline(graph.ctx.now);
        let timeout = kept.as_ref().map_or(Some(whole), |kept| kept.timeout);
        let is_under_way = stack.status == Status::InProgress;
        let mut walk = Walk::new(tree, visits, needed_by, stack.extras.len(), graph.ctx.now);
        match kept {
            Some(kept) => walk.go_on_from(kept),
            None if stack.status == Status::Failed => {
                walk.end();
            }
            None => {}
        }
        walk.timeout = timeout.filter(|_| is_under_way);
        if let Some(due) = walk.timeout {
            graph.ctx.timers.set(due, TimerKey::Stack(id, stack.traversal));
        }
        stack.walk = Some(walk);
        if is_under_way {
            graph.start_progress_check(id);
        }
    }

    /// Withdraws jobs of dropped rows, and of rows that others block. A visit withdraws
    /// others that do not fit.
    fn withdraw_unfit(&mut self, id: u64, occasion: Occasion) {
        let rows = &self.jobs.graph.rows;
        let Some(stack) = self.jobs.graph.stacks.get(&id) else { return };
        let Some(walk) = &stack.walk else { return };
        // Clean-up comes last, also that of rows which the traversal before dropped.
        let cleans = walk.is_forward_done() || stack.delete_first;
        let goes_on = |row: &Row| {
            occasion == Occasion::Fitted
                && row.role == Role::Forward
                && !row.is_going()
                && row.task().is_none_or(|task| task.state.is_sent())
        };
        let goes = |row: &Row| {
            let may = match occasion {
                Occasion::Begun | Occasion::Expanded => false,
                Occasion::Fitted => true,
                Occasion::TakenUp | Occasion::BegunAgain => cleans,
            };
            may && row.is_going()
        };
        let visited = walk.visits().iter().map(|index| stack.forward[*index as usize]);
        let blocked: Vec<Slot> = visited.filter(|slot| rows[*slot].blocked > 0).collect();
        let dropped: Vec<Slot> = stack.extras.iter().copied().filter(|slot| !goes(&rows[*slot])).collect();
        for slot in dropped.into_iter().chain(blocked) {
            // A row at a hook comes to it again.
            if !cleans || self.jobs.graph.rows[slot].role == Role::Forward {
                self.jobs.graph.leave_hook(slot);
            }
            if !goes_on(&self.jobs.graph.rows[slot]) {
                self.jobs.withdraw(slot);
            }
        }
    }

    /// Whether the row exists, and no row that it needs comes first.
    fn is_unblocked(&self, slot: Slot) -> bool {
        self.jobs.graph.rows.get(slot).is_some_and(|row| row.blocked == 0)
    }

    /// After a restart: whether a row that has failed did so in the present operation. It may have
    /// failed in the one before if it comes after the first stage or is a member of a rollout.
    fn is_failure_of_this_operation(&self, slot: Slot) -> bool {
        let row = self.jobs.graph.rows.get(slot);
        row.is_some_and(|row| self.is_unblocked(slot) && !self.jobs.graph.is_first(row.stack))
            && self.jobs.failed_in_rollout(slot) != Some(false)
    }

    /// Lays out the same operation again: same revision, same time left.
    pub(crate) fn lay_out_again(&mut self, id: u64, plan: Plan, tree: Arc<Tree>, occasion: Occasion) {
        self.jobs.drop_members(id, &plan.dropped);
        let Some(kept) = self.keep(id) else { return };
        self.lay_out(id, &plan, LayoutContext { steady: false, anew: true, ended: true }, &tree);
        self.derive(id, tree, Some(plan.needed_by), occasion, kept);
    }

    /// Takes up an operation whose rows have changed without a plan: the controller restarted, or
    /// things went with their node. The stack fails if the tree cannot be expanded with the values
    /// that are known now.
    pub(crate) fn take_up(&mut self, id: u64, tree: &Arc<Tree>) {
        if let Err(errors) = self.take_up_grown(id, tree) {
            let Some(stack) = self.jobs.graph.stacks.get(&id) else { return };
            let why = stack.without_hidden(tree, &errors.to_string());
            // The counts of the walk no longer fit the rows.
            self.jobs.leave_walk(id);
            self.jobs
                .abandon(id, &format!("its revision does not fit what is there: {why}; update the stack"));
        }
    }

    fn take_up_grown(&mut self, id: u64, tree: &Arc<Tree>) -> Result<(), Errors> {
        let Some(stack) = self.jobs.graph.stacks.get(&id) else { return Ok(()) };
        if stack.action == StackAction::Check {
            self.derive(id, Arc::clone(tree), None, Occasion::TakenUp, Kept::nothing());
            return Ok(());
        }
        let grown = self.jobs.graph.grown(stack, tree, stack.status == Status::InProgress)?;
        if grown.names() == stack.names {
            if let Some(kept) = self.keep(id) {
                self.derive(id, grown, None, Occasion::TakenUp, kept);
            }
        } else {
            let plan = self.plan_again(stack, &grown);
            self.lay_out_again(id, plan, grown, Occasion::Fitted);
        }
        Ok(())
    }

    /// Leaves the walk of an operation that goes on.
    fn keep(&mut self, id: u64) -> Option<Kept> {
        let stack = self.jobs.graph.stacks.get(&id)?;
        let first = stack.walk.as_ref().and_then(|walk| walk.delete_first.as_ref());
        let put_off = first.map(|first| first.failed().clone()).unwrap_or_default();
        let has_failed = |slot: &Slot| {
            let row = &self.jobs.graph.rows[*slot];
            match stack.walk.is_some() {
                // A member whose node was away when it was to begin may begin later.
                true => (row.failed && !self.jobs.is_held(row)) || put_off.contains(slot),
                false => row.failed_before(),
            }
        };
        let failed = stack.forward.iter().copied().filter(has_failed).collect();
        let walk = stack.walk.as_ref().map(|walk| walk.kept(stack.extras.len()));
        let unclean = self.unclean_of(stack);
        let rollouts = self.jobs.leave_rollouts(id);
        self.jobs.leave_walk(id);
        self.jobs.graph.stacks.get_mut(&id)?.unclean = unclean;
        Some(Kept { failed, rollouts, walk })
    }

    /// Rows whose clean-up has failed in this operation. The first stage, which nothing new may pass
    /// by, begins again with all of its rows.
    fn unclean_of(&self, stack: &Stack) -> BTreeSet<Slot> {
        if self.jobs.graph.is_first(stack.id) {
            return BTreeSet::new();
        }
        let is_unclean = |slot: &Slot| {
            let row = &self.jobs.graph.rows[*slot];
            row.role == Role::Cleanup && (row.failed || stack.unclean.contains(slot))
        };
        stack.extras.iter().copied().filter(is_unclean).collect()
    }
}
