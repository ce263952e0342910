//! Changes of a row by an operation: its role, its part in the traversal, its replacement.
//!
//! Absent: which rows an operation changes (`traversal/layout.rs`, `traversal/derive.rs`).

use std::sync::Arc;

use muster_shared::model::Action;
use muster_shared::{ResourceId, StackName};
use muster_template::{DriftPolicy, Hook, Kind};

use crate::drift::breaker::Breaker;
use crate::node::NodeKey;
use crate::record::{Observation, Status};
use crate::row::{Dirty, Goal, Held, Role, Row, RowDetails, Slot};

/// Attributes of a resource in the template besides its properties.
pub(crate) struct Ownership<'t> {
    pub retain: bool,
    pub external_id: Option<Box<str>>,
    pub type_name: Option<&'t Arc<str>>,
}

/// State that a row hands to its replacement.
pub(crate) struct Replaced {
    id: u64,
    retain: bool,
    external_id: Option<Box<str>>,
}

impl Replaced {
    pub fn of(old: &Row) -> Self {
        Self { id: old.id, retain: old.retain, external_id: old.details().external_id.clone() }
    }
}

/// `blocked` of a row in clean-up before the clean-up starts and counts. No number of ended rows
/// brings it to 0.
const UNCOUNTED: u32 = 1 << 31;

impl Goal {
    /// The newest revision has no such thing. The first one without it counts.
    fn end(&mut self, revision: u32) {
        if *self == Goal::Be {
            *self = Goal::Gone { since: revision, replaced_by: None };
        }
    }
}

impl Row {
    /// Sets the index of the resource in the stack's template.
    pub fn set_index(&mut self, index: usize) {
        self.0.index = u32::try_from(index).expect("bounded by RESOURCES_MAX");
    }

    pub fn set_revision(&mut self, revision: u32) {
        self.0.revision = revision;
    }

    pub fn set_kind(&mut self, kind: Kind) {
        self.0.kind = kind;
    }

    /// Gives the row another thing. Returns the id of the thing before. Only `Rows` calls this,
    /// because it finds rows by that id.
    pub fn set_physical(&mut self, physical: ResourceId) -> ResourceId {
        std::mem::replace(&mut self.0.physical, physical)
    }

    /// Returns the node before.
    pub fn set_node(&mut self, node: Option<NodeKey>) -> Option<NodeKey> {
        std::mem::replace(&mut self.0.node, node)
    }

    pub fn set_requires(&mut self, requires: Box<[Slot]>) {
        self.0.requires = requires;
    }

    /// Keeps a row that an earlier revision dropped, because the template wants the resource again.
    /// Returns whether the row was dropped or replaced.
    pub fn revive(&mut self) -> bool {
        std::mem::replace(&mut self.0.goal, Goal::Be) != Goal::Be
    }

    /// The operation has nothing to do for the row.
    pub fn rest(&mut self) {
        self.0.role = Role::Steady;
    }

    /// The operation brings the row to the definition of the revision. `blocked` is how many of its
    /// needs are not ready.
    pub fn go_forward(&mut self, blocked: usize) {
        let row = &mut self.0;
        (row.role, row.failed) = (Role::Forward, false);
        row.blocked = u32::try_from(blocked).expect("bounded by RESOURCES_MAX");
    }

    /// After a restart, with `converges` even an unchanged row gets a job, unless that job is out,
    /// or has ended and the row waits at the hook after it.
    pub fn take_up_converge(&mut self, converges: bool) {
        let has_ended = matches!(self.details().hook, Some(Hook::PostCreate | Hook::PostUpdate));
        self.0.converges = converges && !has_ended && self.task().is_none();
    }

    /// Prepares the row for a new operation. With `converges` even an unchanged row gets a job.
    pub fn begin_anew(&mut self, converges: bool) {
        self.0.retry_count = 0;
        (self.0.converges, self.0.had_begun) = (converges, false);
        self.set_hooks_again();
    }

    /// Drops the row as of this revision. With `same_operation` that operation goes on.
    pub fn drop_since(&mut self, revision: u32, same_operation: bool) {
        let row = &mut self.0;
        (row.role, row.ready, row.failed) = (Role::Cleanup, false, false);
        row.blocked = UNCOUNTED;
        row.goal.end(revision);
        if !same_operation {
            row.retry_count = 0;
            self.set_hooks_again();
        }
    }

    /// The operation has to clean up the row.
    pub fn go_to_cleanup(&mut self) {
        (self.0.role, self.0.failed, self.0.blocked) = (Role::Cleanup, false, UNCOUNTED);
    }

    /// Another row replaces this one, which goes into clean-up.
    pub fn be_replaced(&mut self, by: u64, revision: u32) {
        self.go_to_cleanup();
        self.0.goal = Goal::Gone { since: revision, replaced_by: Some(by) };
    }

    /// The row that replaces this one has another number.
    pub fn set_replaced_by(&mut self, by: u64) {
        if let Goal::Gone { replaced_by, .. } = &mut self.0.goal {
            *replaced_by = Some(by);
        }
    }

    /// This row replaces another.
    pub fn replace(&mut self, old: Replaced, type_name: Option<Arc<str>>, drift_policy: Option<DriftPolicy>) {
        let row = &mut self.0;
        (row.role, row.replaces, row.retain) = (Role::Forward, Some(old.id), old.retain);
        self.set_details(old.external_id, type_name, drift_policy);
    }

