//! `Muster::Group`: a group in the server's own files. Its properties and their bounds.
//!
//! Absent: how the agent changes and compares it (`agent/host/src/types/account.rs`).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::account::{AccountError, ID_MAX, check_id, check_name, check_names, id, name, names, wrong};
use super::{ClaimKind, DesiredState, TemplateType};
use crate::model::spec::{Claim, OnDelete};
use crate::property::{Property, PropertyError, PropertyType, RenderedProperties, flag, on_delete};

/// A group; fields that are `None` stay as they are, or as groupadd makes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Must not be `root`.
    pub name: String,
    /// Must not be 0.
    pub gid: Option<u32>,
    /// The group is made with a low number; has no effect on an existing group.
    pub system: bool,
    /// The members except users with this primary group, sorted.
    pub members: Option<Vec<String>>,
    /// The state that a delete leaves.
    pub on_delete: OnDelete,
}

impl TemplateType for Group {
    const NAME: &'static str = "Muster::Group";
    const ABOUT: &'static str = "a group of the node's users";
    const PROPERTIES: &'static [Property] = &[
        Property::optional("gid", |value| id(value).map(drop))
            .is(PropertyType::Integer, "its number; the next free one where this is left out")
            .range(1, ID_MAX as u64),
        Property::optional("members", |value| names(value).map(drop)).is(
            PropertyType::List,
            "all users that have it beside their primary group; left as they are where this is left out",
        ),
        Property::required("name", |value| name(value).map(drop))
            .is(PropertyType::String, "its name; not root")
            .replaces(),
        Property::node(),
        Property::on_delete(),
        Property::optional("system", |value| flag(value).map(drop))
            .is(PropertyType::Boolean, "made with a low number; nothing to one that is there")
            .default("false"),
    ];
    const ATTRIBUTES: &'static [(&'static str, &'static str)] =
        &[("gid", "the number that it has"), ("name", "the name")];
    const IS_CORRECTED: bool = true;

    fn read(given: &RenderedProperties<'_>) -> Result<Self, PropertyError> {
        let group = Group {
            name: given.required("name", name)?,
            gid: given.get("gid", id)?,
            system: given.get("system", flag)?.unwrap_or(false),
            members: given.get("members", names)?,
            on_delete: given.get("on_delete", on_delete)?.unwrap_or_default(),
        };
        group.check().map_err(wrong)?;
        Ok(group)
    }
}

impl DesiredState for Group {
    fn type_name(&self) -> &'static str {
        Self::NAME
    }

    fn key(&self) -> Cow<'_, str> {
        (&self.name).into()
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::new(ClaimKind::Group, &self.name)]
    }

    fn properties(&self) -> Value {
        json!({
            "name": self.name,
            "gid": self.gid,
            "system": self.system,
            "members": self.members,
            "on_delete": self.on_delete.as_str(),
        })
    }

    fn attribute(&self, name: &str) -> Option<Value> {
        (name == "name").then(|| json!(self.name))
    }

    fn check_bounds(&self) -> Result<(), &'static str> {
        self.check().map_err(|_| "group")
    }

    fn weight(&self) -> usize {
        self.name.len() + self.members.iter().flatten().map(String::len).sum::<usize>()
    }
}

impl Group {
    /// Whether it can be applied at all.
    ///
    /// # Errors
    /// [`AccountError`]
    pub fn check(&self) -> Result<(), AccountError> {
        check_name(&self.name)?;
        self.gid.map_or(Ok(()), check_id)?;
        self.members.as_deref().map_or(Ok(()), check_names)
    }
}
