//! What was put right on a server restarts the units that a change of it by an update would restart.
//!
//! What a unit is restarted for is part of what it is to be, as digests of what others are to be (`muster_template`'s `unit`).
//! What somebody has changed and a correction has put right is to be the same as ever, so the unit's row notes beside them the
//! correction that it was restarted for last: another one is another desired state, which its agent tells from what the unit
//! was started with.
//!
//! ```text
//!   a correction ends well ─▶ units that name it get its generation as mark ─▶ a job, when no operation is under way
//! ```
//!
//! It survives a restart of the controller with the row's attributes. Absent: what is restarted so restarts no other unit.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use muster_shared::model::{Action, Spec, Unit};
use muster_template::{Desired, DriftPolicy, Kind, References, Restriction, Tree, Unresolved};
use serde_json::Value;

use crate::attribute::Rendered;
use crate::correct::Aside;
use crate::engine::{Engine, Todo};
use crate::node::NodeKey;
use crate::record::{PackedSpec, StackAction, Status};
use crate::resource::{Role, Row, Slot};

/// Of a unit's row: the property, the paths of what it names as JSON, and the mark. The last two are no attributes of anybody's.
const NOTES: [(&str, &str, &str); 2] =
    [("restart_on", "restarts for", "restarted for"), ("reload_on", "reloads for", "reloaded for")];
/// Of a unit whose present job, or the last one, is a restart that was owed; likewise nobody's attribute.
const RESTARTING: &str = "restarting";
/// Between what follows from the template and the mark.
const MARK: char = '+';
/// Names in one event.
const NAMED: usize = 5;

/// Says who is asked for what it is to be.
struct Asked<'a> {
    rendered: Rendered<'a>,
    whom: RefCell<BTreeSet<u32>>,
}

impl References for Asked<'_> {
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
    /// Whether a name is that of such a note, in the row of a unit.
    pub fn notes_restarts(name: &str) -> bool {
        name == RESTARTING || NOTES.iter().any(|(_, names, mark)| [*names, *mark].contains(&name))
    }

    /// Its present job, or the last one, is a restart that was owed.
    pub fn is_restarting(&self) -> bool {
        self.kind == Kind::Unit && self.attributes.contains_key(RESTARTING)
    }

    /// See [`Row::set_aside`].
    pub fn note_restarting(&mut self, is_so: bool) {
        if is_so {
            self.attributes.insert(RESTARTING.to_owned(), String::new());
        } else if self.kind == Kind::Unit {
            self.attributes.remove(RESTARTING);
        }
    }

    /// It has this desired state, but perhaps for what it is restarted for.
    pub fn differs_in_marks(&self, packed: &PackedSpec) -> bool {
        let is_unit = self.kind == Kind::Unit;
        is_unit && self.spec.as_ref().is_some_and(|spec| unmarked(spec.unpack()) == unmarked(packed.unpack()))
    }

    /// Of what its agent tells at the end of a job these notes are no part.
    pub fn take_restarts(&mut self) -> Vec<(String, String)> {
        let kept = NOTES.iter().flat_map(|(_, names, mark)| [*names, *mark]);
        kept.filter_map(|name| self.attributes.remove_entry(name)).collect()
    }

    /// Makes a desired state of a unit what it is to be after all that was put right.
    pub fn mark_restarts(&self, spec: &mut Desired) {
        if let Desired::Node(Spec::Unit(unit)) = spec {
            for (text, (_, _, mark)) in texts(unit).into_iter().zip(NOTES) {
                if let Some(mark) = self.attributes.get(mark).filter(|_| !text.is_empty()) {
                    unmark(text);
                    text.push(MARK);
                    text.push_str(mark);
                }
            }
        }
    }

    /// It is to be restarted, or reloaded, and has no job for that yet.
    fn owes_restart(&self) -> bool {
        let is_marked = NOTES.iter().any(|(_, _, mark)| self.attributes.contains_key(*mark));
        let Some(spec) = self.spec.as_ref().filter(|_| is_marked && self.kind == Kind::Unit) else {
            return false;
        };
        let mut wanted = spec.unpack();
        self.mark_restarts(&mut wanted);
        PackedSpec::new(&wanted) != *spec
    }
}

/// What it is restarted for and what it is reloaded for.
fn texts(unit: &mut Unit) -> [&mut String; 2] {
    [&mut unit.restart_on, &mut unit.reload_on]
}

fn unmark(text: &mut String) {
    if let Some(at) = text.find(MARK) {
        text.truncate(at);
    }
}

/// What follows from the template alone: who names a unit is not restarted for what restarts that one.
pub(crate) fn unmarked(mut spec: Desired) -> Desired {
    if let Desired::Node(Spec::Unit(unit)) = &mut spec {
        texts(unit).into_iter().for_each(unmark);
    }
    spec
}

impl Engine {
    /// Whom a unit names, in its row: a COMPLETE stack has no tree to look at.
    pub(crate) fn remember_restarts(&mut self, slot: Slot, tree: &Tree) {
        if tree.kind(self.rows[slot].index as usize) != Kind::Unit {
            return;
        }
        let mut changed = false;
        for (property, names, mark) in NOTES {
            let paths = self.named_by(slot, tree, property);
            let text = (!paths.is_empty()).then(|| serde_json::json!(paths).to_string());
            let attributes = &mut self.rows[slot].attributes;
            if attributes.get(names) != text.as_ref() {
                changed = true;
                match text {
                    Some(text) => drop(attributes.insert(names.to_owned(), text)),
                    None => {
                        attributes.remove(names);
                        attributes.remove(mark);
                    }
                }
            }
        }
        if changed {
            self.row_changed(slot, true);
        }
    }

