//! Flow tables, as JSON: devices, entries, operations on them.
//!
//! Absent: the requests (`controller/src/api/flow.rs`), and what each value is (`controller/flow/src/view.rs`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeviceView {
    /// `node/bridge`
    pub device: String,
    /// The node of the bridge.
    pub node: String,
    /// The bridge's name on its node.
    pub bridge: String,
    /// Whether its node's agent is there: `online` or `offline`.
    pub node_state: String,
    /// `absent`, `filling`, `watched`, or `unknown` while the agent has not said.
    pub switch: String,
    /// Rules, groups and meters in its table.
    pub rules: u64,
    /// Entries of the table that are to be on the device.
    pub added: u64,
    /// Entries on their way to the device.
    pub pending_add: u64,
    /// Entries on their way off the device.
    pub pending_remove: u64,
    /// Entries that the device refused.
    pub failed: u64,
    /// Rules that ended by their own timeouts.
    pub expired: u64,
    /// Pending entries that the agent cannot correct at present.
    pub wrong: u64,
    /// Rules on the device that are not ours.
    pub foreign: u64,
    /// The policy for rules of others.
    pub foreign_policy: String,
    /// Whether a batch is with the agent.
    pub in_flight: bool,
    /// Batches sent since the controller started.
    pub batches: u64,
    /// Batches refused since the controller started.
    pub refusals: u64,
    /// Comparisons of tables that differed since the controller started.
    pub reconciliations: u64,
    /// Entries that these comparisons corrected.
    pub repaired: u64,
    /// The error of the last import of such rules; empty if it succeeded.
    pub import_error: String,
    /// The reason of a fault; empty without one.
    pub reason: String,
}

/// An operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FlowOperationView {
    /// The operation's number.
    pub operation: u64,
    /// `APPLY`, `DELETE`, `PURGE` or `IMPORT`
    pub action: String,
    /// `IN_PROGRESS`, `COMPLETE` or `FAILED`
    pub state: String,
    /// The stage under way, or the last; from 1.
    pub stage: u64,
    /// The number of stages.
    pub stages: u64,
    /// Entries that are as it wants them.
    pub done: u64,
    /// Entries in all.
    pub total: u64,
    /// The errors of the operation.
    pub errors: Vec<FlowError>,
}

/// The counters of one owner's entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OwnerCounters {
    /// For people.
    pub owner: String,
    /// Entries in the table.
    pub rules: u64,
    pub packets: u64,
    pub bytes: u64,
}

/// A reason why a part of an operation failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FlowError {
    /// The entry that is to blame, where one is.
    pub id: Option<String>,
    /// `node/bridge`
    pub device: String,
    /// For the operator.
    pub error: String,
}

/// An operation on flow tables that has begun.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FlowsBegun {
    /// The operation's number.
    pub operation: u64,
    /// Rules, groups and meters that it is about.
    pub rules: u64,
    /// Devices that it is about.
    pub devices: u64,
    /// Hints at what the operator may not have meant.
    pub warnings: Vec<String>,
}

/// DELETE /v1/devices/{node}/{bridge}/flows
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteFlows {
    /// The ids of the entries.
    pub ids: Vec<String>,
}

/// An entry of a flow table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FlowView {
    /// None: it is not ours.
    pub id: Option<String>,
    /// `node/bridge`
    pub device: String,
    /// rule, group or meter.
    pub kind: String,
    /// PENDING_ADD, ADDED, PENDING_REMOVE, FAILED, EXPIRED or FOREIGN.
    pub state: String,
    /// The owner of the entry.
    pub owner: Option<String>,
    /// As last told.
    pub packets: Option<u64>,
    /// As last told.
    pub bytes: Option<u64>,
    /// Seconds that the device has had it, as last told.
    pub duration: Option<u32>,
    /// The reason why the entry is not as wanted.
    pub error: Option<String>,
    /// The cookie of a rule of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// The entry itself.
    #[serde(flatten)]
    pub entry: FlowWords,
}

/// A search among entries: each of its words has to be in an entry's own.
#[derive(Clone, Debug)]
pub struct FlowSearch(Vec<String>);

impl FlowSearch {
    /// Words between blanks, in whatever case.
    pub fn new(words: &str) -> Self {
        Self(words.to_lowercase().split_whitespace().map(str::to_owned).collect())
    }

    /// Whether the entry has all of the words.
    pub fn finds(&self, flow: &FlowView) -> bool {
        let owner = flow.owner.as_deref().unwrap_or_default();
        let line =
            || [&flow.state, owner, &flow.entry.matches(), &flow.entry.does()].join(" ").to_lowercase();
        self.0.is_empty() || {
            let line = line();
            self.0.iter().all(|word| line.contains(word))
        }
    }
}

impl FlowWords {
    /// The packets that the entry is for, in a line; of a group or meter, its number.
    pub fn matches(&self) -> String {
        said([&self.selector, &self.group, &self.meter, &self.text])
    }

    /// The effect on these, in a line.
    pub fn does(&self) -> String {
        said([&self.treatment, &self.buckets, &self.bands, &None])
    }
}

fn said(parts: [&Option<Value>; 4]) -> String {
    parts.into_iter().flatten().map(one_line).collect::<Vec<_>>().join(" ")
}

/// A value of flow files in a line: `in_port=1 actions=output, drop`.
pub fn one_line(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(one_line).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| format!("{key}={}", one_line(value)))
            .collect::<Vec<_>>()
            .join(" "),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other.to_string(),
    }
}

/// A rule, group or meter in the words of flow files. Only the words of its kind are there. An entry
/// with a secret has `******` for each of them.
// In the order of the alphabet, as the controller has always written them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FlowWords {
    /// Bands of a meter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bands: Option<Value>,
    /// Buckets of a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buckets: Option<Value>,
    /// Number of a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Value>,
    /// Seconds; 0: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard_timeout: Option<Value>,
    /// Seconds; 0: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Value>,
    /// Number of a meter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meter: Option<Value>,
    /// Higher priorities win.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Value>,
    /// The packets that the rule matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Value>,
    /// Table of the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<Value>,
    /// The rule in the switch's words, where flow files have none for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Value>,
    /// The actions of the rule, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub treatment: Option<Value>,
    /// all, select, indirect or fast_failover.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub group_type: Option<Value>,
    /// packets or kilobits, of a meter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<Value>,
}

/// An entry alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExplainedFlow {
    /// As in a list.
    #[serde(flatten)]
    pub flow: FlowView,
    /// When it came to its state, RFC 3339 UTC.
    pub since: Option<String>,
    /// The device had it when that was told last.
    pub on_device: Option<bool>,
    /// Sentences that explain the state.
    pub explanation: Vec<String>,
}

/// GET /v1/devices/{node}/{bridge}/stats
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StatsView {
    /// `node/bridge`
    pub device: String,
    /// The tables of the device.
    pub tables: Vec<TableView>,
    /// By owner.
    pub owners: Vec<OwnerCounters>,
    /// Seconds since they were told; none if the agent has not told any since the controller started.
    pub age: Option<f64>,
}

/// Counters of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TableView {
    /// The table's number.
    pub table: u8,
    /// Entries in it.
    pub active: u32,
    /// Packets that were looked up in it.
    pub lookups: u64,
    /// Packets that an entry of the table took.
    pub matches: u64,
}
