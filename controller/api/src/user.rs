//! Users of a site, their roles and tokens.
//!
//! Absent: which request needs which role (`route.rs`), and which tokens count (`controller/engine/src/user.rs`).

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a user may do; each may also do what the one before may.
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
    /// All of them, as operators write them.
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

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CallerView {
    /// A user of the site, or of the controller's machine.
    pub name: String,
    /// What they may do.
    pub role: Role,
}

/// POST /v1/users
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateUser {
    /// 1 to 64 lower-case letters, digits, `-`, `_`, `.` and `@`.
    pub name: String,
    /// What the user may do.
    pub role: Role,
    /// Seconds for which the token is valid.
    pub ttl: u64,
}

/// A user that was made. The token is shown this once.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UserCreated {
    /// Whose token it is.
    pub name: String,
    /// For `muster login`, or as the bearer token of a request.
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
    /// Of the user.
    pub name: String,
    /// What the user may do.
    pub role: Role,
    /// RFC 3339 UTC: when the token ends.
    pub expires: String,
}

/// A user that was revoked.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UserRevoked {
    /// Whose token counts no more.
    pub name: String,
}
