//! Many rows by one statement: rows wait in a queue by their statement, and go together as arrays, one for each value.
//!
//! ```text
//!   INSERT INTO graph VALUES (?1, ?2)            INSERT INTO graph SELECT v.c1, v.c2 FROM unnest($1, $2) AS v (c1, c2)
//!   UPDATE nodes SET seen = ?2 WHERE name = ?1   UPDATE nodes SET seen = v.c2 FROM unnest($1, $2) AS v (c1, c2)
//!                                                    WHERE name = v.c1
//!   DELETE FROM graph WHERE needed_by = ?1       DELETE FROM graph USING unnest($1) AS v (c1) WHERE needed_by = v.c1
//! ```
//!
//! **Invariants.** The database holds what the rows would have made of it one after the other. The first value of a row
//! is its place: the order of rows with different places, or of different tables, does not matter.
//! - A statement's rows keep their order, and statements go in the order of their first use. So a row passes earlier
//!   ones only if these are of a statement that was used later.
//! - If one of these is about the same place, the queue is sent before the row joins it, and the row's statement goes
//!   last from then on: what follows has the two in the same order, such as edges, which are removed and then put.
//! - PostgreSQL refuses an upsert that has a row twice, and an update of it would use either. So the queue is sent
//!   before the second one.
//! - All other statements send the queue first, and so does the end of the transaction ([`Link::flush`]).
//!
//! The statement is not prepared: the server plans it for its number of rows and for the table as it is by then. A kept
//! plan could be that for a table that was small.
//!
//! Absent: which statements come by the thousand (`Db::prepare_many` says what they promise).

use std::collections::HashSet;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use bytes::{BufMut as _, BytesMut};
use tokio_postgres::error::DbError;
use tokio_postgres::types::{IsNull, Kind, ToSql, Type, to_sql_checked};
use tokio_postgres::{Error, Statement};

use super::super::value::Value;
use super::convert::{numbered, put};
use super::error::PostgresError;
use super::{Changes, Link};
use crate::store::StoreError;

/// The most rows of one statement. What a statement costs beside its rows is a hundredth of them by then, and the
/// server is done within a few milliseconds.
const ROWS_MAX: usize = 1000;
/// The bytes at which the queue is sent; its last row may exceed them. A quarter of those under way
/// (`PENDING_BYTES_MAX`), so that the server writes some rows while the next ones are collected.
const BYTES_MAX: usize = 1 << 20;
/// Fewer rows go by the prepared statement for one: the server reads and plans the statement for many each time.
const FEW: usize = 4;

/// A statement in its form for many rows.
#[derive(Debug)]
pub(super) struct Many {
    text: String,
    table: String,
    /// So many values name a row.
    key: usize,
    /// The statement must not have a row twice.
    is_distinct: bool,
    /// The types of each value, and of an array of such values.
    types: Vec<(Type, Type)>,
}

impl Many {
    /// Derives the form from that for one row, whose values have these types.
    pub fn new(sql: &str, types: &[Type]) -> Result<Self, Misfit> {
        let shape = "a statement for many rows is INSERT … VALUES, UPDATE … WHERE or DELETE … WHERE";
        let list = |mark: &str| {
            (1..=types.len()).map(|number| format!("{mark}{number}")).collect::<Vec<_>>().join(", ")
        };
        let rows = format!("unnest({}) AS v ({})", list("$"), list("c"));
        let sql = numbered(sql, "v.c");
        let mut words = sql.split_whitespace();
        let verb = words.next().expect(shape);
        let table = words.nth(usize::from(verb != "UPDATE")).expect(shape).to_owned();
        let (text, key, is_distinct) = if verb == "INSERT" {
            let (head, rest) = sql.split_once("VALUES (").expect(shape);
            let (row, tail) = rest.split_once(')').expect(shape);
            assert!(!tail.contains("v.c"), "{shape}, with excluded.COLUMN in its ON CONFLICT");
            let conflict = tail.split_once("ON CONFLICT (").and_then(|(_, rest)| rest.split_once(')'));
            let key = conflict.map_or(2, |(columns, _)| columns.split(',').count());
            (format!("{head}SELECT {row} FROM {rows}{tail}"), key, conflict.is_some())
        } else {
            let (head, tail) = sql.rsplit_once("WHERE ").expect(shape);
            let is_one_row =
                tail.matches("= v.c").count() == tail.matches(" v.c").count() && !tail.contains("<");
            assert!(verb == "DELETE" || is_one_row, "{shape}, and an update names its row by '='");
            let clause = if verb == "UPDATE" { "FROM" } else { "USING" };
            (format!("{head}{clause} {rows} WHERE {tail}"), tail.matches("v.c").count(), verb == "UPDATE")
        };
        let types = types
            .iter()
            .map(|kind| Ok((kind.clone(), array_of(kind).ok_or_else(|| format!("{table} has a {kind}"))?)))
            .collect::<Result<_, Misfit>>()?;
        Ok(Self { text, table, key, is_distinct, types })
    }
}

