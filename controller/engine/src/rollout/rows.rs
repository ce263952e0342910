//! Carries out on the rows of a stack what its rollouts decide: starts members, holds the others, and
//! fails the set of a rollout that was aborted. Operators steer rollouts here too.
//!
//! This module is beside `rollout/` because it withdraws jobs and fails rows, and code that does so calls `rollout/`:
//! modules of a layer call down only.

use std::sync::Arc;
use std::time::Duration;

use muster_shared::StackName;

use crate::elapsed::Elapsed;
use crate::jobs::Jobs;
use crate::record::Status;
use crate::rollout::record::Course;
use crate::rollout::{Event, Health};
use crate::row::{Role, Slot};
use crate::timer::TimerKey;
use crate::todo::Todo;
use crate::traversal::walk::Stage;
use crate::{Answer, Refusal, RolloutAction};

/// Names in an event: about a line.
const NAMED: usize = 10;

impl Jobs {
    /// Starts the members that begin now, and ends the rollouts that are aborted now.
    pub(crate) fn look_at_rollouts(&mut self, id: u64) {
        let Some(stack) = self.graph.stacks.get(&id) else { return };
        let is_forward = stack.walk.as_ref().is_some_and(|walk| walk.stage == Stage::Forward);
        if stack.entering.is_some() {
            return; // the end of that looks
        }
        let goes_on = is_forward && !stack.is_still();
        let mut rollouts = std::mem::take(&mut self.rollouts);
        let looks = rollouts.look(id, goes_on, self.graph.ctx.now, &|name| self.health(id, name));
        self.rollouts = rollouts;
        for (path, look) in &looks.of_sets {
            if !look.begin.is_empty() {
                let what = if look.of_canary { "its canary" } else { "a batch" };
                self.graph.note(id, format!("rollout of {path}: {what} begins: {}", named(&look.begin)));
            }
            if !look.missed.is_empty() {
                let named = named(&look.missed);
                self.graph.note(
                    id,
                    format!("rollout of {path}: their nodes were away when their turn came: {named}"),
                );
            }
            for name in &look.begin {
                let Some(slot) = self.row_named(id, name) else { continue };
                if let Some(stack) = self.graph.stacks.get_mut(&id) {
                    stack.waiting.remove(&slot);
                }
                self.graph.ctx.agenda.push_back(Todo::Visit(slot));
            }
        }
        self.keep_rollouts(id);
        let (before, due) = looks.timers;
        if let Some(before) = before {
            self.graph.ctx.timers.clear(before, TimerKey::Rollouts(id));
        }
        if let Some(due) = due {
            self.graph.ctx.timers.set(due, TimerKey::Rollouts(id));
        }
        for name in looks.of_sets.iter().flat_map(|(_, look)| &look.missed) {
            self.member_missed(id, name);
        }
        for (path, look) in &looks.of_sets {
            if let Some(reason) = &look.aborted {
                self.rollout_aborted(id, path, reason);
            }
        }
    }

    /// Holds a row with something to do until its rollout starts it: the rollout learns that the
    /// member waits, and the row has no job meanwhile. Returns false if the visit goes on: the row has
    /// started, or its present job must be withdrawn first. `same_task`: the present job already does
    /// what the row needs.
    pub(crate) fn hold_for_rollout(&mut self, slot: Slot, same_task: bool) -> bool {
        let row = &self.graph.rows[slot];
        let (name, id) = (Arc::clone(&row.name), row.stack);
        let Some(rollout) = self.rollouts.of_member(id, &name) else { return false };
        if rollout.has_begun(&name) {
            return false;
        }
        let is_aborted = rollout.is_aborted();
        let away = self.away_since(&name);
        // An unsent job of the operation before was in a batch of that operation. The member waits
        // for a batch of this one.
        let is_unbegun = same_task && row.is_unsent();
        if row.task().is_some() && !is_unbegun {
            // A background job does not begin a member, although it may do the same.
            if same_task && !row.cause().is_drift() {
                self.rollouts.tell(id, &name, Event::UnderWay(away.map(|_| self.graph.ctx.now)));
                self.look_at_rollouts_soon(id);
            }
            return false;
        }
        self.rollouts.tell(id, &name, Event::Wanted(away));
        if !is_aborted && let Some(stack) = self.graph.stacks.get_mut(&id) {
            stack.waiting.insert(slot);
            self.graph.touch(id);
        }
        self.look_at_rollouts_soon(id);
        self.withdraw(slot);
        true
    }

