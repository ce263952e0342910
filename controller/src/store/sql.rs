//! The SQL that the store's statements are written in: once, for each database that can hold a site.
//!
//! ```text
//!   statements (write, flow, intent, rollout, load, read, convert)
//!        │  Db, Statement, Value in, Row out
//!        ├── sqlite     rusqlite; each statement runs when it is given
//!        └── postgres   tokio-postgres; writes are sent at once and answered later, together
//! ```
//!
//! Statements use what the databases share: `?1` for a value, `INSERT … ON CONFLICT … DO UPDATE` ([`upsert!`]),
//! integers instead of booleans, `CAST(… AS BIGINT)`. A statement that must differ stands beside its other form.
//!
//! Absent: what the tables mean.

mod postgres;
mod row;
mod sqlite;
mod value;

use std::path::Path;

use super::StoreError;
use crate::lease::Term;
use postgres::{Link, Prepared, Role};
pub use postgres::{PostgresError, Server};
pub use row::Damage;
pub(super) use row::Row;
pub(super) use value::{FromValue, ToValue, Value, ValueRef};

/// Values for the placeholders of a statement, from anything that is a [`ToValue`].
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        &[$($crate::store::sql::ToValue::to_value(&$value)),*]
    };
}
pub(super) use values;

/// A statement that writes a whole row, in place of the one with the same key. Values: the key's columns, then
/// the others.
macro_rules! upsert {
    ($table:literal, [$key:literal $(, $keys:literal)*], [$first:literal $(, $column:literal)*]) => {
        concat!(
            "INSERT INTO ", $table, " (", $key, $(", ", $keys,)* ", ", $first, $(", ", $column,)*
            ") VALUES (", upsert!(@mark $key), $(", ", upsert!(@mark $keys),)* ", ", upsert!(@mark $first),
            $(", ", upsert!(@mark $column),)*
            ") ON CONFLICT (", $key, $(", ", $keys,)* ") DO UPDATE SET ", $first, " = excluded.", $first,
            $(", ", $column, " = excluded.", $column,)*
        )
    };
    (@mark $column:literal) => { "?" };
}
pub(super) use upsert;

/// A connection to the database.
pub(super) enum Db {
    Sqlite(rusqlite::Connection),
    Postgres(Box<Link>),
}