fn array_of(kind: &Type) -> Option<Type> {
    match *kind {
        Type::INT8 => Some(Type::INT8_ARRAY),
        Type::INT4 => Some(Type::INT4_ARRAY),
        Type::TEXT => Some(Type::TEXT_ARRAY),
        Type::BYTEA => Some(Type::BYTEA_ARRAY),
        _ => None,
    }
}

/// The reason why a value does not go into its column.
type Misfit = Box<dyn StdError + Sync + Send>;

/// The values of a row as elements of arrays: the length of each and its bytes, or a length of -1 for a null.
struct Row {
    change: Option<Arc<str>>,
    elements: BytesMut,
    ends: Vec<usize>,
}

impl Row {
    fn new(many: &Many, values: &[Value<'_>], change: Option<Arc<str>>) -> Result<Self, Misfit> {
        assert_eq!(values.len(), many.types.len(), "values of {}", many.text);
        let mut row =
            Self { change, elements: BytesMut::with_capacity(256), ends: Vec::with_capacity(values.len()) };
        for (value, (kind, _)) in values.iter().zip(&many.types) {
            let begin = row.elements.len();
            row.elements.put_i32(-1);
            if let IsNull::No = put(value.borrowed(), kind, &mut row.elements)? {
                let length = i32::try_from(row.elements.len() - begin - size_of::<i32>())?;
                row.elements[begin..begin + size_of::<i32>()].copy_from_slice(&length.to_be_bytes());
            }
            row.ends.push(row.elements.len());
        }
        Ok(row)
    }

    /// The first values.
    fn first(&self, values: usize) -> &[u8] {
        &self.elements[..values.checked_sub(1).map_or(0, |last| self.ends[last])]
    }

    fn element(&self, at: usize) -> &[u8] {
        &self.first(at + 1)[self.first(at).len()..]
    }

    fn value(&self, at: usize) -> Option<&[u8]> {
        match self.element(at).split_first_chunk()? {
            (length, _) if i32::from_be_bytes(*length) < 0 => None,
            (_, value) => Some(value),
        }
    }

    /// The first values as errors of the server have them: `1, 700`.
    fn named(&self, many: &Many) -> String {
        let text = |(at, (kind, _)): (usize, &(Type, Type))| match (self.value(at), kind) {
            (Some(value), &Type::INT8) => {
                value.try_into().map(|bytes| i64::from_be_bytes(bytes).to_string()).unwrap_or_default()
            }
            (Some(value), _) => String::from_utf8_lossy(value).into_owned(),
            (None, _) => "null".to_owned(),
        };
        many.types.iter().enumerate().take(many.key).map(text).collect::<Vec<_>>().join(", ")
    }
}

/// Without its values: they may be secret.
impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a row of {} values", self.ends.len())
    }
}

/// What a row would meet in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meeting {
    Nothing,
    /// The row is there already, in the same statement.
    Twice,
    /// A row of the same place, before which it would be sent.
    Passes,
}

