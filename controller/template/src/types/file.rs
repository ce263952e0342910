//! `Muster::File`: a regular file.

use muster_shared::model::{Content, File, Hostname};
use serde_json::Value;

use super::value::{check_node, check_on_delete, on_delete, text, unwanted};
use super::{Given, Property, PropertyError, PropertyType};
use crate::error::cut;

/// Linux's `PATH_MAX` without the ending zero.
const PATH_MAX: usize = 4095;
/// Of a file nothing is said about.
const MODE: u32 = 0o644;

pub(super) static PROPERTIES: [Property; 7] = [
    Property::required("content", |value| text(value).map(drop)).is(PropertyType::String, "what is in it"),
    Property::optional("group", |value| account(value).map(drop))
        .is(PropertyType::String, "its group, by name or number; the agent's own where it is left out"),
    Property::optional("mode", |value| mode(value).map(drop))
        .is(PropertyType::String, "its permissions")
        .default("\"0644\"")
        .limits("octal and in quotes, up to \"7777\""),
    Property::required("node", check_node).is(PropertyType::String, "the node it is on").replaces(),
    Property::optional("on_delete", check_on_delete)
        .is(PropertyType::String, "what a delete leaves: what was there before, or what is there")
        .default("\"restore\"")
        .one_of(&["restore", "keep"]),
    Property::optional("owner", |value| account(value).map(drop))
        .is(PropertyType::String, "its owner, by name or number; the agent's own where it is left out"),
    Property::required("path", |value| path(value).map(drop))
        .is(PropertyType::String, "where it is")
        .limits("absolute and in its shortest form")
        .replaces(),
];

pub(super) fn spec(given: &Given<'_>) -> Result<File, PropertyError> {
    Ok(File {
        path: given.required("path", path)?,
        content: Content::Inline(given.required("content", text)?.into_bytes()),
        mode: given.get("mode", mode)?.unwrap_or(MODE),
        owner: given.get("owner", account)?,
        group: given.get("group", account)?,
        on_delete: given.get("on_delete", on_delete)?.unwrap_or_default(),
    })
}

/// Absolute and normalised, so that two resources cannot own one file under two names.
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
        // One thing has one owner, and that of this one is another type.
        "is the host name's; take Muster::Hostname, which tells the kernel as well"
    } else {
        return Ok(path.clone());
    };
    Err(PropertyError::new(format!("the path '{}' {wrong}", cut(path))))
}

/// Octal text. A number is refused: YAML may have read it as octal or not, and either guess opens a file to someone.
fn mode(value: &Value) -> Result<u32, PropertyError> {
    let text = match value {
        Value::String(text) => text,
        Value::Number(number) => {
            let message = format!("want octal text in quotes such as \"0644\", got the number {number}");
            return Err(PropertyError::new(message));
        }
        _ => return Err(unwanted("octal text such as \"0644\"", value)),
    };
    let octal = text.strip_prefix("0o").unwrap_or(text);
    let digits = (1..=5).contains(&octal.len()) && octal.bytes().all(|b| b.is_ascii_digit());
    u32::from_str_radix(octal, 8)
        .ok()
        .filter(|mode| digits && *mode <= 0o7777)
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
