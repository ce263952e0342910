//! The sealed values of the database. Each value is bound to its place: a value moved to another table,
//! column or row cannot be opened. Large texts are compressed first.
//!
//! An empty list or map is not sealed, since it reveals nothing, and reads can skip it.

use rusqlite::types::{ToSql, ToSqlOutput, Type, Value, ValueRef};

use super::StoreError;
use super::key::{DataKey, KeyError};
use super::text::{pack, unpack};

/// The most bytes of a content in one row: as many as an agent requests at a time.
pub(super) const PIECE: usize = muster_shared::wire::CHUNK_MAX;

/// A column with sealed values, and the (integer) columns that identify the row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    pub table: &'static str,
    pub name: &'static str,
    pub row: &'static [&'static str],
}

const fn of_revision(name: &'static str) -> Column {
    Column { table: "revisions", name, row: &["stack_id", "number"] }
}

pub(super) const TEMPLATE: Column = of_revision("template");
pub(super) const FILES: Column = of_revision("files");
pub(super) const PARAMETERS: Column = of_revision("parameters");
pub(super) const ENVIRONMENTS: Column = of_revision("environments");
pub(super) const OUTPUTS: Column = Column { table: "stacks", name: "outputs", row: &["id"] };
pub(super) const HIDDEN_DIGESTS: Column = Column { table: "stacks", name: "hidden_digests", row: &["id"] };
pub(super) const WISH: Column = Column { table: "intents", name: "wish", row: &["number"] };
pub(super) const ATTRIBUTES: Column = Column { table: "resources", name: "attributes", row: &["id"] };
pub(super) const SECRET_NOTES: Column = Column { table: "resources", name: "secret_notes", row: &["id"] };
/// A row's definition digest, then its spec with the version of its encoding, if present; null if there
/// is neither.
pub(super) const SPEC: Column = Column { table: "resources", name: "spec", row: &["id"] };

/// Sealed content of a flow entry with something hidden: the entry and the reason of its state, or
/// a former entry. Null for all others.
pub(super) const FLOW_ENTRY: Column =
    Column { table: "flow_entries", name: "sealed", row: &["device", "id"] };
pub(super) const FLOW_PAST: Column =
    Column { table: "flow_past", name: "sealed", row: &["device", "id", "until"] };

/// The columns that hold null or sealed bytes, never text.
pub(super) const BYTES: [Column; 3] = [SPEC, FLOW_ENTRY, FLOW_PAST];
pub(super) const TEXTS: [Column; 9] =
    [TEMPLATE, FILES, PARAMETERS, ENVIRONMENTS, OUTPUTS, ATTRIBUTES, HIDDEN_DIGESTS, WISH, SECRET_NOTES];

impl Column {
    /// The place to which the seal binds a value of this row.
    pub fn place(&self, row: &[i64]) -> Vec<u8> {
        debug_assert_eq!(row.len(), self.row.len(), "{}.{}", self.table, self.name);
        let mut place = Vec::with_capacity(48);
        for part in [self.table.as_bytes(), b".", self.name.as_bytes(), b"\0"] {
            place.extend_from_slice(part);
        }
        row.iter().for_each(|number| place.extend_from_slice(&number.to_le_bytes()));
        place
    }
}

/// The place to which the seal binds the digest of a content.
pub(super) fn content_place(name: &[u8; 32]) -> Vec<u8> {
    [&b"contents.digest\0"[..], name].concat()
}

/// The place to which the seal binds a piece of a content.
pub(super) fn piece_place(name: &[u8; 32], number: u64) -> Vec<u8> {
    [&b"content_pieces.bytes\0"[..], name, &number.to_le_bytes()].concat()
}

/// A text on its way into a sealed column.
pub(super) enum SealedText<'t> {
    /// An empty list or map.
    Plain(&'t str),
    Sealed(Vec<u8>),
}

impl<'t> SealedText<'t> {
    pub fn new(key: &DataKey, column: Column, row: &[i64], text: &'t str) -> Result<Self, KeyError> {
        if is_empty(text) {
            return Ok(Self::Plain(text));
        }
        Ok(Self::Sealed(key.seal(&column.place(row), &pack(text))?))
    }
}

impl ToSql for SealedText<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Plain(text) => text.to_sql(),
            Self::Sealed(bytes) => bytes.to_sql(),
        }
    }
}

/// A text from a sealed column.
pub(super) fn open_text(
    key: &DataKey,
    column: Column,
    row: &[i64],
    value: ValueRef<'_>,
) -> rusqlite::Result<String> {
    match value {
        ValueRef::Blob(sealed) => {
            let plain = open(key, column, row, sealed)?;
            unpack(&plain).map_err(|why| damaged(column, row, &why))
        }
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) if is_empty(text) => Ok(text.to_owned()),
            _ => Err(damaged(column, row, "it is not sealed")),
        },
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => {
            Err(damaged(column, row, "it is neither text nor sealed"))
        }
    }
}

/// A sealed value.
pub(super) fn open(key: &DataKey, column: Column, row: &[i64], sealed: &[u8]) -> rusqlite::Result<Vec<u8>> {
    key.open(&column.place(row), sealed)
        .map_err(|_| damaged(column, row, "it was altered, or put there from elsewhere"))
}

fn is_empty(text: &str) -> bool {
    matches!(text, "[]" | "{}")
}

fn damaged(column: Column, row: &[i64], why: &str) -> rusqlite::Error {
    let row: Vec<String> = row.iter().map(i64::to_string).collect();
    let text = format!("{}.{} of row {} is damaged: {why}", column.table, column.name, row.join("/"));
    rusqlite::Error::FromSqlConversionFailure(0, Type::Blob, Box::new(std::io::Error::other(text)))
}

/// The identities of a table's rows, so that rows can be changed during the iteration.
pub(super) fn rows(db: &rusqlite::Connection, column: Column) -> Result<Vec<Vec<i64>>, StoreError> {
    let Column { table, name, row } = column;
    let sql = format!("SELECT {} FROM {table} WHERE {name} IS NOT NULL", row.join(", "));
    let mut select = db.prepare(&sql)?;
    let rows = select.query_map([], |found| (0..row.len()).map(|at| found.get(at)).collect())?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Puts what `change` makes of each value of a column in its place.
pub(super) fn change(
    db: &rusqlite::Connection,
    column: Column,
    mut change: impl FnMut(&[i64], Value) -> Result<Value, StoreError>,
) -> Result<(), StoreError> {
    let Column { table, name, row } = column;
    let of_row: Vec<String> =
        row.iter().enumerate().map(|(at, key)| format!("{key} = ?{}", at + 2)).collect();
    let of_row = of_row.join(" AND ");
    // `?1` is the value, even for a row without one.
    let mut select = db.prepare(&format!("SELECT {name} FROM {table} WHERE ?1 IS NULL AND {of_row}"))?;
    let mut update = db.prepare(&format!("UPDATE {table} SET {name} = ?1 WHERE {of_row}"))?;
    for row in rows(db, column)? {
        let with = |value: Value| {
            let numbers = row.iter().map(|number| Value::Integer(*number));
            rusqlite::params_from_iter(std::iter::once(value).chain(numbers).collect::<Vec<_>>())
        };
        let old: Value = select.query_row(with(Value::Null), |found| found.get(0))?;
        update.execute(with(change(&row, old)?))?;
    }
    Ok(())
}
