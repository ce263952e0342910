//! Hidden values in networks and subnets. A port of another stack has them in its attributes, so
//! that stack masks them as well.
//!
//! The row of a port notes the values that it has seen, sealed in the store. The note stays when
//! the network gets another name, and does not depend on what is known of the other stack after a restart.
//!
//! Absent: hidden values in reports of agents (`controller/engine/src/view/hidden.rs`).

use muster_shared::ResourceId;
use muster_template::{Kind, Secrets};
use serde_json::Value;

use crate::row::notes::Notes;
use crate::row::{Row, Slot};
use crate::traversals::Traversals;

impl Row {
    /// Texts to mask in the attributes of a network, a subnet or a port.
    fn hidden_of_plan(&self) -> &[Value] {
        match &self.details().notes {
            Some(Notes::Hides(hidden)) => hidden,
            _ => &[],
        }
    }

    /// Texts that other stacks hide in the attributes of this port.
    pub(crate) fn others_hide(&self) -> Secrets {
        if self.kind == Kind::Port { Secrets::of(self.hidden_of_plan().iter()) } else { Secrets::default() }
    }

    fn hide_of_plan(&mut self, hidden: Vec<Value>) -> bool {
        self.set_notes((!hidden.is_empty()).then_some(Notes::Hides(hidden)))
    }
}

impl Traversals {
    /// Notes the hidden values of a network or subnet and of its ports, after a change of the row
    /// or of the hidden values.
    pub(crate) fn hide_in_plan(&mut self, slot: Slot) {
        let row = &self.jobs.graph.rows[slot];
        let known = self.jobs.graph.stacks.get(&row.stack).filter(|stack| !stack.hidden.is_forgotten());
        let Some(stack) = known else { return };
        let secrets = stack.hidden.secrets();
        let given = row.spec().map(|spec| spec.unpack().properties()).unwrap_or_default();
        let hidden: Vec<Value> = given.values().flat_map(|value| hidden_in(secrets, value)).collect();
        let id = row.physical;
        if !self.jobs.graph.rows[slot].hide_of_plan(hidden) {
            return;
        }
        self.jobs.graph.row_changed(slot, true);
        let ports: Vec<ResourceId> = self.addresses.ports_with(id).collect();
        for port in ports {
            if let Some(port) = self.jobs.graph.rows.of_thing(&port) {
                self.hide_of_port(port);
            }
        }
    }

    /// Notes for a port the hidden values of its network and subnets.
    pub(crate) fn hide_of_port(&mut self, slot: Slot) {
        let row = &self.jobs.graph.rows[slot];
        let made = self.addresses.made_of(row.physical).filter_map(|id| self.jobs.graph.rows.of_thing(&id));
        // Resources made from this port may still show values that it had before.
        let all = made.chain([slot]).flat_map(|slot| self.jobs.graph.rows[slot].hidden_of_plan());
        let mut hidden: Vec<Value> = Vec::new();
        for value in all {
            if !hidden.contains(value) {
                hidden.push(value.clone());
            }
        }
        if self.jobs.graph.rows[slot].hide_of_plan(hidden) {
            self.jobs.graph.row_changed(slot, true);
        }
        self.hide_of_others(slot);
    }

    /// Masks in the port's stack what the port notes.
    fn hide_of_others(&mut self, slot: Slot) {
        let row = &self.jobs.graph.rows[slot];
        let (id, hidden) = (row.stack, row.others_hide());
        let Some(stack) = self.jobs.graph.stacks.get_mut(&id) else { return };
        if stack.hidden.hide_of_others(&hidden) {
            for output in &mut stack.outputs {
                output.value = stack.hidden.of_others(output.value.take());
            }
            self.jobs.graph.stack_changed(id);
        }
    }

    /// Notes the hidden values of all networks and subnets of a stack, because more parameters may
    /// be hidden now.
    pub(crate) fn hide_plan_of(&mut self, stack: u64) {
        let hides = self.jobs.graph.stacks.get(&stack).filter(|stack| !stack.hidden.secrets().is_empty());
        let Some(stack) = hides else { return };
        let is_it = |slot: &&Slot| matches!(self.jobs.graph.rows[**slot].kind, Kind::Net | Kind::Subnet);
        for slot in stack.forward.iter().filter(is_it).copied().collect::<Vec<_>>() {
            self.hide_in_plan(slot);
        }
    }
}

/// Texts that contain a hidden value, and the hidden values in them. A number or a boolean is left
/// out: it would be masked everywhere.
fn hidden_in(secrets: &Secrets, value: &Value) -> Vec<Value> {
    match value {
        Value::String(text) if secrets.mask(text) != *text => {
            let found = secrets.found_in(text).into_iter().map(Value::from);
            found.chain([value.clone()]).collect()
        }
        Value::Array(items) => items.iter().flat_map(|item| hidden_in(secrets, item)).collect(),
        Value::Object(entries) => entries.values().flat_map(|item| hidden_in(secrets, item)).collect(),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}
