//! What an environment says of resources: where they wait for an operator, and what may not be done with them.

use std::collections::BTreeMap;

use muster_shared::pattern;
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
    hooks: u8,
    restricted: u8,
}

/// What is said of all resources, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// By a resource's own name.
    pub(crate) named: BTreeMap<Box<str>, Rule>,
    /// By a pattern with `*` in it.
    pub(crate) patterns: BTreeMap<Box<str>, Rule>,
}

/// What is said under one name or pattern; none: nothing is said of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub hooks: Option<u8>,
    pub restricted: Option<u8>,
}

impl Policies {
    /// What holds for a resource: all that is said of its name, and under each pattern that fits it.
    pub fn of(&self, resource: &str) -> Policy {
        let named = self.named.get(resource).copied().unwrap_or_default().policy();
        let fitting = self.patterns.iter().filter(|(pattern, _)| pattern::matches(pattern, resource));
        fitting.fold(named, |all, (_, rule)| all.join(rule.policy()))
    }

    /// Nothing is said.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.patterns.is_empty()
    }

    /// Resources that are named, patterns left out.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(|name| &**name)
    }

    /// Puts what is said later over what was said before, name by name.
    pub(crate) fn take(&mut self, later: Self) {
        for (mine, theirs) in [(&mut self.named, later.named), (&mut self.patterns, later.patterns)] {
            for (key, rule) in theirs {
                let known = mine.entry(key).or_default();
                *known = rule.over(*known);
            }
        }
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
