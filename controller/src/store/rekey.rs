//! A change of the data key. One transaction seals every sealed value again, so a crash leaves either all or
//! none.
//!
//! The former values stay in free pages and in the log until [`scrub`]. `meta.scrub` says that a
//! scrub is due, also to the next start.
//!
//! Absent: the key's file (`key.rs`), which columns are sealed (`sealed.rs`), and contents (`sealed_content.rs`).

use super::database::now;
use super::key::{DataKey, KeyFile, KeyId};
use super::sealed::{BYTES, Column, SealedText, TEXTS, change, open, open_text};
use super::sealed_content::reseal_content;
use super::sql::{Db, Value, values};
use super::{Database, StoreError, audit, meta};
use crate::audit_of_commands::Runner;

/// The key with which the database is sealed, as it records.
pub(super) fn sealed_with(db: &Db) -> Result<Option<KeyId>, StoreError> {
    let Some(text) = meta::text(db, "key")? else { return Ok(None) };
    let id = text.parse().map_err(|()| StoreError::Format("meta.key is damaged".into()))?;
    Ok(Some(id))
}

/// Records which key the database is sealed with.
pub(super) fn note_key(db: &Db, key: &DataKey) -> Result<(), StoreError> {
    meta::put(db, "key", &key.id().to_string())
}

/// A value that is now sealed was in clear before: the next start rewrites the database without it.
pub(super) fn note_scrub(db: &Db) -> Result<(), StoreError> {
    meta::put(db, "scrub", "1")
}

fn sealed_text(key: &DataKey, column: Column, row: &[i64], text: &str) -> Result<Value<'static>, StoreError> {
    Ok(match SealedText::new(key, column, row, text)? {
        SealedText::Plain(text) => Value::Text(text.to_owned().into()),
        SealedText::Sealed(bytes) => Value::Blob(bytes.into()),
    })
}

fn wrong(column: Column, row: &[i64], why: &str) -> StoreError {
    StoreError::Format(format!("{}.{} of row {row:?} cannot be sealed: {why}", column.table, column.name))
}

impl Database {
    /// Seals everything with a new key, which replaces the old one; the audit says by whom. After a crash or an error, the
    /// next start continues with the key that the database then has: both keys are kept until that is known.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn rekey(&mut self, file: &KeyFile, by: &Runner) -> Result<KeyId, StoreError> {
        let new = DataKey::random()?;
        file.prepare(&new)?;
        // After a failure both keys stay: a commit that the disk reported as failed may still be found there
        // later.
        self.seal_anew(&new, by)?;
        file.use_next()?;
        self.key = new;
        self.scrub()?;
        Ok(self.key.id())
    }

    pub(super) fn seal_anew(&mut self, new: &DataKey, by: &Runner) -> Result<(), StoreError> {
        let (db, old) = (&self.db, &self.key);
        let row = by.did("rekey", "database", format!("key {}, was {}", new.id(), old.id()));
        db.transaction(|| {
            for column in TEXTS {
                change(db, column, |row, value| {
                    let text = open_text(old, column, row, value.borrowed())?;
                    sealed_text(new, column, row, &text)
                })?;
            }
            for column in BYTES {
                change(db, column, |row, value| {
                    let Value::Blob(sealed) = value else { return Err(wrong(column, row, "it is no blob")) };
                    let plain = open(old, column, row, &sealed)?;
                    Ok(Value::Blob(new.seal(&column.place(row), &plain)?.into()))
                })?;
            }
            let names: Vec<([u8; 32], Vec<u8>)> =
                db.all("SELECT name, digest FROM contents", values![], |row| Ok((row.get(0)?, row.get(1)?)))?;
            for (name, sealed) in names {
                reseal_content(db, old, new, &name, &sealed)?;
            }
            super::shared_keys::forget(db)?;
            note_key(db, new)?;
            audit::add(db, &row, &now())?;
            note_scrub(db)
        })
    }

    /// Rewrites the database without deleted and overwritten values, if a scrub is due.
    ///
    /// # Errors
    /// [`StoreError`]: the next start tries again.
    pub(super) fn scrub(&mut self) -> Result<(), StoreError> {
        if meta::text(&self.db, "scrub")?.is_none() {
            return Ok(());
        }
        match &self.db {
            Db::Postgres(link) => link.rewrite()?,
            // First the log, since it holds values that must vanish.
            Db::Sqlite(db) => {
                db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); VACUUM; PRAGMA wal_checkpoint(TRUNCATE);")?
            }
        }
        self.db.transaction(|| meta::remove(&self.db, "scrub"))
    }
}

#[cfg(test)]
mod tests;
