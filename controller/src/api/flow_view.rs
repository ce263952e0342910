//! Entries of flow tables as JSON, and in words.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_flow::{DeviceView, FlowRow, FlowStanding, Owner};
use muster_shared::model::flow::{DeviceName, Entry, ForeignRule};
use muster_template::MASK;
use serde_json::{Map, Value, json};

/// One entry; none where it is of another table than the one that is wanted.
pub fn rule_view(
    device: &DeviceName,
    row: &FlowRow,
    owners: &BTreeMap<Owner, String>,
    table: Option<u8>,
) -> Option<Value> {
    let mut view = entry_view(&row.packed.unpack(), table)?;
    if row.secret {
        let fields = view.iter_mut().filter(|(key, _)| *key != "kind");
        fields.for_each(|(_, value)| *value = json!(MASK));
    }
    view.insert("id".into(), json!(row.id.to_string()));
    view.insert("device".into(), json!(device.to_string()));
    view.insert("state".into(), json!(row.standing.as_str()));
    view.insert("owner".into(), json!(owners.get(&row.owner)));
    view.insert("packets".into(), json!(row.counters.map(|it| it.packets)));
    view.insert("bytes".into(), json!(row.counters.map(|it| it.bytes)));
    view.insert("duration".into(), json!(row.counters.map(|it| it.duration)));
    view.insert("error".into(), json!(error_of(row)));
    Some(Value::Object(view))
}

/// What an agent says of a rule repeats what is in it.
fn error_of(row: &FlowRow) -> Option<&str> {
    row.error.as_deref().map(|error| if row.secret { MASK } else { error })
}

/// A rule that is not ours.
pub fn foreign_view(device: &DeviceName, rule: &ForeignRule, table: Option<u8>) -> Option<Value> {
    let mut view = match &rule.entry {
        Some(packed) => entry_view(&packed.unpack(), table)?,
        // What cannot be said in our words has no table to ask for.
        None if table.is_some() => return None,
        None => Map::from_iter([("kind".to_owned(), json!("rule")), ("text".to_owned(), json!(rule.text))]),
    };
    view.insert("id".into(), Value::Null);
    view.insert("cookie".into(), json!(format!("{:016x}", rule.cookie)));
    view.insert("device".into(), json!(device.to_string()));
    view.insert("state".into(), json!("FOREIGN"));
    for key in ["owner", "packets", "bytes", "duration", "error"] {
        view.insert(key.into(), Value::Null);
    }
    Some(Value::Object(view))
}

fn entry_view(entry: &Entry, table: Option<u8>) -> Option<Map<String, Value>> {
    let (kind, of) = match entry {
        Entry::Rule(rule) => ("rule", Some(rule.table)),
        Entry::Group(_) => ("group", None),
        Entry::Meter(_) => ("meter", None),
    };
    if table.is_some() && table != of {
        return None;
    }
    let mut view = entry.to_json();
    view.insert("kind".into(), json!(kind));
    Some(view)
}

/// All that is known of one entry.
pub struct Shown<'a> {
    /// Where.
    pub device: &'a DeviceName,
    /// What.
    pub row: &'a FlowRow,
    /// Whose.
    pub owners: &'a BTreeMap<Owner, String>,
    /// How its device is.
    pub view: &'a DeviceView,
    /// When it came to its state.
    pub since: Option<String>,
    /// How old the counters are.
    pub age: Option<Duration>,
}

/// With why it is as it is.
pub fn explained(shown: &Shown<'_>) -> Option<Value> {
    let Shown { device, row, owners, since, age, .. } = shown;
    let mut rule = rule_view(device, row, owners, None)?;
    let map = rule.as_object_mut()?;
    map.insert("since".into(), json!(since));
    map.insert("on_device".into(), json!(age.map(|_| row.counters.is_some())));
    map.insert("explanation".into(), json!(lines(shown)));
    Some(rule)
}

fn lines(shown: &Shown<'_>) -> Vec<String> {
    let Shown { row, owners, view, since, age, .. } = shown;
    let mut lines = Vec::new();
    lines.extend(owners.get(&row.owner).map(|owner| format!("it belongs to {owner}")));
    let since = since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
    let state = match row.standing {
        FlowStanding::PendingAdd => "it is on its way to the device",
        FlowStanding::Added => "the device has it as it is to be",
        FlowStanding::PendingRemove => "it is on its way off the device",
        FlowStanding::Failed => "the device would not have it",
        FlowStanding::Expired => "it ended by its own timeout and stays gone until it is applied again",
    };
    lines.push(format!("{}{since}: {state}", row.standing.as_str()));
    lines.extend(error_of(row).map(|error| format!("last error: {error}")));
    if view.node_state != "online" {
        lines.push(format!("the agent of node {} is away: what is to be done waits for it", view.node));
    } else if view.switch == "absent" {
        lines.push(format!("{} is not there, or does not answer", view.device));
    }
    if !view.reason.is_empty() {
        lines.push(format!("its agent says: {}", view.reason));
    }
    lines.push(match (row.counters, age) {
        (Some(counters), Some(age)) => format!(
            "{} s ago the device had it, for {} s: {} packets, {} bytes",
            age.as_secs(),
            counters.duration,
            counters.packets,
            counters.bytes
        ),
        (None, Some(age)) => format!("{} s ago the device did not have it", age.as_secs()),
        (_, None) => {
            "what the device has is not known: its agent has not said since the controller started".into()
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use muster_shared::model::flow::{FlowId, Packed};

    use super::*;

    #[test]
    fn of_a_rule_with_something_hidden_nothing_is_shown_but_that_it_is_there() {
        let rule = json!({"table": 3, "priority": 4711, "selector": {"eth_type": 2048, "ipv4_dst": "10.1.2.0/24"},
            "treatment": [{"output": "port-s3cret"}], "idle_timeout": 4712});
        let entry = Entry::from_json(&rule).unwrap();
        let device: DeviceName = "web-1/br0".parse().unwrap();
        let mut row = FlowRow {
            id: FlowId::parse("4d55000000000001").unwrap(),
            packed: Packed::new(&entry).unwrap(),
            standing: FlowStanding::Failed,
            owner: Owner(1),
            serial: 1,
            counters: None,
            error: Some("no port port-s3cret".into()),
            secret: false,
        };
        let owners = BTreeMap::new();
        let mut shown = |secret: bool| {
            row.secret = secret;
            let of = Shown {
                device: &device,
                row: &row,
                owners: &owners,
                view: &DeviceView::default(),
                since: None,
                age: None,
            };
            (rule_view(&device, &row, &owners, Some(3)).unwrap(), explained(&of).unwrap().to_string())
        };
        let (view, text) = shown(false);
        assert!(view["priority"] == 4711 && text.contains("no port port-s3cret"), "{text}");
        let (view, text) = shown(true);
        for key in ["table", "priority", "selector", "treatment", "error"] {
            assert_eq!(view[key], MASK, "{key}");
        }
        assert_eq!((&view["kind"], &view["state"]), (&json!("rule"), &json!("FAILED")));
        for part in ["s3cret", "4711", "4712", "10.1.2"] {
            assert!(!text.contains(part) && !view.to_string().contains(part), "{part}: {text}");
        }
    }
}
