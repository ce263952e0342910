//! `stack check`: asks the nodes whether things are as the revision wants them. A check changes
//! nothing.
//!
//! A check is a traversal without a new revision. Every live row that stands is asked about at its
//! node, in no order. A row that does not stand (never applied, failed, left behind by a cancelled
//! operation) fails the check unasked. A newer operation withdraws the open questions and finds the
//! rows as they were.
//!
//! Absent: the withdrawal of a question (`drift/check_withdrawal.rs`), and the checks before an operation
//! (`operation/acceptance.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_shared::StackName;
use muster_shared::model::Action;
use muster_template::Tree;

use crate::elapsed::Elapsed;
use crate::job::NewJob;
use crate::jobs::Jobs;
use crate::operation::revision::{Pending, Purpose};
use crate::record::{StackAction, Status};
use crate::request::{Answer, Refusal, Source};
use crate::row::cause::Cause;
use crate::row::{Role, Slot};
use crate::stack::Stack;
use crate::timer::TimerKey;
use crate::todo::Todo;
use crate::traversal::walk::Walk;

/// Resources named in the reason of a stack: a line.
const NAMED: usize = 3;

impl Jobs {
    /// Starts to load the revision of a stack, and the check after that. The revision says what to
    /// hide in the answers of agents.
    pub(crate) fn check_stack(&mut self, name: &StackName, request: u64) -> Result<(), Refusal> {
        let id = self.graph.find(name)?;
        let stack = &self.graph.stacks[&id];
        if stack.status == Status::InProgress || self.graph.stacks.is_pending(id) {
            return Err(Refusal::Conflict(format!(
                "stack '{name}' is {}_IN_PROGRESS: wait until that has ended, or stop it with 'muster stack cancel {name}'",
                stack.action.as_str()
            )));
        }
        if stack.action == StackAction::Delete {
            return Err(Refusal::Conflict(format!(
                "the delete of stack '{name}' has not ended: delete it again, or bring it back with an update"
            )));
        }
        let (revision, traversal) = (stack.revision, stack.traversal);
        let actor = self.graph.ctx.actor.clone();
        let pending = Pending {
            stack: id,
            traversal,
            revision,
            request: Some(request),
            purpose: Purpose::Check,
            actor,
        };
        self.graph.load_revision(name.clone(), revision, pending);
        Ok(())
    }

    pub(crate) fn check_loaded(
        &mut self,
        id: u64,
        traversal: u64,
        source: Result<Source, String>,
    ) -> Result<Answer, Refusal> {
        let unchanged = self.graph.stacks.get(&id).is_some_and(|stack| stack.traversal == traversal);
        if !unchanged {
            return Err(Refusal::Conflict(
                "a newer operation has started: check again when it has ended".into(),
            ));
        }
        let source = source.map_err(|why| {
            Refusal::Conflict(format!("the stack's revision cannot be read: {why}; update it"))
        })?;
        self.leave_walk(id);
        let (traversal, now) = (self.graph.ctx.ids.traversal(), self.graph.ctx.now);
        if let Some(stack) = self.graph.stacks.get_mut(&id) {
            stack.action = StackAction::Check;
            stack.status = Status::InProgress;
            stack.reason = String::new();
            (stack.traversal, stack.runs) = (traversal, Elapsed::starting(now));
            (stack.rollback, stack.cancelled, stack.timed_out) = (false, false, false);
        }
        self.graph.keep_failures(id, Vec::new());
        self.forget_verdicts(id);
        self.leave_all_hooks(id);
        self.graph.stack_changed(id);
        self.graph.event(id, None);
        if let Some(stack) = self.graph.stacks.get_mut(&id) {
            stack.hidden.begin(source.tree.secrets());
        }
        self.derive_check(id, source.tree);
        Ok(self.graph.begun(id, Vec::new()))
    }

    /// Ends the wait at hooks: no job follows in a check.
    fn leave_all_hooks(&mut self, id: u64) {
        let Some(stack) = self.graph.stacks.get(&id) else { return };
        let waits = |slot: &Slot| self.graph.rows[*slot].details().hook.is_some();
        let slots: Vec<Slot> = stack.forward.iter().chain(&stack.extras).copied().filter(waits).collect();
        for slot in slots {
            self.graph.rows[slot].set_hooks_again();
            self.graph.row_changed(slot, false);
        }
    }

