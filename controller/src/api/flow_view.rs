//! Entries of flow tables as the API has them, and in words: the explanation that `muster flow show` prints.
//!
//! Absent: the state of an entry (`controller/flow/src/table.rs`), and the state of a device
//! (`controller/flow/src/view.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::flow::{DeviceView, ExplainedFlow, FlowView, FlowWords};
use muster_flow::{FlowRow, FlowStanding, Owner};
use muster_shared::model::flow::{DeviceName, Entry, ForeignRule};
use muster_template::MASK;
use serde_json::{Map, Value, json};

/// The view of an entry; `None` if it belongs to another table than the requested one.
pub fn rule_view(
    device: &DeviceName,
    row: &FlowRow,
    owners: &BTreeMap<Owner, String>,
    table: Option<u8>,
) -> Option<FlowView> {
    let entry = row.packed.unpack();
    is_of(&entry, table).then(|| view(device, row, owners, &entry))
}

fn view(device: &DeviceName, row: &FlowRow, owners: &BTreeMap<Owner, String>, entry: &Entry) -> FlowView {
    let mut words = entry.to_json();
    if row.secret {
        words.iter_mut().for_each(|(_, value)| *value = json!(MASK));
    }
    FlowView {
        id: Some(row.id.to_string()),
        device: device.to_string(),
        kind: kind(entry).to_owned(),
        state: row.standing.as_str().to_owned(),
        owner: owners.get(&row.owner).cloned(),
        packets: row.counters.map(|it| it.packets),
        bytes: row.counters.map(|it| it.bytes),
        duration: row.counters.map(|it| it.duration),
        error: error_of(row).map(ToOwned::to_owned),
        cookie: None,
        entry: words_of(words),
    }
}

/// The reason of a rule, as its agent gave it. It may repeat parts of the rule.
fn error_of(row: &FlowRow) -> Option<&str> {
    row.error.as_deref().map(|error| if row.secret { MASK } else { error })
}

/// A rule that is not ours.
pub fn foreign_view(device: &DeviceName, rule: &ForeignRule, table: Option<u8>) -> Option<FlowView> {
    let (kind, entry) = match &rule.entry {
        Some(packed) => {
            let entry = packed.unpack();
            is_of(&entry, table).then(|| (kind(&entry), words_of(entry.to_json())))?
        }
        // A rule that flow files cannot express has no known table.
        None if table.is_some() => return None,
        None => ("rule", FlowWords { text: Some(json!(rule.text)), ..FlowWords::default() }),
    };
    Some(FlowView {
        device: device.to_string(),
        kind: kind.to_owned(),
        state: "FOREIGN".to_owned(),
        cookie: Some(format!("{:016x}", rule.cookie)),
        entry,
        ..FlowView::default()
    })
}

fn words_of(entry: Map<String, Value>) -> FlowWords {
    serde_json::from_value(Value::Object(entry)).expect("each word takes any value")
}

fn kind(entry: &Entry) -> &'static str {
    match entry {
        Entry::Rule(_) => "rule",
        Entry::Group(_) => "group",
        Entry::Meter(_) => "meter",
    }
}

fn is_of(entry: &Entry, table: Option<u8>) -> bool {
    let of = match entry {
        Entry::Rule(rule) => Some(rule.table),
        Entry::Group(_) | Entry::Meter(_) => None,
    };
    table.is_none() || table == of
}

/// The known data of one entry.
pub struct Shown<'a> {
    pub device: &'a DeviceName,
    pub row: &'a FlowRow,
    pub owners: &'a BTreeMap<Owner, String>,
    /// The state of its device.
    pub view: &'a DeviceView,
    /// When the entry reached its state.
    pub since: Option<String>,
    /// The age of the counters.
    pub age: Option<Duration>,
}

/// An entry with the reasons for its state.
pub fn explained(shown: &Shown<'_>) -> ExplainedFlow {
    let Shown { device, row, owners, since, age, .. } = shown;
    ExplainedFlow {
        flow: view(device, row, owners, &row.packed.unpack()),
        since: since.clone(),
        on_device: age.map(|_| row.counters.is_some()),
        explanation: lines(shown),
    }
}

fn lines(shown: &Shown<'_>) -> Vec<String> {
    let Shown { row, owners, view, since, age, .. } = shown;
    let mut lines = Vec::new();
    lines.extend(owners.get(&row.owner).map(|owner| format!("it belongs to {owner}")));
    let since = since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
    let state = match row.standing {
        FlowStanding::PendingAdd => "it is on its way to the device",
        FlowStanding::Added => "the device has it as wanted",
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
    fn no_word_of_an_entry_is_lost() {
        let entries = [
            json!({"table": 3, "priority": 1, "selector": {"in_port": "p1"}, "treatment": [], "idle_timeout": 5,
                "hard_timeout": 6}),
            json!({"group": 1, "type": "select", "buckets": [{"weight": 1, "treatment": [{"output": "p1"}]}]}),
            json!({"meter": 1, "unit": "packets", "bands": [{"rate": 1, "burst": 2}]}),
        ];
        for entry in entries {
            let words = Entry::from_json(&entry).unwrap().to_json();
            let view = FlowView { entry: words_of(words.clone()), ..FlowView::default() };
            let text = serde_json::to_string(&view).unwrap();
            let (_, written) = text.split_once("\"error\":null,").unwrap();
            assert_eq!(format!("{{{written}"), serde_json::to_string(&words).unwrap());
        }
    }

    #[test]
    fn a_rule_with_hidden_parts_shows_only_that_it_exists() {
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
            (json!(rule_view(&device, &row, &owners, Some(3)).unwrap()), json!(explained(&of)).to_string())
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
