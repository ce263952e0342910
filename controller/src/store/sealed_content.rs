//! Contents of files, in sealed pieces: neither a name nor a byte of one is in clear on the disk.
//!
//! Absent: the seal itself (`key.rs`), and a change of the data key (`rekey.rs`).

use super::StoreError;
use super::database::int;
use super::key::DataKey;
use super::sealed::{PIECE, content_place, piece_place};
use super::sql::{Db, values};

/// Reads a piece of a content.
const PIECE_OF: &str = "SELECT bytes FROM content_pieces WHERE name = ?1 AND number = ?2";

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

/// Seals a content with a new key.
pub(super) fn reseal_content(
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
