//! A row of a result, and what is said of one that cannot be read.

use rusqlite::types::ValueRef as SqliteRef;
use thiserror::Error;

use super::value::{FromValue, ValueRef};

/// The reason why a row cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Damage(String);

impl Damage {
    pub(in crate::store) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    pub(in crate::store) fn of_column(column: &str, why: impl std::fmt::Display) -> Self {
        Self(format!("column {column}: {why}"))
    }
}

/// A row of a result.
pub(in crate::store) enum Row<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Postgres(&'r tokio_postgres::Row),
}

/// Names a column of a row: its number or its name.
pub(in crate::store) trait ColumnName: Copy + std::fmt::Display {
    fn of_sqlite<'r>(self, row: &'r rusqlite::Row<'_>) -> rusqlite::Result<SqliteRef<'r>>;

    fn of_postgres(self, row: &tokio_postgres::Row) -> Result<ValueRef<'_>, tokio_postgres::Error>;
}

impl ColumnName for usize {
    fn of_sqlite<'r>(self, row: &'r rusqlite::Row<'_>) -> rusqlite::Result<SqliteRef<'r>> {
        row.get_ref(self)
    }

    fn of_postgres(self, row: &tokio_postgres::Row) -> Result<ValueRef<'_>, tokio_postgres::Error> {
        row.try_get(self)
    }
}

impl ColumnName for &str {
    fn of_sqlite<'r>(self, row: &'r rusqlite::Row<'_>) -> rusqlite::Result<SqliteRef<'r>> {
        row.get_ref(self)
    }

    fn of_postgres(self, row: &tokio_postgres::Row) -> Result<ValueRef<'_>, tokio_postgres::Error> {
        row.try_get(self)
    }
}

impl<'r> Row<'r> {
    /// The value of a column.
    pub fn value(&self, column: impl ColumnName) -> Result<ValueRef<'r>, Damage> {
        match self {
            Self::Sqlite(row) => match column.of_sqlite(row) {
                Ok(SqliteRef::Null) => Ok(ValueRef::Null),
                Ok(SqliteRef::Integer(number)) => Ok(ValueRef::Integer(number)),
                Ok(SqliteRef::Text(text)) => match std::str::from_utf8(text) {
                    Ok(text) => Ok(ValueRef::Text(text)),
                    Err(error) => Err(Damage::of_column(&self.called(column), error)),
                },
                Ok(SqliteRef::Blob(bytes)) => Ok(ValueRef::Blob(bytes)),
                Ok(SqliteRef::Real(_)) => Err(Damage::of_column(&self.called(column), "it is a fraction")),
                Err(error) => Err(Damage::of_column(&self.called(column), error)),
            },
            Self::Postgres(row) => {
                column.of_postgres(row).map_err(|error| Damage::of_column(&self.called(column), error))
            }
        }
    }

    /// The value of a column in its type.
    pub fn get<T: FromValue>(&self, column: impl ColumnName) -> Result<T, Damage> {
        T::from_value(self.value(column)?)
            .ok_or_else(|| Damage::of_column(&self.called(column), format_args!("want {}", T::WANTED)))
    }

    /// The text of a column that may be null.
    pub fn text(&self, column: impl ColumnName) -> Result<Option<&'r str>, Damage> {
        match self.value(column)? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(text) => Ok(Some(text)),
            ValueRef::Integer(_) | ValueRef::Blob(_) => {
                Err(Damage::of_column(&self.called(column), "want a text"))
            }
        }
    }

    /// The bytes of a column that may be null.
    pub fn bytes(&self, column: impl ColumnName) -> Result<Option<&'r [u8]>, Damage> {
        match self.value(column)? {
            ValueRef::Null => Ok(None),
            ValueRef::Blob(bytes) => Ok(Some(bytes)),
            ValueRef::Integer(_) | ValueRef::Text(_) => {
                Err(Damage::of_column(&self.called(column), "want a blob"))
            }
        }
    }

    /// The name of a column by its number.
    pub fn name(&self, at: usize) -> &str {
        match self {
            Self::Sqlite(row) => row.as_ref().column_name(at).unwrap_or("?"),
            Self::Postgres(row) => row.columns().get(at).map_or("?", tokio_postgres::Column::name),
        }
    }

    /// The name of a column in errors.
    fn called(&self, column: impl ColumnName) -> String {
        let text = column.to_string();
        text.parse().map_or(text, |at| self.name(at).to_owned())
    }
}
