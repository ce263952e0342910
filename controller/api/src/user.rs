//! Users of a site, their roles and tokens.
//!
//! Absent: which request needs which role (`route.rs`), and which tokens count (`controller/engine/src/user.rs`).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use muster_shared::pattern;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The role of a user; each role may do what the one before it may, and more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Sees everything but secrets.
    #[default]
    Viewer,
    /// Changes stacks, nodes, flows and intents, and makes join tokens.
    Operator,
    /// Makes, lists and revokes users.
    Admin,
}

impl Role {
    /// The roles, as operators write them.
    pub const NAMES: [(&str, Role); 3] =
        [("viewer", Role::Viewer), ("operator", Role::Operator), ("admin", Role::Admin)];

    /// As operators write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

/// The text names no role.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is no role: want viewer, operator or admin")]
pub struct NoRole(String);

impl FromStr for Role {
    type Err = NoRole;

    fn from_str(text: &str) -> Result<Self, NoRole> {
        let known = Role::NAMES.into_iter().find(|(name, _)| *name == text);
        known.map(|(_, role)| role).ok_or_else(|| NoRole(text.to_owned()))
    }
}

/// A label that nodes have, as operators write it: `rack=r1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct NodeLabel {
    /// The key of the label.
    pub key: String,
    /// The wanted value.
    pub value: String,
}

impl NodeLabel {
    /// Whether it is among these labels.
    pub fn is_among(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.get(&self.key) == Some(&self.value)
    }
}

impl fmt::Display for NodeLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

/// The text is no label.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is no label of nodes: want k=v, such as rack=r1")]
pub struct NoLabel(String);

impl FromStr for NodeLabel {
    type Err = NoLabel;

    fn from_str(text: &str) -> Result<Self, NoLabel> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '/' | ':');
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() && format!("{key}{value}").chars().all(fits) => {
                Ok(Self { key: key.to_owned(), value: value.to_owned() })
            }
            Some(_) | None => Err(NoLabel(text.escape_default().to_string())),
        }
    }
}

impl TryFrom<String> for NodeLabel {
    type Error = NoLabel;

    fn try_from(text: String) -> Result<Self, NoLabel> {
        text.parse()
    }
}

impl From<NodeLabel> for String {
    fn from(label: NodeLabel) -> Self {
        label.to_string()
    }
}

/// The part of a site that a user reaches. Empty: all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Nodes with this label, and the stacks that users with this scope made.
    pub label: Option<NodeLabel>,
    /// Stacks of such names; `*` stands for any characters.
    pub stacks: Option<String>,
}

impl Scope {
    /// Whether it is all of the site.
    pub fn is_whole(&self) -> bool {
        self.label.is_none() && self.stacks.is_none()
    }

    /// Whether a stack in it may have this name.
    pub fn has_name(&self, stack: &str) -> bool {
        self.stacks.as_ref().is_none_or(|pattern| pattern::matches(pattern, stack))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.label.as_ref().map(|label| format!("nodes with {label}"));
        let stacks = self.stacks.as_ref().map(|pattern| format!("stacks {pattern}"));
        let parts: Vec<String> = [nodes, stacks].into_iter().flatten().collect();
        f.write_str(if parts.is_empty() { "all of the site" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

/// The user who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CallerView {
    /// A user of the site, or of the controller's machine.
    pub name: String,
    /// The role of the user.
    pub role: Role,
    /// Nodes with this label alone.
    pub scope: Option<NodeLabel>,
    /// Stacks of such names alone.
    pub stacks: Option<String>,
}

/// POST /v1/users
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateUser {
    /// 1 to 64 lower-case letters, digits, `-`, `_`, `.` and `@`.
    pub name: String,
    /// The role of the user.
    pub role: Role,
    /// Seconds for which the token is valid.
    pub ttl: u64,
    /// `k=v`: the user reaches nodes with this label alone.
    #[serde(default)]
    pub scope: Option<NodeLabel>,
    /// The user reaches stacks of such names alone; `*` stands for any characters.
    #[serde(default)]
    pub stacks: Option<String>,
    /// The user shows a certificate of `controller.api_client_ca` with this name, and no token is made.
    #[serde(default)]
    pub certificate: bool,
}

/// The way in which a user is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KnownBy {
    /// The user has a token.
    #[default]
    Token,
    /// The user has a certificate with that name.
    Certificate,
    /// The user has logged in with OpenID Connect.
    Oidc,
}

/// A user that was made. The token is shown this once.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UserCreated {
    /// The name of the token's user.
    pub name: String,
    /// For `muster login`, or as the bearer token of a request. Empty for a user who shows a certificate.
    pub token: String,
    /// RFC 3339 UTC.
    pub expires: String,
}

impl fmt::Debug for UserCreated {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserCreated")
            .field("name", &self.name)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// A user in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UserRow {
    /// The name of the user.
    pub name: String,
    /// The role of the user.
    pub role: Role,
    /// RFC 3339 UTC: when the token ends.
    pub expires: String,
    /// Nodes with this label alone.
    pub scope: Option<NodeLabel>,
    /// Stacks of such names alone.
    pub stacks: Option<String>,
    /// The credential that the user shows.
    pub by: KnownBy,
}

/// A user that was revoked.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UserRevoked {
    /// The name of the user whose token is revoked.
    pub name: String,
}
