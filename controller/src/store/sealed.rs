//! The sealed values of the database. Each value is bound to its place: a value moved to another table,
//! column or row cannot be opened. Large texts are compressed first.
//!
//! An empty list or map is not sealed, since it reveals nothing, and reads can skip it.
//!
//! Absent: the cipher, the data key and its file (`key.rs`), and a change of the key (`rekey.rs`).

use std::borrow::Cow;

use super::StoreError;
use super::key::{DataKey, KeyError};
use super::sql::{Damage, Db, ToValue, Value, ValueRef, values};
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

impl ToValue for SealedText<'_> {
    fn to_value(&self) -> Value<'_> {
        match self {
            Self::Plain(text) => Value::Text(Cow::Borrowed(text)),
            Self::Sealed(bytes) => Value::Blob(Cow::Borrowed(bytes)),
        }
    }
}

/// A text from a sealed column.
pub(super) fn open_text(
    key: &DataKey,
    column: Column,
    row: &[i64],
    value: ValueRef<'_>,
) -> Result<String, Damage> {
    match value {
        // PostgreSQL has one type in a column: there an empty list or map is bytes, too.
        ValueRef::Blob(b"[]") => Ok("[]".to_owned()),
        ValueRef::Blob(b"{}") => Ok("{}".to_owned()),
        ValueRef::Blob(sealed) => {
            let plain = open(key, column, row, sealed)?;
            unpack(&plain).map_err(|why| damaged(column, row, &why))
        }
        ValueRef::Text(text) if is_empty(text) => Ok(text.to_owned()),
        ValueRef::Text(_) => Err(damaged(column, row, "it is not sealed")),
        ValueRef::Null | ValueRef::Integer(_) => Err(damaged(column, row, "it is neither text nor sealed")),
    }
}

/// A sealed value.
pub(super) fn open(key: &DataKey, column: Column, row: &[i64], sealed: &[u8]) -> Result<Vec<u8>, Damage> {
    key.open(&column.place(row), sealed)
        .map_err(|_| damaged(column, row, "it was altered, or put there from elsewhere"))
}

fn is_empty(text: &str) -> bool {
    matches!(text, "[]" | "{}")
}

fn damaged(column: Column, row: &[i64], why: &str) -> Damage {
    let row: Vec<String> = row.iter().map(i64::to_string).collect();
    Damage::new(format!("{}.{} of row {} is damaged: {why}", column.table, column.name, row.join("/")))
}

/// Puts what `change` makes of each value of a column in its place.
pub(super) fn change(
    db: &Db,
    column: Column,
    mut change: impl FnMut(&[i64], Value<'_>) -> Result<Value<'static>, StoreError>,
) -> Result<(), StoreError> {
    let Column { table, name, row } = column;
    let identity = row.join(", ");
    // The identities first, so that the rows can be changed during the iteration.
    let rows: Vec<Vec<i64>> =
        db.all(&format!("SELECT {identity} FROM {table} WHERE {name} IS NOT NULL"), values![], |found| {
            (0..row.len()).map(|at| found.get(at)).collect()
        })?;
    let of_row = |first: usize| {
        let keys = row.iter().enumerate().map(|(at, key)| format!("{key} = ?{}", at + first));
        keys.collect::<Vec<_>>().join(" AND ")
    };
    let select = format!("SELECT {name} FROM {table} WHERE {}", of_row(1));
    let mut update = db.prepare(&format!("UPDATE {table} SET {name} = ?1 WHERE {}", of_row(2)))?;
    for row in rows {
        let numbers: Vec<Value<'_>> = row.iter().map(|number| Value::Integer(*number)).collect();
        let old = db.only(&select, &numbers, |found| Ok(found.value(0)?.owned()))?;
        let mut values = vec![change(&row, old)?];
        values.extend(numbers);
        update.execute(&values)?;
    }
    Ok(())
}
