//! Nodes, what is on them, and tokens with which they join.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_shared::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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
    /// Facts by name, as templates have them.
    #[serde(flatten)]
    pub facts: Map<String, Value>,
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
