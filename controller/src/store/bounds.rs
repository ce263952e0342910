//! Bounds of what the database keeps: how many events of each stack, for how long the audit, and the size of its file.
//!
//! Absent: how many revisions of a stack are kept (`controller/engine/src/operation.rs`), and for how many deleted
//! stacks the events stay (`write.rs`).

use super::database::int;
use super::sql::Db;
use super::{Database, StoreError};

/// Free pages below which nothing is written: a commit may need that many, and after a probe that found a
/// single page the controller would fail again at once.
const SPARE_PAGES: u64 = 256;

/// The most room that a probe asks for: a commit that needs more is one operator's request, for which the
/// site does not wait.
const ROOM_MAX: u64 = 64 << 20;

/// Bounds of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Newest events kept per stack, plus up to a tenth more until the next cut.
    pub events: u64,
    /// Size of the database file, without its log (64 MiB at most); 0: no bound but the disk.
    pub bytes: u64,
    /// Days that rows of the audit are kept; 0: all of them.
    pub audit_days: u32,
    /// Newest rows of the audit that are kept, whatever their age.
    pub audit_rows: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { events: 10_000, bytes: 0, audit_days: 400, audit_rows: 1_000_000 }
    }
}

impl Bounds {
    /// Events up to this number go, now that `number` was written.
    pub(super) fn cut(&self, number: u64) -> Option<u64> {
        let step = (self.events / 10).max(1);
        number.is_multiple_of(step).then(|| number.saturating_sub(self.events)).filter(|below| *below > 0)
    }
}

impl Database {
    /// The same database within these bounds.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn within(mut self, bounds: Bounds) -> Result<Self, StoreError> {
        match self.db() {
            Db::Sqlite(db) => {
                let pages = match bounds.bytes {
                    0 => u64::from(u32::MAX) - 1, // SQLite's own
                    bytes => (bytes / pragma(db, "page_size")?.max(1)).max(1),
                };
                // A database that is already larger does not grow.
                let pages = i64::try_from(pages).unwrap_or(i64::MAX);
                db.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
            }
            Db::Postgres(_) if bounds.bytes != 0 => {
                return Err(StoreError::Format(
                    "limits.database_bytes bounds SQLite's file: set it to 0, and bound a PostgreSQL database by its \
                     tablespace or disk"
                        .to_owned(),
                ));
            }
            Db::Postgres(_) => {}
        }
        self.bounds = bounds;
        Ok(self)
    }

    /// # Errors
    /// [`StoreError::Full`] if the bound is reached.
    pub(super) fn has_room(&self) -> Result<(), StoreError> {
        if self.bounds.bytes == 0 {
            return Ok(());
        }
        match self.db() {
            Db::Sqlite(db) => {
                let left = pragma(db, "max_page_count")?.saturating_sub(pragma(db, "page_count")?);
                if left + pragma(db, "freelist_count")? < SPARE_PAGES {
                    return Err(StoreError::Full { bytes: self.bounds.bytes });
                }
            }
            Db::Postgres(_) => {}
        }
        Ok(())
    }

    /// Whether there is room for the commit that failed: it is written and removed again, and its pages stay free.
    pub(super) fn try_room(&self) -> Result<(), StoreError> {
        let bytes = self.wants.min(ROOM_MAX);
        if bytes == 0 {
            return Ok(());
        }
        match self.db() {
            Db::Sqlite(db) => {
                db.execute("INSERT OR REPLACE INTO meta VALUES ('room', zeroblob(?1))", [int(bytes)])?;
                db.execute("DELETE FROM meta WHERE key = 'room'", [])?;
            }
            // A server's disk has other users: what is free now says little of the next moment.
            Db::Postgres(_) => {}
        }
        Ok(())
    }
}