    /// Asks about every row that stands. After a restart all rows are asked again. A check that has
    /// ended stays as it is.
    pub(crate) fn derive_check(&mut self, id: u64, tree: Arc<Tree>) {
        let Some(stack) = self.graph.stacks.get_mut(&id) else { return };
        let is_under_way = stack.status == Status::InProgress;
        for slot in &stack.forward {
            let row = &mut self.graph.rows[*slot];
            row.rest();
            row.set_failed(false);
        }
        for slot in &stack.extras {
            let row = &mut self.graph.rows[*slot];
            row.await_cleanup();
            row.set_failed(false);
        }
        // A job that restores a thing its agent lost answers the question as well.
        let stands = |slot: &Slot| {
            let row = &self.graph.rows[*slot];
            row.stands() || (row.ready && row.task().is_some())
        };
        let asked: BTreeSet<Slot> =
            stack.forward.iter().copied().filter(|slot| is_under_way && stands(slot)).collect();
        let rows = stack.forward.len() + stack.extras.len();
        let mut walk = Walk::check(tree, rows, asked.clone(), self.graph.ctx.now);
        match is_under_way {
            true => {
                let due = stack.deadline(self.graph.ctx.now);
                walk.timeout = Some(due);
                self.graph.ctx.timers.set(due, TimerKey::Stack(id, stack.traversal));
            }
            false => {
                walk.end();
            }
        }
        stack.walk = Some(walk);
        if is_under_way {
            self.graph.start_progress_check(id);
        }
        // Jobs of the operation before are withdrawn, also if a restart forgot to.
        self.withdraw_all(id);
        for slot in asked {
            self.graph.ctx.agenda.push_back(Todo::Visit(slot));
        }
        self.graph.ctx.agenda.push_back(Todo::CheckEnd(id));
    }

    /// Queues the question of a row, unless a job that answers it is under way.
    pub(crate) fn visit_to_check(&mut self, slot: Slot) {
        let row = &self.graph.rows[slot];
        let walk = self.graph.stacks.get(&row.stack).and_then(|stack| stack.walk.as_ref());
        if row.task().is_some() || !walk.is_some_and(|walk| walk.asked.contains(&slot)) {
            return;
        }
        match row.node {
            Some(node) if row.stands() => {
                let spec = row.spec().cloned();
                let job = NewJob { cause: Cause::Check, node, action: Action::Check, spec, content: None };
                self.queue_job(slot, job);
            }
            _ => self.graph.answered(slot),
        }
    }

    /// Withdraws the questions about rows that need a thing which will be made again. Such a row
    /// fails the check, whatever its node answers.
    pub(crate) fn withdraw_vain_questions(&mut self, id: u64) {
        self.withdraw_all(id);
        let Some(walk) = self.graph.stacks.get(&id).and_then(|stack| stack.walk.as_ref()) else { return };
        let vain: Vec<Slot> =
            walk.asked.iter().copied().filter(|slot| !self.graph.rows[*slot].ready).collect();
        for slot in vain {
            self.graph.answered(slot);
        }
    }

    /// Ends a check once all rows that could be asked have answered.
    pub(crate) fn end_of_check(&mut self, id: u64) {
        let open = |stack: &&mut Stack| stack.status == Status::InProgress;
        let Some(stack) = self.graph.stacks.get_mut(&id).filter(open) else { return };
        let Some(walk) = stack.walk.as_mut().filter(|walk| walk.asked.is_empty()) else { return };
        walk.end();
        let live = stack.forward.iter().filter(|slot| !self.graph.rows[**slot].stands());
        let failing: Vec<Slot> = live.chain(&stack.extras).copied().collect();
        if failing.is_empty() {
            self.leave_walk(id);
            let Some(stack) = self.graph.stacks.get_mut(&id) else { return };
            stack.status = Status::Complete;
            self.graph.stack_changed(id);
            self.graph.event(id, None);
            self.correct_all(|row| row.stack == id);
            return;
        }
        let mut reasons: Vec<String> = Vec::new();
        for slot in &failing {
            self.graph.count_failed(*slot);
            if self.graph.rows[*slot].status() == Some(Status::Failed) {
                self.graph.add_failure(*slot);
            }
            if reasons.len() < NAMED {
                reasons.push(self.why_it_fails(*slot));
            }
        }
        if failing.len() > NAMED {
            reasons.push("…".into());
        }
        self.end_failed(id, reasons.join("; "));
        self.graph.fit_if_owed(id);
    }

    fn why_it_fails(&self, slot: Slot) -> String {
        let row = &self.graph.rows[slot];
        let why = match (row.status(), row.role) {
            (Some(Status::Failed), _) => row.reason().unwrap_or("failed"),
            (_, Role::Cleanup) => "is still to be taken away",
            _ => "is not as the current revision wants it yet",
        };
        format!("{}: {why}", row.name)
    }
}
