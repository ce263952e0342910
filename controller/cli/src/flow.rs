//! `muster flow …`

mod operation;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use hyper::Method;
use muster_shared::model::flow::{DeviceName, FlowId};
use serde_json::{Map, Value, json};

use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Column, Format, cell, document, fields, printable, table};
use crate::span::{YEAR, within};

/// Verbs.
#[derive(Subcommand)]
pub enum FlowVerb {
    /// Apply the rules, groups and meters of a flow file to devices
    ///
    /// Stages run one after the other, and the devices of a stage at the same time. Each device takes a stage
    /// whole or not at all. A failed stage stops those after it. Rules that the file does not name stay.
    #[command(after_help = "Example:\n  muster flow apply -f flows.yaml --wait")]
    Apply(Apply),
    /// List the rules, groups and meters of a device, with states and counters
    #[command(after_help = "Example:\n  muster flow list web-1/br0 --table 0 --state failed")]
    List(List),
    /// Explain a rule, group or meter: owner, state, last error, what the switch holds
    #[command(after_help = "Example:\n  muster flow show web-1/br0 4d550b208f12dbfa")]
    Show {
        /// Device, as NODE/BRIDGE
        device: DeviceName,
        /// Id, as 'muster flow list' shows it
        #[arg(value_parser = id)]
        id: FlowId,
    },
    /// Delete rules, groups or meters from a device
    #[command(after_help = "Example:\n  muster flow delete web-1/br0 4d550b208f12dbfa --wait")]
    Delete(Delete),
    /// Show the counters of a switch: tables, and rules by owner
    #[command(after_help = "Example:\n  muster flow stats web-1/br0")]
    Stats {
        /// Device, as NODE/BRIDGE
        device: DeviceName,
    },
    /// Compare a device with its table, and repair differences
    ///
    /// Muster does this by itself; the command does it now. Rules that are not Muster's stay.
    #[command(after_help = "Example:\n  muster flow reconcile web-1/br0 --foreign import")]
    Reconcile {
        /// Device, as NODE/BRIDGE
        device: DeviceName,
        /// From now on leave foreign rules alone, show them in lists, or import them
        #[arg(long, value_parser = PossibleValuesParser::new(["leave", "show", "import"]))]
        foreign: Option<String>,
    },
    /// Delete everything that operators applied to a device
    #[command(after_help = "Example:\n  muster flow purge web-1/br0 --wait")]
    Purge(Purge),
    /// List the devices that have a flow table
    #[command(after_help = "Example:\n  muster flow devices")]
    Devices,
}

/// `flow apply`
#[derive(Args)]
pub struct Apply {
    /// Flow file, YAML or JSON; - reads stdin
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    guard: Guard,
    #[command(flatten)]
    wait: Wait,
}

/// `flow list`
#[derive(Args)]
pub struct List {
    /// Device, as NODE/BRIDGE
    device: DeviceName,
    /// List this table only
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(..=254))]
    table: Option<u8>,
    /// List this state only
    #[arg(long, ignore_case = true, value_parser = PossibleValuesParser::new(STATES))]
    state: Option<String>,
    /// Also list rules on the device that are not Muster's
    #[arg(long)]
    foreign: bool,
}

/// `flow delete`
#[derive(Args)]
pub struct Delete {
    /// Device, as NODE/BRIDGE
    device: DeviceName,
    /// Ids, as 'muster flow list' shows them
    #[arg(required = true, value_name = "ID", value_parser = id)]
    ids: Vec<FlowId>,
    #[command(flatten)]
    guard: Guard,
    #[command(flatten)]
    wait: Wait,
}

/// `flow purge`
#[derive(Args)]
pub struct Purge {
    /// Device, as NODE/BRIDGE
    device: DeviceName,
    /// Forget the table only; the rules stay on the device, without an owner
    #[arg(long)]
    forget: bool,
    #[command(flatten)]
    guard: Guard,
    #[command(flatten)]
    wait: Wait,
}

