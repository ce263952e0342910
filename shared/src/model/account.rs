//! `Muster::User` and `Muster::Group`: accounts in the server's own files.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::spec::OnDelete;

const NAME_MAX: usize = 32;
/// Of a path of a home or a shell.
const PATH_MAX: usize = 256;
const COMMENT_MAX: usize = 256;
/// Longer than any that crypt(3) makes.
const HASH_MAX: usize = 512;
/// Groups of a user, or members of a group: a job must fit a message of 256 KiB.
const NAMES_MAX: usize = 1000;
/// Bytes of all keys of a user.
const KEYS_MAX: usize = 64 * 1024;
/// The largest number that is one, and not the mark for none.
const ID_MAX: u32 = u32::MAX - 1;

/// A user; what is `None` is left as it is, or as useradd makes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Not `root`.
    pub name: String,
    /// Not 0.
    pub uid: Option<u32>,
    /// Primary group, by name.
    pub group: Option<String>,
    /// All other groups, sorted.
    pub groups: Option<Vec<String>>,
    /// Made with the user, unless that is a `system` user.
    pub home: Option<String>,
    pub shell: Option<String>,
    /// Full name and the like.
    pub comment: Option<String>,
    /// Made with a low number and without a home; nothing to one that is there.
    pub system: bool,
    /// For the password.
    pub password_hash: Option<PasswordHash>,
    /// All keys that may log in as the user: lines of `.ssh/authorized_keys`.
    pub authorized_keys: Option<Vec<String>>,
    /// No password is taken.
    pub locked: Option<bool>,
    /// What a delete leaves behind.
    pub on_delete: OnDelete,
}

/// A group; what is `None` is left as it is, or as groupadd makes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Not `root`.
    pub name: String,
    /// Not 0.
    pub gid: Option<u32>,
    /// Made with a low number; nothing to one that is there.
    pub system: bool,
    /// All of its members but those whose primary group it is, sorted.
    pub members: Option<Vec<String>>,
    /// What a delete leaves behind.
    pub on_delete: OnDelete,
}

/// As crypt(3) makes it; never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasswordHash(String);

/// What is wrong with a user or a group. None of them quotes what was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AccountError {
    /// A name.
    #[error(
        "want a name of small letters, digits, '_' and '-', with a letter or '_' first, and {NAME_MAX} characters at most"
    )]
    Name,
    /// The superuser.
    #[error("root and the numbers 0 are not Muster's to change")]
    Root,
    /// A number.
    #[error("want a number from 1 to {ID_MAX}")]
    Id,
    /// A path.
    #[error(
        "want an absolute path without '.', '..', ':' and doubled '/', and {PATH_MAX} characters at most"
    )]
    Path,
    /// A comment.
    #[error("want a line without ':' and {COMMENT_MAX} bytes at most")]
    Comment,
    /// A password, most likely.
    #[error("want a hash as 'openssl passwd -6' prints it, such as $6$…, not the password itself")]
    Hash,
    #[error("want keys of one line each, not empty, and {KEYS_MAX} bytes at most together")]
    Keys,
    /// Too many, or one of them twice.
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

    /// For `/etc/shadow` alone.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<hidden>")
    }
}

impl User {
    /// Whether it can be applied at all.
    ///
    /// # Errors
    /// [`AccountError`]
    pub fn check(&self) -> Result<(), AccountError> {
        check_account_name(&self.name)?;
        self.uid.map_or(Ok(()), check_account_id)?;
        self.group
            .as_deref()
            .map_or(Ok(()), |group| if group == "root" { Ok(()) } else { check_account_name(group) })?;
        self.groups.as_deref().map_or(Ok(()), check_names)?;
        [&self.home, &self.shell].into_iter().flatten().try_for_each(|path| check_account_path(path))?;
        self.comment.as_deref().map_or(Ok(()), check_comment)?;
        if let Some(hash) = &self.password_hash {
            PasswordHash::new(hash.0.clone())?;
        }
        self.authorized_keys.as_deref().map_or(Ok(()), check_keys)
    }

    /// About how much memory it takes.
    pub fn weight(&self) -> usize {
        let lists = [&self.groups, &self.authorized_keys].into_iter().flatten().flatten().map(String::len);
        let texts =
            [&self.group, &self.home, &self.shell, &self.comment].into_iter().flatten().map(String::len);
        self.name.len() + lists.chain(texts).sum::<usize>() + HASH_MAX
    }
}

