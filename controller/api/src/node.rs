//! Nodes, what is on them, and tokens with which they join, as JSON.
//!
//! Absent: the requests (`controller/src/api/node.rs`, `controller/src/api/token.rs`), and what each value is
//! (`controller/engine/src/view/node.rs`).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use muster_shared::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::resource::ResourceView;

/// `node list -o json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeView {
    /// Its fqdn.
    pub name: String,
    /// online, disk_full, offline, maintenance, conflict, revoked or lost.
    pub state: String,
    /// Why it is in that state, where that needs saying.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_reason: Option<String>,
    /// From its token.
    pub labels: BTreeMap<String, String>,
    /// As it said last.
    pub agent_version: String,
    /// The address that its agent connects from; null if that is not known: it comes over a broker, has not connected since the
    /// controller started, or two agents have its identity.
    pub address: Option<IpAddr>,
    /// RFC 3339 UTC; null if it was never connected.
    pub last_seen: Option<String>,
    /// While it is connected: how long nothing was heard of it. Whoever keeps the clock makes `last_seen` of it.
    #[serde(skip)]
    pub silent: Option<Duration>,
    /// Where the agents connect from, if two with its identity are running.
    pub conflict: Vec<String>,
    /// Seconds that its clock is ahead of the controller's, negative behind; null if that is little, not known, or it is away.
    pub clock_off_s: Option<i64>,
    /// Rows on it, lost ones not counted.
    pub resources: u64,
    /// Of them, those that were not as desired, or not there, when they were looked at last.
    pub drifted: u64,
    /// What it holds otherwise than a restored store says: things and tables that wait for 'muster restore'.
    pub held: u64,
    /// MAC addresses that it claims and another node claims as well: a line each, which names all of them.
    pub mac_conflicts: Vec<String>,
    /// What may be left on it from before it was removed, and what 'muster restore remove' has yet to take away; of very many
    /// the first.
    pub lost: Vec<LostView>,
    /// How many there are.
    pub lost_total: u64,
    /// What it told of itself last, by the names of templates, if the query asks for facts; absent if it has told nothing since
    /// the controller started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<Map<String, Value>>,
}

/// What a removed node may still have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LostView {
    /// The stack that made it; empty where the store was restored and does not know.
    pub stack: String,
    /// Its name in that stack's template, or what its server knows it by.
    pub resource: String,
    /// The thing.
    pub physical_id: String,
    /// Muster::File, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Where it is.
    pub node: String,
    /// Why it could not be cleaned up when the node came back; else empty.
    pub reason: String,
}

/// How many nodes there are, by what they have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FleetCounts {
    /// All of them.
    pub total: u64,
    /// Those with a resource that is not as it was made.
    pub drifted: u64,
    /// By [`NodeView::state`].
    pub states: BTreeMap<String, u64>,
    /// By the version of their agents; empty of one that has not said it.
    pub versions: BTreeMap<String, u64>,
}

/// What a stack has on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeResourceView {
    /// The stack.
    pub stack: String,
    /// The resource, as in a list of the stack's.
    #[serde(flatten)]
    pub resource: ResourceView,
}

/// `node drift -o json`: a resource that is not as it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DriftView {
    /// Where it is.
    pub node: String,
    /// Its stack.
    pub stack: String,
    /// Its name in that stack's template.
    pub resource: String,
    /// Muster::NetworkConfig, …
    #[serde(rename = "type")]
    pub kind: String,
    /// The thing.
    pub physical_id: String,
    /// drifted or missing.
    pub observed: String,
    /// What differs.
    pub reason: String,
    /// correct, report or ignore.
    pub policy: String,
    /// While it is being corrected, or that is held back: queued, maintenance, running, …; else empty.
    pub phase: String,
    /// How often it was corrected since it was last calm.
    pub corrections: u32,
    /// open: it was corrected too often and is left as it is; else closed.
    pub breaker: String,
}

/// `adopt -o json`: what a server is like, as resources that change nothing there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SurveyView {
    /// The node's fqdn.
    pub name: String,
    /// Resources for a template.
    pub resources: Vec<SurveyedResource>,
    /// What none of them describes, and why.
    pub left_out: Vec<String>,
}

/// A resource that is as its server is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SurveyedResource {
    /// A name for it in a template.
    pub name: String,
    /// The resource type.
    pub r#type: String,
    /// Properties that are not as they are by default.
    pub properties: Map<String, Value>,
    /// Resources of the survey that come before it.
    pub depends_on: Vec<String>,
}

