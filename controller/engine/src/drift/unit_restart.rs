//! Restarts units after corrections of resources that they name, when no operation is in progress.
//!
//! Absent: how a unit's row notes such a correction (`drift/unit_trigger.rs`), and which resources are
//! corrected (`drift/correct.rs`), on which nodes (`drift/background_rows.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_shared::Generation;
use muster_shared::model::Action;
use muster_template::Kind;

use crate::drift::unit_trigger::NAMED;
use crate::job::NewJob;
use crate::jobs::Jobs;
use crate::record::PackedSpec;
use crate::row::cause::Cause;
use crate::row::notes::Notes;
use crate::row::{Row, Slot};

impl Jobs {
    /// Marks units that name corrected resources, and queues their restart for when it may run.
    pub(crate) fn mark_units(&mut self, id: u64) {
        let Some(stack) = self.graph.stacks.get_mut(&id) else { return };
        let corrected = std::mem::take(&mut stack.corrected);
        let units: Vec<Slot> =
            stack.forward.iter().copied().filter(|slot| self.graph.rows[*slot].kind == Kind::Unit).collect();
        for slot in units {
            let mut causes = BTreeSet::new();
            if let Some(Notes::Unit(notes)) = self.graph.rows[slot].notes_mut() {
                for trigger in [&mut notes.restart, &mut notes.reload] {
                    let found =
                        trigger.names.iter().filter_map(|name| corrected.get_key_value(name.as_str()));
                    let found: Vec<(&Arc<str>, &Generation)> = found.collect();
                    if let Some((_, newest)) = found.iter().max_by_key(|(_, generation)| **generation) {
                        trigger.mark = Some(**newest);
                        causes.extend(found.iter().map(|(name, _)| name.to_string()));
                    }
                }
            }
            if causes.is_empty() {
                continue;
            }
            self.graph.row_changed(slot, true);
            self.note_owed(slot);
            let named: Vec<String> = causes.into_iter().take(NAMED).collect();
            self.graph.tell_of(slot, format!("corrected: {}", named.join(", ")));
        }
    }

    /// Restarts a unit, unless something goes first. As with corrections, external, restricted and
    /// unselected rows are left alone.
    pub(crate) fn restart_owed(&mut self, slot: Slot) {
        if !self.graph.rows.get(slot).is_some_and(Row::may_restart) {
            return;
        }
        let Some(node) = self.graph.background_node(slot) else { return };
        // A held thing waits for an operator.
        if self.awaits_verdict(slot) || !self.takes_corrections(slot, node) {
            return;
        }
        self.unsettled.set_owed(slot, false);
        let row = &self.graph.rows[slot];
        let Some(mut spec) = row.spec().map(PackedSpec::unpack).filter(|_| row.owes_restart()) else {
            return;
        };
        row.mark_restarts(&mut spec);
        let spec = PackedSpec::new(&spec);
        let job = NewJob {
            cause: Cause::UnitRestart,
            node,
            action: Action::Update,
            spec: Some(spec),
            content: None,
        };
        self.queue_job(slot, job);
    }
}
