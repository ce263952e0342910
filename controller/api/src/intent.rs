//! Intents, and the network they are for, as JSON.
//!
//! Absent: the requests (`controller/src/api/intent.rs`), and what each value is
//! (`controller/intent/src/manager/view.rs`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Intents that were asked for, or are to go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IntentsTaken {
    /// Of each.
    pub keys: Vec<Box<str>>,
    /// What the operator may not have meant.
    pub warnings: Vec<String>,
}

/// Of a request about several intents.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IntentKeys {
    /// Of each.
    pub keys: Vec<Box<str>>,
}

/// PATCH /v1/intents
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WithdrawIntents {
    /// Of each, its key.
    pub withdraw: Vec<Box<str>>,
}

/// An intent in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IntentRow {
    /// Its key.
    pub key: String,
    /// point_to_point, …
    #[serde(rename = "type")]
    pub kind: String,
    /// INSTALLED, …
    pub state: String,
    /// What was asked for last.
    pub request: String,
    /// Failures on devices since it was last as it is to be.
    pub errors: u32,
    /// Why it stands so; empty where nothing is to be said.
    pub reason: String,
    /// Whose it is.
    pub owner: String,
}

/// How some intents stand, as soon as nothing of them is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IntentsWatched {
    /// Nothing of them is under way.
    pub ended: bool,
    /// How many have come to an end.
    pub done: usize,
    /// Of these, those that came to another state than the one that is wanted.
    pub failed: usize,
    /// All of them.
    pub total: usize,
    /// Those that go on or failed; of very many the first.
    pub intents: Vec<IntentRow>,
}

/// An intent alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IntentView {
    /// Its key.
    pub key: String,
    /// INSTALLED, …
    pub state: String,
    /// What was asked for last.
    pub request: String,
    /// Failures on devices since it was last as it is to be.
    pub errors: u32,
    /// Why it stands so; empty where nothing is to be said.
    pub reason: String,
    /// Whose it is.
    pub owner: Option<String>,
    /// Devices that each of its ways passes.
    pub paths: Vec<Vec<String>>,
    /// Links that its ways take.
    pub path_links: Vec<LinkEnds>,
    /// Ids of its rules.
    pub rules: Vec<String>,
    /// Of the first of its rules, how the flow tables have them.
    pub entries: Vec<IntentRule>,
    /// What it holds on links.
    pub reservations: Vec<Reservation>,
    /// The last times that it moved, oldest first.
    pub history: Vec<Reroute>,
    /// Devices whose agents are away.
    pub waits_for: Vec<WaitsFor>,
    /// Seconds until it is tried again.
    pub retry_in: Option<f64>,
    /// What is wrong with its packets, where it is INSTALLED and a trace in the background found that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
    /// What it is, in the words of intent files: type, from, to, selector, treatment, constraints, priority, …
    #[serde(flatten)]
    pub wish: Map<String, Value>,
}

/// A port of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Point {
    /// `node/bridge`
    pub device: String,
    /// Its interface.
    pub port: String,
}

/// From one port to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LinkEnds {
    /// Where packets leave.
    pub from: Point,
    /// Where they arrive.
    pub to: Point,
}

/// How the flow tables have a rule of an intent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IntentRule {
    /// Its id.
    pub id: String,
    /// `node/bridge`
    pub device: String,
    /// As in a list of rules; none where the table does not have it.
    pub state: Option<String>,
    /// Why it is not as it is to be.
    pub error: Option<String>,
}

/// What an intent holds on a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reservation {
    /// Where packets leave.
    pub from: Point,
    /// Where they arrive.
    pub to: Point,
    /// Bit/s.
    pub bandwidth: Option<u64>,
    /// The VLAN.
    pub label: Option<u16>,
}

/// A move of an intent to other ways.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reroute {
    /// Why.
    pub why: String,
    /// Seconds.
    pub took: f64,
    /// The ways before.
    pub before: Vec<Vec<String>>,
}

/// A device whose agent is away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WaitsFor {
    /// `node/bridge`
    pub device: String,
    /// Rules that are to go there or away from there.
    pub rules: usize,
}

/// `topology show -o json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TopologyView {
    /// Bridges.
    pub devices: Vec<BridgeView>,
    /// Links, each direction on its own.
    pub links: Vec<LinkView>,
    /// Hosts.
    pub hosts: Vec<HostView>,
    /// Those that were asked for.
    pub intents: Vec<IntentWay>,
}

/// A bridge of the network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BridgeView {
    /// `node/bridge`
    pub device: String,
    /// By which OpenFlow knows it: 16 hexadecimal digits.
    pub datapath_id: String,
    /// It forwards.
    pub up: bool,
    /// Its agent is not there.
    pub away: bool,
    /// Its ports.
    pub ports: Vec<PortView>,
}

/// A port of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PortView {
    /// Its interface.
    pub name: String,
    /// It has a carrier.
    pub up: bool,
}

/// A link in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LinkView {
    /// Where packets leave.
    pub from: Point,
    /// Where they arrive.
    pub to: Point,
    /// Packets pass.
    pub up: bool,
    /// A stack says so.
    pub declared: bool,
    /// It was heard over LLDP.
    pub discovered: bool,
    /// Of a way over it.
    pub cost: u32,
    /// Bit/s.
    pub bandwidth: Option<u64>,
    /// Bit/s that intents hold of it.
    pub reserved: u64,
    /// Seconds.
    pub latency: Option<f64>,
    /// What a stack says of it.
    pub annotations: BTreeMap<Box<str>, Box<str>>,
    /// Intents whose ways take it.
    pub intents: usize,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostView {
    /// The MAC address of its interface.
    pub host: String,
    /// Where it is.
    pub location: Point,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Other places where it is said to be.
    pub claimed: Vec<Point>,
    /// A stack says so.
    pub declared: bool,
    /// An agent knows of it.
    pub observed: bool,
    /// Intents that name it.
    pub intents: usize,
}

/// The way of an intent, as pictures have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IntentWay {
    /// Its key.
    pub key: String,
    /// INSTALLED, …
    pub state: String,
    /// Links that it takes.
    pub links: Vec<LinkEnds>,
}
