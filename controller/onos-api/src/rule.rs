//! ONOS's flow rules and the rules of flow files. Decides that a rule is checked here by the same functions as in the
//! controller, so that what is wrong is named with its place in ONOS's document.

use muster_api::flow::FlowView;
use muster_shared::model::flow::{DeviceName, Entry};
use serde_json::{Value, json};

use crate::application::{self, Application};
use crate::criterion::{criteria, plain, selector};
use crate::document::{Part, Read, Wrong};
use crate::instruction::{instructions, treatment};
use crate::network::{Bridge, Network};

/// Keys that ONOS has in its answers, and ignores in a document.
const OF_ANSWERS: [&str; 12] = [
    "id",
    "flowId",
    "groupId",
    "state",
    "life",
    "liveType",
    "lastSeen",
    "packets",
    "bytes",
    "tableName",
    "error",
    "type",
];
const KEYS: [&str; 8] =
    ["priority", "timeout", "isPermanent", "appId", "tableId", "deviceId", "treatment", "selector"];

/// A rule of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub bridge: Bridge,
    /// The application that will own the rule.
    pub application: Application,
    /// As in a flow file.
    pub rule: Value,
    /// The rule's id, as ONOS writes it.
    pub id: String,
}

/// A rule for a device that the path names, or the document. The path's application goes before the document's.
pub fn decoded(
    part: &Part<'_>,
    network: &Network,
    device: Option<&Bridge>,
    application: Option<&Application>,
) -> Read<Asked> {
    part.only(&KEYS.into_iter().chain(OF_ANSWERS).collect::<Vec<_>>())?;
    let bridge = match device {
        Some(bridge) => network.of_path(part, bridge)?,
        None => network.device(&part.need("deviceId")?)?,
    };
    let application = match application {
        Some(application) => application.clone(),
        None => application::of_document(part)?,
    };
    let priority = part.need("priority")?.number(u16::MAX.into())?;
    let table = part.get("tableId")?.map(|table| table.number(254)).transpose()?.unwrap_or(0);
    let idle_timeout = match part.need("isPermanent")?.is_true()? {
        true => 0,
        false => {
            let timeout = part.need("timeout")?;
            match timeout.number(u16::MAX.into())? {
                0 => return Err(timeout.wrong("want 1 to 65535 seconds, or isPermanent: true")),
                seconds => seconds,
            }
        }
    };
    let (words, criteria) = selector(part.get("selector")?, Some(bridge))?;
    let (steps, places) = treatment(part.get("treatment")?, bridge)?;
    let rule = json!({
        "device": bridge.name, "table": table, "priority": priority, "selector": words, "treatment": steps,
        "idle_timeout": idle_timeout,
    });
    let entry = Entry::from_json(&rule).map_err(|bad| {
        let text = bad.to_string();
        let place = place(&text, &part.place_of("selector"), &criteria, &places);
        Wrong { path: place.unwrap_or_else(|| part.path().to_owned()), why: text }
    })?;
    let name: DeviceName = bridge.name.parse().map_err(|_| part.wrong("the device has no name"))?;
    Ok(Asked { bridge: bridge.clone(), application, rule, id: entry.id(&name).0.to_string() })
}

/// The place in ONOS's document of what `selector.tcp_dst: …` or `treatment[1].…` says of a flow file's rule.
fn place(text: &str, selector: &str, criteria: &[(String, usize)], steps: &[String]) -> Option<String> {
    if let Some(rest) = text.strip_prefix("selector.") {
        let word = rest.split([':', '.']).next()?;
        let (_, n) = criteria.iter().find(|(known, _)| known == word)?;
        return Some(format!("{selector}.criteria[{n}]"));
    }
    let (n, _) = text.strip_prefix("treatment[")?.split_once(']')?;
    steps.get(n.parse::<usize>().ok()?).cloned()
}

/// ONOS's flow entry.
pub fn encoded(flow: &FlowView, bridge: &Bridge, now_ms: u64) -> Value {
    let words = &flow.entry;
    let number = |value: &Option<Value>| value.as_ref().and_then(Value::as_u64).unwrap_or_default();
    let timeout = number(&words.idle_timeout);
    let table = number(&words.table);
    let mut entry = json!({
        "groupId": 0,
        "state": state(&flow.state),
        "life": flow.duration.unwrap_or_default(),
        "liveType": "UNKNOWN",
        "lastSeen": now_ms,
        "packets": flow.packets.unwrap_or_default(),
        "bytes": flow.bytes.unwrap_or_default(),
        "id": id(flow),
        "appId": application::of_owner(flow.owner.as_deref()),
        "priority": words.priority.as_ref().map_or(json!(0), Clone::clone),
        "timeout": timeout,
        "isPermanent": timeout == 0 && number(&words.hard_timeout) == 0,
        "deviceId": bridge.id,
        "tableId": table,
        "tableName": table.to_string(),
        "treatment": instructions(words.treatment.as_ref(), bridge),
        "selector": criteria(words.selector.as_ref(), bridge),
    });
    if let Some(error) = &flow.error {
        entry["error"] = json!(error);
    }
    entry
}

/// ONOS's id of an entry: the same number, decimal.
pub fn id(flow: &FlowView) -> String {
    let hex = flow.id.as_deref().unwrap_or_default();
    u64::from_str_radix(hex, 16).map_or_else(|_| hex.to_owned(), |id| id.to_string())
}

/// Muster's id of an entry, from ONOS's. None: no entry has such an id.
pub fn own_id(onos: &str) -> Option<String> {
    onos.parse::<u64>().ok().map(|id| format!("{id:016x}"))
}

/// ONOS's state of an entry.
pub fn state(own: &str) -> &str {
    match own {
        "EXPIRED" => "REMOVED",
        other => other,
    }
}

/// A value for people.
pub fn said(value: Option<&Value>) -> String {
    value.map(plain).unwrap_or_default()
}
