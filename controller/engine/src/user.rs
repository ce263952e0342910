//! Users of the site: who may ask for what over the network. Decides which tokens count, and that each user has one.
//!
//! Absent: which request needs which role (`controller/api/src/route.rs`), and for how long a token is valid
//! (`controller/src/api/user.rs`).

pub(crate) mod scope;

use std::collections::BTreeMap;

use muster_api::user::{KnownBy, NodeLabel, Role, Scope, UserRow};

use crate::graph::Graph;
use crate::node::requests::check_label;
use crate::record::{Change, Proof, UserRecord};
use crate::request::{Answer, NewLogin, Refusal};
use crate::view::View;

/// The most users of a site.
const USERS_MAX: usize = 10_000;
/// The most characters of a user's name.
const NAME_MAX: usize = 64;
/// Names in the audit of those who are no users: the superuser on the controller's machine, and strangers.
const RESERVED: [&str; 2] = ["root", "unknown"];
/// The most logins of a user at a time: with a further one, the oldest ends.
const LOGINS_MAX: usize = 8;
/// The most characters of a pattern of stacks' names.
const PATTERN_MAX: usize = 255;

fn is_pattern(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '*');
    (1..=PATTERN_MAX).contains(&text.len()) && text.chars().all(fits)
}

#[derive(Debug, Default)]
pub(crate) struct Users {
    by_name: BTreeMap<String, UserRecord>,
}

impl Users {
    pub fn load(&mut self, record: UserRecord) {
        self.by_name.insert(record.name.clone(), record);
    }

    /// Whether a user can have this name, however the user is known.
    fn check_name(name: &str) -> Result<(), Refusal> {
        let fits =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.' | '@');
        if !(1..=NAME_MAX).contains(&name.len()) || !name.chars().all(fits) {
            let shown: String = name.chars().take(NAME_MAX).flat_map(char::escape_default).collect();
            return Err(Refusal::Invalid(format!(
                "'{shown}' is no name of a user: want 1 to {NAME_MAX} lower-case letters, digits, '-', '_', '.' and '@'"
            )));
        }
        if RESERVED.contains(&name) {
            return Err(Refusal::Conflict(format!(
                "'{name}' is the name of somebody else in the audit: give the user another name"
            )));
        }
        Ok(())
    }

    fn check_scope(role: Role, scope: &Scope) -> Result<(), Refusal> {
        if role == Role::Admin && !scope.is_whole() {
            return Err(Refusal::Invalid(
                "an admin has all of the site: leave out --scope and --stacks".into(),
            ));
        }
        if let Some(NodeLabel { key, value }) = &scope.label {
            check_label(key, value)?;
        }
        if scope.stacks.as_ref().is_some_and(|pattern| !is_pattern(pattern)) {
            return Err(Refusal::Invalid(format!(
                "--stacks wants a name of a stack of at most {PATTERN_MAX} characters, in which '*' stands for any characters"
            )));
        }
        Ok(())
    }

    fn check_room(&self) -> Result<(), Refusal> {
        if self.by_name.len() < USERS_MAX {
            return Ok(());
        }
        Err(Refusal::Conflict(format!("there are {USERS_MAX} users: revoke some")))
    }

    /// Whether such a user can be made.
    fn check(&self, user: &UserRecord, wall: u64) -> Result<(), Refusal> {
        let name = &user.name;
        Self::check_name(name)?;
        Self::check_scope(user.role, &user.scope)?;
        match self.by_name.get(name) {
            Some(there) if wall <= there.expires => Err(Refusal::Conflict(format!(
                "there is a user '{name}' already: revoke it first (muster user revoke {name})"
            ))),
            None => self.check_room(),
            Some(_) => Ok(()),
        }
    }

    /// The user after a login, which other logins of the same person outlive. A user that an admin made stays.
    fn after(&self, new: NewLogin, wall: u64) -> Result<UserRecord, Refusal> {
        let NewLogin { name, role, scope, subject, login } = new;
        Self::check_name(&name)?;
        Self::check_scope(role, &scope)?;
        let mut logins = match self.by_name.get(&name).map(|there| (&there.proof, there.expires)) {
            None => {
                self.check_room()?;
                Vec::new()
            }
            Some((Proof::Token(_) | Proof::Certificate, _)) => {
                return Err(Refusal::Conflict(format!(
                    "an admin made a user '{name}' with a token or a certificate: log in with that, or have it revoked first \
                     (muster user revoke {name})"
                )));
            }
            Some((Proof::Oidc { subject: other, logins }, _)) if *other == subject => logins.clone(),
            Some((Proof::Oidc { .. }, expires)) if wall <= expires => {
                return Err(Refusal::Conflict(format!(
                    "somebody else of the identity provider is logged in as '{name}': an admin can revoke that \
                     (muster user revoke {name})"
                )));
            }
            Some((Proof::Oidc { .. }, _)) => Vec::new(),
        };
        logins.retain(|login| wall <= login.expires);
        let too_many = (logins.len() + 1).saturating_sub(LOGINS_MAX);
        logins.drain(..too_many);
        logins.push(login);
        let expires = logins.iter().map(|login| login.expires).max().unwrap_or(wall);
        let proof = Proof::Oidc { subject, logins };
        Ok(UserRecord { name, role, scope, proof, expires })
    }

