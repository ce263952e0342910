//! Signals to wait condition handles. An operator's request brings a signal, the handle's row keeps
//! it, and conditions wait for it. As in Heat, a signal has an id or gets a number, and a second
//! signal with an id replaces the first.
//!
//! Absent: the time that a condition waits, also over a restart (`traversal/waiting_rows.rs`).

use std::collections::BTreeMap;

use muster_shared::StackName;
use muster_template::{Desired, Kind, SIGNALS_MAX, VirtualResource, WaitCondition, json, suggestion};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::graph::Graph;
use crate::jobs::Jobs;
use crate::record::{StackAction, Status};
use crate::request::{Answer, Refusal};
use crate::row::notes::Notes;
use crate::row::{Row, Slot};

/// Bound on one signal as JSON. Larger data belongs in a file.
const BYTES_MAX: usize = 64 * 1024;
/// Bound on all signals of a handle, because the store writes them together.
const KEPT_MAX: usize = 1024 * 1024;
/// Bytes of an id, which is a name.
const ID_MAX: usize = 255;
/// Bytes of the reasons in a failure: some lines.
const TOLD_MAX: usize = 1024;
const KEYS: [&str; 4] = ["data", "id", "reason", "status"];

/// A signal as a request brings it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signal {
    /// The id of the signal. `None`: the handle counts.
    pub id: Option<String>,
    /// The signal reports FAILURE.
    pub failure: bool,
    pub reason: Option<String>,
    /// Value for `get_attr`.
    pub data: Value,
}

impl Signal {
    /// Reads Heat's body, in which all keys are optional: `{id, status: SUCCESS | FAILURE, reason, data}`.
    ///
    /// # Errors
    /// The first fault of the body.
    pub fn from_json(body: Value) -> Result<Self, String> {
        let mut map = match body {
            Value::Null => Map::new(),
            Value::Object(map) => map,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(
                    "want a map with id, status, reason and data, all of which may be left out".into()
                );
            }
        };
        if let Some(other) = map.keys().find(|key| !KEYS.contains(&key.as_str())) {
            let near = suggestion(other, KEYS);
            return Err(format!("unknown key '{other}' in a signal{near}; it has {}", KEYS.join(", ")));
        }
        let id = match map.remove("id") {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) if (1..=ID_MAX).contains(&id.len()) => Some(id),
            Some(Value::Number(id)) => Some(id.to_string()),
            Some(_) => return Err(format!("want as 'id' a number, or text of at most {ID_MAX} bytes")),
        };
        let failure = match map.remove("status") {
            None | Some(Value::Null) => false,
            Some(Value::String(status)) if status == "SUCCESS" => false,
            Some(Value::String(status)) if status == "FAILURE" => true,
            Some(_) => return Err("want SUCCESS or FAILURE as 'status'".into()),
        };
        let reason = match map.remove("reason") {
            None | Some(Value::Null) => None,
            Some(Value::String(reason)) => Some(reason),
            Some(_) => return Err("want text as 'reason'".into()),
        };
        Ok(Self { id, failure, reason, data: map.remove("data").unwrap_or_default() })
    }
}

/// A signal in the row of its handle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredSignal {
    /// The signal reports FAILURE.
    pub failure: bool,
    pub reason: String,
    /// Value for `get_attr`.
    pub data: Value,
}

impl StoredSignal {
    /// Bytes of JSON that count against the bounds.
    fn size(&self) -> usize {
        serde_json::to_vec(self).map_or(usize::MAX, |text| text.len())
    }
}

impl Row {
    /// Signals of a handle, by their ids.
    fn signals(&self) -> &BTreeMap<String, StoredSignal> {
        static NONE: BTreeMap<String, StoredSignal> = BTreeMap::new();
        match &self.details().notes {
            Some(Notes::Signals(signals)) => signals,
            _ => &NONE,
        }
    }

    /// The properties of a wait condition. `None`: the row is no wait condition.
    pub(crate) fn waits_on(&self) -> Option<WaitCondition> {
        let spec = self.spec().filter(|_| self.kind == Kind::WaitCondition)?;
        let Desired::Virtual(VirtualResource::Wait(wait)) = spec.unpack() else { return None };
        Some(wait)
    }
}

