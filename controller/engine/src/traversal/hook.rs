//! Hooks and restricted actions. At a hook a row waits until an operator clears it. A restricted
//! action is refused.
//!
//! ```text
//!   visited ── pre-X ──▶ waits ── cleared ──▶ job ── done ── post-X ──▶ waits ── cleared ──▶ ready, or gone
//! ```
//!
//! A cleared hook stays cleared until the traversal is over. The next traversal sets all hooks
//! again, also for a job that has not left yet. A row that waits has no job, and nothing of it changes.
//!
//! Absent: the order in which hooks and other gates hold a row back (`traversal/gate.rs`), and which hooks an
//! environment sets (`controller/template/src/hooks.rs`).

use muster_shared::StackName;
use muster_shared::model::Action;
use muster_template::{Hook, Restriction, suggestion};

use crate::graph::Graph;
use crate::record::Status;
use crate::request::{Answer, Refusal};
use crate::row::{Role, Row, Slot, TaskState};
use crate::todo::Todo;

/// Beside the bits of cleared hooks: a job has ended whose post hook is due.
const POST_CREATE_DUE: u8 = 1 << 6;
const POST_UPDATE_DUE: u8 = 1 << 7;
/// Hooks that a reason names: about a line.
const NAMED_MAX: usize = 10;

impl Graph {
    /// Whether a row waits before a job with this action. The first call writes an event.
    pub(crate) fn waits_before(&mut self, slot: Slot, action: Action) -> bool {
        before(action).is_some_and(|hook| self.waits_at(slot, hook))
    }

    /// Whether this traversal holds back or forbids the row's job, which an earlier one queued. A
    /// job that the agent may have goes on.
    pub(crate) fn is_held_back(&self, slot: Slot) -> bool {
        let row = &self.rows[slot];
        let (Some(task), Some(action)) = (row.task(), row.action()) else { return false };
        let left = row.attempt > 0 || !matches!(task.state, TaskState::NodeAway | TaskState::Queued);
        let hooked = before(action).is_some_and(|hook| self.is_set(slot, hook));
        let forbidden = action == Action::Update && self.restricted(slot, Restriction::Update).is_some();
        !left && (hooked || forbidden)
    }

    /// Whether a forward row waits although it is as desired.
    pub(crate) fn waits_after(&mut self, slot: Slot) -> bool {
        let due = self.rows[slot].details().hooks_cleared;
        (due & POST_CREATE_DUE != 0 && self.waits_at(slot, Hook::PostCreate))
            || (due & POST_UPDATE_DUE != 0 && self.waits_at(slot, Hook::PostUpdate))
    }

    /// Whether a row waits although its thing is gone.
    pub(crate) fn waits_after_delete(&mut self, slot: Slot) -> bool {
        let row = &self.rows[slot];
        let deleted = matches!(row.action(), Some(Action::Delete | Action::Retain))
            && row.status() == Some(Status::Complete);
        deleted && self.waits_at(slot, Hook::PostDelete)
    }

    /// Notes the post hook that follows a successful job of a forward row.
    pub(crate) fn job_ended(&mut self, slot: Slot) {
        let row = &self.rows[slot];
        let (hook, due) = match row.action() {
            Some(Action::Create | Action::Adopt) => (Hook::PostCreate, POST_CREATE_DUE),
            Some(Action::Update) => (Hook::PostUpdate, POST_UPDATE_DUE),
            Some(Action::Delete | Action::Retain | Action::Check) | None => return,
        };
        let Some(stack) = self.stacks.get(&row.stack) else { return };
        if row.role == Role::Forward && !row.ready && stack.policies.of(&row.name).waits_at(hook) {
            self.rows[slot].add_hooks(due);
        }
    }

    /// Whether the row has this hook and no operator has cleared it in this traversal.
    fn is_set(&self, slot: Slot, hook: Hook) -> bool {
        let row = &self.rows[slot];
        row.details().hooks_cleared & hook.bit() == 0
            && self.stacks.get(&row.stack).is_some_and(|stack| stack.policies.of(&row.name).waits_at(hook))
    }

    fn waits_at(&mut self, slot: Slot, hook: Hook) -> bool {
        if !self.is_set(slot, hook) {
            return false;
        }
        let row = &self.rows[slot];
        let walk = self.stacks.get_mut(&row.stack).and_then(|stack| stack.walk.as_mut());
        let Some(walk) = walk else { return false };
        walk.at_hooks.insert((row.name.clone(), slot));
        if row.details().hook != Some(hook) {
            let now = self.ctx.now;
            self.not_failed(slot);
            self.rows[slot].stop_at(hook, now);
            self.row_changed(slot, false);
            let reason = self.hook_reason(slot, hook);
            self.hook_event(slot, hook, &reason);
        }
        true
    }

    /// The reason shown for a row that waits.
    pub(crate) fn hook_reason(&self, slot: Slot, hook: Hook) -> String {
        let row = &self.rows[slot];
        let stack = self.stacks.get(&row.stack).map_or("?", |stack| stack.name.as_str());
        let (name, hook) = (&row.name, hook.as_str());
        format!("waits at hook {hook}: clear it with 'muster resource clear-hook {stack} {name} {hook}'")
    }

    /// Ends the wait: the row goes on, or nothing is wanted of it.
    pub(crate) fn leave_hook(&mut self, slot: Slot) {
        let row = &mut self.rows[slot];
        if row.details.is_none() {
            return;
        }
        let waited = row.leave_hook();
        if let Some(walk) = self.stacks.get_mut(&row.stack).and_then(|stack| stack.walk.as_mut()) {
            walk.at_hooks.remove(&(row.name.clone(), slot));
        }
        if waited {
            self.row_changed(slot, false);
        }
    }