    /// Takes rows out of their rollout that are no longer members. Their jobs are withdrawn, or
    /// count when they have ended.
    pub(crate) fn drop_members(&mut self, id: u64, dropped: &[Slot]) {
        for slot in dropped {
            let row = &self.graph.rows[*slot];
            let leaves = row.role == Role::Forward && row.task().is_some() && !row.is_going();
            if leaves && self.rollout_with(row).is_some() {
                self.rollouts.tell(id, &row.name, Event::Leaves);
                self.withdraw(*slot);
            }
        }
    }

    /// Fails the row of the set. Its waiting members do not begin.
    pub(crate) fn rollout_aborted(&mut self, id: u64, path: &str, reason: &str) {
        let Some(rollout) = self.rollouts.get(id, path) else { return };
        let held: Vec<Slot> = rollout.all_waiting().filter_map(|name| self.row_named(id, name)).collect();
        let untouched = held.len();
        if let Some(stack) = self.graph.stacks.get_mut(&id) {
            held.iter().for_each(|slot| {
                stack.waiting.remove(slot);
            });
        }
        let Some(slot) = self.row_named(id, path) else { return };
        self.fail_row(slot, format!("its rollout was aborted: {reason}; {untouched} were not started"));
    }

    /// Carries out an operator's request to a rollout.
    pub(crate) fn steer_rollout(
        &mut self,
        name: &StackName,
        action: RolloutAction,
        resource: Option<&str>,
    ) -> Result<Answer, Refusal> {
        let id = self.graph.find(name)?;
        let stack = &self.graph.stacks[&id];
        let is_walked = stack.walk.as_ref().is_some_and(|walk| walk.stage != Stage::Check);
        let goes_on = is_walked && !stack.is_still();
        let is_ready = |path: &str| self.is_set_ready(id, path);
        let meant = self.rollouts.meant(stack, goes_on, action, resource, &is_ready)?;
        let said = format!("rollout of {}: {}", named(&meant), action.as_str());
        for path in &meant {
            let Some(rollout) = self.rollouts.get_mut(id, path) else { continue };
            rollout.steer(action);
            let aborted = match rollout.course() {
                Course::Aborted(reason) => Some(reason.clone()),
                Course::Going | Course::Paused | Course::TimedOut => None,
            };
            self.keep_rollouts(id);
            match aborted {
                Some(reason) => self.rollout_aborted(id, path, &reason),
                None if action == RolloutAction::Resume => self.give_time(id),
                None => {}
            }
        }
        self.graph.note(id, said);
        self.look_at_rollouts_soon(id);
        Ok(self.graph.begun(id, Vec::new()))
    }

    /// Gives a stack that timed out its whole time again.
    pub(crate) fn give_time(&mut self, id: u64) {
        let now = self.graph.ctx.now;
        let Some(stack) = self.graph.stacks.get_mut(&id) else { return };
        let Some(walk) = stack.walk.as_mut().filter(|_| stack.timed_out) else { return };
        stack.runs = Elapsed::starting(now);
        let due = stack.runs.reaches(Duration::from_secs(stack.timeout_s));
        walk.reopen(due);
        stack.timed_out = false;
        (stack.status, stack.reason) = (Status::InProgress, String::new());
        self.graph.ctx.timers.set(due, TimerKey::Stack(id, stack.traversal));
        self.graph.stack_changed(id);
        self.graph.start_progress_check(id);
        self.graph.event(id, None);
    }

    pub(crate) fn health(&self, id: u64, name: &str) -> Health {
        let Some(row) = self.row_named(id, name).map(|slot| &self.graph.rows[slot]) else {
            return Health::Well;
        };
        if row.observed().differs() {
            let why = row.reason().unwrap_or(row.observed().as_str());
            return Health::Disturbed(why.to_owned());
        }
        if row.details().unhealthy || row.status() == Some(Status::Failed) {
            let why = row.reason().unwrap_or("it is unhealthy");
            return Health::Disturbed(why.to_owned());
        }
        match row.node {
            Some(key) if self.graph.nodes[key].presence.is_ready() => Health::Well,
            _ => Health::Away,
        }
    }

    /// The node of a member was away when the member was to begin. With `away: fail`, the member counts
    /// as failed until its node is back.
    pub(crate) fn member_missed(&mut self, id: u64, name: &str) {
        let Some(slot) = self.row_named(id, name) else { return };
        let Some(stack) = self.graph.stacks.get_mut(&id) else { return };
        stack.waiting.remove(&slot);
        self.graph.count_failed(slot);
        self.graph.ctx.agenda.push_back(Todo::CheckEnd(id));
    }
}

fn named(names: &[Arc<str>]) -> String {
    let first: Vec<&str> = names.iter().take(NAMED).map(|name| &**name).collect();
    match names.len() {
        0..=NAMED => first.join(", "),
        more => format!("{} and {} more", first.join(", "), more - NAMED),
    }
}