impl Jobs {
    pub(crate) fn signal(
        &mut self,
        name: &StackName,
        resource: &str,
        signal: Signal,
    ) -> Result<Answer, Refusal> {
        let id = self.graph.find(name)?;
        let slot = self.signalled(id, name, resource)?;
        let row = &self.graph.rows[slot];
        let known = row.signals().len();
        // Heat counts the same way. The number may replace a signal that gave it as its id.
        let key = signal.id.unwrap_or_else(|| (known + 1).to_string());
        let reason = signal.reason.unwrap_or_else(|| format!("Signal {} received", known + 1));
        let status = if signal.failure { "FAILURE" } else { "SUCCESS" };
        let stored = StoredSignal { failure: signal.failure, reason, data: signal.data };
        let again = row.signals().contains_key(&key);
        let bytes = stored.size();
        if bytes > BYTES_MAX {
            return Err(Refusal::Invalid(format!(
                "the signal is {bytes} bytes, over the limit of {BYTES_MAX}"
            )));
        }
        if !again && known >= SIGNALS_MAX as usize {
            return Err(Refusal::Conflict(format!(
                "'{resource}' has {SIGNALS_MAX} signals, which is its limit"
            )));
        }
        let others = row.signals().iter().filter(|(id, _)| **id != key).map(|(id, it)| id.len() + it.size());
        if others.sum::<usize>() + key.len() + bytes > KEPT_MAX {
            let message =
                format!("the signals of '{resource}' would be more than {KEPT_MAX} bytes, its limit");
            return Err(Refusal::Conflict(message));
        }
        let told = self.graph.shown(slot, &cut(&format!("status:{status} reason:{}", stored.reason)));
        self.graph.rows[slot].add_signal(key.clone(), stored);
        self.graph.row_changed(slot, false);
        self.graph.row_event(slot, ("SIGNAL", Status::Complete.as_str()), told);
        let physical = self.graph.rows[slot].physical.to_string();
        let waiting: Vec<Slot> = self.graph.stacks[&id].waiting.iter().copied().collect();
        for slot in waiting {
            let row = &self.graph.rows[slot];
            if row.awaits_signals() && row.waits_on().is_some_and(|wait| wait.handle == physical) {
                self.look_at_signals(slot);
            }
        }
        let signals = self.graph.rows[slot].signals().len();
        Ok(Answer::Signalled { id: key, again, signals })
    }

    /// The handle of this name, if it can take signals.
    fn signalled(&self, id: u64, name: &StackName, resource: &str) -> Result<Slot, Refusal> {
        let stack = &self.graph.stacks[&id];
        let found = stack.forward.binary_search_by(|slot| (*self.graph.rows[*slot].name).cmp(resource));
        let Ok(at) = found else {
            let handles = stack.forward.iter().map(|slot| &self.graph.rows[*slot]);
            let handles = handles.filter(|row| row.kind == Kind::WaitConditionHandle).map(|row| &*row.name);
            let near = suggestion(resource, handles);
            return Err(Refusal::NotFound(format!("stack '{name}' has no resource '{resource}'{near}")));
        };
        let slot = stack.forward[at];
        let row = &self.graph.rows[slot];
        if row.kind != Kind::WaitConditionHandle {
            let handle = row.waits_on().and_then(|wait| self.graph.wait_handle(row.stack, &wait.handle));
            let hint = handle.map(|slot| format!(": signal its handle '{}'", self.graph.rows[slot].name));
            return Err(Refusal::Invalid(format!(
                "resource '{resource}' of stack '{name}' is of type {}, which takes no signals{}",
                row.type_name(),
                hint.unwrap_or_default()
            )));
        }
        if !row.is_applied() || row.is_going() {
            let message =
                format!("resource '{resource}' of stack '{name}' is not there yet: signal it when it is");
            return Err(Refusal::Conflict(message));
        }
        Ok(slot)
    }