/// Rows that are not sent yet, by their statements in the order in which these go.
#[derive(Default)]
pub(super) struct Queue {
    batches: Vec<Batch>,
    bytes: usize,
}

/// Rows of one statement.
pub(super) struct Batch {
    many: Arc<Many>,
    /// The form for one row.
    one: Statement,
    rows: Vec<Row>,
    places: HashSet<Box<[u8]>>,
    /// Where no two rows may have the same.
    keys: HashSet<Box<[u8]>>,
}

impl Queue {
    fn meets(&self, many: &Arc<Many>, row: &Row) -> Meeting {
        let Some(own) = self.batches.iter().position(|batch| Arc::ptr_eq(&batch.many, many)) else {
            return Meeting::Nothing;
        };
        let mut later = self.batches[own + 1..].iter().filter(|batch| batch.many.table == many.table);
        if later.any(|batch| batch.places.contains(row.first(1))) {
            return Meeting::Passes;
        }
        let is_twice = many.is_distinct && self.batches[own].keys.contains(row.first(many.key));
        if is_twice { Meeting::Twice } else { Meeting::Nothing }
    }

    fn add(&mut self, many: &Arc<Many>, one: &Statement, row: Row) {
        let own = self.batches.iter().position(|batch| Arc::ptr_eq(&batch.many, many));
        let own = own.unwrap_or_else(|| {
            self.batches.push(Batch::new(many, one));
            self.batches.len() - 1
        });
        self.bytes += row.elements.len();
        self.batches[own].add(row);
    }

    /// Lets a statement go last. No row may wait.
    fn put_last(&mut self, many: &Arc<Many>) {
        debug_assert!(self.batches.iter().all(|batch| batch.rows.is_empty()), "the queue was sent");
        self.batches.sort_by_key(|batch| Arc::ptr_eq(&batch.many, many));
    }

    /// Takes all rows out. The order of the statements stays.
    pub fn take(&mut self) -> Vec<Batch> {
        if self.bytes == 0 {
            return Vec::new();
        }
        self.bytes = 0;
        let fresh = self.batches.iter().map(|batch| Batch::new(&batch.many, &batch.one)).collect();
        std::mem::replace(&mut self.batches, fresh)
    }

    fn is_enough(&self) -> bool {
        self.bytes >= BYTES_MAX || self.batches.iter().any(|batch| batch.rows.len() >= ROWS_MAX)
    }
}

impl Batch {
    fn new(many: &Arc<Many>, one: &Statement) -> Self {
        let (rows, places, keys) = (Vec::new(), HashSet::new(), HashSet::new());
        Self { many: Arc::clone(many), one: one.clone(), rows, places, keys }
    }

    fn add(&mut self, row: Row) {
        if !self.places.contains(row.first(1)) {
            self.places.insert(row.first(1).into());
        }
        if self.many.is_distinct {
            self.keys.insert(row.first(self.many.key).into());
        }
        self.rows.push(row);
    }

    fn send(self, link: &Link) -> Result<(), StoreError> {
        if self.rows.len() < FEW {
            return self.rows.into_iter().try_for_each(|row| send_one(link, &self.one, row));
        }
        let (client, many, rows) = (link.client()?, self.many, Arc::<[Row]>::from(self.rows));
        let bytes = rows.iter().map(|row| row.elements.len()).sum();
        let changes = Changes::Many(Rows { many: Arc::clone(&many), rows: Arc::clone(&rows) });
        link.send(bytes, changes, async move {
            let columns: Vec<Column> = (0..many.types.len()).map(|at| Column { rows: &rows, at }).collect();
            let columns: Vec<(&(dyn ToSql + Sync), Type)> = columns
                .iter()
                .zip(&many.types)
                .map(|(column, (_, array))| (column as &(dyn ToSql + Sync), array.clone()))
                .collect();
            client.execute_typed(&many.text, &columns).await.map(drop)
        })
    }
}