/// Where a node is to move. Without `Debug`: the token is a secret.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveNode {
    /// A join token of the other site, for the node's name.
    pub token: String,
}

/// A node that has moved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeMoved {
    /// The node's fqdn.
    pub name: String,
    /// The site that it belongs to now.
    pub site: String,
}

/// `node facts -o json`: what a node told of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FactsView {
    /// Its fqdn.
    pub name: String,
    /// When, RFC 3339 UTC.
    pub told_at: String,
    /// Seconds since then.
    pub age: f64,
    /// When it was booted, RFC 3339 UTC.
    pub booted_at: Option<String>,
    /// Disks of hardware, by name.
    pub disks: Vec<DiskView>,
    /// Network interfaces, by name; of very many the first.
    pub links: Vec<LinkFactsView>,
    /// Other facts by name, as templates have them.
    #[serde(flatten)]
    pub facts: Map<String, Value>,
}

/// A disk of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiskView {
    /// Such as `sda`.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Empty if the disk does not say it.
    pub model: String,
    /// A hard disk, not flash.
    pub rotational: bool,
}

/// A network interface of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LinkFactsView {
    /// Its name.
    pub name: String,
    /// The kernel's kind, such as `bridge`; empty for hardware.
    pub kind: String,
    /// The kernel's driver; empty where there is no device behind it.
    pub driver: String,
    /// Such as `0000:3b:00.0`.
    pub pci_address: Option<String>,
    /// Vendor and device, such as `8086:1533`.
    pub pci_id: Option<String>,
    /// Its MAC address.
    pub mac: Option<String>,
    /// The MAC address that it was made with.
    pub permanent_mac: Option<String>,
    /// Bytes.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// It has a carrier.
    pub carrier: bool,
    /// Mbit/s.
    pub speed: Option<u32>,
    /// `full` or `half`.
    pub duplex: Option<String>,
    /// With the lengths of their prefixes, in the kernel's order.
    pub addresses: Vec<String>,
    /// What was heard on it over LLDP.
    pub neighbours: Vec<NeighbourView>,
    /// What it received since it was made.
    pub rx: LinkCounters,
    /// What it sent since it was made.
    pub tx: LinkCounters,
}

/// The other end of a network interface, as it says over LLDP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NeighbourView {
    /// The switch: a MAC or IP address, or a name.
    pub chassis_id: String,
    /// Its port.
    pub port_id: String,
    /// For people.
    pub port_description: Option<String>,
    /// The switch's name.
    pub system_name: Option<String>,
    /// For people.
    pub system_description: Option<String>,
    /// The VLAN of untagged packets.
    pub vlan: Option<u16>,
    /// Where the switch is managed.
    pub management_addresses: Vec<IpAddr>,
}

/// One direction of a network interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LinkCounters {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Packets that were damaged.
    pub errors: u64,
    /// Packets that there was no room for.
    pub dropped: u64,
}

/// PATCH /v1/nodes/{node}
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeLabels {
    /// Those to be set, and those to go (null).
    pub labels: BTreeMap<String, Option<String>>,
}

/// POST /v1/nodes/{node}/maintenance
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Maintenance {
    /// Its jobs are held back.
    pub on: bool,
}

/// What may be left on a node that was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeRemoved {
    /// Its fqdn.
    pub name: String,
    /// Of very many the first.
    pub lost: Vec<LostView>,
    /// How many there are.
    pub lost_total: u64,
}

/// POST /v1/tokens
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// Seconds.
    pub ttl: u64,
    /// How many nodes may join with it.
    pub uses: u32,
    /// Name or pattern it is bound to.
    pub name: Option<String>,
    /// Labels it gives.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// How fast nodes may join with it, such as `30/m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
}

/// A new token: its secret is told this once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TokenCreated {
    /// For `muster-agent join`.
    pub token: String,
    /// Its id.
    pub id: String,
    /// RFC 3339 UTC.
    pub expires: String,
}

/// `node tokens -o json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TokenRow {
    /// Its id; the secret is not kept.
    pub id: String,
    /// RFC 3339 UTC.
    pub expires: String,
    /// How many nodes may still join.
    pub uses_left: u32,
    /// Name or pattern it is bound to.
    pub name: Option<String>,
    /// Labels it gives.
    pub labels: BTreeMap<String, String>,
    /// How fast nodes may join with it.
    #[schemars(with = "Option<String>")]
    pub rate: Option<Rate>,
}

/// A token that lets nobody join any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TokenRevoked {
    /// Its id.
    pub id: String,
    /// True.
    pub revoked: bool,
}