    /// The role and the scope of whoever has shown this.
    fn role(&self, name: &str, shown: &Shown, wall: u64) -> Result<(Role, &Scope), &'static str> {
        let found = self.by_name.get(name).and_then(|user| Some((user, user.until(shown)?)));
        match (found, shown) {
            (Some((user, until)), _) if wall <= until => Ok((user.role, &user.scope)),
            (Some((UserRecord { proof: Proof::Oidc { .. }, .. }, _)), _) => {
                Err("the login has ended: log in again (muster login URL --oidc)")
            }
            (Some(_), Shown::Token(_)) => Err("the token has expired: ask an admin for a new one"),
            (None, Shown::Token(_)) => Err("the token is unknown or revoked: ask an admin for a new one"),
            (Some(_), Shown::Certificate) => Err(
                "the user has expired: ask an admin to make the user again (muster user create --certificate)",
            ),
            (None, Shown::Certificate) => Err(
                "no name in the certificate is a user's: ask an admin (muster user create NAME --certificate)",
            ),
        }
    }
}

/// The credential that came with a request over the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A token; this is the hash of its secret.
    Token([u8; 32]),
    /// A certificate with the user's name.
    Certificate,
}

impl UserRecord {
    /// For how long this counts for the user, in seconds since 1970; `None`, if it never did.
    fn until(&self, shown: &Shown) -> Option<u64> {
        match (&self.proof, shown) {
            (Proof::Token(hash), Shown::Token(other)) => (hash == other).then_some(self.expires),
            (Proof::Certificate, Shown::Certificate) => Some(self.expires),
            (Proof::Oidc { logins, .. }, Shown::Token(hash)) => {
                logins.iter().find(|login| login.secret_hash == *hash).map(|login| login.expires)
            }
            (Proof::Token(_) | Proof::Oidc { .. }, Shown::Certificate)
            | (Proof::Certificate, Shown::Token(_)) => None,
        }
    }
}

impl Graph {
    /// `wall` is the controller's clock, in seconds since 1970.
    pub(crate) fn new_user(&mut self, user: UserRecord, wall: u64) -> Result<Answer, Refusal> {
        self.users.check(&user, wall)?;
        self.users.load(user.clone());
        self.ctx.change(Change::User(Box::new(user)));
        Ok(Answer::Done)
    }

    /// `wall` is the controller's clock, in seconds since 1970.
    pub(crate) fn log_in(&mut self, login: NewLogin, wall: u64) -> Result<Answer, Refusal> {
        let user = self.users.after(login, wall)?;
        self.users.load(user.clone());
        self.ctx.change(Change::User(Box::new(user)));
        Ok(Answer::Done)
    }

    pub(crate) fn revoke_user(&mut self, name: String) -> Result<Answer, Refusal> {
        if self.users.by_name.remove(&name).is_none() {
            let shown: String = name.chars().take(NAME_MAX).flat_map(char::escape_default).collect();
            return Err(Refusal::NotFound(format!("no user '{shown}': see 'muster user list'")));
        }
        self.ctx.change(Change::UserRemoved(name));
        Ok(Answer::Done)
    }
}

