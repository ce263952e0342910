//! Table `users`.
//!
//! Absent: which tokens count (`controller/engine/src/user.rs`).

use muster_api::user::{Role, Scope};
use muster_engine::record::{Proof, UserRecord};

use super::StoreError;
use super::database::int;
use super::load::label;
use super::sql::{Damage, Db, upsert, values};

pub(super) fn put(db: &Db, user: &UserRecord) -> Result<(), StoreError> {
    let UserRecord { name, role, scope: Scope { label, stacks }, proof, expires } = user;
    let secret_hash = match proof {
        Proof::Token(hash) => Some(*hash),
        Proof::Certificate => None,
    };
    db.execute(
        upsert!("users", ["name"], ["role", "secret_hash", "expires", "scope", "stacks"]),
        values![
            name,
            role.as_str(),
            secret_hash,
            int(*expires),
            label.as_ref().map(ToString::to_string),
            stacks.clone()
        ],
    )
}

pub(super) fn remove(db: &Db, name: &str) -> Result<(), StoreError> {
    db.execute("DELETE FROM users WHERE name = ?1", values![name])
}

pub(super) fn load(db: &Db) -> Result<Vec<UserRecord>, StoreError> {
    db.all(
        "SELECT name, role, secret_hash, expires, scope, stacks FROM users ORDER BY name",
        values![],
        |row| {
            let role: String = row.get(1)?;
            let role: Role = role.parse().map_err(|error| Damage::of_column("role", error))?;
            let text: Option<String> = row.get(4)?;
            let scope = Scope { label: text.map(|text| label(&text)).transpose()?, stacks: row.get(5)? };
            let proof = row.get::<Option<[u8; 32]>>(2)?.map_or(Proof::Certificate, Proof::Token);
            Ok(UserRecord { name: row.get(0)?, role, scope, proof, expires: row.get(3)? })
        },
    )
}

#[cfg(test)]
mod tests {
    use muster_engine::record::Change;

    use super::*;
    use crate::store::Store as _;
    use crate::store::testing::each;

    #[test]
    fn users_are_there_after_a_start_until_they_are_revoked() {
        each(|place| {
            let user = |name: &str, role, secret| UserRecord {
                name: name.to_owned(),
                role,
                scope: Scope {
                    label: (secret > 1).then(|| "rack=r1".parse().unwrap()),
                    stacks: (secret > 2).then(|| "web-*".to_owned()),
                },
                proof: if secret == 2 { Proof::Certificate } else { Proof::Token([secret; 32]) },
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
