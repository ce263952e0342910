//! SQLite: one writer, WAL, a full fsync per commit, and how long a commit waits for another program's lock.
//!
//! Absent: how long the driver tries such a commit again (`driver/turn.rs`).

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::store::StoreError;

/// Pages held in memory, in KiB: the engine has the working set, this is for the tree's inner pages.
const CACHE_KIB: i64 = 8 * 1024;
/// Pages in the WAL before they are copied home: pages that change again and again are copied once.
const CHECKPOINT_PAGES: i64 = 8192;
/// The WAL is cut back to this after a checkpoint.
const WAL_MAX: i64 = 64 * 1024 * 1024;
/// Statements that are kept ready: more than the store has.
const STATEMENTS: usize = 128;

/// A commit waits so long for another program's lock; the driver, which has others to serve, then tries
/// again later.
const BUSY_WAIT: Duration = Duration::from_secs(1);
/// A reader serves one request at a time: it may wait longer.
const READ_WAIT: Duration = Duration::from_secs(5);

/// Opens or makes the database at `path`.
pub(super) fn open(path: &Path) -> Result<Connection, StoreError> {
    // The database records in clear who did what: only the owner may read it. SQLite gives its other
    // files the same mode.
    let made = std::fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    made.map_err(|error| StoreError::Format(format!("{} cannot be opened: {error}", path.display())))?;
    let db = Connection::open(path)?;
    db.busy_timeout(BUSY_WAIT)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "cache_size", -CACHE_KIB)?;
    db.pragma_update(None, "journal_size_limit", WAL_MAX)?;
    db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(db)
}

/// Opens an existing database for reading.
pub(super) fn read(path: &Path) -> Result<Connection, StoreError> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    db.busy_timeout(READ_WAIT)?;
    Ok(db)
}
