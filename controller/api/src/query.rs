//! What may stand after the question mark: filters, pages, waits.
//!
//! Absent: the longest page and the longest wait (`controller/src/api/mod.rs`).

use muster_shared::{NodeId, StackName};
use schemars::JsonSchema;
use serde::Deserialize;

/// GET /v1/stacks
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StackPage {
    /// The most stacks in the answer; all, if it is absent.
    pub limit: Option<usize>,
    /// The name that the page begins after.
    #[schemars(with = "Option<String>")]
    pub marker: Option<StackName>,
    /// Only stacks whose last operation stands so: IN_PROGRESS, COMPLETE or FAILED.
    pub status: Option<String>,
}

/// POST /v1/stacks/{stack}/preview
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Preview {
    /// The most resources in the answer, by name, those that change first; all that change, if it is absent.
    pub limit: Option<usize>,
}

/// GET /v1/stacks/{stack}/watch
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Watch {
    /// `seq` of the view that is known.
    #[serde(default)]
    pub seq: u64,
    /// The operation whose end is waited for.
    pub traversal: Option<u64>,
}

/// GET /v1/stacks/{stack}/template
#[derive(Debug, Deserialize, JsonSchema)]
pub struct OfRevision {
    /// The current one, if it is absent.
    pub revision: Option<u32>,
}

/// GET /v1/stacks/{stack}/events
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EventPage {
    /// The number that the page begins after; `marker` is another name of it.
    #[serde(default, alias = "marker")]
    pub after: u64,
    /// Events before this number, the newest first.
    pub before: Option<u64>,
    /// The id of the stack, which may be gone.
    pub id: Option<u64>,
    /// The most events in the answer.
    pub limit: Option<usize>,
}

/// GET /v1/stacks/{stack}/graph
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// With more resources than these, there is one row for each type in place of each resource.
    pub most: Option<usize>,
}

/// GET /v1/stacks/{stack}/resources
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ResourcePage {
    /// Rows that are being replaced or cleaned up, too.
    #[serde(default)]
    pub all: bool,
    /// Only these.
    pub status: Option<String>,
    /// Only those on which something is being done, or that wait for something.
    #[serde(default)]
    pub busy: bool,
    /// The most resources in the answer; all, if it is absent.
    pub limit: Option<usize>,
    /// The name that the page begins after.
    pub marker: Option<String>,
}

/// GET /v1/nodes
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodePage {
    /// Only nodes like this; all, if it is empty.
    #[serde(default)]
    pub selector: String,
    /// The most nodes in the answer; all, if it is absent.
    pub limit: Option<usize>,
    /// The name that the page begins after.
    #[schemars(with = "Option<String>")]
    pub marker: Option<NodeId>,
    /// With the facts of each.
    #[serde(default)]
    pub facts: bool,
}

/// GET /v1/counts/nodes and /v1/counts/fleet
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    /// Only nodes like this; all, if it is empty.
    #[serde(default)]
    pub selector: String,
}

/// GET /v1/nodes/{node}
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OneNode {
    /// With its facts.
    #[serde(default)]
    pub facts: bool,
}

/// GET /v1/nodes/{node}/events
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeEvents {
    /// The most events in the answer; 100, if it is absent, and at most.
    pub limit: Option<usize>,
}

/// GET /v1/audit
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditPage {
    /// Rows after this number.
    #[serde(default)]
    pub after: u64,
    /// Rows before this number, the newest first.
    pub before: Option<u64>,
    /// Rows of this time and later, RFC 3339.
    pub since: Option<String>,
    /// Rows that are no older than so many seconds.
    pub age: Option<u32>,
    /// Rows of this actor.
    pub user: Option<String>,
    /// So many at most, 1 to 1000.
    pub limit: Option<usize>,
}

/// GET /v1/drift
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnNode {
    /// Only this node.
    pub node: Option<String>,
}

/// GET /v1/restore
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeldOn {
    /// Only this node.
    #[schemars(with = "Option<String>")]
    pub node: Option<NodeId>,
}

