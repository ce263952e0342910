//! The common parts of `Muster::User` and `Muster::Group`: accounts in the server's own files.
//!
//! Absent: how the agent changes them (`agent/host/src/types/account.rs`).

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::property::{PropertyError, checked, integer, unwanted};

/// The limit of shadow-utils.
const NAME_MAX: usize = 32;
/// The limit for the path of a home or a shell.
const PATH_MAX: usize = 256;
const COMMENT_MAX: usize = 256;
/// Longer than any that crypt(3) makes.
pub(super) const HASH_MAX: usize = 512;
/// Groups of a user, or members of a group: a job must fit a message of 256 KiB.
const NAMES_MAX: usize = 1000;
/// Bytes of all keys of a user.
const KEYS_MAX: usize = 64 * 1024;
/// The largest number that is not the mark for none.
pub(super) const ID_MAX: u32 = u32::MAX - 1;

/// A hash as crypt(3) makes it; never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasswordHash(String);

/// Errors of a user or a group. None of them quotes the given value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AccountError {
    #[error(
        "want a name of small letters, digits, '_' and '-', with a letter or '_' first, and {NAME_MAX} characters at most"
    )]
    Name,
    /// The superuser.
    #[error("root and the numbers 0 are not Muster's to change")]
    Root,
    #[error("want a number from 1 to {ID_MAX}")]
    Id,
    #[error(
        "want an absolute path without '.', '..', ':' and doubled '/', and {PATH_MAX} characters at most"
    )]
    Path,
    #[error("want a line without ':' and {COMMENT_MAX} bytes at most")]
    Comment,
    /// A password, most likely.
    #[error("want a hash as 'openssl passwd -6' prints it, such as $6$…, not the password itself")]
    Hash,
    #[error("want keys of one line each, not empty, and {KEYS_MAX} bytes at most together")]
    Keys,
    /// There are too many names, or one of them occurs twice.
    #[error("want at most {NAMES_MAX} names, each of them once")]
    Names,
}

impl PasswordHash {
    /// # Errors
    /// [`AccountError::Hash`]
    pub fn new(hash: String) -> Result<Self, AccountError> {
        let allowed = |b: u8| b.is_ascii_graphic() && b != b':';
        let is_one = hash.len() <= HASH_MAX
            && hash.starts_with('$')
            && hash.bytes().filter(|b| *b == b'$').count() >= 3
            && hash.bytes().all(allowed);
        if is_one { Ok(Self(hash)) } else { Err(AccountError::Hash) }
    }

    /// The hash, for `/etc/shadow` alone.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<hidden>")
    }
}

/// A name as shadow-utils takes it, and no option.
///
/// # Errors
/// [`AccountError::Name`], [`AccountError::Root`]
pub(super) fn check_name(name: &str) -> Result<(), AccountError> {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
    let first = |b: u8| b.is_ascii_lowercase() || b == b'_';
    match name {
        "root" => Err(AccountError::Root),
        _ if name.len() <= NAME_MAX
            && name.bytes().next().is_some_and(first)
            && name.bytes().all(allowed) =>
        {
            Ok(())
        }
        _ => Err(AccountError::Name),
    }
}

/// # Errors
/// [`AccountError::Id`], [`AccountError::Root`]
pub(super) fn check_id(id: u32) -> Result<(), AccountError> {
    match id {
        0 => Err(AccountError::Root),
        1..=ID_MAX => Ok(()),
        _ => Err(AccountError::Id),
    }
}

/// Checks the path of a home or a shell.
///
/// # Errors
/// [`AccountError::Path`]
pub(super) fn check_path(path: &str) -> Result<(), AccountError> {
    let part = |part: &str| !part.is_empty() && part != "." && part != "..";
    let is_one = path.len() <= PATH_MAX
        && !path.contains(|c: char| c == ':' || c.is_control())
        && path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(part));
    if is_one { Ok(()) } else { Err(AccountError::Path) }
}

/// # Errors
/// [`AccountError::Comment`]
pub(super) fn check_comment(comment: &str) -> Result<(), AccountError> {
    let is_one = comment.len() <= COMMENT_MAX && !comment.contains(|c: char| c == ':' || c.is_control());
    if is_one { Ok(()) } else { Err(AccountError::Comment) }
}

/// # Errors
/// [`AccountError::Keys`]
pub(super) fn check_keys(keys: &[String]) -> Result<(), AccountError> {
    let line = |key: &String| !key.trim().is_empty() && !key.contains(char::is_control);
    let size: usize = keys.iter().map(|key| key.len() + 1).sum();
    if size <= KEYS_MAX && keys.iter().all(line) { Ok(()) } else { Err(AccountError::Keys) }
}

/// Checks the groups of a user, or the members of a group; root may be one.
pub(super) fn check_names(names: &[String]) -> Result<(), AccountError> {
    let is_once = names.windows(2).all(|pair| pair[0] < pair[1]);
    if names.len() > NAMES_MAX || !is_once {
        return Err(AccountError::Names);
    }
    names.iter().filter(|name| *name != "root").try_for_each(|name| check_name(name))
}

pub(super) fn name(value: &Value) -> Result<String, PropertyError> {
    checked("the name of an account", value, check_name)
}

/// Root's may be anybody's group, and is not changed by that.
pub(super) fn primary(value: &Value) -> Result<String, PropertyError> {
    if value == "root" { Ok("root".into()) } else { name(value) }
}

pub(super) fn names(value: &Value) -> Result<Vec<String>, PropertyError> {
    let Value::Array(items) = value else { return Err(unwanted("a list of names", value)) };
    let mut names =
        items.iter().filter(|item| !item.is_null()).map(primary).collect::<Result<Vec<_>, _>>()?;
    names.sort();
    Ok(names)
}

pub(super) fn id(value: &Value) -> Result<u32, PropertyError> {
    let id = integer(value, 1, ID_MAX.into())?;
    let id = u32::try_from(id).map_err(|_| wrong(AccountError::Id))?;
    check_id(id).map(|()| id).map_err(wrong)
}

pub(super) fn wrong(error: AccountError) -> PropertyError {
    PropertyError::new(error.to_string())
}
