//! Reads state that the engine does not keep in memory, on a separate connection, so that nothing else waits.
//!
//! Absent: what a start reads (`load.rs`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::database::int;
use super::key::DataKey;
use super::sealed::{Column, ENVIRONMENTS, FILES, PARAMETERS, TEMPLATE, open_text};
use super::sealed_content::read_content;
use super::sql::{Damage, Db, values};
use super::{Location, StoreError};
use muster_api::stack::{EventRow, RevisionRow};
use muster_engine::SourceText;
use muster_shared::StackName;
use muster_shared::model::ContentDigest;
use muster_shared::model::flow::FlowId;

/// Reads the database; clones share one connection. Blocking.
#[derive(Clone)]
pub struct Reader {
    db: Arc<Mutex<Db>>,
    key: DataKey,
}

/// When a stack was made and last changed, RFC 3339 UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub created_at: String,
    pub updated_at: String,
}

impl Reader {
    /// Opens an existing database for reading, with its key.
    ///
    /// # Errors
    /// [`StoreError`] if it is not there.
    pub fn open(at: &Location, key: &DataKey) -> Result<Self, StoreError> {
        let db = match at {
            Location::Sqlite(path) => Db::read_sqlite(path)?,
            Location::Postgres(server) => Db::read_postgres(server)?,
        };
        Ok(Self { db: Arc::new(Mutex::new(db)), key: key.clone() })
    }

    pub(super) fn with<T>(&self, read: impl FnOnce(&Db) -> Result<T, StoreError>) -> Result<T, StoreError> {
        // A panicked reader has left nothing half done: statements end with their scope.
        read(&self.db.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The template and files of a revision as the operator sent them, by default of the newest,
    /// and its number.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn source(
        &self,
        stack: &StackName,
        revision: Option<u32>,
    ) -> Result<Option<(u32, SourceText)>, StoreError> {
        self.with(|db| source(db, &self.key, stack, revision))
    }

    /// A part of a content, at most `length` bytes; empty if the content is not kept.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn content(
        &self,
        digest: ContentDigest,
        offset: u64,
        length: usize,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.with(|db| read_content(db, &self.key, &digest.0, offset, length))
    }