/// How a change is kept from cutting a node off.
#[derive(Args)]
pub struct Guard {
    /// Keep added rules even if the node then cannot reach the controller (removals stay guarded)
    #[arg(long)]
    no_guard: bool,
    /// Undo the change if the node does not reach the controller within this time
    #[arg(long, value_name = "SECONDS", conflicts_with = "no_guard", value_parser = within(1..=3600))]
    confirm_timeout: Option<u64>,
}

/// Whether to wait.
#[derive(Args)]
pub struct Wait {
    /// Wait for the end of the operation, and show progress
    #[arg(long)]
    pub wait: bool,
    /// Stop waiting after this time
    #[arg(long, value_name = "SECONDS", requires = "wait", value_parser = within(1..=YEAR))]
    pub timeout: Option<u64>,
}

const STATES: [&str; 5] = ["PENDING_ADD", "ADDED", "PENDING_REMOVE", "FAILED", "EXPIRED"];
/// What a list says of a rule; of a group or a meter it says what they have.
const KEYS: [&str; 11] = [
    "id",
    "device",
    "table",
    "priority",
    "selector",
    "treatment",
    "state",
    "packets",
    "bytes",
    "duration",
    "error",
];

/// What a list says besides of a rule that is not Muster's: the text where it cannot be said in Muster's words.
const FOREIGN_KEYS: [&str; 2] = ["cookie", "text"];

const FLOWS: [Column; 9] = [
    ("ID", "id"),
    ("TABLE", "table"),
    ("PRIORITY", "priority"),
    ("SELECTOR", "selector"),
    ("TREATMENT", "treatment"),
    ("STATE", "state"),
    ("PACKETS", "packets"),
    ("BYTES", "bytes"),
    ("ERROR", "error"),
];

const TABLES: [Column; 4] =
    [("TABLE", "table"), ("RULES", "active"), ("LOOKUPS", "lookups"), ("MATCHES", "matches")];

const OWNERS: [Column; 4] =
    [("OWNER", "owner"), ("RULES", "rules"), ("PACKETS", "packets"), ("BYTES", "bytes")];

const DEVICES: [Column; 9] = [
    ("DEVICE", "device"),
    ("NODE", "node_state"),
    ("SWITCH", "switch"),
    ("RULES", "rules"),
    ("ADDED", "added"),
    ("PENDING", "pending"),
    ("FAILED", "failed"),
    ("FOREIGN", "foreign"),
    ("REASON", "reason"),
];

/// Runs a verb.
pub async fn run(verb: FlowVerb, client: &mut Client, format: Format) -> Result<(), Failure> {
    match verb {
        FlowVerb::Apply(asked) => operation::apply(asked, client, format).await,
        FlowVerb::Delete(asked) => operation::delete(asked, client, format).await,
        FlowVerb::Purge(asked) => operation::purge(asked, client, format).await,
        FlowVerb::List(asked) => list(&asked, client, format).await,
        FlowVerb::Show { device, id } => {
            let at = of_device(&device, &["flows", &id.to_string()]);
            document(format, &client.get(&at).await?, explained)
        }
        FlowVerb::Stats { device } => {
            document(format, &client.get(&of_device(&device, &["stats"])).await?, stats)
        }
        FlowVerb::Reconcile { device, foreign } => {
            let mut at = of_device(&device, &["reconcile"]);
            if let Some(policy) = foreign {
                at.push_str(&format!("?foreign={policy}"));
            }
            let answer = client.send(Method::POST, &at, None).await?;
            document(format, &answer, |answer| {
                fields(&["device", "node", "bridge", "node_state", "switch"], answer)
            })?;
            match answer["import_error"].as_str() {
                None | Some("") => Ok(()),
                Some(why) => Err(Failure::failed(why)),
            }
        }
        FlowVerb::Devices => {
            let list = client.get(&path(["devices"])).await?;
            document(format, &list, |list| {
                table(&DEVICES, &list.as_array().into_iter().flatten().map(device).collect())
            })
        }
    }
}

/// A device for people: what is on its way in one column, and in another all that is wrong.
fn device(row: &Value) -> Value {
    let mut row = row.clone();
    let pending = ["pending_add", "pending_remove"].map(|key| row[key].as_u64().unwrap_or_default());
    row["pending"] = json!(pending.iter().sum::<u64>());
    let reasons = ["reason", "import_error"].map(|key| row[key].as_str().unwrap_or_default());
    row["reason"] = json!(reasons.into_iter().filter(|why| !why.is_empty()).collect::<Vec<_>>().join("; "));
    row
}