impl View<'_> {
    /// Returns the users, by name. `expires` is for whoever keeps the calendar: seconds since 1970 with each.
    pub fn users(&self) -> Vec<(UserRow, u64)> {
        let row = |user: &UserRecord| {
            let UserRecord { name, role, scope, proof, expires } = user.clone();
            let Scope { label, stacks } = scope;
            let by = match proof {
                Proof::Token(_) => KnownBy::Token,
                Proof::Certificate => KnownBy::Certificate,
                Proof::Oidc { .. } => KnownBy::Oidc,
            };
            (UserRow { name, role, expires: String::new(), scope: label, stacks, by }, expires)
        };
        self.graph.users.by_name.values().map(row).collect()
    }

    /// Returns the role and the scope of a user who has shown this; `wall` in seconds since 1970.
    ///
    /// # Errors
    /// The credential does not count, for this reason.
    pub fn user_role(&self, name: &str, shown: &Shown, wall: u64) -> Result<(Role, Scope), &'static str> {
        self.graph.users.role(name, shown, wall).map(|(role, scope)| (role, scope.clone()))
    }

    /// The first of these names that a user has who is known by a certificate.
    pub fn user_of_certificate<'n>(&self, names: &'n [String]) -> Option<&'n String> {
        let users = &self.graph.users.by_name;
        names.iter().find(|name| users.get(*name).is_some_and(|user| user.proof == Proof::Certificate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::LoginRecord;

    fn user(name: &str, secret: u8, expires: u64) -> UserRecord {
        UserRecord {
            name: name.to_owned(),
            role: Role::Operator,
            scope: Scope::default(),
            proof: Proof::Token([secret; 32]),
            expires,
        }
    }

    #[test]
    fn a_token_counts_for_its_user_until_it_expires() {
        let mut users = Users::default();
        users.load(user("anna", 1, 100));
        for (name, secret, wall, role) in [
            ("anna", 1, 100, Some(Role::Operator)),
            ("anna", 1, 101, None),
            ("anna", 2, 100, None),
            ("ben", 1, 100, None),
            ("", 1, 100, None),
        ] {
            assert_eq!(
                users.role(name, &Shown::Token([secret; 32]), wall).ok().map(|(role, _)| role),
                role,
                "{name} {secret} {wall}"
            );
        }
    }

    #[test]
    fn a_certificate_counts_for_its_user_alone() {
        let mut users = Users::default();
        users.load(user("anna", 1, 100));
        users.load(UserRecord { proof: Proof::Certificate, ..user("ben", 1, 100) });
        for (name, shown, wall, counts) in [
            ("ben", Shown::Certificate, 100, true),
            ("ben", Shown::Certificate, 101, false),
            ("ben", Shown::Token([1; 32]), 100, false),
            ("anna", Shown::Certificate, 100, false),
            ("eve", Shown::Certificate, 100, false),
        ] {
            assert_eq!(users.role(name, &shown, wall).is_ok(), counts, "{name} {shown:?} {wall}");
        }
    }

    /// A login with this secret.
    fn login(name: &str, subject: &str, secret: u8, expires: u64) -> NewLogin {
        let login = LoginRecord { secret_hash: [secret; 32], expires };
        let (name, role, subject) = (name.to_owned(), Role::Viewer, subject.to_owned());
        NewLogin { name, role, scope: Scope::default(), subject, login }
    }

    #[test]
    fn each_login_counts_until_it_ends() {
        let mut users = Users::default();
        for secret in 1..=3 {
            let expires = 100 * u64::from(secret);
            users.load(users.after(login("anna", "1", secret, expires), 50).unwrap());
        }
        let counts =
            |users: &Users, secret, wall| users.role("anna", &Shown::Token([secret; 32]), wall).is_ok();
        assert!(counts(&users, 1, 100) && !counts(&users, 1, 101) && counts(&users, 3, 300));
        assert!(!counts(&users, 3, 301) && !counts(&users, 4, 100));
        assert_eq!(users.by_name["anna"].expires, 300);
        for secret in 4..=20 {
            users.load(users.after(login("anna", "1", secret, 1000), 500).unwrap());
        }
        let kept: Vec<u8> = (1..=20).filter(|secret| counts(&users, *secret, 500)).collect();
        assert_eq!(kept, (13..=20).collect::<Vec<u8>>(), "the oldest have ended");
    }

    #[test]
    fn a_login_takes_nobody_elses_name() {
        let mut users = Users::default();
        users.load(user("anna", 1, 100));
        users.load(UserRecord { proof: Proof::Certificate, ..user("ci", 1, 100) });
        users.load(users.after(login("ben", "1", 2, 200), 50).unwrap());
        for (name, subject, wall, is_taken) in [
            ("anna", "7", 50, true),
            ("anna", "7", 101, true),
            ("ci", "7", 101, true),
            ("ben", "2", 200, true),
            ("ben", "2", 201, false),
            ("ben", "1", 50, false),
            ("eve", "7", 50, false),
            ("root", "7", 50, true),
            ("unknown", "7", 50, true),
        ] {
            let after = users.after(login(name, subject, 3, 300), wall);
            assert_eq!(matches!(after, Err(Refusal::Conflict(_))), is_taken, "{name} {subject} {wall}");
        }
        assert!(matches!(users.after(login("A b", "1", 1, 1), 0), Err(Refusal::Invalid(_))));
    }

    #[test]
    fn a_name_is_taken_until_its_token_has_expired() {
        let mut users = Users::default();
        users.load(user("anna", 1, 100));
        assert!(matches!(users.check(&user("anna", 2, 200), 100), Err(Refusal::Conflict(_))));
        assert!(users.check(&user("anna", 2, 200), 101).is_ok());
        for name in RESERVED {
            let said = users.check(&user(name, 1, 1), 0).unwrap_err().to_string();
            assert_eq!(
                said,
                format!("'{name}' is the name of somebody else in the audit: give the user another name")
            );
        }
        for name in ["", "Anna", "a b", "a\n", "é", &"a".repeat(65)] {
            assert!(matches!(users.check(&user(name, 1, 1), 0), Err(Refusal::Invalid(_))), "{name:?}");
        }
        assert!(users.check(&user("anna.b-c_d@example.org", 1, 1), 0).is_ok());
    }
}
