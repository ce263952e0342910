//! Hooks: places where a graph node waits until an operator clears it.

use serde::{Deserialize, Serialize};

/// Where a node waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hook {
    /// Before it is made.
    PreCreate,
    /// After it was made, before those that need it.
    PostCreate,
    /// Before it is changed in place.
    PreUpdate,
    /// After it was changed in place.
    PostUpdate,
    /// Before it is taken away.
    PreDelete,
    /// After it was taken away.
    PostDelete,
}

impl Hook {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::PreCreate,
        Self::PostCreate,
        Self::PreUpdate,
        Self::PostUpdate,
        Self::PreDelete,
        Self::PostDelete,
    ];

    /// As operators write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Hook::PreCreate => "pre-create",
            Hook::PostCreate => "post-create",
            Hook::PreUpdate => "pre-update",
            Hook::PostUpdate => "post-update",
            Hook::PreDelete => "pre-delete",
            Hook::PostDelete => "post-delete",
        }
    }

    /// From [`Hook::as_str`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| hook.as_str() == name)
    }
}
