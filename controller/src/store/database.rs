//! The store in an SQL database: SQLite for one machine, PostgreSQL beyond that. Opens it, and commits all changes of a
//! turn or none.
//!
//! Absent: the statements (`write.rs`, `load.rs`, `read.rs`), and what follows from a failed commit (`driver/turn/read_only.rs`).

use std::path::Path;
use std::time::{Duration, Instant};

use muster_engine::record::Change;
use muster_engine::{Snapshot, SourceText, Starts};
use muster_shared::{Epoch, NodeId, StackName};

use super::clock_across_restarts::SteadyClock;
use super::key::{DataKey, KeyFile};
use super::rekey::sealed_with;
use super::sql::Db;
use super::write::Writer;
use super::{Bounds, Failure, Location, Store, StoreError, meta, name, schema};
use crate::durations::Durations;
use crate::lease::Term;

/// The store in an SQL database.
pub struct Database {
    pub(super) db: Db,
    pub(super) key: DataKey,
    /// The term of the lease, where the site has one.
    term: Option<Term>,
    pub(super) bounds: Bounds,
    pub(super) steady: SteadyClock,
    /// Bytes of the last commit, if there was no room for it.
    pub(super) wants: u64,
    commits: Durations,
}

impl Database {
    /// [`Database::open`] of the file `path`.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn sqlite(path: &Path, key_file: &Path) -> Result<Self, StoreError> {
        Self::open(&Location::Sqlite(path.to_owned()), key_file)
    }

    /// Opens or makes the database, with the data key at `key_file`, which is made if nothing is sealed yet.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be opened or is of a newer version, if another controller writes
    /// to it, or if the key is missing, wrong, or readable by others.
    pub fn open(at: &Location, key_file: &Path) -> Result<Self, StoreError> {
        Self::open_in(at, key_file, None)
    }

    /// The same for the holder of the site's lease: nothing is written once the lease is of another term, and the
    /// next epoch is the term's.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn open_in(at: &Location, key_file: &Path, term: Option<Term>) -> Result<Self, StoreError> {
        let db = match at {
            Location::Sqlite(path) => Db::sqlite(path)?,
            Location::Postgres(server) => Db::postgres(server, term)?,
        };
        let version = schema::version(&db)?;
        let sealed_with = if version == 0 { None } else { sealed_with(&db)? };
        if version > 0 && sealed_with.is_none() {
            return Err(StoreError::Format("the database does not say which key it is sealed with".into()));
        }
        let key = KeyFile::at(key_file).open(sealed_with)?;
        schema::migrate(&db, &key, &schema::SCHEMAS, version)?;
        let steady = SteadyClock::open(&db)?;
        let mut store = Self {
            db,
            key,
            term,
            bounds: Bounds::default(),
            steady,
            wants: 0,
            commits: Durations::default(),
        };
        if let Err(error) = store.scrub() {
            tracing::warn!(%error, "what was deleted still lies in the database's file; it is tried again at the next start");
        }
        Ok(store)
    }

    /// The key that seals the database.
    pub fn key(&self) -> DataKey {
        self.key.clone()
    }

    /// The durations of commits, also of those that failed.
    pub fn commits(&self) -> Durations {
        self.commits.clone()
    }

    fn write(
        &mut self,
        changes: &mut dyn Iterator<Item = Change>,
        seen: &[NodeId],
    ) -> Result<(), StoreError> {
        let (now, bounds, steady) = (now(), self.bounds, self.steady.now());
        let mut bytes = 0;
        // A database that is busy takes nothing of the changes: the transaction begins before the first of them.
        let written = self.db.transaction(|| {
            let mut written = Ok(());
            let mut writer = Writer::new(&self.db, &self.key, (&now, steady), bounds);
            // Also what comes after a failure is weighed: room is wanted for all of it.
            for change in changes {
                bytes += name::weight(&change);
                if written.is_ok() {
                    self.db.name(|| name::name(&change));
                    written = writer.write(&change).map_err(|source| source.of(|| name::name(&change)));
                }
            }
            written?;
            writer.finish(seen)
        });
        let is_full = written.as_ref().is_err_and(|error| error.failure() == Failure::Full);
        self.wants = if is_full { bytes } else { 0 };
        written
    }

    pub(super) fn db(&self) -> &Db {
        &self.db
    }
}

impl Store for Database {
    fn commit(
        &mut self,
        changes: &mut dyn Iterator<Item = Change>,
        seen: &[NodeId],
    ) -> Result<(), StoreError> {
        let begun = Instant::now();
        let written = self.write(changes, seen);
        self.commits.add(begun.elapsed());
        written.map_err(|error| match self.has_room() {
            Err(full @ StoreError::Full { .. }) if error.failure() == Failure::Full => full,
            Ok(()) | Err(_) => error,
        })
    }

    fn may_write(&mut self) -> Result<(), StoreError> {
        // The look at the lease is part of each transaction.
        self.term.map_or(Ok(()), |_| self.db.transaction(|| Ok(())))
    }

    fn load(&mut self) -> Result<Snapshot, StoreError> {
        super::load::load(self)
    }

    fn next_epoch(&mut self) -> Result<Epoch, StoreError> {
        if let Some(Term { epoch, .. }) = self.term {
            self.db.transaction(|| meta::put(&self.db, "epoch", &epoch.0.to_string()))?;
            return Ok(epoch);
        }
        let epoch = self.db.transaction(|| meta::count(&self.db, "epoch"))?;
        Ok(Epoch(u32::try_from(epoch).map_err(|_| StoreError::Format("the epoch is out of range".into()))?))
    }

    fn record_start(&mut self, epoch: Epoch, bits: u64) -> Result<Starts, StoreError> {
        self.db.transaction(|| {
            let text = meta::text(&self.db, "starts")?;
            // An unreadable value counts as a store without recorded starts.
            let mut starts: Starts =
                text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
            starts.add(epoch, bits);
            let text =
                serde_json::to_string(&starts).map_err(|error| StoreError::Format(error.to_string()))?;
            meta::put(&self.db, "starts", &text)?;
            Ok(starts)
        })
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        self.has_room()?;
        self.db.transaction(|| meta::count(&self.db, "probe"))?;
        self.try_room()
    }

    fn source(&mut self, stack: &StackName, revision: u32) -> Result<Option<SourceText>, StoreError> {
        Ok(super::read::source(&self.db, &self.key, stack, Some(revision))?.map(|(_, text)| text))
    }
}

/// The databases have no unsigned integers; ids count up from 1 and never come near the limit.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain maps, lists and strings")
}

/// The beginning of a period of this length that ends now.
pub(super) fn began(now: i64, waited: Duration) -> i64 {
    now.saturating_sub(i64::try_from(waited.as_secs()).unwrap_or(i64::MAX))
}

pub(super) fn now() -> String {
    rfc3339(time::OffsetDateTime::now_utc())
}

/// The form of times in the database and in views: UTC, to the millisecond.
pub(crate) fn rfc3339(time: time::OffsetDateTime) -> String {
    let format = time::macros::format_description!(
        "[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z"
    );
    time.format(&format).expect("a year of four digits")
}
