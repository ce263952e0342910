//! `muster flow …`: its verbs and flags, and the tables of rules, counters and devices.
//!
//! Absent: sending and waiting (`flow/operation.rs`), and how long a guard lasts where no flag says it
//! (`controller/src/api/flow.rs`).

mod operation;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use hyper::Method;
use muster_api::flow::{DeviceView, ExplainedFlow, FlowView, FlowWords, OwnerCounters, StatsView, TableView};
use muster_shared::model::flow::{DeviceName, FlowId};
use serde_json::Value;

use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{
    Column, Format, cell, document, fields, key, object, print, printable, read, table, view, word, written,
};
use crate::span::{YEAR, within};

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

/// The guard that keeps a change from cutting a node off.
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

/// The keys of a rule in a list for machines. A group or a meter has all keys.
const KEYS: [&str; 11] = [
    key!(FlowView.id),
    key!(FlowView.device),
    key!(FlowWords.table),
    key!(FlowWords.priority),
    key!(FlowWords.selector),
    key!(FlowWords.treatment),
    key!(FlowView.state),
    key!(FlowView.packets),
    key!(FlowView.bytes),
    key!(FlowView.duration),
    key!(FlowView.error),
];

/// Further keys of a foreign rule: its text, where flow files have no words for it.
const FOREIGN_KEYS: [&str; 2] = [key!(FlowView.cookie), key!(FlowWords.text)];

const FLOWS: [Column<FlowView>; 9] = [
    ("ID", |flow| cell(&flow.id)),
    ("TABLE", |flow| cell(&flow.entry.table)),
    ("PRIORITY", |flow| cell(&flow.entry.priority)),
    ("SELECTOR", selector),
    ("TREATMENT", treatment),
    ("STATE", |flow| cell(&flow.state)),
    ("PACKETS", |flow| cell(&flow.packets)),
    ("BYTES", |flow| cell(&flow.bytes)),
    ("ERROR", |flow| cell(&flow.error)),
];

const TABLES: [Column<TableView>; 4] = [
    ("TABLE", |table| cell(&table.table)),
    ("RULES", |table| cell(&table.active)),
    ("LOOKUPS", |table| cell(&table.lookups)),
    ("MATCHES", |table| cell(&table.matches)),
];

const OWNERS: [Column<OwnerCounters>; 4] = [
    ("OWNER", |owner| cell(&owner.owner)),
    ("RULES", |owner| cell(&owner.rules)),
    ("PACKETS", |owner| cell(&owner.packets)),
    ("BYTES", |owner| cell(&owner.bytes)),
];

/// Changes under way are one column, and all errors another.
const DEVICES: [Column<DeviceView>; 9] = [
    ("DEVICE", |device| cell(&device.device)),
    ("NODE", |device| cell(&device.node_state)),
    ("SWITCH", |device| cell(&device.switch)),
    ("RULES", |device| cell(&device.rules)),
    ("ADDED", |device| cell(&device.added)),
    ("PENDING", |device| cell(&device.pending_add.saturating_add(device.pending_remove))),
    ("FAILED", |device| cell(&device.failed)),
    ("FOREIGN", |device| cell(&device.foreign)),
    ("REASON", |device| word(&reasons(device))),
];

/// The first keys of a single device.
const DEVICE: [&str; 5] = [
    key!(DeviceView.device),
    key!(DeviceView.node),
    key!(DeviceView.bridge),
    key!(DeviceView.node_state),
    key!(DeviceView.switch),
];

