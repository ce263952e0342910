//! The table `meta`: what the database knows of itself, by key.

use super::StoreError;
use super::sql::{Db, upsert, values};

/// The text under this key.
pub(super) fn text(db: &Db, key: &str) -> Result<Option<String>, StoreError> {
    db.first("SELECT value FROM meta WHERE key = ?1", values![key], |row| row.get(0))
}

/// The number under this key.
pub(super) fn number(db: &Db, key: &str) -> Result<Option<u64>, StoreError> {
    db.first("SELECT CAST(value AS BIGINT) FROM meta WHERE key = ?1", values![key], |row| row.get(0))
}

pub(super) fn put(db: &Db, key: &str, value: &str) -> Result<(), StoreError> {
    db.execute(upsert!("meta", ["key"], ["value"]), values![key, value])
}

pub(super) fn remove(db: &Db, key: &str) -> Result<(), StoreError> {
    db.execute("DELETE FROM meta WHERE key = ?1", values![key])
}

/// Makes the number at least this one. Ids are never reused, even if the highest row is gone.
pub(super) fn raise(db: &Db, key: &str, value: i64) -> Result<(), StoreError> {
    db.execute(
        "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value
             WHERE CAST(meta.value AS BIGINT) < CAST(excluded.value AS BIGINT)",
        values![key, value],
    )
}

/// Makes the number higher by one, and returns it.
pub(super) fn count(db: &Db, key: &str) -> Result<u64, StoreError> {
    db.only(
        "UPDATE meta SET value = CAST(CAST(value AS BIGINT) + 1 AS TEXT) WHERE key = ?1
             RETURNING CAST(value AS BIGINT)",
        values![key],
        |row| row.get(0),
    )
}