    /// Notes that a job starts. Post hooks of an earlier job are dropped.
    pub(crate) fn job_begins(&mut self, slot: Slot) {
        self.leave_hook(slot);
        self.rows[slot].keep_hooks(!(POST_CREATE_DUE | POST_UPDATE_DUE));
    }

    pub(crate) fn clear_hook(
        &mut self,
        name: &StackName,
        resource: &str,
        hook: Hook,
    ) -> Result<Answer, Refusal> {
        let id = self.find(name)?;
        let stack = &self.stacks[&id];
        let named = |slot: &&Slot| *self.rows[**slot].name == *resource;
        let waiting = stack.walk.as_ref().filter(|_| !stack.cancelled);
        let waiting = waiting.into_iter().flat_map(|walk| walk.at_hooks_of(resource));
        let slots: Vec<Slot> = waiting.filter(|slot| self.rows[*slot].details().hook == Some(hook)).collect();
        if slots.is_empty() {
            let rows: Vec<&Row> = stack
                .forward
                .iter()
                .chain(&stack.extras)
                .filter(named)
                .map(|slot| &self.rows[*slot])
                .collect();
            if rows.is_empty() {
                let names = stack.forward.iter().chain(&stack.extras).map(|slot| &*self.rows[*slot].name);
                let near = suggestion(resource, names);
                return Err(Refusal::NotFound(format!("stack '{name}' has no resource '{resource}'{near}")));
            }
            let why = if stack.is_still() {
                format!("the stack is {}_{}", stack.action.as_str(), stack.status.as_str())
            } else {
                why_not_waiting(name, hook, &rows)
            };
            return Err(Refusal::Conflict(format!(
                "resource '{resource}' of stack '{name}' does not wait at hook {}: {why}",
                hook.as_str()
            )));
        }
        for slot in slots {
            self.leave_hook(slot);
            self.rows[slot].add_hooks(hook.bit());
            self.row_changed(slot, false);
            self.hook_event(slot, hook, &format!("hook {} was cleared", hook.as_str()));
            self.ctx.agenda.push_back(Todo::Visit(slot));
        }
        self.ctx.agenda.push_back(Todo::CheckEnd(id));
        Ok(Answer::Done)
    }

    /// The reason to refuse an action, if the environment restricts it.
    pub(crate) fn restricted(&self, slot: Slot, restriction: Restriction) -> Option<String> {
        let row = &self.rows[slot];
        let restricts = self.stacks[&row.stack].policies.of(&row.name).restricts(restriction);
        restricts.then(|| format!("{} is restricted by the environment", restriction.as_str()))
    }

    /// For the reason of a stack that timed out: `; waits at hooks: a pre-create, …`
    pub(crate) fn hooks_waited_at(&self, stack: u64) -> String {
        let walk = self.stacks.get(&stack).and_then(|stack| stack.walk.as_ref());
        let waiting: Vec<String> = walk
            .into_iter()
            .flat_map(|walk| &walk.at_hooks)
            .filter_map(|(name, slot)| Some(format!("{name} {}", self.rows[*slot].details().hook?.as_str())))
            .collect();
        match waiting.len() {
            0 => String::new(),
            1..=NAMED_MAX => format!("; waits at hooks: {}", waiting.join(", ")),
            n => format!("; {n} resources wait at hooks: {}, …", waiting[..NAMED_MAX].join(", ")),
        }
    }

    fn hook_event(&mut self, slot: Slot, hook: Hook, reason: &str) {
        let (action, status) = match hook {
            Hook::PreCreate => ("CREATE", Status::InProgress),
            Hook::PostCreate => ("CREATE", Status::Complete),
            Hook::PreUpdate => ("UPDATE", Status::InProgress),
            Hook::PostUpdate => ("UPDATE", Status::Complete),
            Hook::PreDelete => ("DELETE", Status::InProgress),
            Hook::PostDelete => ("DELETE", Status::Complete),
        };
        self.row_event(slot, (action, status.as_str()), reason.to_owned());
    }
}

impl Row {
    /// Sets all hooks again for a new operation. A post hook that is due and was not cleared stays due.
    pub(crate) fn set_hooks_again(&mut self) {
        self.leave_hook();
        self.keep_hooks(POST_CREATE_DUE | POST_UPDATE_DUE);
    }

    /// Drops all hooks of this traversal.
    pub(crate) fn forget_hooks(&mut self) {
        self.leave_hook();
        self.keep_hooks(0);
    }
}

/// The hook before a job with this action.
fn before(action: Action) -> Option<Hook> {
    match action {
        Action::Create | Action::Adopt => Some(Hook::PreCreate),
        Action::Update => Some(Hook::PreUpdate),
        Action::Delete | Action::Retain => Some(Hook::PreDelete),
        Action::Check => None,
    }
}

fn why_not_waiting(stack: &StackName, hook: Hook, rows: &[&Row]) -> String {
    if let Some(waits) = rows.iter().find_map(|row| row.details().hook) {
        format!("it waits at {}", waits.as_str())
    } else if rows.iter().any(|row| row.details().hooks_cleared & hook.bit() != 0) {
        "it was cleared already".to_owned()
    } else {
        format!("see its phase in 'muster resource list {stack}'")
    }
}
