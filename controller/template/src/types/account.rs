//! `Muster::User` and `Muster::Group`: accounts in the server's own files.

use muster_shared::model::{
    AccountError, Group, PasswordHash, User, check_account_id, check_account_name, check_account_path,
    check_comment, check_keys,
};
use serde_json::Value;

use super::value::{check_node, check_on_delete, flag, integer, on_delete, text, unwanted};
use super::{Given, Property, PropertyError, PropertyType};
use crate::error::cut;

pub(super) static USER_PROPERTIES: [Property; 13] = [
    Property::optional("authorized_keys", |value| keys(value).map(drop)).is(
        PropertyType::List,
        "all keys that may log in as the user, one line each; left as they are where this is left out",
    ),
    Property::optional("comment", |value| comment(value).map(drop))
        .is(PropertyType::String, "full name and the like"),
    Property::optional("group", |value| primary(value).map(drop))
        .is(PropertyType::String, "primary group; one of the user's own name where this is left out"),
    Property::optional("groups", |value| names(value).map(drop))
        .is(PropertyType::List, "all other groups; left as they are where this is left out"),
    Property::optional("home", |value| path(value).map(drop))
        .is(PropertyType::String, "made with the user, unless that is a system user"),
    Property::optional("locked", |value| flag(value).map(drop))
        .is(PropertyType::Boolean, "no password is taken; keys are"),
    Property::required("name", |value| name(value).map(drop))
        .is(PropertyType::String, "its name; not root")
        .replaces(),
    Property::required("node", check_node).is(PropertyType::String, "the node it is on").replaces(),
    Property::optional("on_delete", check_on_delete)
        .is(PropertyType::String, "what a delete leaves: what was there before, or what is there")
        .default("\"restore\"")
        .one_of(&["restore", "keep"]),
    Property::optional("password_hash", |value| hash(value).map(drop)).is(
        PropertyType::String,
        "as 'openssl passwd -6' prints it, from a hidden parameter; left as it is where this is left out",
    ),
    Property::optional("shell", |value| path(value).map(drop)).is(PropertyType::String, "path of its shell"),
    Property::optional("system", |value| flag(value).map(drop))
        .is(PropertyType::Boolean, "made with a low number and without a home; nothing to one that is there")
        .default("false"),
    Property::optional("uid", |value| id(value).map(drop))
        .is(PropertyType::Integer, "its number; the next free one where this is left out")
        .range(1, ID_MAX),
];

pub(super) static GROUP_PROPERTIES: [Property; 6] = [
    Property::optional("gid", |value| id(value).map(drop))
        .is(PropertyType::Integer, "its number; the next free one where this is left out")
        .range(1, ID_MAX),
    Property::optional("members", |value| names(value).map(drop)).is(
        PropertyType::List,
        "all users that have it beside their primary group; left as they are where this is left out",
    ),
    Property::required("name", |value| name(value).map(drop))
        .is(PropertyType::String, "its name; not root")
        .replaces(),
    Property::required("node", check_node).is(PropertyType::String, "the node it is on").replaces(),
    Property::optional("on_delete", check_on_delete)
        .is(PropertyType::String, "what a delete leaves: what was there before, or what is there")
        .default("\"restore\"")
        .one_of(&["restore", "keep"]),
    Property::optional("system", |value| flag(value).map(drop))
        .is(PropertyType::Boolean, "made with a low number; nothing to one that is there")
        .default("false"),
];

/// The largest number is the mark for none.
const ID_MAX: u64 = u32::MAX as u64 - 1;

pub(super) fn user(given: &Given<'_>) -> Result<User, PropertyError> {
    let user = User {
        name: given.required("name", name)?,
        uid: given.get("uid", id)?,
        group: given.get("group", primary)?,
        groups: given.get("groups", names)?,
        home: given.get("home", path)?,
        shell: given.get("shell", path)?,
        comment: given.get("comment", comment)?,
        system: given.get("system", flag)?.unwrap_or(false),
        password_hash: given.get("password_hash", hash)?,
        authorized_keys: given.get("authorized_keys", keys)?,
        locked: given.get("locked", flag)?,
        on_delete: given.get("on_delete", on_delete)?.unwrap_or_default(),
    };
    user.check().map_err(wrong)?;
    Ok(user)
}

pub(super) fn group(given: &Given<'_>) -> Result<Group, PropertyError> {
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

fn name(value: &Value) -> Result<String, PropertyError> {
    let Value::String(name) = value else { return Err(unwanted("the name of an account", value)) };
    match check_account_name(name) {
        Ok(()) => Ok(name.clone()),
        Err(error) => Err(PropertyError::new(format!("'{}': {error}", cut(name)))),
    }
}

/// Root's may be anybody's group, and is not changed by that.
fn primary(value: &Value) -> Result<String, PropertyError> {
    if value == "root" { Ok("root".into()) } else { name(value) }
}

fn names(value: &Value) -> Result<Vec<String>, PropertyError> {
    let Value::Array(items) = value else { return Err(unwanted("a list of names", value)) };
    let mut names =
        items.iter().filter(|item| !item.is_null()).map(primary).collect::<Result<Vec<_>, _>>()?;
    names.sort();
    Ok(names)
}

fn id(value: &Value) -> Result<u32, PropertyError> {
    let id = integer(value, 1, ID_MAX)?;
    let id = u32::try_from(id).map_err(|_| wrong(AccountError::Id))?;
    check_account_id(id).map(|()| id).map_err(wrong)
}

fn path(value: &Value) -> Result<String, PropertyError> {
    let path = text(value)?;
    match check_account_path(&path) {
        Ok(()) => Ok(path),
        Err(error) => Err(PropertyError::new(format!("'{}': {error}", cut(&path)))),
    }
}

fn comment(value: &Value) -> Result<String, PropertyError> {
    let comment = text(value)?;
    check_comment(&comment).map(|()| comment).map_err(wrong)
}

/// What was given is not said: it may be the password.
fn hash(value: &Value) -> Result<PasswordHash, PropertyError> {
    let Value::String(hash) = value else { return Err(unwanted("a password's hash", value)) };
    PasswordHash::new(hash.clone()).map_err(wrong)
}

fn keys(value: &Value) -> Result<Vec<String>, PropertyError> {
    let Value::Array(items) = value else { return Err(unwanted("a list of keys", value)) };
    let keys = items.iter().filter(|item| !item.is_null()).map(text).collect::<Result<Vec<_>, _>>()?;
    let keys: Vec<String> = keys.iter().map(|key| key.trim().to_owned()).collect();
    check_keys(&keys).map(|()| keys).map_err(wrong)
}

fn wrong(error: AccountError) -> PropertyError {
    PropertyError::new(error.to_string())
}
