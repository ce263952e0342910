//! Table `users`.
//!
//! Absent: which tokens count (`controller/engine/src/user.rs`).

use data_encoding::HEXLOWER;
use muster_api::user::{Role, Scope};
use muster_engine::record::{LoginRecord, Proof, UserRecord};

use super::StoreError;
use super::database::int;
use super::load::label;
use super::sql::{Damage, Db, upsert, values};

pub(super) fn put(db: &Db, user: &UserRecord) -> Result<(), StoreError> {
    let UserRecord { name, role, scope: Scope { label, stacks }, proof, expires } = user;
    let (secret_hash, subject, logins) = match proof {
        Proof::Token(hash) => (Some(*hash), None, None),
        Proof::Certificate => (None, None, None),
        Proof::Oidc { subject, logins } => (None, Some(subject.clone()), Some(text_of(logins))),
    };
    db.execute(
        upsert!(
            "users",
            ["name"],
            ["role", "secret_hash", "expires", "scope", "stacks", "subject", "logins"]
        ),
        values![
            name,
            role.as_str(),
            secret_hash,
            int(*expires),
            label.as_ref().map(ToString::to_string),
            stacks.clone(),
            subject,
            logins
        ],
    )
}

pub(super) fn remove(db: &Db, name: &str) -> Result<(), StoreError> {
    db.execute("DELETE FROM users WHERE name = ?1", values![name])
}

pub(super) fn load(db: &Db) -> Result<Vec<UserRecord>, StoreError> {
    db.all(
        "SELECT name, role, secret_hash, expires, scope, stacks, subject, logins FROM users ORDER BY name",
        values![],
        |row| {
            let role: String = row.get(1)?;
            let role: Role = role.parse().map_err(|error| Damage::of_column("role", error))?;
            let text: Option<String> = row.get(4)?;
            let scope = Scope { label: text.map(|text| label(&text)).transpose()?, stacks: row.get(5)? };
            let proof = match (row.get::<Option<[u8; 32]>>(2)?, row.get::<Option<String>>(6)?) {
                (Some(hash), _) => Proof::Token(hash),
                (None, None) => Proof::Certificate,
                (None, Some(subject)) => Proof::Oidc { subject, logins: logins(row.get(7)?)? },
            };
            Ok(UserRecord { name: row.get(0)?, role, scope, proof, expires: row.get(3)? })
        },
    )
}

/// `HASH:EXPIRES` of each login.
fn text_of(logins: &[LoginRecord]) -> String {
    let login = |login: &LoginRecord| format!("{}:{}", HEXLOWER.encode(&login.secret_hash), login.expires);
    logins.iter().map(login).collect::<Vec<_>>().join(" ")
}

fn logins(text: Option<String>) -> Result<Vec<LoginRecord>, Damage> {
    let login = |text: &str| {
        let (hash, expires) = text.split_once(':')?;
        let secret_hash = HEXLOWER.decode(hash.as_bytes()).ok()?.try_into().ok()?;
        Some(LoginRecord { secret_hash, expires: expires.parse().ok()? })
    };
    let found: Option<Vec<LoginRecord>> = text.unwrap_or_default().split_whitespace().map(login).collect();
    found.ok_or_else(|| Damage::of_column("logins", "want HASH:EXPIRES of each login"))
}

#[cfg(test)]
mod tests {
    use muster_engine::record::Change;

    use super::*;
    use crate::store::Store as _;
    use crate::store::testing::each;

    #[test]
    fn users_are_there_after_a_start_until_they_are_revoked() {
        let proof = |secret: u8| match secret {
            2 => Proof::Certificate,
            3 => {
                let login = |n: u8| LoginRecord { secret_hash: [n; 32], expires: u64::from(n) };
                Proof::Oidc {
                    subject: "7 of https://id.example.org".to_owned(),
                    logins: vec![login(3), login(4)],
                }
            }
            secret => Proof::Token([secret; 32]),
        };
        each(|place| {
            let user = |name: &str, role, secret| UserRecord {
                name: name.to_owned(),
                role,
                scope: Scope {
                    label: (secret > 1).then(|| "rack=r1".parse().unwrap()),
                    stacks: (secret > 2).then(|| "web-*".to_owned()),
                },
                proof: proof(secret),
                expires: 7,
            };
            let mut store = place.open();
            let mut commit = |changes: Vec<Change>| store.commit(&mut changes.into_iter(), &[]).unwrap();
            let change = |user: UserRecord| Change::User(Box::new(user));
            commit(vec![
                change(user("anna", Role::Viewer, 1)),
                change(user("ben", Role::Admin, 2)),
                change(user("anna", Role::Operator, 3)),
            ]);
            assert_eq!(
                load(store.db()).unwrap(),
                [user("anna", Role::Operator, 3), user("ben", Role::Admin, 2)]
            );
            let mut commit = |changes: Vec<Change>| store.commit(&mut changes.into_iter(), &[]).unwrap();
            commit(vec![Change::UserRemoved("anna".to_owned())]);
            drop(store);
            assert_eq!(place.load().users, [user("ben", Role::Admin, 2)]);
            place.run("UPDATE users SET role = 'king'");
            let error = place.open().load().err().unwrap().to_string();
            assert!(error.contains("'king' is no role"), "{error}");
        });
    }
}