/// A statement, ready to run several times.
pub(super) enum Statement<'d> {
    Sqlite(rusqlite::CachedStatement<'d>),
    Postgres(Prepared<'d>),
}

impl Db {
    /// Opens or makes a database in a file.
    pub fn sqlite(path: &Path) -> Result<Self, StoreError> {
        Ok(Self::Sqlite(sqlite::open(path)?))
    }

    /// Opens an existing database in a file for reading.
    pub fn read_sqlite(path: &Path) -> Result<Self, StoreError> {
        Ok(Self::Sqlite(sqlite::read(path)?))
    }

    /// Opens a database on a server for writing. Nobody else writes to it meanwhile; with a term, only for as long
    /// as the lease is of that term.
    pub fn postgres(server: &Server, term: Option<Term>) -> Result<Self, StoreError> {
        Ok(Self::Postgres(Box::new(Link::open(server, Role::Writer(term))?)))
    }

    /// Opens a database on a server for its lease: beside a writer, in single statements.
    pub fn lease(server: &Server) -> Result<Self, StoreError> {
        Ok(Self::Postgres(Box::new(Link::open(server, Role::Lease)?)))
    }

    /// Opens a database on a server for reading.
    pub fn read_postgres(server: &Server) -> Result<Self, StoreError> {
        Ok(Self::Postgres(Box::new(Link::open(server, Role::Reader)?)))
    }

    /// Names the change that is written next: PostgreSQL answers later, and its error shall name it.
    pub fn name(&self, change: impl FnOnce() -> String) {
        if let Self::Postgres(link) = self {
            link.name(change());
        }
    }

    /// Prepares a statement. The text is the key under which it is kept.
    pub fn prepare(&self, sql: &str) -> Result<Statement<'_>, StoreError> {
        match self {
            Self::Sqlite(db) => Ok(Statement::Sqlite(db.prepare_cached(sql)?)),
            Self::Postgres(link) => Ok(Statement::Postgres(link.prepare(sql)?)),
        }
    }

    /// Prepares a statement of which a commit may have thousands. PostgreSQL collects its rows, and takes many at a
    /// time (`postgres/many.rs`).
    ///
    /// The statement is `INSERT … VALUES`, `UPDATE … WHERE` or `DELETE … WHERE`. The values of the row's key come first.
    /// The statement touches only rows of its table that have the first value in their first column, and no constraint
    /// is about rows that differ in that, unless it is the only statement that a commit has for the table. An update's
    /// `WHERE` compares by `=` alone.
    pub fn prepare_many(&self, sql: &str) -> Result<Statement<'_>, StoreError> {
        match self {
            Self::Sqlite(_) => self.prepare(sql),
            Self::Postgres(link) => Ok(Statement::Postgres(link.prepare_many(sql)?)),
        }
    }

    /// Runs a statement without results.
    pub fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<(), StoreError> {
        self.prepare(sql)?.execute(values)
    }

    /// Passes each row of the result to `each`, which must not use the connection.
    pub fn each(
        &self,
        sql: &str,
        values: &[Value<'_>],
        mut each: impl FnMut(&Row<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.prepare(sql)?.each(values, &mut |row| each(row).map(|()| true))
    }

    /// The rows of the result.
    pub fn all<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T, Damage>,
    ) -> Result<Vec<T>, StoreError> {
        let mut found = Vec::new();
        self.each(sql, values, |row| {
            found.push(read(row)?);
            Ok(())
        })?;
        Ok(found)
    }

    /// The first row of the result, if there is one.
    pub fn first<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        read: impl FnMut(&Row<'_>) -> Result<T, Damage>,
    ) -> Result<Option<T>, StoreError> {
        self.prepare(sql)?.first(values, read)
    }

    /// The one row of a result that always has one.
    pub fn only<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        read: impl FnMut(&Row<'_>) -> Result<T, Damage>,
    ) -> Result<T, StoreError> {
        self.first(sql, values, read)?.ok_or_else(|| StoreError::Format(format!("no row found by {sql}")))
    }

    /// Ends the session on the server that holds the site's lock, if there is one.
    pub fn end_holder(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(link) => link.end_holder(),
        }
    }

    /// Runs statements that have no values.
    pub fn batch(&self, sql: &str) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(db) => Ok(db.execute_batch(sql)?),
            Self::Postgres(link) => link.batch(sql),
        }
    }

    /// Makes all that `work` writes durable together, or nothing of it. An error before `work` begins leaves
    /// everything as it was.
    pub fn transaction<T>(&self, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        match self {
            Self::Sqlite(db) => {
                // It takes the lock at once: a transaction that finds the database busy does so first of all.
                let transaction =
                    rusqlite::Transaction::new_unchecked(db, rusqlite::TransactionBehavior::Immediate)?;
                let done = work()?;
                transaction.commit()?;
                Ok(done)
            }
            Self::Postgres(link) => link.transaction(work),
        }
    }
}

impl Statement<'_> {
    /// Runs it without results. PostgreSQL may do so later, and tells of an error later: at the end of the transaction
    /// at the latest.
    pub fn execute(&mut self, values: &[Value<'_>]) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(statement) => {
                statement.execute(rusqlite::params_from_iter(values))?;
                Ok(())
            }
            Self::Postgres(statement) => statement.execute(values),
        }
    }

    /// The first row of the result, if there is one.
    pub fn first<T>(
        &mut self,
        values: &[Value<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T, Damage>,
    ) -> Result<Option<T>, StoreError> {
        let mut found = None;
        self.each(values, &mut |row| {
            found = Some(read(row)?);
            Ok(false)
        })?;
        Ok(found)
    }

    /// Passes rows to `each` for as long as that returns true.
    fn each(
        &mut self,
        values: &[Value<'_>],
        each: &mut dyn FnMut(&Row<'_>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(statement) => {
                let mut rows = statement.query(rusqlite::params_from_iter(values))?;
                while let Some(row) = rows.next()? {
                    if !each(&Row::Sqlite(row))? {
                        break;
                    }
                }
                Ok(())
            }
            Self::Postgres(statement) => statement.each(values, each),
        }
    }
}
