//! Large texts of revisions: kept compressed, so that a hundred revisions of a large stack do not fill the disk and
//! writing one does not hold a turn up. What people read with sqlite3 stays text.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Value, ValueRef};

/// From here on a text is a blob: LZ4's block format behind its size in four bytes, least first.
const PACKED_FROM: usize = 256 * 1024;
/// What a blob may unfold to, which the API never lets in: a damaged size must not ask for all memory.
const UNPACKED_MAX: usize = 1 << 30;

/// A text on its way into the database.
pub(super) struct Packed<'t>(pub &'t str);

impl ToSql for Packed<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        if self.0.len() < PACKED_FROM {
            return self.0.to_sql();
        }
        Ok(ToSqlOutput::Owned(Value::Blob(lz4_flex::block::compress_prepend_size(self.0.as_bytes()))))
    }
}

/// A text that comes from there.
pub(super) struct Unpacked(pub String);

impl FromSql for Unpacked {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let ValueRef::Blob(packed) = value else { return String::column_result(value).map(Self) };
        let size = packed.first_chunk().map(|size| u32::from_le_bytes(*size) as usize);
        if size.is_none_or(|size| size > UNPACKED_MAX) {
            return Err(FromSqlError::other(std::io::Error::other("a text of an impossible size")));
        }
        let bytes = lz4_flex::block::decompress_size_prepended(packed).map_err(FromSqlError::other)?;
        String::from_utf8(bytes).map(Self).map_err(FromSqlError::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_and_small_texts_come_back_and_damage_is_an_error() {
        let db = rusqlite::Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE t (text TEXT)").unwrap();
        let read = || db.query_row("SELECT text FROM t", [], |row| row.get::<_, Unpacked>(0)).map(|t| t.0);
        for (length, kind) in
            [(0, "text"), (PACKED_FROM - 1, "text"), (PACKED_FROM, "blob"), (9_000_000, "blob")]
        {
            let text: String = ('a'..='z').cycle().take(length).collect();
            db.execute("DELETE FROM t", []).unwrap();
            db.execute("INSERT INTO t VALUES (?1)", [Packed(&text)]).unwrap();
            let stored: String = db.query_row("SELECT typeof(text) FROM t", [], |row| row.get(0)).unwrap();
            assert_eq!((stored.as_str(), read().unwrap() == text), (kind, true), "{length}");
        }
        for damaged in [&[][..], &[1, 2], &[255; 9], &[9, 0, 0, 0, 1, 2]] {
            db.execute("UPDATE t SET text = ?1", [damaged]).unwrap();
            assert!(read().is_err(), "{damaged:?}");
        }
    }
}
