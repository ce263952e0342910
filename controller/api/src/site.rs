//! The site at a glance, and what waits to be decided on a restored one, as JSON.
//!
//! Absent: what each value is (`controller/engine/src/view/site.rs`; at a standby `controller/src/api/standby.rs`).

use muster_shared::{Epoch, NodeId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Agents by state. One that was cut off, or whose node was removed, is none of the site's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentCounts {
    /// Nodes that are connected.
    pub online: u64,
    /// Nodes that are away.
    pub offline: u64,
    /// Nodes whose jobs are held back.
    pub maintenance: u64,
    /// Nodes of which two have one identity.
    pub conflict: u64,
    /// Nodes that cannot write.
    pub disk_full: u64,
}

/// Decisions that wait for an operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WaitingView {
    /// Things that agents hold and a restored store does not know.
    pub restore: u64,
    /// Resources at hooks of environments.
    pub hooks: u64,
    /// Operations that somebody else has to allow.
    pub approvals: u64,
}

/// A line of `muster restore list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldView {
    /// The physical id of a resource, or a device.
    pub id: String,
    /// The node.
    #[schemars(with = "String")]
    pub node: NodeId,
    /// `unknown`: not in the store; `newer`: changed since; `deleted`: gone since; `table`: rules differ.
    pub state: String,
    /// The type; none where neither the store nor the agent has said it.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The thing that the store does not know, as its agent names it: a path, a unit, a package, links.
    #[serde(default)]
    pub thing: Option<String>,
    /// The resource's stack.
    pub stack: Option<String>,
    /// The resource's name.
    pub resource: Option<String>,
    /// The number of rules of a table that differ.
    pub rules: Option<usize>,
    /// The reason of the wait.
    pub reason: String,
}

/// POST /v1/restore
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// The decision of the operator.
    pub verdict: Verdict,
    /// None: all that is listed.
    pub ids: Option<Vec<String>>,
    /// Only this node.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub node: Option<NodeId>,
}

/// A decision of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RestoreVerdict")]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Keep the node's state.
    Adopt,
    /// Make the node as the store says.
    Remove,
}

/// A row of the audit: a request that changes something, once it is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AuditRow {
    /// Counts up.
    pub number: u64,
    /// RFC 3339 UTC.
    pub at: String,
    /// The actor: a user, or a join token.
    pub actor: String,
    /// The way: `local` with the process, or an address.
    pub from: String,
    /// The words of the command line: `stack update`.
    pub action: String,
    /// The target: a stack, a node, …
    pub target: String,
    /// The request by names; never a value.
    pub what: String,
    /// `ok`, or why it was refused.
    pub result: String,
}

/// The things that a decision left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Decided {
    /// Not all is decided.
    pub restored: bool,
    /// The number of things that still wait.
    pub waiting: u64,
}

/// The role of a controller in its site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The only controller that decides.
    #[default]
    Active,
    /// A controller that takes over when the active one is gone.
    Standby,
}

impl Role {
    /// As operators read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Standby => "standby",
        }
    }
}

/// `muster status -o json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StatusView {
    /// The site's id.
    pub site: String,
    /// The role of the controller that answers.
    pub role: Role,
    /// Since when it has been that, RFC 3339 UTC.
    pub since: String,
    /// The epoch of this start of the controller.
    #[schemars(with = "u64")]
    pub epoch: Epoch,
    /// The store was older than what agents know, and an operator has not said what becomes of that.
    pub restored: bool,
    /// The place of the database.
    pub store: String,
    /// The link to agents: `direct`, or brokers.
    pub link: String,
    /// The reason why agents cannot be reached; none while all is well.
    pub link_problem: Option<String>,
    /// The reason why nothing can be written; none while all is well.
    pub read_only: Option<String>,
    /// The reason why the lease cannot be seen, taken or renewed; none while all is well.
    pub lease_problem: Option<String>,
    /// Seconds until the certificate of the site's CA ends, which all agents trust; none at a standby.
    pub ca_left_s: Option<u64>,
    /// The site's controllers.
    pub controllers: Vec<ControllerView>,
    /// The sites that the controller which answers has in its settings, this one among them.
    pub sites: Vec<SiteView>,
    /// Agents by state; a standby has none.
    pub agents: AgentCounts,
    /// Decisions that wait for an operator; none at a standby.
    pub waiting: WaitingView,
}

/// A site of several that a controller has in its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SiteView {
    /// The site's name for operators: `muster --site NAME`.
    pub name: String,
    /// The controller that is active for it; none: that is not known yet.
    pub active: Option<String>,
}

/// A controller of the site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ControllerView {
    /// The controller's name.
    pub name: String,
    /// The controller's role in the site.
    pub role: Role,
    /// Since when the active one has been that, RFC 3339 UTC; none of a standby.
    pub since: Option<String>,
    /// Seconds since its last look at the lease; 0 of the active one.
    pub behind_s: u64,
}

/// GET /v1/version
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Version {
    /// The version of the controller.
    pub version: String,
    /// Versions of the API that it knows.
    pub api: Vec<String>,
}
