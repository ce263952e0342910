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
    /// The key of each intent.
    pub keys: Vec<Box<str>>,
    /// Hints at what the operator may not have meant.
    pub warnings: Vec<String>,
}

/// The answer to a request about several intents.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IntentKeys {
    /// The key of each intent.
    pub keys: Vec<Box<str>>,
}

/// PATCH /v1/intents
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WithdrawIntents {
    /// The keys of the intents.
    pub withdraw: Vec<Box<str>>,
}

/// An intent in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IntentRow {
    /// The intent's key.
    pub key: String,
    /// point_to_point, …
    #[serde(rename = "type")]
    pub kind: String,
    /// INSTALLED, …
    pub state: String,
    /// The last request for this intent.
    pub request: String,
    /// Failures on devices since it was last as it is to be.
    pub errors: u32,
    /// The reason of the state; empty where there is none to give.
    pub reason: String,
    /// The owner of the intent.
    pub owner: String,
    /// The fault of its packets, where the intent is INSTALLED and a trace in the background found one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// The states of some intents, once none of them is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IntentsWatched {
    /// Nothing of them is under way.
    pub ended: bool,
    /// The number of intents that have reached an end.
    pub done: usize,
    /// Ended intents whose state is not the wanted one.
    pub failed: usize,
    /// The number of intents asked for.
    pub total: usize,
    /// Intents that go on or failed; of very many the first.
    pub intents: Vec<IntentRow>,
}

/// An intent alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IntentView {
    /// The intent's key.
    pub key: String,
    /// INSTALLED, …
    pub state: String,
    /// The last request for this intent.
    pub request: String,
    /// Failures on devices since it was last as it is to be.
    pub errors: u32,
    /// The reason of the state; empty where there is none to give.
    pub reason: String,
    /// The owner of the intent.
    pub owner: Option<String>,
    /// Devices that each of its ways passes.
    pub paths: Vec<Vec<String>>,
    /// Links that its ways take.
    pub path_links: Vec<LinkEnds>,
    /// Ids of its rules.
    pub rules: Vec<String>,
    /// The first of the intent's rules, as the flow tables have them.
    pub entries: Vec<IntentRule>,
    /// Reservations of the intent on links.
    pub reservations: Vec<Reservation>,
    /// The last times that it moved, oldest first.
    pub history: Vec<Reroute>,
    /// Devices whose agents are away.
    pub waits_for: Vec<WaitsFor>,
    /// Seconds until it is tried again.
    pub retry_in: Option<f64>,
    /// The fault of its packets, where the intent is INSTALLED and a trace in the background found one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
    /// The wish in the words of intent files: type, from, to, selector, treatment, constraints, priority, …
    #[serde(flatten)]
    pub wish: Map<String, Value>,
}

/// A port of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Point {
    /// `node/bridge`
    pub device: String,
    /// The name of the interface.
    pub port: String,
}

/// From one port to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LinkEnds {
    /// The port where packets leave.
    pub from: Point,
    /// The port where packets arrive.
    pub to: Point,
}

/// The state of an intent's rule in the flow tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IntentRule {
    /// The rule's id.
    pub id: String,
    /// `node/bridge`
    pub device: String,
    /// As in a list of rules; none where the table does not have it.
    pub state: Option<String>,
    /// The reason why the rule is not as wanted.
    pub error: Option<String>,
}

/// A reservation of an intent on a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reservation {
    /// The port where packets leave.
    pub from: Point,
    /// The port where packets arrive.
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
    /// The reason of the change.
    pub why: String,
    /// The time it took, in seconds.
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
    /// The bridges of the network.
    pub devices: Vec<BridgeView>,
    /// Links, each direction on its own.
    pub links: Vec<LinkView>,
    /// The hosts of the network.
    pub hosts: Vec<HostView>,
    /// The paths of the requested intents.
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
    /// Whether the bridge forwards.
    pub up: bool,
    /// Whether its agent is away.
    pub away: bool,
    /// The bridge's ports.
    pub ports: Vec<PortView>,
}

/// A port of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PortView {
    /// The name of the interface.
    pub name: String,
    /// Whether the port has a carrier.
    pub up: bool,
}

/// A link in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LinkView {
    /// The port where packets leave.
    pub from: Point,
    /// The port where packets arrive.
    pub to: Point,
    /// Packets pass.
    pub up: bool,
    /// A stack says so.
    pub declared: bool,
    /// Whether LLDP found the link.
    pub discovered: bool,
    /// The cost of a path over the link.
    pub cost: u32,
    /// Bit/s.
    pub bandwidth: Option<u64>,
    /// Bit/s that intents hold of it.
    pub reserved: u64,
    /// The latency in seconds.
    pub latency: Option<f64>,
    /// Annotations of a stack about the link.
    pub annotations: BTreeMap<Box<str>, Box<str>>,
    /// Intents whose ways take it.
    pub intents: usize,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostView {
    /// The MAC address of its interface.
    pub host: String,
    /// The port of the host.
    pub location: Point,
    /// The host's addresses.
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
    /// The intent's key.
    pub key: String,
    /// INSTALLED, …
    pub state: String,
    /// Links that it takes.
    pub links: Vec<LinkEnds>,
}