    /// Completes a waiting condition if enough signals have come. Fails it if one reports FAILURE.
    pub(crate) fn look_at_signals(&mut self, slot: Slot) {
        let Some(wait) = self.graph.rows[slot].waits_on() else { return };
        let Some(handle) = self.graph.wait_handle(self.graph.rows[slot].stack, &wait.handle) else {
            let reason = "'handle' must be {get_resource: NAME}, where NAME is an OS::Heat::WaitConditionHandle in this stack";
            return self.fail_row(slot, reason.into());
        };
        let signals = self.graph.rows[handle].signals();
        let failed = || signals.values().filter(|signal| signal.failure);
        let failures = failed().count();
        let enough = signals.len() - failures >= wait.count as usize;
        // In a rollback, a failure of the update does not fail the revision before.
        let stack = self.graph.stacks.get(&self.graph.rows[slot].stack);
        let back = stack.is_some_and(|stack| stack.action == StackAction::Rollback);
        if failures > 0 && !(back && enough) {
            let reason = self.graph.shown(slot, &reasons(failed()));
            return self.fail_row(slot, reason);
        }
        if enough {
            self.graph.end_pause(slot);
            self.made(slot);
        }
    }

    /// Fails a condition whose time is over.
    pub(crate) fn signals_are_late(&mut self, slot: Slot) {
        let Some(wait) = self.graph.rows[slot].waits_on() else { return };
        let handle = self.graph.wait_handle(self.graph.rows[slot].stack, &wait.handle);
        let told = handle
            .map(|handle| reasons(self.graph.rows[handle].signals().values()))
            .filter(|told| !told.is_empty());
        let told = told.map_or_else(String::new, |told| format!(" - {told}"));
        let reason = format!("timed out after {} s: {}{told}", wait.timeout, self.signals_of(slot));
        let reason = self.graph.shown(slot, &reason);
        self.fail_row(slot, reason);
    }

    /// `1 of 2 signals received`
    pub(crate) fn signals_of(&self, slot: Slot) -> String {
        let row = &self.graph.rows[slot];
        let Some(wait) = row.waits_on() else { return String::new() };
        let handle = self.graph.wait_handle(row.stack, &wait.handle);
        let came = handle.map_or(0, |handle| self.graph.rows[handle].signals().len());
        format!("{came} of {} signals received", wait.count)
    }

    /// The reason shown for a condition that waits.
    pub(crate) fn signals_reason(&self, slot: Slot) -> String {
        let row = &self.graph.rows[slot];
        let wait = row.waits_on();
        let handle = wait.and_then(|wait| self.graph.wait_handle(row.stack, &wait.handle));
        let handle = handle.map_or("?", |handle| &*self.graph.rows[handle].name);
        let stack = self.graph.stacks.get(&row.stack).map_or("?", |stack| stack.name.as_str());
        format!("{}: they are sent with 'muster resource signal {stack} {handle}'", self.signals_of(slot))
    }
}

impl Graph {
    /// The handle of the stack with this id.
    pub(crate) fn wait_handle(&self, stack: u64, id: &str) -> Option<Slot> {
        let slot = self.rows.of_thing(&muster_shared::ResourceId(uuid::Uuid::parse_str(id).ok()?))?;
        let row = &self.rows[slot];
        (row.stack == stack && row.kind == Kind::WaitConditionHandle).then_some(slot)
    }

    /// The attribute `data` of a condition: data of all signals to its handle, including later ones.
    pub(crate) fn signal_data(&self, row: &Row) -> Option<Value> {
        let handle = self.wait_handle(row.stack, &row.waits_on()?.handle)?;
        let signals = self.rows[handle].signals().iter();
        let all: Map<String, Value> = signals.map(|(id, signal)| (id.clone(), signal.data.clone())).collect();
        Some(Value::String(json(&Value::Object(all))))
    }
}

/// Joins the reasons with semicolons, as Heat does.
fn reasons<'a>(signals: impl Iterator<Item = &'a StoredSignal>) -> String {
    let mut told = String::new();
    for signal in signals {
        if told.len() > TOLD_MAX {
            break;
        }
        told.push_str(if told.is_empty() { "" } else { ";" });
        told.push_str(&signal.reason);
    }
    cut(&told)
}

fn cut(text: &str) -> String {
    match text.char_indices().find(|(at, _)| *at >= TOLD_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