impl Group {
    /// Whether it can be applied at all.
    ///
    /// # Errors
    /// [`AccountError`]
    pub fn check(&self) -> Result<(), AccountError> {
        check_account_name(&self.name)?;
        self.gid.map_or(Ok(()), check_account_id)?;
        self.members.as_deref().map_or(Ok(()), check_names)
    }

    /// About how much memory it takes.
    pub fn weight(&self) -> usize {
        self.name.len() + self.members.iter().flatten().map(String::len).sum::<usize>()
    }
}

/// A name as shadow-utils takes it, and no option.
///
/// # Errors
/// [`AccountError::Name`], [`AccountError::Root`]
pub fn check_account_name(name: &str) -> Result<(), AccountError> {
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
pub fn check_account_id(id: u32) -> Result<(), AccountError> {
    match id {
        0 => Err(AccountError::Root),
        1..=ID_MAX => Ok(()),
        _ => Err(AccountError::Id),
    }
}

/// Of a home or a shell.
///
/// # Errors
/// [`AccountError::Path`]
pub fn check_account_path(path: &str) -> Result<(), AccountError> {
    let part = |part: &str| !part.is_empty() && part != "." && part != "..";
    let is_one = path.len() <= PATH_MAX
        && !path.contains(|c: char| c == ':' || c.is_control())
        && path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(part));
    if is_one { Ok(()) } else { Err(AccountError::Path) }
}

/// # Errors
/// [`AccountError::Comment`]
pub fn check_comment(comment: &str) -> Result<(), AccountError> {
    let is_one = comment.len() <= COMMENT_MAX && !comment.contains(|c: char| c == ':' || c.is_control());
    if is_one { Ok(()) } else { Err(AccountError::Comment) }
}

/// # Errors
/// [`AccountError::Keys`]
pub fn check_keys(keys: &[String]) -> Result<(), AccountError> {
    let line = |key: &String| !key.trim().is_empty() && !key.contains(char::is_control);
    let size: usize = keys.iter().map(|key| key.len() + 1).sum();
    if size <= KEYS_MAX && keys.iter().all(line) { Ok(()) } else { Err(AccountError::Keys) }
}

/// Groups of a user, or members of a group; root may be one.
fn check_names(names: &[String]) -> Result<(), AccountError> {
    let is_once = names.windows(2).all(|pair| pair[0] < pair[1]);
    if names.len() > NAMES_MAX || !is_once {
        return Err(AccountError::Names);
    }
    names.iter().filter(|name| *name != "root").try_for_each(|name| check_account_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> User {
        User {
            name: "web".into(),
            uid: None,
            group: None,
            groups: None,
            home: None,
            shell: None,
            comment: None,
            system: false,
            password_hash: None,
            authorized_keys: None,
            locked: None,
            on_delete: OnDelete::Restore,
        }
    }

    #[test]
    fn what_cannot_be_an_account_or_is_the_superuser_is_refused() {
        assert_eq!(user().check(), Ok(()));
        for bad in ["", "-r", "Web", "1a", "a b", "a:b", "a\n", "a/b", "ä", &"a".repeat(33)] {
            assert_eq!(User { name: bad.into(), ..user() }.check(), Err(AccountError::Name), "{bad:?}");
        }
        assert_eq!(User { name: "root".into(), ..user() }.check(), Err(AccountError::Root));
        assert_eq!(User { uid: Some(0), ..user() }.check(), Err(AccountError::Root));
        assert_eq!(User { uid: Some(u32::MAX), ..user() }.check(), Err(AccountError::Id));
        for bad in ["", "home", "/", "/a/", "/a//b", "/a/../b", "/a:b", "/a\n"] {
            assert_eq!(User { home: Some(bad.into()), ..user() }.check(), Err(AccountError::Path), "{bad:?}");
        }
        assert_eq!(User { comment: Some("a:b".into()), ..user() }.check(), Err(AccountError::Comment));
        for bad in ["", " ", "a\nb", &"a".repeat(KEYS_MAX)] {
            let keys = Some(vec![bad.to_owned()]);
            assert_eq!(User { authorized_keys: keys, ..user() }.check(), Err(AccountError::Keys), "{bad:?}");
        }
        let twice = Some(vec!["a".to_owned(), "a".to_owned()]);
        assert_eq!(User { groups: twice, ..user() }.check(), Err(AccountError::Names));
        for bad in ["hunter2", "", "$6$a", "$6$a$b:c", "$6$a$b c", "*"] {
            assert_eq!(PasswordHash::new(bad.into()), Err(AccountError::Hash), "{bad:?}");
        }
        let hash = PasswordHash::new("$6$salt$hash".into()).unwrap();
        assert_eq!(format!("{hash:?}"), "<hidden>");
    }
}