/// Where a device is asked for.
fn of_device(device: &DeviceName, below: &[&str]) -> String {
    let own = path(["devices", device.node.as_str(), device.bridge.as_str()]);
    below.iter().fold(own, |path, segment| path + "/" + segment)
}

async fn list(asked: &List, client: &mut Client, format: Format) -> Result<(), Failure> {
    let mut at = of_device(&asked.device, &["flows?counters=true"]);
    if let Some(table) = asked.table {
        at.push_str(&format!("&table={table}"));
    }
    if let Some(state) = &asked.state {
        at.push_str(&format!("&state={}", state.to_ascii_uppercase()));
    }
    if asked.foreign {
        at.push_str("&foreign=true");
    }
    let answer = client.get(&at).await?;
    match format {
        Format::Table => document(format, &shown(answer), |list| table(&FLOWS, list)),
        Format::Json | Format::Yaml => document(format, &told(answer), |_| String::new()),
    }
}

/// A list for machines: of rules exactly the keys of the contract, and of those that are not Muster's how the device has
/// them.
fn told(list: Value) -> Value {
    let row = |mut row: Value| {
        let Some(map) = row.as_object_mut() else { return row };
        if map.get("kind").is_none_or(|kind| kind == "rule") {
            let foreign = FOREIGN_KEYS.iter().filter(|key| map.contains_key(**key));
            let keys: Vec<&str> = KEYS.iter().chain(foreign).copied().collect();
            keys.iter().map(|key| ((*key).to_owned(), map.remove(*key).unwrap_or_default())).collect()
        } else {
            row
        }
    };
    match list {
        Value::Array(rows) => rows.into_iter().map(row).collect(),
        other => other,
    }
}

/// A list for people: a treatment in one cell, groups and meters among the rules.
fn shown(list: Value) -> Value {
    let row = |mut row: Value| {
        let Some(map) = row.as_object_mut() else { return row };
        let treatment = match map.get("treatment") {
            Some(Value::Array(steps)) if steps.is_empty() => "drop".to_owned(),
            Some(treatment) => cell(treatment),
            None => map.get("text").map_or_else(|| cell(&Value::Object(other_words(map))), cell),
        };
        if map.get("selector").and_then(Value::as_object).is_some_and(Map::is_empty) {
            map.insert("selector".into(), json!("all"));
        }
        map.insert("treatment".into(), json!(treatment));
        row
    };
    match list {
        Value::Array(rows) => rows.into_iter().map(row).collect(),
        other => other,
    }
}

/// What a group or a meter is, without what every row has.
fn other_words(map: &Map<String, Value>) -> Map<String, Value> {
    let own = ["group", "meter", "type", "unit", "buckets", "bands"];
    own.iter().filter_map(|key| map.get(*key).map(|value| ((*key).to_owned(), value.clone()))).collect()
}

/// The explanation in words, then the facts.
fn explained(answer: &Value) -> String {
    let lines = answer["explanation"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut text: String = lines.map(|line| printable(line) + "\n").collect();
    let mut facts = answer.clone();
    if let Some(map) = facts.as_object_mut() {
        map.remove("explanation");
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text + &fields(
        &[
            "id",
            "device",
            "kind",
            "owner",
            "state",
            "since",
            "error",
            "on_device",
            "table",
            "priority",
            "selector",
            "treatment",
        ],
        &facts,
    )
}

fn stats(answer: &Value) -> String {
    let age = match answer["age"].as_f64() {
        Some(age) => format!("\ncounted {age:.0} s ago\n"),
        None => String::new(),
    };
    table(&TABLES, &answer["tables"]) + "\n" + &table(&OWNERS, &answer["owners"]) + &age
}

fn id(text: &str) -> Result<FlowId, String> {
    FlowId::parse(text).ok_or_else(|| {
        "want 16 hexadecimal digits that begin with 4d55, as 'muster flow list' shows them".into()
    })
}

#[cfg(test)]
mod tests;
