//! Contents in sealed pieces, and a change of the data key. One transaction seals every sealed
//! value again, so a crash leaves either all or none.
//!
//! The former values stay in free pages and in the log until [`scrub`]. `meta.scrub` says that a
//! scrub is due, also to the next start.
//!
//! Absent: the key's file (`key.rs`), and which columns are sealed (`sealed.rs`).

use super::database::int;
use super::key::{DataKey, KeyFile, KeyId};
use super::sealed::{
    BYTES, Column, PIECE, SealedText, TEXTS, change, content_place, open, open_text, piece_place,
};
use super::sql::{Db, Value, values};
use super::{Database, StoreError, meta};

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

/// Reads a piece of a content.
const PIECE_OF: &str = "SELECT bytes FROM content_pieces WHERE name = ?1 AND number = ?2";

fn wrong(column: Column, row: &[i64], why: &str) -> StoreError {
    StoreError::Format(format!("{}.{} of row {row:?} cannot be sealed: {why}", column.table, column.name))
}

/// Writes a content in sealed pieces.
pub(super) fn put_content(db: &Db, key: &DataKey, digest: &[u8; 32], bytes: &[u8]) -> Result<(), StoreError> {
    let name = key.name(digest);
    remove_content(db, key, digest)?;
    db.execute(
        "INSERT INTO contents VALUES (?1, ?2)",
        values![name, key.seal(&content_place(&name), digest)?],
    )?;
    let mut insert = db.prepare("INSERT INTO content_pieces VALUES (?1, ?2, ?3)")?;
    for (number, piece) in (0u64..).zip(bytes.chunks(PIECE)) {
        insert.execute(values![name, int(number), key.seal(&piece_place(&name, number), piece)?])?;
    }
    Ok(())
}

pub(super) fn remove_content(db: &Db, key: &DataKey, digest: &[u8; 32]) -> Result<(), StoreError> {
    let name = key.name(digest);
    db.execute("DELETE FROM contents WHERE name = ?1", values![name])?;
    db.execute("DELETE FROM content_pieces WHERE name = ?1", values![name])
}

/// A part of a content: from `offset` to the end of its piece, at most `length` bytes. An agent asks for the
/// rest next.
pub(super) fn read_content(
    db: &Db,
    key: &DataKey,
    digest: &[u8; 32],
    offset: u64,
    length: usize,
) -> Result<Option<Vec<u8>>, StoreError> {
    let name = key.name(digest);
    let number = offset / PIECE as u64;
    let within = usize::try_from(offset % PIECE as u64).unwrap_or(usize::MAX);
    let piece: Option<Vec<u8>> = db.first(PIECE_OF, values![name, int(number)], |row| row.get(0))?;
    let Some(piece) = piece else {
        let known: bool =
            db.only("SELECT EXISTS (SELECT 1 FROM contents WHERE name = ?1)", values![name], |row| {
                row.get(0)
            })?;
        return Ok(known.then(Vec::new));
    };
    let mut bytes = key
        .open(&piece_place(&name, number), &piece)
        .map_err(|_| StoreError::Format(format!("piece {number} of a content is damaged")))?;
    bytes.drain(..within.min(bytes.len()));
    bytes.truncate(length);
    Ok(Some(bytes))
}

/// The digest of a content as it is named in jobs.
pub(super) fn digest_of(key: &DataKey, name: &[u8; 32], sealed: &[u8]) -> Result<[u8; 32], StoreError> {
    let damaged = || StoreError::Format("the digest of a content is damaged".into());
    let digest = key.open(&content_place(name), sealed).map_err(|_| damaged())?;
    digest.try_into().map_err(|_| damaged())
}

impl Database {
    /// Seals everything with a new key, which replaces the old one. After a crash or an error, the next start
    /// continues with the key that the database then has: both keys are kept until that is known.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn rekey(&mut self, file: &KeyFile) -> Result<KeyId, StoreError> {
        let new = DataKey::random()?;
        file.prepare(&new)?;
        // After a failure both keys stay: a commit that the disk reported as failed may still be found there
        // later.
        self.seal_anew(&new)?;
        file.use_next()?;
        self.key = new;
        self.scrub()?;
        Ok(self.key.id())
    }

    pub(super) fn seal_anew(&mut self, new: &DataKey) -> Result<(), StoreError> {
        let (db, old) = (&self.db, &self.key);
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

fn reseal_content(
    db: &Db,
    old: &DataKey,
    new: &DataKey,
    name: &[u8; 32],
    sealed: &[u8],
) -> Result<(), StoreError> {
    let digest = digest_of(old, name, sealed)?;
    let fresh = new.name(&digest);
    db.execute(
        "UPDATE contents SET name = ?2, digest = ?3 WHERE name = ?1",
        values![name, fresh, new.seal(&content_place(&fresh), &digest)?],
    )?;
    let mut update =
        db.prepare("UPDATE content_pieces SET name = ?3, bytes = ?4 WHERE name = ?1 AND number = ?2")?;
    for number in 0u64.. {
        let piece: Option<Vec<u8>> = db.first(PIECE_OF, values![name, int(number)], |row| row.get(0))?;
        let Some(piece) = piece else { break };
        let plain = old
            .open(&piece_place(name, number), &piece)
            .map_err(|_| StoreError::Format(format!("piece {number} of a content is damaged")))?;
        update.execute(values![name, int(number), fresh, new.seal(&piece_place(&fresh, number), &plain)?])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
