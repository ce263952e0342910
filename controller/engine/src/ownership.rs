//! Ownership of a thing: whether it stays when its resource is removed, and whether others made it.
//!
//! A row with an external id stands for a thing that others made. The thing is compared and never
//! made, changed or removed, so the row is never `applied`.
//!
//! Absent: who owns a claim (`claim.rs`), and what a template may say
//! (`controller/template/src/ownership.rs`).

use muster_shared::NodeId;
use muster_shared::model::{Action, Claim};
use muster_template::{Removed, Tree};

use crate::jobs::Jobs;
use crate::record::Status;
use crate::request::Refusal;
use crate::row::notes::Notes;
use crate::row::{Ownership, Row, Slot};
use crate::traversal::plan::Plan;

impl Row {
    /// Whether the row stands for a thing that others made.
    pub fn is_external(&self) -> bool {
        self.details().external_id.is_some()
    }

    /// The action that cleans the row up.
    pub fn farewell(&self) -> Action {
        if self.retain { Action::Retain } else { Action::Delete }
    }

    /// Whether clean-up leaves the thing in place.
    fn leaves_its_thing(&self) -> bool {
        self.retain || self.is_external()
    }

    /// The id that operators and other resources see.
    pub fn shown_id(&self) -> String {
        self.details().external_id.as_deref().map_or_else(|| self.physical.to_string(), str::to_owned)
    }
}

impl Jobs {
    /// Copies the template's ownership into the row. It was checked when the operation was accepted.
    pub(crate) fn own(&mut self, slot: Slot, tree: &Tree, index: usize) {
        self.remember_removed(slot, tree.removed(index));
        self.graph.remember_selector(slot, tree);
        let retain = tree.retains(index);
        let external_id = tree.external_id(index).ok().flatten().map(String::into_boxed_str);
        let type_name = tree.type_name(index);
        self.set_drift_policy(slot, tree.drift_policy(index));
        if self.graph.rows[slot].own(Ownership { retain, external_id, type_name }) {
            self.graph.row_changed(slot, true);
        }
    }

    /// Refuses a change of `external_id` while the resource exists.
    pub(crate) fn check_ownership(&self, plan: &Plan, tree: &Tree) -> Result<(), Refusal> {
        for index in 0..tree.len() {
            if !plan.dirty[index] {
                continue;
            }
            let id = tree.external_id(index).map_err(|error| Refusal::Invalid(error.to_string()))?;
            let Some(row) = plan.chosen[index].map(|slot| &self.graph.rows[slot]) else { continue };
            let stands = row.is_applied() || row.task().is_some() || row.status() == Some(Status::Complete);
            if !stands || row.details().external_id.as_deref() == id.as_deref() {
                continue;
            }
            return Err(Refusal::Invalid(format!(
                "the external_id of resource {} cannot be added, changed or removed while the resource exists: take \
                 the resource out of the template in one update (with 'deletion_policy: retain' its thing stays) and \
                 put it back in the next",
                tree.name(index)
            )));
        }
        Ok(())
    }

    /// Whether the owner's clean-up would remove a thing that an external row stands for.
    pub(crate) fn takes_it_away(&self, is_external: bool, owner: Slot) -> bool {
        is_external && !self.graph.rows[owner].leaves_its_thing()
    }

    /// The refusal for [`Self::takes_it_away`].
    pub(crate) fn external_but_ours(
        &self,
        claim: &Claim,
        node: &NodeId,
        owner: Slot,
        asker: &str,
    ) -> Refusal {
        let owner = &self.graph.rows[owner];
        Refusal::Conflict(format!(
            "resource {asker} has an external_id, but its {claim} on {node} is what resource {} made and would take \
             away: give {} the deletion_policy retain first",
            owner.name, owner.name
        ))
    }

    /// Notes the names that a group has removed for good, as soon as that is decided.
    pub(crate) fn remember_removed(&mut self, slot: Slot, removed: Option<&Removed>) {
        let Some(removed) = removed else { return };
        let notes = (!removed.is_empty()).then(|| Notes::Removed(removed.clone()));
        if self.graph.rows[slot].set_notes(notes) {
            self.graph.row_changed(slot, true);
        }
    }
}
