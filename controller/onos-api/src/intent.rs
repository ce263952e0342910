//! ONOS's intents and those of intent files. Decides the key of an intent without one: it is made of what the document
//! says, so the same document twice is one intent.
//!
//! Absent: which intents there are and what becomes of them (`controller/intent`).

use muster_api::intent::{IntentRow, IntentView};
use serde_json::{Value, json};

use crate::application::{self, Application, of_key};
use crate::constraint::{self, ANNOTATIONS};
use crate::criterion::{criteria, plain, selector};
use crate::document::{Part, Read, shown};
use crate::instruction::{instructions, is_output, treatment};
use crate::network::{Bridge, Network};

/// Types by ONOS's name, by that of intent files, and the name of a summary.
pub const TYPES: [(&str, &str, &str); 5] = [
    ("PointToPointIntent", "point_to_point", "PointToPoint"),
    ("HostToHostIntent", "host_to_host", "HostToHost"),
    ("SinglePointToMultiPointIntent", "single_point_to_multi_point", "SinglePointToMultiPoint"),
    ("MultiPointToSinglePointIntent", "multi_point_to_single_point", "MultiPointToSinglePoint"),
    ("LinkCollectionIntent", "link_collection", "LinkCollection"),
];
const KEYS: [&str; 14] = [
    "type",
    "id",
    "key",
    "appId",
    "priority",
    "resources",
    "resourceGroup",
    "state",
    "selector",
    "treatment",
    "constraints",
    "ingressPoint",
    "egressPoint",
    "one",
];

/// An intent of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The application and its own key, with `/` in between.
    pub key: String,
    pub application: Application,
    /// As in an intent file.
    pub intent: Value,
    /// The criterion from which each word of the selector came.
    pub criteria: Vec<(String, usize)>,
    /// The place from which each step of the treatment came.
    pub steps: Vec<String>,
}

pub fn decoded(part: &Part<'_>, network: &Network) -> Read<Asked> {
    part.only(&[KEYS.as_slice(), &["two"]].concat())?;
    let name = part.need("type")?;
    let name = name.text()?;
    let application = application::read(&part.need("appId")?)?;
    let (selector, criteria) = selector(part.get("selector")?, None)?;
    let actions = part.get("treatment")?;
    for list in ["instructions", "deferred"] {
        let steps = actions.as_ref().map(|actions| actions.get(list)).transpose()?.flatten();
        let steps = steps.map(|steps| steps.items()).transpose()?.unwrap_or_default();
        if let Some(output) = steps.iter().find(|step| is_output(step)) {
            return Err(output.wrong("an intent has no OUTPUT: its points say where packets go"));
        }
    }
    let (treatment, steps) = treatment(actions, &Bridge::default())?;
    let mut constraints = Vec::new();
    for constraint in part.get("constraints")?.map(|list| list.items()).transpose()?.unwrap_or_default() {
        add(&mut constraints, constraint::decoded(&constraint, network)?);
    }
    if let Some(group) = part.get("resourceGroup")? {
        constraints.push(json!({"resource_group": plain(group.value())}));
    }
    let points = |key: &str| -> Read<Vec<Value>> {
        part.need(key)?.items()?.iter().map(|point| network.point(point)).collect()
    };
    let (kind, from, to) = match name {
        "PointToPointIntent" => (
            "point_to_point",
            network.point(&part.need("ingressPoint")?)?,
            network.point(&part.need("egressPoint")?)?,
        ),
        "SinglePointToMultiPointIntent" => (
            "single_point_to_multi_point",
            network.point(&part.need("ingressPoint")?)?,
            Value::Array(points("egressPoint")?),
        ),
        "MultiPointToSinglePointIntent" => (
            "multi_point_to_single_point",
            Value::Array(points("ingressPoint")?),
            network.point(&part.need("egressPoint")?)?,
        ),
        "HostToHostIntent" => ("host_to_host", host(&part.need("one")?)?, host(&part.need("two")?)?),
        other => {
            let known = TYPES.iter().take(4).map(|(onos, ..)| *onos).collect::<Vec<_>>().join(", ");
            return Err(
                part.wrong(format!("an intent of type '{}' is not supported: want {known}", shown(other)))
            );
        }
    };
    let priority = part.get("priority")?.map(|priority| priority.number(u16::MAX.into())).transpose()?;
    let mut intent = json!({
        "type": kind, "from": from, "to": to, "selector": selector, "treatment": treatment, "constraints": constraints,
        "priority": priority.unwrap_or(100),
    });
    let own = match part.get("key")? {
        Some(key) => plain(key.value()),
        None => format!("{:#x}", id(&intent.to_string())),
    };
    if own.is_empty() {
        return Err(part.wrong("'key' is empty: leave it out, or give a name"));
    }
    let key = application.key(&own);
    intent["key"] = json!(key);
    Ok(Asked { key, application, intent, criteria, steps })
}

/// `MAC/VLAN`, as ONOS has hosts: here they have no VLAN.
fn host(part: &Part<'_>) -> Read<Value> {
    let text = part.text()?;
    let mac = host_of(text).ok_or_else(|| {
        part.wrong(format!("'{}' is no host: want MAC/None; hosts have no VLAN here", shown(text)))
    })?;
    Ok(json!({"host": mac}))
}