    /// Since when an entry of a flow table has its state, RFC 3339 UTC; `settled` is its write, if that has
    /// ended on the device.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn flow_since(
        &self,
        device: u32,
        id: FlowId,
        settled: Option<u64>,
    ) -> Result<Option<String>, StoreError> {
        self.with(|db| {
            let (id, settled) = (id.0.cast_signed(), settled.map(u64::cast_signed));
            // If the end of a write is no longer kept, the time of the write is used.
            let sql = "SELECT changed_at, (SELECT at FROM flow_settled WHERE device = ?1 AND serial >= ?3 AND
                     (SELECT min(serial) FROM flow_settled WHERE device = ?1) <= ?3 ORDER BY serial LIMIT 1)
                 FROM flow_entries WHERE device = ?1 AND id = ?2";
            db.first(sql, values![device, id, settled], |row| {
                let (changed, ended): (String, Option<String>) = (row.get(0)?, row.get(1)?);
                Ok(ended.map_or(changed.clone(), |ended| changed.max(ended)))
            })
        })
    }

    /// The kept revisions of a stack, oldest first; `None` if there is no such stack.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn revisions(&self, stack: &StackName) -> Result<Vec<RevisionRow>, StoreError> {
        self.with(|db| {
            let sql = "SELECT r.number, r.created_at, r.source_name, r.made_by, r.number = s.revision AS current, s.complete
                 FROM stacks s JOIN revisions r ON r.stack_id = s.id WHERE s.name = ?1 ORDER BY r.number";
            db.all(sql, values![stack.as_str()], |row| {
                let number = row.get("number")?;
                let complete: String = row.get("complete")?;
                let complete: Vec<u32> =
                    serde_json::from_str(&complete).map_err(|e| Damage::of_column("complete", e))?;
                Ok(RevisionRow {
                    number,
                    created_at: row.get("created_at")?,
                    complete: complete.contains(&number),
                    current: row.get("current")?,
                    source_name: row.get("source_name")?,
                    made_by: row.get("made_by")?,
                })
            })
        })
    }

    /// Events after number `after`, oldest first. By id, also those of a deleted stack, for a while.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn events(
        &self,
        stack: u64,
        after: u64,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<EventRow>, StoreError> {
        self.with(|db| {
            let order = if before.is_some() { "DESC" } else { "ASC" };
            let sql = format!(
                "SELECT number, time, resource, physical_id, action, status, reason, actor FROM events
                 WHERE stack_id = ?1 AND number > ?2 AND number < ?4 ORDER BY number {order} LIMIT ?3"
            );
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let before = before.map_or(i64::MAX, int);
            db.all(&sql, values![int(stack), int(after), limit, before], |row| {
                Ok(EventRow {
                    number: row.get(0)?,
                    time: row.get(1)?,
                    resource: row.get(2)?,
                    physical_id: row.get(3)?,
                    action: row.get(4)?,
                    status: row.get(5)?,
                    reason: row.get(6)?,
                    actor: row.get(7)?,
                })
            })
        })
    }

    /// The id of a stack.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn stack_id(&self, stack: &StackName) -> Result<Option<u64>, StoreError> {
        self.with(|db| {
            db.first("SELECT id FROM stacks WHERE name = ?1", values![stack.as_str()], |row| row.get(0))
        })
    }

    /// When a stack was made and last changed.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn times(&self, stack: &StackName) -> Result<Option<Times>, StoreError> {
        self.with(|db| {
            let sql = "SELECT created_at, updated_at FROM stacks WHERE name = ?1";
            db.first(sql, values![stack.as_str()], |row| {
                Ok(Times { created_at: row.get(0)?, updated_at: row.get(1)? })
            })
        })
    }

    /// When each node was last seen, RFC 3339 UTC; nodes never seen are left out.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn last_seen(&self) -> Result<BTreeMap<String, String>, StoreError> {
        self.with(|db| {
            let sql = "SELECT name, last_seen FROM nodes WHERE last_seen IS NOT NULL";
            Ok(db.all(sql, values![], |row| Ok((row.get(0)?, row.get(1)?)))?.into_iter().collect())
        })
    }
}

pub(super) fn source(
    db: &Db,
    key: &DataKey,
    stack: &StackName,
    revision: Option<u32>,
) -> Result<Option<(u32, SourceText)>, StoreError> {
    let sql = "SELECT stack_id, number, source_name, template, files, parameters, environments FROM revisions
         WHERE stack_id = (SELECT id FROM stacks WHERE name = ?1) AND number = coalesce(?2, number)
         ORDER BY number DESC LIMIT 1";
    let found = db.first(sql, values![stack.as_str(), revision], |row| {
        let place = [row.get(0)?, row.get(1)?];
        let text = |at: usize, column: Column| open_text(key, column, &place, row.value(at)?);
        Ok((
            row.get::<u32>(1)?,
            row.get(2)?,
            text(3, TEMPLATE)?,
            text(4, FILES)?,
            text(5, PARAMETERS)?,
            text(6, ENVIRONMENTS)?,
        ))
    })?;
    let Some((number, name, template, files, parameters, environments)) = found else { return Ok(None) };
    let bad =
        |e: serde_json::Error| StoreError::Format(format!("revision {number} of {stack} is damaged: {e}"));
    Ok(Some((
        number,
        SourceText {
            name,
            template,
            files: serde_json::from_str(&files).map_err(bad)?,
            parameters: serde_json::from_str(&parameters).map_err(bad)?,
            environments: serde_json::from_str(&environments).map_err(bad)?,
        },
    )))
}
