//! A correction restarts the units that an update of the same resource would restart.
//!
//! The spec of a unit has digests of the specs that it restarts for (`muster_template`'s `unit`). A
//! corrected resource has the same spec as before, so its digest is the same. The unit's row
//! therefore notes the last correction beside the digest, as a mark. A new mark makes a new desired
//! state, which the agent tells from the state in which it started the unit.
//!
//! ```text
//!   a correction succeeds ─▶ its generation marks the units that name the resource ─▶ a job
//! ```
//!
//! The mark is in the row's notes, so it survives a controller restart. A unit restarted by a mark
//! restarts no other unit.
//!
//! Absent: when the restart runs (`drift/unit_restart.rs`).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use muster_shared::model::{Spec, Unit};
use muster_template::{Desired, Kind, References, Tree, Unresolved};
use serde_json::Value;

use crate::jobs::Jobs;
use crate::node::NodeKey;
use crate::record::{PackedSpec, Status};
use crate::row::attribute::Rendered;
use crate::row::notes::{Notes, Trigger, UnitNotes};
use crate::row::{Row, Slot};
use crate::todo::Todo;

/// The properties that name the resources a unit restarts and reloads for, in the order of
/// [`UnitNotes`].
const TRIGGERS: [&str; 2] = ["restart_on", "reload_on"];
/// Separates the digest from the mark.
const MARK: char = '+';
/// Names in one event.
pub(crate) const NAMED: usize = 5;

/// Records the resources whose spec a property refers to.
struct ReferenceRecorder<'a> {
    rendered: Rendered<'a>,
    whom: RefCell<BTreeSet<u32>>,
}

impl References for ReferenceRecorder<'_> {
    fn resource_id(&self, index: u32) -> Option<String> {
        self.rendered.resource_id(index)
    }

    fn attribute(&self, index: u32, name: &str) -> Option<Value> {
        if name == Spec::STATE {
            self.whom.borrow_mut().insert(index);
        }
        self.rendered.attribute(index, name)
    }

    fn is_ready(&self, index: u32) -> bool {
        self.rendered.is_ready(index)
    }

    fn of_node(&self, node: &str, path: &[String]) -> Result<Option<Value>, Unresolved> {
        self.rendered.of_node(node, path)
    }
}

impl Row {
    /// Resources that the unit restarts and reloads for.
    fn triggers(&self) -> [&Trigger; 2] {
        static NONE: Trigger = Trigger { names: Vec::new(), mark: None };
        match &self.details().notes {
            Some(Notes::Unit(notes)) => [&notes.restart, &notes.reload],
            _ => [&NONE, &NONE],
        }
    }

    /// Whether the row has this spec except for marks.
    pub fn differs_in_marks(&self, packed: &PackedSpec) -> bool {
        let is_unit = self.kind == Kind::Unit;
        is_unit && self.spec().is_some_and(|spec| unmarked(spec.unpack()) == unmarked(packed.unpack()))
    }

    /// Adds the marks of this row to the spec of a unit.
    pub fn mark_restarts(&self, spec: &mut Desired) {
        if let Desired::Node(Spec::Unit(unit)) = spec {
            for (text, trigger) in texts(unit).into_iter().zip(self.triggers()) {
                if let Some(mark) = trigger.mark.filter(|_| !text.is_empty()) {
                    unmark(text);
                    text.push(MARK);
                    text.push_str(&mark.to_string());
                }
            }
        }
    }

    /// Whether the unit has a new mark and no job for it yet.
    pub fn owes_restart(&self) -> bool {
        let is_marked = self.triggers().iter().any(|trigger| trigger.mark.is_some());
        let Some(spec) = self.spec().filter(|_| is_marked && self.kind == Kind::Unit) else {
            return false;
        };
        let mut wanted = spec.unpack();
        self.mark_restarts(&mut wanted);
        PackedSpec::new(&wanted) != *spec
    }
}

impl Trigger {
    /// The same trigger with these names. A trigger without names follows no correction.
    fn naming(&self, names: Vec<String>) -> Self {
        let mark = self.mark.filter(|_| !names.is_empty());
        Self { names, mark }
    }
}

/// The texts that say what the unit restarts and reloads for.
fn texts(unit: &mut Unit) -> [&mut String; 2] {
    [&mut unit.restart_on, &mut unit.reload_on]
}

fn unmark(text: &mut String) {
    if let Some(at) = text.find(MARK) {
        text.truncate(at);
    }
}

/// The spec without marks: a unit that names another one does not restart when a mark restarts that one.
pub(crate) fn unmarked(mut spec: Desired) -> Desired {
    if let Desired::Node(Spec::Unit(unit)) = &mut spec {
        texts(unit).into_iter().for_each(unmark);
    }
    spec
}

impl Jobs {
    /// Notes in the row of a unit the resources that it names, because a COMPLETE stack has no tree.
    pub(crate) fn remember_restarts(&mut self, slot: Slot, tree: &Tree) {
        if tree.kind(self.graph.rows[slot].index as usize) != Kind::Unit {
            return;
        }
        let [restart, reload] = TRIGGERS.map(|property| self.named_by(slot, tree, property));
        let row = &mut self.graph.rows[slot];
        let [before_restart, before_reload] = row.triggers();
        let notes =
            UnitNotes { restart: before_restart.naming(restart), reload: before_reload.naming(reload) };
        let names_any = notes != UnitNotes::default();
        if row.set_notes(names_any.then(|| Notes::Unit(Box::new(notes)))) {
            self.graph.row_changed(slot, true);
        }
    }

    fn named_by(&self, slot: Slot, tree: &Tree, property: &str) -> Vec<String> {
        let row = &self.graph.rows[slot];
        let rendered = Rendered { graph: &self.graph, stack: &self.graph.stacks[&row.stack] };
        let asked = ReferenceRecorder { rendered, whom: RefCell::default() };
        // An error in the property is reported when the whole resource is rendered.
        let _ = tree.render_property(row.index as usize, property, &asked);
        asked.whom.into_inner().into_iter().map(|index| tree.name(index as usize).to_owned()).collect()
    }

    /// A correction has succeeded. Units that name the resource learn of it with all corrections of
    /// this turn.
    pub(crate) fn was_corrected(&mut self, slot: Slot) {
        let row = &self.graph.rows[slot];
        let (name, generation) = (Arc::clone(&row.name), row.generation);
        let Some(stack) = self.graph.stacks.get_mut(&row.stack) else { return };
        if stack.corrected.is_empty() {
            self.graph.ctx.agenda.push_back(Todo::Restart(stack.id));
        }
        stack.corrected.insert(name, generation);
    }

    /// Remembers that a unit needs a restart.
    pub(crate) fn note_owed(&mut self, slot: Slot) {
        if self.graph.rows[slot].owes_restart() {
            self.unsettled.set_owed(slot, true);
            self.graph.ctx.agenda.push_back(Todo::Correct(slot));
        }
    }

    /// Whether the row needs only a restart, and its node is away or in maintenance. No operation
    /// waits for such a restart.
    pub(crate) fn restart_waits(&self, slot: Slot, node: NodeKey, packed: &PackedSpec) -> bool {
        let row = &self.graph.rows[slot];
        let is_open = self.graph.nodes[node].presence.is_ready() && !self.graph.is_in_maintenance(node);
        let is_whole = row.status() == Some(Status::Complete) && row.is_left_alone();
        !is_open && is_whole && self.unsettled.owed().contains(&slot) && row.differs_in_marks(packed)
    }
}
