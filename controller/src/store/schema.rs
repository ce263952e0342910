//! The database's versions: from one to the next, all or nothing. Refuses a database that is newer than this
//! controller.
//!
//! Absent: the tables of the lease, which have no version (`lease.rs`).

use super::database::int;
use super::key::DataKey;
use super::rekey::note_key;
use super::sql::{Db, values};
use super::{StoreError, meta};

/// The first schema makes the database, and each further one upgrades it. A count of the applied schemas is in
/// the database: `user_version` of SQLite, `meta.schema` of PostgreSQL. A released schema never changes: later
/// changes are a further file, for both.
pub(super) const SCHEMAS: [Schema; 1] =
    [Schema { sqlite: include_str!("schema.sql"), postgres: include_str!("schema.postgres.sql") }];

/// A schema in the two forms of SQL.
#[derive(Clone, Copy)]
pub(super) struct Schema {
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

/// The number of applied schemas.
pub(super) fn version(db: &Db) -> Result<usize, StoreError> {
    let version: i64 = match db {
        Db::Sqlite(db) => db.pragma_query_value(None, "user_version", |row| row.get(0))?,
        Db::Postgres(_) => match has_table(db, "meta")? {
            true => meta::number(db, "schema")?.and_then(|version| i64::try_from(version).ok()).ok_or_else(
                || {
                    StoreError::Format(
                        "the database has a table 'meta' of another program: name one of its own".into(),
                    )
                },
            )?,
            false => 0,
        },
    };
    let newest = SCHEMAS.len();
    usize::try_from(version).ok().filter(|version| *version <= newest).ok_or_else(|| {
        StoreError::Format(format!(
            "the database is of version {version}, this controller knows {newest}: upgrade the controller"
        ))
    })
}

pub(super) fn has_table(db: &Db, name: &str) -> Result<bool, StoreError> {
    let sql = match db {
        Db::Sqlite(_) => "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1)",
        Db::Postgres(_) => "SELECT to_regclass(?1) IS NOT NULL",
    };
    db.only(sql, values![name], |row| row.get(0))
}

/// Applies the schemas that a database of this version lacks, all of them or none.
pub(super) fn migrate(db: &Db, key: &DataKey, schemas: &[Schema], version: usize) -> Result<(), StoreError> {
    if version == schemas.len() {
        return Ok(());
    }
    db.transaction(|| {
        apply(db, schemas, version)?;
        if version == 0 { note_key(db, key) } else { Ok(()) }
    })
}

/// Makes the tables of an empty database, in a transaction of the caller's.
pub(super) fn make(db: &Db) -> Result<(), StoreError> {
    apply(db, &SCHEMAS, 0)
}

fn apply(db: &Db, schemas: &[Schema], version: usize) -> Result<(), StoreError> {
    for schema in schemas.iter().skip(version) {
        db.batch(match db {
            Db::Sqlite(_) => schema.sqlite,
            Db::Postgres(_) => schema.postgres,
        })?;
    }
    match db {
        Db::Sqlite(db) => db.pragma_update(None, "user_version", int(schemas.len() as u64))?,
        Db::Postgres(_) => meta::put(db, "schema", &schemas.len().to_string())?,
    }
    Ok(())
}

/// The highest id that a row of `resources` ever had.
pub(super) fn highest_row(db: &Db) -> Result<u64, StoreError> {
    match db {
        Db::Sqlite(_) => {
            let sql = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'resources'";
            db.only(sql, values![], |row| row.get(0))
        }
        Db::Postgres(_) => Ok(meta::number(db, "highest_resource")?.unwrap_or(0)),
    }
}

/// Notes the highest id of a row that was written. SQLite does so by itself.
pub(super) fn raise_highest_row(db: &Db, id: u64) -> Result<(), StoreError> {
    match db {
        Db::Sqlite(_) => Ok(()),
        Db::Postgres(_) => meta::raise(db, "highest_resource", int(id)),
    }
}

/// The same in a database whose rows were copied from another one.
pub(super) fn set_highest_row(db: &Db, id: u64) -> Result<(), StoreError> {
    if let Db::Sqlite(_) = db {
        db.execute("DELETE FROM sqlite_sequence WHERE name = 'resources'", values![])?;
        return db.execute("INSERT INTO sqlite_sequence VALUES ('resources', ?1)", values![int(id)]);
    }
    raise_highest_row(db, id)
}

#[cfg(test)]
mod tests;