    fn named_by<'t>(&self, slot: Slot, tree: &'t Tree, property: &str) -> Vec<&'t str> {
        let row = &self.rows[slot];
        let rendered = Rendered { engine: self, stack: &self.stacks[&row.stack] };
        let asked = Asked { rendered, whom: RefCell::default() };
        // What is wrong with it is told when all of it is rendered.
        let _ = tree.render_property(row.index as usize, property, &asked);
        asked.whom.into_inner().into_iter().map(|index| tree.name(index as usize)).collect()
    }

    /// What others changed is as it should be again: those that name it hear of that with all others of this turn.
    pub(crate) fn was_put_right(&mut self, slot: Slot) {
        let row = &self.rows[slot];
        let (name, generation) = (Arc::clone(&row.name), row.generation);
        let Some(stack) = self.stacks.get_mut(&row.stack) else { return };
        if stack.put_right.is_empty() {
            self.agenda.push_back(Todo::Restart(stack.id));
        }
        stack.put_right.insert(name, generation);
    }

    /// Marks the units that name what was put right, and gives them a job as soon as that may be.
    pub(crate) fn mark_units(&mut self, id: u64) {
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        let right = std::mem::take(&mut stack.put_right);
        // Mostly it is one, which is looked for before what each unit names is read.
        let only = right.keys().next().filter(|_| right.len() == 1);
        let only = only.map_or_else(String::new, |name| Value::from(&**name).to_string());
        let units: Vec<Slot> =
            stack.forward.iter().copied().filter(|slot| self.rows[*slot].kind == Kind::Unit).collect();
        for slot in units {
            let mut causes = BTreeSet::new();
            for (_, names, mark) in NOTES {
                let row = &mut self.rows[slot];
                let named = row.attributes.get(names).filter(|names| names.contains(&only));
                let named = named.and_then(|names| serde_json::from_str(names).ok());
                let named: Vec<String> = named.unwrap_or_default();
                let found = named.into_iter().filter(|name| right.contains_key(name.as_str()));
                let found: Vec<String> = found.collect();
                if let Some(newest) = found.iter().filter_map(|name| right.get(name.as_str())).max() {
                    row.attributes.insert(mark.to_owned(), newest.to_string());
                    causes.extend(found);
                }
            }
            if causes.is_empty() {
                continue;
            }
            self.row_changed(slot, true);
            self.note_owed(slot);
            let named: Vec<String> = causes.into_iter().take(NAMED).collect();
            self.tell_of(slot, format!("put right: {}", named.join(", ")));
        }
    }

    /// Remembers that a unit is to be restarted.
    pub(crate) fn note_owed(&mut self, slot: Slot) {
        if self.rows[slot].owes_restart() {
            self.unsettled.set_owed(slot, true);
            self.agenda.push_back(Todo::Correct(slot));
        }
    }

    /// All that it needs is a restart that is owed, and its node is away or in maintenance: no operation waits for that.
    pub(crate) fn restart_waits(&self, slot: Slot, node: NodeKey, packed: &PackedSpec) -> bool {
        let row = &self.rows[slot];
        let is_open = self.nodes[node].ready && !self.is_in_maintenance(node);
        let is_whole = row.status == Some(Status::Complete) && row.is_left_alone();
        !is_open && is_whole && self.unsettled.owed().contains(&slot) && row.differs_in_marks(packed)
    }

    /// Restarts it, unless something goes first. As with a correction, what must not be corrected is left alone.
    pub(crate) fn restart_owed(&mut self, slot: Slot) {
        let Some(row) = self.rows.get(slot) else { return };
        let stands =
            row.status == Some(Status::Complete) && row.work.is_none() && row.ready && !row.is_going();
        let is_ours = !row.is_lost() && !row.handed_over && row.applied && row.role != Role::Cleanup;
        let may = row.drift_policy() == DriftPolicy::Correct && !self.is_outside(row);
        let Some(node) = row.node.filter(|_| stands && is_ours && may) else { return };
        let Some(stack) = self.stacks.get(&row.stack) else { return };
        let goes_first = stack.status == Status::InProgress
            || stack.action == StackAction::Delete
            || self.stacks.is_pending(stack.id);
        // What its server has of it since the backup waits for an operator.
        let is_held = self.awaits_verdict(slot);
        if is_held
            || goes_first
            || self.restricted(slot, Restriction::Update).is_some()
            || !self.is_open(slot, node)
        {
            return;
        }
        self.unsettled.set_owed(slot, false);
        let row = &self.rows[slot];
        let Some(mut spec) = row.spec.as_ref().map(PackedSpec::unpack).filter(|_| row.owes_restart()) else {
            return;
        };
        row.mark_restarts(&mut spec);
        let spec = PackedSpec::new(&spec);
        self.queue_job(slot, node, Action::Update, Some(spec), None);
        self.rows[slot].set_aside(Some(Aside::Restart));
    }
}
