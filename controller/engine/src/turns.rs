//! Starts members of a rollout in their turn, and withdraws jobs that are not in the batch.

use std::sync::Arc;
use std::time::Duration;

use muster_shared::StackName;

use crate::jobs::Jobs;
use crate::record::Status;
use crate::rollout::record::Course;
use crate::rollout::{Event, Health};
use crate::row::{Role, Slot};
use crate::timer::TimerKey;
use crate::todo::Todo;
use crate::walk::Stage;
use crate::{Answer, Refusal, RolloutAction};

/// Names in an event: about a line.
const NAMED: usize = 10;

impl Jobs {
    /// Starts the members whose turn it is.
    pub(crate) fn turn(&mut self, id: u64) {
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
            self.graph.ctx.timers.clear(before, TimerKey::Turn(id));
        }
        if let Some(due) = due {
            self.graph.ctx.timers.set(due, TimerKey::Turn(id));
        }
        for name in looks.of_sets.iter().flat_map(|(_, look)| &look.missed) {
            self.miss_turn(id, name);
        }
        for (path, look) in &looks.of_sets {
            if let Some(reason) = &look.aborted {
                self.rollout_aborted(id, path, reason);
            }
        }
    }

    /// Whether a row with something to do must wait for its turn. `is_done`: the present job
    /// already does it.
    pub(crate) fn waits_for_turn(&mut self, slot: Slot, is_done: bool) -> bool {
        let row = &self.graph.rows[slot];
        let (name, id) = (Arc::clone(&row.name), row.stack);
        let Some(rollout) = self.rollouts.of_member(id, &name) else { return false };
        if rollout.has_begun(&name) {
            return false;
        }
        let is_aborted = rollout.is_aborted();
        let away = self.away_since(&name);
        // An unsent job of the operation before was in that operation's batch. Its turn in this one
        // comes again.
        let is_unbegun = is_done && row.is_unsent();
        // A background job does not count as a turn.
        let is_done = is_done && !row.cause.is_drift();
        if row.work.is_some() && !is_unbegun {
            // Another job is withdrawn first.
            if is_done {
                self.rollouts.tell(id, &name, Event::UnderWay(away.map(|_| self.graph.ctx.now)));
                self.turn_soon(id);
            }
            return false;
        }
        self.rollouts.tell(id, &name, Event::Wanted(away));
        if !is_aborted && let Some(stack) = self.graph.stacks.get_mut(&id) {
            stack.waiting.insert(slot);
            self.graph.touch(id);
        }
        self.turn_soon(id);
        self.take_back(slot);
        true
    }

    /// Takes rows out of their rollout that are no longer members. Their jobs are withdrawn, or
    /// count when they have ended.
    pub(crate) fn leave_turns(&mut self, id: u64, dropped: &[Slot]) {
        for slot in dropped {
            let row = &self.graph.rows[*slot];
            let leaves = row.role == Role::Forward && row.work.is_some() && !row.is_going();
            if leaves && self.rollout_with(row).is_some() {
                self.rollouts.tell(id, &row.name, Event::Leaves);
                self.take_back(*slot);
            }
        }
    }

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
        self.fail_row(slot, format!("its rollout was aborted: {reason}; {untouched} were not begun"));
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
        self.turn_soon(id);
        Ok(self.graph.begun(id, Vec::new()))
    }

    /// Gives a stack that timed out its whole time again.
    pub(crate) fn give_time(&mut self, id: u64) {
        let now = self.graph.ctx.now;
        let Some(stack) = self.graph.stacks.get_mut(&id) else { return };
        let Some(walk) = stack.walk.as_mut().filter(|_| stack.timed_out) else { return };
        let due = now + Duration::from_secs(stack.timeout_s);
        walk.reopen(due);
        stack.timed_out = false;
        (stack.status, stack.reason) = (Status::InProgress, String::new());
        self.graph.ctx.timers.set(due, TimerKey::Stack(id, stack.traversal));
        self.graph.stack_changed(id);
        self.graph.watch(id);
        self.graph.event(id, None);
    }

    pub(crate) fn health(&self, id: u64, name: &str) -> Health {
        let Some(row) = self.row_named(id, name).map(|slot| &self.graph.rows[slot]) else {
            return Health::Well;
        };
        if row.observed.differs() {
            let why = row.reason.as_deref().unwrap_or(row.observed.as_str());
            return Health::Disturbed(why.to_owned());
        }
        if row.details().unhealthy || row.status == Some(Status::Failed) {
            let why = row.reason.as_deref().unwrap_or("it is unhealthy");
            return Health::Disturbed(why.to_owned());
        }
        match row.node {
            Some(key) if self.graph.nodes[key].ready => Health::Well,
            _ => Health::Away,
        }
    }

    /// With `away: fail`, the member counts as failed until its node is back.
    pub(crate) fn miss_turn(&mut self, id: u64, name: &str) {
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
