//! Copies a site from one database to another, of whatever kind: every table, row by row, in one transaction of
//! the target. Sealed values stay as they are, so the data key does too.
//!
//! Values that a database keeps in a way of its own (its version, the highest row) are carried over by name.
//!
//! Absent: a backup, which is a file of SQLite (`backup.rs`).

use std::collections::BTreeMap;
use std::fs;

use super::sealed::TEXTS;
use super::sql::{Db, Value, values};
use super::{Location, StoreError, meta, schema};

/// The counts of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    pub tables: usize,
    pub rows: u64,
}

/// Keys of `meta` that PostgreSQL has and SQLite keeps elsewhere.
const OF_POSTGRES: [&str; 3] = ["schema", "commit", "highest_resource"];

/// Tables of the site's controllers: they begin anew with the copy.
const OF_CONTROLLERS: [&str; 3] = ["lease", "controllers", "shared_keys"];

/// The columns of each table, in order.
type Tables = BTreeMap<String, Vec<String>>;

/// Copies everything. No controller may run on either.
///
/// # Errors
/// [`StoreError`]: then the target is as it was.
pub fn copy(from: &Location, to: &Location) -> Result<Copied, StoreError> {
    let source = existing(from)?;
    if schema::version(&source)? != schema::SCHEMAS.len() {
        return Err(failed(from, "is not of this version: start the controller with it once"));
    }
    if meta::text(&source, "backup")?.is_some() {
        return Err(failed(from, "is a backup: restore it first, with 'muster-controller restore'"));
    }
    match to {
        Location::Postgres(server) => {
            let target = Db::postgres(server, None)?;
            if !tables(&target)?.is_empty() {
                return Err(failed(to, "is not empty: name an empty database"));
            }
            copy_all(&source, &target)
        }
        Location::Sqlite(path) => {
            if path.exists() {
                return Err(failed(to, "exists: name a new file"));
            }
            let new = path.with_added_extension("new");
            let leave = || {
                for end in ["", "-wal", "-shm", "-journal"] {
                    let mut file = new.clone().into_os_string();
                    file.push(end);
                    drop(fs::remove_file(file)); // most are not there
                }
            };
            leave();
            let copied = Db::sqlite(&new).and_then(|target| {
                let copied = copy_all(&source, &target)?;
                // Everything goes to the one file that is moved.
                target.batch("PRAGMA journal_mode = DELETE")?;
                Ok(copied)
            });
            let placed = copied.and_then(|copied| super::backup::place(&new, path).map(|()| copied));
            placed.inspect_err(|_| leave())
        }
    }
}

/// A database that has a site.
fn existing(at: &Location) -> Result<Db, StoreError> {
    let db = match at {
        Location::Sqlite(path) if !path.is_file() => return Err(failed(at, "is not there")),
        Location::Sqlite(path) => Db::sqlite(path)?,
        Location::Postgres(server) => Db::postgres(server, None)?,
    };
    if schema::version(&db)? == 0 {
        return Err(failed(at, "has no site"));
    }
    Ok(db)
}

fn failed(at: &Location, why: &str) -> StoreError {
    StoreError::Format(format!("{at} {why}"))
}

fn copy_all(source: &Db, target: &Db) -> Result<Copied, StoreError> {
    let tables = tables(source)?;
    let mut copied = Copied { tables: tables.len(), rows: 0 };
    target.transaction(|| {
        schema::make(target)?;
        target.batch("DELETE FROM meta WHERE key NOT IN ('schema', 'commit', 'highest_resource')")?;
        for (table, columns) in &tables {
            copied.rows += copy_table(source, target, table, columns)?;
        }
        schema::set_highest_row(target, schema::highest_row(source)?)
    })?;
    Ok(copied)
}

fn copy_table(source: &Db, target: &Db, table: &str, columns: &[String]) -> Result<u64, StoreError> {
    // A column such as `table` or `count` may be a word of SQL.
    let names = columns.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let places = vec!["?"; columns.len()].join(", ");
    target.name(|| format!("table {table}"));
    let mut insert = target.prepare_many(&format!("INSERT INTO {table} ({names}) VALUES ({places})"))?;
    let is_text =
        |name: &String| TEXTS.iter().any(|column| column.table == table && column.name == name.as_str());
    let texts: Vec<bool> = columns.iter().map(is_text).collect();
    let mut rows = 0;
    source.each(&format!("SELECT {names} FROM {table}"), values![], |row| {
        let values: Vec<Value<'_>> = texts
            .iter()
            .enumerate()
            .map(|(at, is_text)| {
                Ok(if *is_text { as_text(row.value(at)?.owned()) } else { row.value(at)?.owned() })
            })
            .collect::<Result<_, StoreError>>()?;
        if table == "meta"
            && matches!(&values[..], [Value::Text(key), _] if OF_POSTGRES.contains(&key.as_ref()))
        {
            return Ok(());
        }
        rows += 1;
        insert.execute(&values)
    })?;
    Ok(rows)
}

/// SQLite has an empty list or map as a text, also in a sealed column. PostgreSQL makes bytes of it by itself.
fn as_text(value: Value<'static>) -> Value<'static> {
    match value {
        Value::Blob(bytes) if matches!(&*bytes, b"[]" | b"{}") => {
            Value::Text(String::from_utf8_lossy(&bytes).into_owned().into())
        }
        value => value,
    }
}

/// The tables of the database, as it lists them itself.
fn tables(db: &Db) -> Result<Tables, StoreError> {
    let sql = match db {
        Db::Sqlite(_) => {
            "SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c
             WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' ORDER BY m.name, c.cid"
        }
        Db::Postgres(_) => {
            "SELECT CAST(c.table_name AS TEXT), CAST(c.column_name AS TEXT)
             FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
             WHERE t.table_schema = current_schema() AND t.table_type = 'BASE TABLE'
             ORDER BY c.table_name, c.ordinal_position"
        }
    };
    let mut tables = Tables::new();
    for (table, column) in db.all(sql, values![], |row| Ok((row.get::<String>(0)?, row.get(1)?)))? {
        if OF_CONTROLLERS.contains(&table.as_str()) {
            continue;
        }
        let columns: &mut Vec<String> = tables.entry(table).or_default();
        columns.push(column);
    }
    Ok(tables)
}

#[cfg(test)]
mod tests;