    /// A row for the same resource with a thing that is not made yet.
    pub fn recreated(&self, id: u64, physical: ResourceId) -> Self {
        let mut new = Self::new(id, physical, self.stack, self.name.clone(), self.kind);
        let row = &mut new.0;
        (row.definition, row.revision) = (self.definition, self.revision);
        (row.index, row.blocked) = (self.index, self.blocked);
        (row.replaces, row.retain) = (self.replaces, self.retain);
        row.requires = self.requires.clone();
        let details = self.details();
        new.set_details(details.external_id.clone(), details.type_name.clone(), details.drift_policy);
        new
    }

    /// Allocates details only if there are any.
    fn set_details(
        &mut self,
        external_id: Option<Box<str>>,
        type_name: Option<Arc<str>>,
        drift_policy: Option<DriftPolicy>,
    ) {
        if external_id.is_some() || type_name.is_some() || drift_policy.is_some() {
            let details = self.details_mut();
            (details.external_id, details.type_name, details.drift_policy) =
                (external_id, type_name, drift_policy);
        }
    }

    /// Sets what the template says of ownership. Returns whether it differs from before.
    pub fn own(&mut self, ownership: Ownership<'_>) -> bool {
        let Ownership { retain, external_id, type_name } = ownership;
        let RowDetails { external_id: old_id, type_name: old_type, .. } = self.details();
        let (id_differs, type_differs) = (*old_id != external_id, old_type.as_ref() != type_name);
        let retain_differs = std::mem::replace(&mut self.0.retain, retain) != retain;
        if type_differs {
            self.details_mut().type_name = type_name.cloned();
        }
        if id_differs {
            self.details_mut().external_id = external_id;
        }
        retain_differs || id_differs || type_differs
    }

    pub fn set_drift_policy(&mut self, policy: Option<DriftPolicy>) {
        self.details_mut().drift_policy = policy;
    }

    /// If `acts`, notes that the present traversal changes the row.
    pub fn note_changed(&mut self, acts: bool) {
        self.0.changed |= acts;
    }

    /// Unless `stays`, forgets that the traversal before changed the row.
    pub fn forget_changed(&mut self, stays: bool) {
        self.0.changed &= stays;
    }

    /// The row is as the revision wants it. Returns whether its definition has changed.
    pub fn be_ready(&mut self, definition: u128, revision: u32) -> bool {
        self.0.ready = true;
        self.forget_hooks();
        let redefined = self.definition != definition;
        if redefined {
            (self.0.definition, self.0.revision) = (definition, revision);
        }
        redefined
    }

    /// The operation has something to do for the row, or a thing that the row needs is made again.
    pub fn be_unready(&mut self) {
        self.0.ready = false;
    }

    /// Sets whether the traversal counts the row as failed. Returns whether it did.
    pub fn set_failed(&mut self, failed: bool) -> bool {
        std::mem::replace(&mut self.0.failed, failed)
    }

    /// Sets how many rows this one waits for. Returns the number before.
    pub fn set_blocked(&mut self, blocked: u32) -> u32 {
        std::mem::replace(&mut self.0.blocked, blocked)
    }

    /// The row waits for one more.
    pub fn block(&mut self) {
        self.0.blocked += 1;
    }

    /// A row that this one waits for has ended. Returns whether it was the last.
    pub fn unblock(&mut self) -> bool {
        self.0.blocked = self.blocked.saturating_sub(1);
        self.blocked == 0
    }

    /// Takes the row out of its stack into clean-up. Returns its breaker.
    pub fn lose(&mut self, from: Option<StackName>) -> Option<Breaker> {
        let row = &mut self.0;
        row.stack = 0;
        (row.role, row.ready, row.failed, row.blocked) = (Role::Cleanup, false, false, 0);
        (row.replaces, row.last.reason) = (None, None);
        let since = self.dropped().unwrap_or(self.revision);
        let row = &mut self.0;
        row.goal = Goal::Gone { since, replaced_by: None };
        // Nothing observes the thing any longer.
        row.seen = Observation::Unknown;
        // The flags are of the slot that the row had before.
        row.dirty = Dirty::default();
        let breaker = row.details.take().and_then(|details| details.breaker);
        self.details_mut().lost_from = from;
        breaker
    }

    /// The row waits for its clean-up, in a check or as a lost row after a restart.
    pub fn await_cleanup(&mut self) {
        self.0.role = Role::Cleanup;
    }

    /// A lost row for a thing that no stack has. The agent's ledger has it as created.
    pub fn stray(id: u64, thing: ResourceId, name: Arc<str>, kind: Kind, node: NodeKey) -> Self {
        let mut stray = Self::new(id, thing, 0, name, kind);
        let row = &mut stray.0;
        (row.last.action, row.last.status) = (Some(Action::Create), Some(Status::Complete));
        (row.held, row.role) = (Held::Unlisted, Role::Cleanup);
        row.goal = Goal::Gone { since: 0, replaced_by: None };
        row.node = Some(node);
        stray
    }

    /// The parts of the row to persist.
    pub fn dirty_mut(&mut self) -> &mut Dirty {
        &mut self.0.dirty
    }
}
