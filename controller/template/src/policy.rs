//! What an environment says of resources: where they wait for an operator, and what may not be done with them.

use serde::{Deserialize, Serialize};

/// Where a resource waits until an operator clears it.
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

    /// Its place in a set of hooks.
    pub fn bit(self) -> u8 {
        1 << (self as u8)
    }
}

/// What may not be done with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restriction {
    /// Changing it in place.
    Update,
    /// Putting a new one in its place.
    Replace,
}

impl Restriction {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Update, Self::Replace];

    /// As operators write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Restriction::Update => "update",
            Restriction::Replace => "replace",
        }
    }

    pub(crate) fn bit(self) -> u8 {
        1 << (self as u8)
    }
}

/// All that is said of one resource. The default says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub(crate) hooks: u8,
    pub(crate) restricted: u8,
}

impl Policy {
    /// Whether it waits there.
    pub fn waits_at(self, hook: Hook) -> bool {
        self.hooks & hook.bit() != 0
    }

    /// Whether this may not be done.
    pub fn restricts(self, action: Restriction) -> bool {
        self.restricted & action.bit() != 0
    }

    pub(crate) fn join(self, other: Self) -> Self {
        Self { hooks: self.hooks | other.hooks, restricted: self.restricted | other.restricted }
    }
}
