//! `Muster::User`: a user in the server's own files. Its properties and their bounds.
//!
//! Absent: how the agent changes and compares it (`agent/host/src/types/account.rs`).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::account::{
    AccountError, HASH_MAX, ID_MAX, PasswordHash, check_comment, check_id, check_keys, check_name,
    check_names, check_path, id, name, names, primary, wrong,
};
use super::{ClaimKind, DesiredState, TemplateType};
use crate::model::spec::{Claim, OnDelete};
use crate::property::{
    Property, PropertyError, PropertyType, RenderedProperties, cut, flag, on_delete, text, unwanted,
};

/// A user; fields that are `None` stay as they are, or as useradd makes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Must not be `root`.
    pub name: String,
    /// Must not be 0.
    pub uid: Option<u32>,
    /// The primary group, by name.
    pub group: Option<String>,
    /// The user's other groups, sorted.
    pub groups: Option<Vec<String>>,
    /// Made with the user, unless that is a `system` user.
    pub home: Option<String>,
    pub shell: Option<String>,
    /// Full name and the like.
    pub comment: Option<String>,
    /// The user is made with a low number and without a home; has no effect on an existing user.
    pub system: bool,
    /// The hash of the password.
    pub password_hash: Option<PasswordHash>,
    /// The keys that may log in as the user: lines of `.ssh/authorized_keys`.
    pub authorized_keys: Option<Vec<String>>,
    /// Whether password login is disabled.
    pub locked: Option<bool>,
    /// The state that a delete leaves.
    pub on_delete: OnDelete,
}

impl TemplateType for User {
    const NAME: &'static str = "Muster::User";
    const ABOUT: &'static str = "a user of the node: number, groups, home, shell, password's hash, keys";
    const PROPERTIES: &'static [Property] = &[
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
        Property::node(),
        Property::on_delete(),
        Property::optional("password_hash", |value| hash(value).map(drop)).is(
            PropertyType::String,
            "as 'openssl passwd -6' prints it, from a hidden parameter; left as it is where this is left out",
        ),
        Property::optional("shell", |value| path(value).map(drop))
            .is(PropertyType::String, "path of its shell"),
        Property::optional("system", |value| flag(value).map(drop))
            .is(
                PropertyType::Boolean,
                "made with a low number and without a home; nothing to one that is there",
            )
            .default("false"),
        Property::optional("uid", |value| id(value).map(drop))
            .is(PropertyType::Integer, "its number; the next free one where this is left out")
            .range(1, ID_MAX as u64),
    ];
    const ATTRIBUTES: &'static [(&'static str, &'static str)] =
        &[("name", "the name"), ("uid", "the number that it has")];
    const IS_CORRECTED: bool = true;

    fn read(given: &RenderedProperties<'_>) -> Result<Self, PropertyError> {
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
}

impl DesiredState for User {
    fn type_name(&self) -> &'static str {
        Self::NAME
    }

    fn key(&self) -> Cow<'_, str> {
        (&self.name).into()
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::new(ClaimKind::User, &self.name)]
    }

    fn properties(&self) -> Value {
        json!({
            "name": self.name,
            "uid": self.uid,
            "group": self.group,
            "groups": self.groups,
            "home": self.home,
            "shell": self.shell,
            "comment": self.comment,
            "system": self.system,
            "password_hash": self.password_hash.as_ref().map(|_| "<hidden>"),
            "authorized_keys": self.authorized_keys,
            "locked": self.locked,
            "on_delete": self.on_delete.as_str(),
        })
    }

    fn attribute(&self, name: &str) -> Option<Value> {
        (name == "name").then(|| json!(self.name))
    }

    fn check_bounds(&self) -> Result<(), &'static str> {
        self.check().map_err(|_| "user")
    }

    fn weight(&self) -> usize {
        let lists = [&self.groups, &self.authorized_keys].into_iter().flatten().flatten().map(String::len);
        let texts =
            [&self.group, &self.home, &self.shell, &self.comment].into_iter().flatten().map(String::len);
        self.name.len() + lists.chain(texts).sum::<usize>() + HASH_MAX
    }
}

impl User {
    /// Whether it can be applied at all.
    ///
    /// # Errors
    /// [`AccountError`]
    pub fn check(&self) -> Result<(), AccountError> {
        check_name(&self.name)?;
        self.uid.map_or(Ok(()), check_id)?;
        self.group
            .as_deref()
            .map_or(Ok(()), |group| if group == "root" { Ok(()) } else { check_name(group) })?;
        self.groups.as_deref().map_or(Ok(()), check_names)?;
        [&self.home, &self.shell].into_iter().flatten().try_for_each(|path| check_path(path))?;
        self.comment.as_deref().map_or(Ok(()), check_comment)?;
        if let Some(hash) = &self.password_hash {
            PasswordHash::new(hash.reveal().to_owned())?;
        }
        self.authorized_keys.as_deref().map_or(Ok(()), check_keys)
    }
}

fn path(value: &Value) -> Result<String, PropertyError> {
    let path = text(value)?;
    match check_path(&path) {
        Ok(()) => Ok(path),
        Err(error) => Err(PropertyError::new(format!("'{}': {error}", cut(&path)))),
    }
}

fn comment(value: &Value) -> Result<String, PropertyError> {
    let comment = text(value)?;
    check_comment(&comment).map(|()| comment).map_err(wrong)
}

/// Parses a hash. Errors do not quote the value, which may be the password.
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
        for bad in ["", " ", "a\nb", &"a".repeat(64 * 1024)] {
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