fn pragma(db: &rusqlite::Connection, name: &str) -> Result<u64, StoreError> {
    let value: i64 = db.pragma_query_value(None, name, |row| row.get(0))?;
    Ok(value.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use muster_engine::record::{Change, EventRecord};
    use muster_shared::model::ContentDigest;

    use super::*;
    use crate::store::sql::values;
    use crate::store::testing::{Place, each};
    use crate::store::{Failure, Store as _};

    fn store(bounds: Bounds) -> (tempfile::TempDir, Database) {
        let dir = tempfile::tempdir().unwrap();
        let store = Database::sqlite(&dir.path().join("muster.db"), &dir.path().join("secrets.key"))
            .unwrap()
            .within(bounds)
            .unwrap();
        (dir, store)
    }

    fn content(store: &mut Database, number: u32) -> Result<(), StoreError> {
        let bytes = vec![7; 1 << 20];
        let digest = ContentDigest::of(&number.to_le_bytes());
        store.commit(&mut std::iter::once(Change::Content { digest, bytes: bytes.into() }), &[])
    }

    #[test]
    fn a_database_that_is_full_says_so_until_there_is_room() {
        let (_dir, mut store) = store(Bounds { bytes: 8 << 20, ..Bounds::default() });
        let mut taken = 0;
        let error = loop {
            match content(&mut store, taken) {
                Ok(()) => taken += 1,
                Err(error) => break error,
            }
        };
        assert!((4..8).contains(&taken), "{taken}");
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
        assert!(error.to_string().contains("limits.database_bytes"), "{error}");
        assert!(matches!(store.probe(), Err(StoreError::Full { .. })), "not writable and full again at once");
        let gone = ContentDigest::of(&0u32.to_le_bytes());
        let sql = "DELETE FROM content_pieces WHERE name = ?1";
        store.db().execute(sql, values![store.key().name(&gone.0)]).unwrap();
        store.probe().unwrap();
        content(&mut store, 0).unwrap();
    }

    #[test]
    fn a_probe_asks_for_the_room_of_the_commit_that_failed() {
        let (_dir, mut store) = store(Bounds { bytes: 8 << 20, ..Bounds::default() });
        (0..3).for_each(|number| content(&mut store, number).unwrap());
        let large = || {
            let digest = ContentDigest::of(b"large");
            std::iter::once(Change::Content { digest, bytes: vec![7; 6 << 20].into() })
        };
        store.probe().unwrap();
        let error = store.commit(&mut large(), &[]).unwrap_err();
        assert_eq!(error.failure(), Failure::Full, "{error}");
        assert!(error.to_string().contains("content"), "there is room, but not for this: {error}");
        store.has_room().unwrap();
        assert_eq!(store.probe().unwrap_err().failure(), Failure::Full, "writable, and full again at once");
        store.db().execute("DELETE FROM content_pieces", values![]).unwrap();
        store.probe().unwrap();
        store.commit(&mut large(), &[]).unwrap();
    }

    #[test]
    fn a_server_has_no_bound_of_bytes() {
        let place = Place::postgres();
        let bounds = Bounds { bytes: 1 << 30, ..Bounds::default() };
        let error = place.open().within(bounds).err().unwrap().to_string();
        assert!(error.contains("limits.database_bytes"), "{error}");
    }

    #[test]
    fn only_the_newest_events_are_kept() {
        each(|place| {
            let mut store = place.open().within(Bounds { events: 20, ..Bounds::default() }).unwrap();
            let event = |number| {
                let (action, status, reason) = ("CREATE", "COMPLETE", "".into());
                Change::Event(EventRecord {
                    stack: 1,
                    number,
                    resource: None,
                    action,
                    status,
                    reason,
                    actor: None,
                })
            };
            store.commit(&mut (1..=99).map(event), &[]).unwrap();
            let kept = "SELECT min(number), max(number) FROM events";
            let kept: (i64, i64) =
                store.db().only(kept, values![], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            assert_eq!(kept, (79, 99));
        });
    }
}
