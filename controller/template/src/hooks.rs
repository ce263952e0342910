//! An environment's policies for resources: hooks that wait for an operator, and restricted actions.
//!
//! Absent: the wait at a hook, its end, and the refusal of an action (`controller/engine/src/traversal/hook.rs`).

use serde::{Deserialize, Serialize};

use crate::named::Named;

/// A point at which a resource waits until an operator clears the hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hook {
    /// Before the resource is made.
    PreCreate,
    /// After the resource was made, before those that need it.
    PostCreate,
    /// Before the resource is changed in place.
    PreUpdate,
    /// After the resource was changed in place.
    PostUpdate,
    /// Before the resource is deleted.
    PreDelete,
    /// After the resource was deleted.
    PostDelete,
}

impl Hook {
    pub const ALL: [Self; 6] = [
        Self::PreCreate,
        Self::PostCreate,
        Self::PreUpdate,
        Self::PostUpdate,
        Self::PreDelete,
        Self::PostDelete,
    ];

    /// The word that operators use.
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

    /// The inverse of [`Hook::as_str`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| hook.as_str() == name)
    }

    /// The place in a set of hooks.
    pub fn bit(self) -> u8 {
        1 << (self as u8)
    }
}

/// An action that is forbidden for a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restriction {
    /// Changing it in place.
    Update,
    /// Replacing the resource.
    Replace,
}

impl Restriction {
    pub const ALL: [Self; 2] = [Self::Update, Self::Replace];

    /// The word that operators use.
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

/// The policies of one resource. The default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    hooks: u8,
    restricted: u8,
}

/// The policies of all resources, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies(pub(crate) Named<Rule>);

/// The policies under one name or pattern; `None`: not given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub hooks: Option<u8>,
    pub restricted: Option<u8>,
}

impl Policies {
    /// The policies of a resource, by its path (`servers/0/config`): those under its name, and under each
    /// matching pattern.
    pub fn of(&self, resource: &str) -> Policy {
        let mut all = Policy::default();
        self.0.of(resource, &mut |rule| all = all.join(rule.policy()));
        all
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Resources of the root stack that are named, patterns left out.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        self.0.names()
    }

    pub(crate) fn count_patterns(&self) -> usize {
        self.0.count_patterns()
    }

    /// Combines later policies with earlier ones, name by name.
    pub(crate) fn take(&mut self, later: Self) {
        self.0.take(later.0, &|mine: &mut Rule, theirs| *mine = theirs.over(*mine));
    }
}

impl Rule {
    fn policy(self) -> Policy {
        Policy { hooks: self.hooks.unwrap_or(0), restricted: self.restricted.unwrap_or(0) }
    }

    fn over(self, earlier: Self) -> Self {
        Self { hooks: self.hooks.or(earlier.hooks), restricted: self.restricted.or(earlier.restricted) }
    }
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

    fn join(self, other: Self) -> Self {
        Self { hooks: self.hooks | other.hooks, restricted: self.restricted | other.restricted }
    }
}
