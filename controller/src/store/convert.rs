//! Contents in sealed pieces, and a change of the data key. One transaction seals every sealed
//! value again, so a crash leaves either all or none.
//!
//! The former values stay in free pages and in the log until [`scrub`]. `meta.scrub` says that a
//! scrub is due, also to the next start.

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::StoreError;
use super::key::{DataKey, KeyFile, KeyId};
use super::sealed::{
    BYTES, Column, PIECE, SealedText, TEXTS, change, content_place, open, open_text, piece_place,
};
use super::sqlite::{Sqlite, int};

/// The key with which the database is sealed, as it records.
pub(super) fn sealed_with(db: &Connection) -> Result<Option<KeyId>, StoreError> {
    let found: Option<String> =
        db.query_row("SELECT value FROM meta WHERE key = 'key'", [], |row| row.get(0)).optional()?;
    let Some(text) = found else { return Ok(None) };
    let id = text.parse().map_err(|()| StoreError::Format("meta.key is damaged".into()))?;
    Ok(Some(id))
}

/// Records which key the database is sealed with.
pub(super) fn note_key(db: &Transaction<'_>, key: &DataKey) -> Result<(), StoreError> {
    db.execute("INSERT OR REPLACE INTO meta VALUES ('key', ?1)", [key.id().to_string()])?;
    Ok(())
}

/// A value that is now sealed was in clear before: the next start rewrites the database without it.
pub(super) fn note_scrub(db: &Transaction<'_>) -> Result<(), StoreError> {
    db.prepare_cached("INSERT OR REPLACE INTO meta VALUES ('scrub', '1')")?.execute([])?;
    Ok(())
}

fn sealed_text(key: &DataKey, column: Column, row: &[i64], text: &str) -> Result<Value, StoreError> {
    Ok(match SealedText::new(key, column, row, text)? {
        SealedText::Plain(text) => Value::Text(text.to_owned()),
        SealedText::Sealed(bytes) => Value::Blob(bytes),
    })
}

fn wrong(column: Column, row: &[i64], why: &str) -> StoreError {
    StoreError::Format(format!("{}.{} of row {row:?} cannot be sealed: {why}", column.table, column.name))
}

/// Writes a content in sealed pieces.
pub(super) fn put_content(
    db: &Connection,
    key: &DataKey,
    digest: &[u8; 32],
    bytes: &[u8],
) -> Result<(), StoreError> {
    let name = key.name(digest);
    remove_content(db, key, digest)?;
    db.prepare_cached("INSERT INTO contents VALUES (?1, ?2)")?
        .execute(params![name, key.seal(&content_place(&name), digest)?])?;
    let mut insert = db.prepare_cached("INSERT INTO content_pieces VALUES (?1, ?2, ?3)")?;
    for (number, piece) in (0u64..).zip(bytes.chunks(PIECE)) {
        insert.execute(params![name, int(number), key.seal(&piece_place(&name, number), piece)?])?;
    }
    Ok(())
}

pub(super) fn remove_content(db: &Connection, key: &DataKey, digest: &[u8; 32]) -> Result<(), StoreError> {
    let name = key.name(digest);
    db.prepare_cached("DELETE FROM contents WHERE name = ?1")?.execute([name])?;
    db.prepare_cached("DELETE FROM content_pieces WHERE name = ?1")?.execute([name])?;
    Ok(())
}

/// A part of a content: from `offset` to the end of its piece, at most `length` bytes. An agent asks for the
/// rest next.
pub(super) fn read_content(
    db: &Connection,
    key: &DataKey,
    digest: &[u8; 32],
    offset: u64,
    length: usize,
) -> Result<Option<Vec<u8>>, StoreError> {
    let name = key.name(digest);
    let number = offset / PIECE as u64;
    let within = usize::try_from(offset % PIECE as u64).unwrap_or(usize::MAX);
    let mut select = db.prepare_cached("SELECT bytes FROM content_pieces WHERE name = ?1 AND number = ?2")?;
    let piece: Option<Vec<u8>> = select.query_row(params![name, int(number)], |row| row.get(0)).optional()?;
    let Some(piece) = piece else {
        let known: bool = db
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM contents WHERE name = ?1)")?
            .query_row([name], |row| row.get(0))?;
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

impl Sqlite {
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
        let old = self.key.clone();
        let db = self.db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        for column in TEXTS {
            change(&db, column, |row, value| {
                let text = open_text(&old, column, row, ValueRef::from(&value))?;
                sealed_text(new, column, row, &text)
            })?;
        }
        for column in BYTES {
            change(&db, column, |row, value| {
                let Value::Blob(sealed) = value else { return Err(wrong(column, row, "it is no blob")) };
                let plain = open(&old, column, row, &sealed)?;
                Ok(Value::Blob(new.seal(&column.place(row), &plain)?))
            })?;
        }
        let mut select = db.prepare("SELECT name, digest FROM contents")?;
        let names: Vec<([u8; 32], Vec<u8>)> =
            select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
        drop(select);
        for (name, sealed) in names {
            reseal_content(&db, &old, new, &name, &sealed)?;
        }
        note_key(&db, new)?;
        note_scrub(&db)?;
        db.commit()?;
        Ok(())
    }

    /// Rewrites the database without deleted and overwritten values, if a scrub is due.
    ///
    /// # Errors
    /// [`StoreError`]: the next start tries again.
    pub(super) fn scrub(&mut self) -> Result<(), StoreError> {
        let due: bool =
            self.db
                .query_row("SELECT EXISTS (SELECT 1 FROM meta WHERE key = 'scrub')", [], |row| row.get(0))?;
        if !due {
            return Ok(());
        }
        // First the log, since it holds values that must vanish.
        self.db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); VACUUM; PRAGMA wal_checkpoint(TRUNCATE);")?;
        self.db.execute("DELETE FROM meta WHERE key = 'scrub'", [])?;
        Ok(())
    }
}

fn reseal_content(
    db: &Transaction<'_>,
    old: &DataKey,
    new: &DataKey,
    name: &[u8; 32],
    sealed: &[u8],
) -> Result<(), StoreError> {
    let digest = digest_of(old, name, sealed)?;
    let fresh = new.name(&digest);
    db.execute(
        "UPDATE contents SET name = ?2, digest = ?3 WHERE name = ?1",
        params![name, fresh, new.seal(&content_place(&fresh), &digest)?],
    )?;
    let mut select = db.prepare_cached("SELECT bytes FROM content_pieces WHERE name = ?1 AND number = ?2")?;
    let mut update =
        db.prepare_cached("UPDATE content_pieces SET name = ?3, bytes = ?4 WHERE name = ?1 AND number = ?2")?;
    for number in 0u64.. {
        let piece: Option<Vec<u8>> =
            select.query_row(params![name, int(number)], |row| row.get(0)).optional()?;
        let Some(piece) = piece else { break };
        let plain = old
            .open(&piece_place(name, number), &piece)
            .map_err(|_| StoreError::Format(format!("piece {number} of a content is damaged")))?;
        update.execute(params![name, int(number), fresh, new.seal(&piece_place(&fresh, number), &plain)?])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