fn send_one(link: &Link, one: &Statement, mut row: Row) -> Result<(), StoreError> {
    let (client, one, bytes) = (link.client()?, one.clone(), row.elements.len());
    let change = Changes::One(row.change.take());
    link.send(bytes, change, async move {
        let elements: Vec<Element<'_>> = (0..row.ends.len()).map(|at| Element { row: &row, at }).collect();
        client.execute_raw(&one, &elements).await.map(drop)
    })
}

/// A value of one row.
#[derive(Debug)]
struct Element<'r> {
    row: &'r Row,
    at: usize,
}

/// The values of all rows for one column, which become an array.
#[derive(Debug)]
struct Column<'r> {
    rows: &'r [Row],
    at: usize,
}

impl ToSql for Element<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Misfit> {
        let Some(value) = self.row.value(self.at) else { return Ok(IsNull::Yes) };
        out.put_slice(value);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl ToSql for Column<'_> {
    fn to_sql(&self, array: &Type, out: &mut BytesMut) -> Result<IsNull, Misfit> {
        let Kind::Array(element) = array.kind() else { return Err(format!("{array} is no array").into()) };
        let has_null = self.rows.iter().any(|row| row.value(self.at).is_none());
        out.put_i32(1); // dimensions
        out.put_i32(has_null.into());
        out.put_u32(element.oid());
        out.put_i32(self.rows.len().try_into()?);
        out.put_i32(1); // the number of the first element
        self.rows.iter().for_each(|row| out.put_slice(row.element(self.at)));
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Rows that were sent by one statement, for errors.
pub(super) struct Rows {
    many: Arc<Many>,
    rows: Arc<[Row]>,
}

impl Rows {
    /// Names the change whose row the server refused, or else the first one and the last one.
    pub fn failed(&self, error: &Error) -> Option<String> {
        let detail = error.as_db_error().and_then(DbError::detail);
        if let Some(row) = detail.and_then(|detail| self.row_in(detail)) {
            return self.rows[row].change.as_deref().map(str::to_owned);
        }
        let (first, last) = (self.rows.first()?.change.as_deref()?, self.rows.last()?.change.as_deref()?);
        Some(match first == last {
            true => first.to_owned(),
            false => format!("one of {} rows, from {first} to {last},", self.rows.len()),
        })
    }

    /// The row that an error's detail is about, such as `Key (stack_id, number)=(1, 700) already exists.` or `Failing row
    /// contains (7, …)`. The detail is in the server's language and may show secrets: only its parentheses are read.
    fn row_in(&self, detail: &str) -> Option<usize> {
        let names: Vec<String> = self.rows.iter().map(|row| row.named(&self.many)).collect();
        detail.match_indices('(').find_map(|(at, _)| {
            let values = &detail[at + 1..];
            let is_it = |name: &String| {
                values.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with([',', ')']))
            };
            names.iter().position(is_it)
        })
    }
}

impl Link {
    /// Adds a row of the prepared statement to the queue.
    pub(super) fn add(
        &self,
        many: &Arc<Many>,
        one: &Statement,
        values: &[Value<'_>],
    ) -> Result<(), StoreError> {
        let change = self.state.borrow().change.clone();
        let row = Row::new(many, values, change).map_err(|why| self.misfit(&*why))?;
        let meeting = self.session(|session| session.queue.meets(many, &row))?;
        if meeting != Meeting::Nothing {
            self.flush()?;
        }
        if meeting == Meeting::Passes {
            self.session(|session| session.queue.put_last(many))?;
        }
        let is_enough = self.session(|session| {
            session.queue.add(many, one, row);
            session.queue.is_enough()
        })?;
        // Nobody would send it later.
        let is_alone = !self.state.borrow().in_transaction;
        if is_enough || is_alone { self.flush() } else { Ok(()) }
    }

    /// Sends the rows that wait.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        let batches = self.session(|session| session.queue.take())?;
        batches.into_iter().try_for_each(|batch| batch.send(self))
    }

    pub(super) fn misfit(&self, why: &dyn StdError) -> StoreError {
        PostgresError::Protocol { server: self.server.to_string(), why: why.to_string() }.into()
    }
}

#[cfg(test)]
mod tests;