/// POST /v1/flows
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyFlows {
    /// Whether a change that could cut a node off is undone unless it is confirmed.
    pub guard: Option<bool>,
    /// Seconds until then.
    pub confirm_timeout: Option<u32>,
    /// The file's name, for the places of errors.
    pub name: Option<String>,
    /// The name under which operators own the rules, such as that of a program; then the file has one stage.
    pub application: Option<String>,
}

/// DELETE /v1/devices/{node}/{bridge}/flows
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Guard {
    /// As in [`ApplyFlows`].
    pub guard: Option<bool>,
    /// As in [`ApplyFlows`].
    pub confirm_timeout: Option<u32>,
}

/// POST /v1/devices/{node}/{bridge}/purge
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Purge {
    /// The table alone: what is on the device is left there.
    pub forget: Option<bool>,
    /// As in [`ApplyFlows`].
    pub guard: Option<bool>,
    /// As in [`ApplyFlows`].
    pub confirm_timeout: Option<u32>,
}

/// GET /v1/flows/operations/{id}
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// Seconds until the answer comes at the latest.
    pub wait: Option<u64>,
}

/// GET /v1/devices/{node}/{bridge}/flows
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowList {
    /// Rules of this table alone.
    pub table: Option<u8>,
    /// Only entries in this state.
    pub state: Option<String>,
    /// Rules that are not ours, too.
    pub foreign: Option<bool>,
    /// The agent is asked for its counters first.
    pub counters: Option<bool>,
    /// Only entries in whose words each of these is: its state and owner, what it matches and does.
    #[serde(default)]
    pub search: String,
    /// The most entries in the answer; all, if it is absent.
    pub limit: Option<usize>,
    /// So many of them are passed over.
    #[serde(default)]
    pub offset: usize,
}

/// GET /v1/devices
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DevicePage {
    /// The most devices in the answer; all, if it is absent.
    pub limit: Option<usize>,
    /// The device that the page begins after, `node/bridge`.
    pub marker: Option<String>,
}

/// POST /v1/devices/{node}/{bridge}/reconcile
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reconcile {
    /// The policy for rules of others from now on: leave, show or import.
    pub foreign: Option<String>,
}

/// GET /v1/intents
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IntentList {
    /// Only intents in this state.
    pub state: Option<String>,
    /// Only intents with this text in their key, state or owner.
    #[serde(default)]
    pub search: String,
    /// The most intents in the answer; all, if it is absent.
    pub limit: Option<usize>,
    /// The key that the page begins after.
    pub marker: Option<String>,
}

/// POST /v1/intents
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitIntents {
    /// The file's name, for the places of errors.
    pub name: Option<String>,
}

/// POST /v1/watch/intents
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchIntents {
    /// Seconds until the answer comes at the latest.
    pub wait: Option<u64>,
    /// The state that is wanted.
    pub state: Option<String>,
}

/// GET /v1/topology
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// The ways of so many intents, the first by key.
    pub intents: Option<usize>,
    /// The way of this intent alone.
    pub key: Option<String>,
    /// Bridges of this node alone, with their links and hosts.
    pub node: Option<String>,
    /// Bridges with this datapath id alone, 16 hexadecimal digits, with their links and hosts.
    pub datapath_id: Option<String>,
    /// Bridges that come first with `limit`, `node/bridge` each, with a space between two; at most 1000.
    pub devices: Option<String>,
    /// The most bridges in the answer, by name, with the links between them and their hosts; those of `devices`, and
    /// those on the way of the intent of `key`, come first. All, if it is absent.
    pub limit: Option<usize>,
    /// The bridge that the page begins after, `node/bridge`. Not with `key` and `devices`.
    pub marker: Option<String>,
}

/// GET /v1/trace
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The port where the packet comes in: `NODE/BRIDGE:INTERFACE`.
    pub from: String,
    /// A selector in the words of a flow rule, without a port: `{eth_type: ipv4, ipv4_dst: 10.0.0.1}`.
    pub packet: String,
}