/// The MAC address of a host without a VLAN, in lower case.
pub fn host_of(id: &str) -> Option<String> {
    let (mac, vlan) = id.split_once('/').unwrap_or((id, "None"));
    matches!(vlan, "None" | "none" | "-1" | "").then(|| mac.to_ascii_lowercase())
}

/// ONOS's id of a host.
pub fn host_id(mac: &str) -> String {
    format!("{}/None", mac.to_ascii_uppercase())
}

/// The number that ONOS has for an intent besides its key.
pub fn id(key: &str) -> u64 {
    // It is positive in Java as well.
    blake3::hash(key.as_bytes()).as_bytes().iter().take(8).fold(0, |id: u64, byte| id << 8 | u64::from(*byte))
        >> 1
}

/// The number in a path, decimal or 0x….
pub fn number(text: &str) -> Option<u64> {
    crate::document::number_of(text)
}

/// An intent of a list, without details.
pub fn row(row: &IntentRow) -> Value {
    let (application, key) = of_key(&row.key);
    json!({
        "type": onos_type(&row.kind),
        "id": format!("{:#x}", id(&row.key)),
        "key": key,
        "appId": application,
        "resources": [],
        "state": row.state,
    })
}

fn onos_type(own: &str) -> &str {
    TYPES.iter().find(|(_, known, _)| *known == own).map_or(own, |(onos, ..)| onos)
}

/// An intent with all details.
pub fn encoded(view: &IntentView, network: &Network) -> Value {
    let kind = view.wish.get("type").map(plain).unwrap_or_default();
    let summary =
        IntentRow { key: view.key.clone(), kind, state: view.state.clone(), ..IntentRow::default() };
    let mut shown = row(&summary);
    let links = view.path_links.iter().map(|ends| {
        let (src, dst) = (network.connect_point(&ends.from), network.connect_point(&ends.to));
        json!({"src": src, "dst": dst, "type": "DIRECT", "state": "ACTIVE"})
    });
    shown["resources"] = links.collect();
    let nowhere = Bridge::default();
    shown["selector"] = criteria(view.wish.get("selector"), &nowhere);
    shown["treatment"] = instructions(view.wish.get("treatment"), &nowhere);
    shown["priority"] = view.wish.get("priority").cloned().unwrap_or_default();
    let listed = view.wish.get("constraints").and_then(Value::as_array);
    let (mut constraints, mut group) = (Vec::new(), None);
    for constraint in listed.into_iter().flatten() {
        match constraint.get("resource_group") {
            Some(name) => group = Some(name.clone()),
            None => constraints.extend(constraint::encoded(constraint, network)),
        }
    }
    shown["constraints"] = Value::Array(constraints);
    if let Some(group) = group {
        shown["resourceGroup"] = group;
    }
    let ends = if summary.kind == "host_to_host" { ["one", "two"] } else { ["ingressPoint", "egressPoint"] };
    for (onos, own) in ends.into_iter().zip(["from", "to"]) {
        shown[onos] = point(view.wish.get(own), network);
    }
    if !view.reason.is_empty() {
        shown["reason"] = json!(view.reason);
    }
    shown
}

fn point(value: Option<&Value>, network: &Network) -> Value {
    match value {
        Some(Value::Array(points)) => points.iter().map(|one| point(Some(one), network)).collect(),
        Some(Value::Object(one)) => match (one.get("host"), one.get("device"), one.get("port")) {
            (Some(host), ..) => json!(host_id(&plain(host))),
            (None, Some(device), Some(port)) => {
                let point = muster_api::intent::Point { device: plain(device), port: plain(port) };
                network.connect_point(&point)
            }
            _ => Value::Null,
        },
        Some(hidden) => hidden.clone(),
        None => Value::Null,
    }
}

/// The place in ONOS's document of a part that the API names by its place in an intent file.
pub fn place(path: &str, asked: &Asked) -> Option<String> {
    let path = path.strip_prefix("intents[0].")?;
    if let Some(word) = path.strip_prefix("selector.") {
        let (_, n) = asked.criteria.iter().find(|(known, _)| known == word)?;
        return Some(format!("selector.criteria[{n}]"));
    }
    if let Some(rest) = path.strip_prefix("treatment[") {
        let (n, _) = rest.split_once(']')?;
        return asked.steps.get(n.parse::<usize>().ok()?).cloned();
    }
    let hosts = asked.intent["type"] == "host_to_host";
    let (word, rest) = path.split_at(path.find(['.', '[']).unwrap_or(path.len()));
    let onos = match (word, hosts) {
        ("from", true) => "one",
        ("to", true) => "two",
        ("from", false) => "ingressPoint",
        ("to", false) => "egressPoint",
        (other, _) => other,
    };
    Some(format!("{onos}{rest}"))
}

/// Adds a constraint. ONOS has one for each annotation that is bounded, an intent file one for all of them; of two bounds
/// for one annotation the smaller one holds.
fn add(constraints: &mut Vec<Value>, one: Option<Value>) {
    let Some(one) = one else { return };
    let has_bounds = |constraint: &Value| constraint.get(ANNOTATIONS).is_some();
    match constraints.iter().position(has_bounds).filter(|_| has_bounds(&one)) {
        None => constraints.push(one),
        Some(known) => {
            for (name, most) in one[ANNOTATIONS].as_object().into_iter().flatten() {
                let known = &mut constraints[known][ANNOTATIONS][name];
                if known.as_f64().is_none_or(|known| most.as_f64() < Some(known)) {
                    *known = most.clone();
                }
            }
        }
    }
}