/// The first keys of a single rule, group or meter.
const FLOW: [&str; 12] = [
    key!(FlowView.id),
    key!(FlowView.device),
    key!(FlowView.kind),
    key!(FlowView.owner),
    key!(FlowView.state),
    key!(ExplainedFlow.since),
    key!(FlowView.error),
    key!(ExplainedFlow.on_device),
    key!(FlowWords.table),
    key!(FlowWords.priority),
    key!(FlowWords.selector),
    key!(FlowWords.treatment),
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
            written(format, &client.get(&at).await?, explained)
        }
        FlowVerb::Stats { device } => {
            view(format, &client.get(&of_device(&device, &["stats"])).await?, stats)
        }
        FlowVerb::Reconcile { device, foreign } => {
            let mut at = of_device(&device, &["reconcile"]);
            if let Some(policy) = foreign {
                at.push_str(&format!("?foreign={policy}"));
            }
            let answer = client.send(Method::POST, &at, None).await?;
            document(format, &answer, |answer| fields(&DEVICE, &object(answer)))?;
            match read::<DeviceView>(&answer)?.import_error {
                why if why.is_empty() => Ok(()),
                why => Err(Failure::failed(why)),
            }
        }
        FlowVerb::Devices => {
            let list = client.get(&path(["devices"])).await?;
            view(format, &list, |list: &Vec<DeviceView>| table(&DEVICES, list))
        }
    }
}

fn reasons(device: &DeviceView) -> String {
    let reasons = [&*device.reason, &*device.import_error].into_iter();
    reasons.filter(|why| !why.is_empty()).collect::<Vec<_>>().join("; ")
}

/// The path of a device.
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
        Format::Table => print(&table(&FLOWS, &read::<Vec<FlowView>>(&answer)?)),
        Format::Json | Format::Yaml => document(format, &told(answer)?, |_| String::new()),
    }
}

/// A list for machines: for rules exactly the keys of the contract, and for foreign ones the form on
/// the device.
fn told(list: Value) -> Result<Value, Failure> {
    let row = |row: Value| {
        let FlowView { kind, .. } = read(&row)?;
        if !kind.is_empty() && kind != "rule" {
            return Ok(row);
        }
        let mut map = object(&row);
        let foreign = FOREIGN_KEYS.iter().filter(|key| map.contains_key(**key));
        let keys: Vec<&str> = KEYS.iter().chain(foreign).copied().collect();
        Ok(keys.into_iter().map(|key| (key.to_owned(), map.remove(key).unwrap_or_default())).collect())
    };
    match list {
        Value::Array(rows) => rows.into_iter().map(row).collect(),
        other => Ok(other),
    }
}

fn selector(flow: &FlowView) -> String {
    match &flow.entry.selector {
        Some(Value::Object(map)) if map.is_empty() => "all".to_owned(),
        selector => cell(&selector),
    }
}

/// A treatment in one cell; for a group or a meter its own notation.
fn treatment(flow: &FlowView) -> String {
    match &flow.entry.treatment {
        Some(Value::Array(steps)) if steps.is_empty() => "drop".to_owned(),
        Some(treatment) => cell(treatment),
        None => flow.entry.text.as_ref().map_or_else(|| cell(&other_words(&flow.entry)), cell),
    }
}

/// The words of a group or a meter alone.
fn other_words(entry: &FlowWords) -> FlowWords {
    let FlowWords { bands, buckets, group, meter, group_type, unit, .. } = entry.clone();
    FlowWords { bands, buckets, group, meter, group_type, unit, ..FlowWords::default() }
}

/// The explanation in words, then the facts.
fn explained(answer: &Value) -> Result<String, Failure> {
    let ExplainedFlow { explanation, .. } = read(answer)?;
    let mut text: String = explanation.iter().map(|line| printable(line) + "\n").collect();
    if !text.is_empty() {
        text.push('\n');
    }
    let mut facts = object(answer);
    facts.remove(key!(ExplainedFlow.explanation));
    Ok(text + &fields(&FLOW, &facts))
}

fn stats(StatsView { tables, owners, age, .. }: &StatsView) -> String {
    let age = age.map_or_else(String::new, |age| format!("\ncounted {age:.0} s ago\n"));
    table(&TABLES, tables) + "\n" + &table(&OWNERS, owners) + &age
}

fn id(text: &str) -> Result<FlowId, String> {
    FlowId::parse(text).ok_or_else(|| {
        "want 16 hexadecimal digits that begin with 4d55, as 'muster flow list' shows them".into()
    })
}

#[cfg(test)]
mod tests;
