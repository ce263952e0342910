//! Table `users`.
//!
//! Absent: which tokens count (`controller/engine/src/user.rs`).

use muster_api::user::Role;
use muster_engine::record::UserRecord;

use super::StoreError;
use super::database::int;
use super::sql::{Damage, Db, upsert, values};

pub(super) fn put(db: &Db, user: &UserRecord) -> Result<(), StoreError> {
    let UserRecord { name, role, secret_hash, expires } = user;
    db.execute(
        upsert!("users", ["name"], ["role", "secret_hash", "expires"]),
        values![name, role.as_str(), *secret_hash, int(*expires)],
    )
}

pub(super) fn remove(db: &Db, name: &str) -> Result<(), StoreError> {
    db.execute("DELETE FROM users WHERE name = ?1", values![name])
}

pub(super) fn load(db: &Db) -> Result<Vec<UserRecord>, StoreError> {
    db.all("SELECT name, role, secret_hash, expires FROM users ORDER BY name", values![], |row| {
        let role: String = row.get(1)?;
        let known = Role::NAMES.into_iter().find(|(name, _)| *name == role);
        let (_, role) = known.ok_or_else(|| Damage::of_column("role", format!("'{role}' is no role")))?;
        Ok(UserRecord { name: row.get(0)?, role, secret_hash: row.get(2)?, expires: row.get(3)? })
    })
}
