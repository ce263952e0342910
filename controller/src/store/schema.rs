//! The database's versions: from one to the next, all or nothing.

use super::StoreError;
use super::convert::note_key;
use super::database::int;
use super::key::DataKey;
use super::sql::Db;

/// The first schema makes the database, and each further one upgrades it. `user_version` counts the applied
/// schemas. A released schema never changes: later changes are a further file.
pub(super) const SCHEMAS: [&str; 1] = [include_str!("schema.sql")];

/// The number of applied schemas.
pub(super) fn version(db: &Db) -> Result<usize, StoreError> {
    let version: i64 = match db {
        Db::Sqlite(db) => db.pragma_query_value(None, "user_version", |row| row.get(0))?,
    };
    let newest = SCHEMAS.len();
    usize::try_from(version).ok().filter(|version| *version <= newest).ok_or_else(|| {
        StoreError::Format(format!(
            "the database is of version {version}, this controller knows {newest}: upgrade the controller"
        ))
    })
}

/// Applies the schemas that a database of this version lacks, all of them or none.
pub(super) fn migrate(db: &Db, key: &DataKey, schemas: &[&str], version: usize) -> Result<(), StoreError> {
    if version == schemas.len() {
        return Ok(());
    }
    db.transaction(|| {
        for schema in schemas.iter().skip(version) {
            db.batch(schema)?;
        }
        if version == 0 {
            note_key(db, key)?;
        }
        match db {
            Db::Sqlite(db) => db.pragma_update(None, "user_version", int(schemas.len() as u64))?,
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests;
