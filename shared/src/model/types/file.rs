//! `Muster::File`: a regular file. Its properties and their bounds.
//!
//! Absent: how the agent changes and compares it (`agent/host/src/files.rs`).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ClaimKind, DesiredState, Hostname, TemplateType, at_most};
use crate::model::spec::{Claim, Content, OnDelete};
use crate::property::{
    Property, PropertyError, PropertyType, RenderedProperties, cut, on_delete, text, unwanted,
};

/// Linux's `PATH_MAX` without the ending zero.
const PATH_MAX: usize = 4095;
/// The mode of a file without a given one.
const MODE: u32 = 0o644;
const MODE_MAX: u32 = 0o7777;
/// User and group names in Linux are at most 32.
const OWNER_MAX: usize = 64;

/// A regular file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Absolute, normalised path.
    pub path: String,
    /// The file's content.
    pub content: Content,
    /// Permission bits, at most 0o7777.
    pub mode: u32,
    /// User name or number; the agent's own user if absent.
    pub owner: Option<String>,
    /// Group name or number; the agent's own group if absent.
    pub group: Option<String>,
    /// The state that a delete leaves.
    pub on_delete: OnDelete,
}

impl TemplateType for File {
    const NAME: &'static str = "Muster::File";
    const ABOUT: &'static str = "a regular file on a node";
    const PROPERTIES: &'static [Property] = &[
        Property::required("content", |value| text(value).map(drop))
            .is(PropertyType::String, "what is in it"),
        Property::optional("group", |value| account(value).map(drop))
            .is(PropertyType::String, "its group, by name or number; the agent's own where it is left out"),
        Property::optional("mode", |value| mode(value).map(drop))
            .is(PropertyType::String, "its permissions")
            .default("\"0644\"")
            .limits("octal and in quotes, up to \"7777\""),
        Property::node(),
        Property::on_delete(),
        Property::optional("owner", |value| account(value).map(drop))
            .is(PropertyType::String, "its owner, by name or number; the agent's own where it is left out"),
        Property::required("path", |value| path(value).map(drop))
            .is(PropertyType::String, "where it is")
            .limits("absolute and in its shortest form")
            .replaces(),
    ];
    const ATTRIBUTES: &'static [(&'static str, &'static str)] = &[("path", "where the file is")];
    const IS_CORRECTED: bool = true;

    fn read(given: &RenderedProperties<'_>) -> Result<Self, PropertyError> {
        Ok(File {
            path: given.required("path", path)?,
            content: Content::Inline(given.required("content", text)?.into_bytes()),
            mode: given.get("mode", mode)?.unwrap_or(MODE),
            owner: given.get("owner", account)?,
            group: given.get("group", account)?,
            on_delete: given.get("on_delete", on_delete)?.unwrap_or_default(),
        })
    }
}

impl DesiredState for File {
    fn type_name(&self) -> &'static str {
        Self::NAME
    }

    fn key(&self) -> Cow<'_, str> {
        (&self.path).into()
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::new(ClaimKind::File, &self.path)]
    }

    fn properties(&self) -> Value {
        json!({
            "path": self.path,
            "content": self.content.shown(),
            "mode": format!("{:04o}", self.mode),
            "owner": self.owner,
            "group": self.group,
            "on_delete": self.on_delete.as_str(),
        })
    }

    fn attribute(&self, name: &str) -> Option<Value> {
        (name == "path").then(|| json!(self.path))
    }

    /// A path names the same file everywhere: absolute, no empty, `.` or `..` part, no NUL.
    fn check_bounds(&self) -> Result<(), &'static str> {
        at_most("path", self.path.len(), PATH_MAX + 1)?;
        let part = |part: &str| !matches!(part, "" | "." | "..");
        let is_normal = |rest: &str| !rest.contains('\0') && rest.split('/').all(part);
        if !self.path.strip_prefix('/').is_some_and(is_normal) {
            return Err("path");
        }
        let names = [&self.owner, &self.group].into_iter().flatten();
        names.into_iter().try_for_each(|name| at_most("owner", name.len(), OWNER_MAX))?;
        at_most("mode", self.mode as usize, MODE_MAX as usize)?;
        if self.content.stored().is_some_and(|(_, size)| size > Content::SIZE_MAX) {
            Err("content")
        } else {
            Ok(())
        }
    }

    fn content(&self) -> Option<&Content> {
        Some(&self.content)
    }

    fn content_mut(&mut self) -> Option<&mut Content> {
        Some(&mut self.content)
    }

    fn strip(&mut self) {
        self.content.strip();
    }

    fn weight(&self) -> usize {
        self.content.weight()
    }
}

/// Parses an absolute and normalised path, so that two resources cannot own one file under two names.
fn path(value: &Value) -> Result<String, PropertyError> {
    let Value::String(path) = value else { return Err(unwanted("an absolute path", value)) };
    let wrong = if !path.starts_with('/') {
        "is not absolute"
    } else if path.len() > PATH_MAX {
        "is too long"
    } else if path.contains('\0') {
        "has a zero byte in it"
    } else if path.ends_with('/') {
        "names a directory; leave out the '/' at its end"
    } else if path.split('/').skip(1).any(|part| matches!(part, "" | "." | "..")) {
        "is not in its shortest form; leave out '//', '.' and '..'"
    } else if path.split('/').any(|part| part.len() > 255) {
        "has a name of more than 255 bytes in it"
    } else if path == Hostname::CLAIM {
        // A file has one owner, and another type owns this one.
        "is the host name's; take Muster::Hostname, which tells the kernel as well"
    } else {
        return Ok(path.clone());
    };
    Err(PropertyError::new(format!("the path '{}' {wrong}", cut(path))))
}

/// Octal text. A number is refused: YAML may have read it as octal or not, and either guess opens a file
/// to someone.
fn mode(value: &Value) -> Result<u32, PropertyError> {
    if let Value::Number(number) = value {
        let message = format!("want octal text in quotes such as \"0644\", got the number {number}");
        return Err(PropertyError::new(message));
    }
    let Value::String(text) = value else { return Err(unwanted("octal text such as \"0644\"", value)) };
    let octal = text.strip_prefix("0o").unwrap_or(text);
    let digits = (1..=5).contains(&octal.len()) && octal.bytes().all(|b| b.is_ascii_digit());
    u32::from_str_radix(octal, 8)
        .ok()
        .filter(|mode| digits && *mode <= MODE_MAX)
        .ok_or_else(|| PropertyError::new(format!("want an octal mode up to \"7777\", got '{}'", cut(text))))
}

/// A user's or a group's name or number.
fn account(value: &Value) -> Result<String, PropertyError> {
    let name = text(value)?;
    let valid = (1..=32).contains(&name.len())
        && !name.starts_with('-')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'$' | b'@'));
    if valid {
        Ok(name)
    } else {
        Err(PropertyError::new(format!("'{}' is not a name or number of an account", cut(&name))))
    }
}
