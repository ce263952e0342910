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
use crate::stack::EventRow;

/// `node list -o json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeView {
    /// The fqdn of the node.
    pub name: String,
    /// online, disk_full, offline, maintenance, conflict, revoked or lost.
    pub state: String,
    /// The reason of the state, where it needs one.
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
    /// Addresses from which the agents connect, if two with the node's identity are running.
    pub conflict: Vec<String>,
    /// Seconds that its clock is ahead of the controller's, negative behind; null if that is little, not known, or it is away.
    pub clock_off_s: Option<i64>,
    /// Rows on it, lost ones not counted.
    pub resources: u64,
    /// Resources that were not as desired, or missing, when the agent looked last.
    pub drifted: u64,
    /// Things and tables that differ from a restored store and wait for 'muster restore'.
    pub held: u64,
    /// MAC addresses that it claims and another node claims as well: a line each, which names all of them.
    pub mac_conflicts: Vec<String>,
    /// Resources that may be left on it from before it was removed, and those that 'muster restore remove' has yet to
    /// take away; of very many
    /// the first.
    pub lost: Vec<LostView>,
    /// The number of such resources.
    pub lost_total: u64,
    /// The facts of the node by the names of templates, if the query asks for them; absent if it has told none since
    /// the controller started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<Map<String, Value>>,
}

/// A resource that a removed node may still have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LostView {
    /// The stack that made it; empty where the store was restored and does not know.
    pub stack: String,
    /// The resource's name in that stack's template, or the name by which its server knows it.
    pub resource: String,
    /// The thing.
    pub physical_id: String,
    /// Muster::File, …
    #[serde(rename = "type")]
    pub kind: String,
    /// The node.
    pub node: String,
    /// The reason why it could not be cleaned up when the node came back; else empty.
    pub reason: String,
}

/// The numbers of nodes by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FleetCounts {
    /// The number of all nodes.
    pub total: u64,
    /// Nodes with a resource that drifted.
    pub drifted: u64,
    /// By [`NodeView::state`].
    pub states: BTreeMap<String, u64>,
    /// By the version of their agents; empty of one that has not said it.
    pub versions: BTreeMap<String, u64>,
}

/// A stack's resource on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeResourceView {
    /// The stack.
    pub stack: String,
    /// The resource, as in a list of the stack's.
    #[serde(flatten)]
    pub resource: ResourceView,
}

/// An event of a resource on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeEventView {
    /// The name of the stack.
    pub stack: String,
    /// The event, as in a list of the stack's.
    #[serde(flatten)]
    pub event: EventRow,
}

/// `node drift -o json`: a resource that is not as it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DriftView {
    /// The node.
    pub node: String,
    /// The name of the stack.
    pub stack: String,
    /// The resource's name in that stack's template.
    pub resource: String,
    /// Muster::NetworkConfig, …
    #[serde(rename = "type")]
    pub kind: String,
    /// The thing.
    pub physical_id: String,
    /// drifted or missing.
    pub observed: String,
    /// The differences.
    pub reason: String,
    /// correct, report or ignore.
    pub policy: String,
    /// While it is being corrected, or that is held back: queued, maintenance, running, …; else empty.
    pub phase: String,
    /// The number of corrections since the resource was last calm.
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
    /// Settings that no document describes, each with the reason.
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

/// The site to which a node moves. Without `Debug`: the token is a secret.
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
    /// The fqdn of the node.
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
    /// The size in bytes.
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
    /// The name of the interface.
    pub name: String,
    /// The kernel's kind, such as `bridge`; empty for hardware.
    pub kind: String,
    /// The kernel's driver; empty where there is no device behind it.
    pub driver: String,
    /// Such as `0000:3b:00.0`.
    pub pci_address: Option<String>,
    /// Vendor and device, such as `8086:1533`.
    pub pci_id: Option<String>,
    /// The MAC address.
    pub mac: Option<String>,
    /// The MAC address that it was made with.
    pub permanent_mac: Option<String>,
    /// The MTU in bytes.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Whether the interface has a carrier.
    pub carrier: bool,
    /// Mbit/s.
    pub speed: Option<u32>,
    /// `full` or `half`.
    pub duplex: Option<String>,
    /// The bridge, bond or VRF that this interface is a member of. Null without one, and for an older agent.
    pub master: Option<String>,
    /// The interface below a VLAN, a macvlan or a tunnel. Null without one, and for an older agent.
    pub lower: Option<String>,
    /// With the lengths of their prefixes, in the kernel's order.
    pub addresses: Vec<String>,
    /// Neighbours heard over LLDP.
    pub neighbours: Vec<NeighbourView>,
    /// Packets received since the interface was made.
    pub rx: LinkCounters,
    /// Packets sent since the interface was made.
    pub tx: LinkCounters,
}

/// The other end of a network interface, as it says over LLDP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NeighbourView {
    /// The switch: a MAC or IP address, or a name.
    pub chassis_id: String,
    /// The neighbour's port.
    pub port_id: String,
    /// For people.
    pub port_description: Option<String>,
    /// The switch's name.
    pub system_name: Option<String>,
    /// For people.
    pub system_description: Option<String>,
    /// The VLAN of untagged packets.
    pub vlan: Option<u16>,
    /// The addresses at which the switch is managed.
    pub management_addresses: Vec<IpAddr>,
}

/// The counters of one direction of a network interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LinkCounters {
    pub bytes: u64,
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
    /// Labels to set, and labels to remove (null).
    pub labels: BTreeMap<String, Option<String>>,
}

/// POST /v1/nodes/{node}/maintenance
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Maintenance {
    /// Whether the node's jobs are held back.
    pub on: bool,
}

/// Resources that may be left on a node that was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeRemoved {
    /// The fqdn of the node.
    pub name: String,
    /// The resources; of very many the first.
    pub lost: Vec<LostView>,
    /// The number of such resources.
    pub lost_total: u64,
}

/// POST /v1/tokens
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// The lifetime in seconds.
    pub ttl: u64,
    /// The number of nodes that may join with the token.
    pub uses: u32,
    /// Name or pattern it is bound to.
    pub name: Option<String>,
    /// Labels it gives.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The rate at which nodes may join with the token, such as `30/m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
}

/// A new token: its secret is told this once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TokenCreated {
    /// For `muster-agent join`.
    pub token: String,
    /// The token's id.
    pub id: String,
    /// RFC 3339 UTC.
    pub expires: String,
}

/// `node tokens -o json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TokenRow {
    /// The token's id; the secret is not kept.
    pub id: String,
    /// RFC 3339 UTC.
    pub expires: String,
    /// The number of nodes that may still join.
    pub uses_left: u32,
    /// Name or pattern it is bound to.
    pub name: Option<String>,
    /// Labels it gives.
    pub labels: BTreeMap<String, String>,
    /// The rate at which nodes may join with the token.
    #[schemars(with = "Option<String>")]
    pub rate: Option<Rate>,
}

/// A token that lets nobody join any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TokenRevoked {
    /// The token's id.
    pub id: String,
    /// Always true.
    pub revoked: bool,
}
