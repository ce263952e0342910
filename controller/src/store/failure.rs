//! The four kinds of a failed commit: no room, busy, broken, or our own mistake.
//!
//! Absent: what the driver does then, and what operators hear (`driver/turn/read_only.rs`), and the codes of
//! PostgreSQL (`sql/postgres/error.rs`).

use rusqlite::ErrorCode;

use super::{PostgresError, StoreError};

/// The driver's reaction to a failed commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No room: nothing is written until there is room for that commit.
    Full,
    /// Another program holds the database: the commit is tried again.
    Busy,
    /// The disk or the file: nothing is written until a probe succeeds.
    Broken,
    /// The commit itself is wrong: a bug of the controller.
    Mistake,
}

impl StoreError {
    /// Whether the error is of a database server, or of the connection to it.
    pub fn is_of_server(&self) -> bool {
        match self {
            Self::Postgres(_) => true,
            Self::Change { source, .. } => source.is_of_server(),
            Self::Sqlite(_) | Self::Full { .. } | Self::Key(_) | Self::Damaged(_) | Self::Format(_) => false,
        }
    }

    /// The commit may have been made: only the database can tell, once it answers.
    pub fn is_undecided(&self) -> bool {
        match self {
            Self::Postgres(error) => matches!(error, PostgresError::Undecided { .. }),
            Self::Change { source, .. } => source.is_undecided(),
            Self::Sqlite(_) | Self::Full { .. } | Self::Key(_) | Self::Damaged(_) | Self::Format(_) => false,
        }
    }

    /// The kind of this error.
    pub fn failure(&self) -> Failure {
        match self {
            Self::Full { .. } => Failure::Full,
            Self::Key(_) | Self::Format(_) | Self::Damaged(_) => Failure::Broken,
            Self::Change { source, .. } => source.failure(),
            Self::Postgres(error) => error.failure(),
            Self::Sqlite(error) => error.sqlite_error_code().map_or(Failure::Mistake, of_code),
        }
    }
}

fn of_code(code: ErrorCode) -> Failure {
    match code {
        ErrorCode::DiskFull => Failure::Full,
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Failure::Busy,
        ErrorCode::SystemIoFailure
        | ErrorCode::DatabaseCorrupt
        | ErrorCode::NotADatabase
        | ErrorCode::CannotOpen
        | ErrorCode::ReadOnly
        | ErrorCode::PermissionDenied
        | ErrorCode::OutOfMemory
        | ErrorCode::NoLargeFileSupport
        | ErrorCode::FileLockingProtocolFailed
        | ErrorCode::AuthorizationForStatementDenied => Failure::Broken,
        // Constraints, wrong types, statements that do not fit the schema, values that are too large.
        _ => Failure::Mistake,
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi::{self, Error};

    use super::*;

    #[test]
    fn each_code_is_one_of_four() {
        let rows: &[(i32, Failure)] = &[
            (ffi::SQLITE_FULL, Failure::Full),
            (ffi::SQLITE_BUSY, Failure::Busy),
            (ffi::SQLITE_BUSY_SNAPSHOT, Failure::Busy),
            (ffi::SQLITE_LOCKED, Failure::Busy),
            (ffi::SQLITE_IOERR, Failure::Broken),
            (ffi::SQLITE_IOERR_FSYNC, Failure::Broken),
            (ffi::SQLITE_CORRUPT, Failure::Broken),
            (ffi::SQLITE_NOTADB, Failure::Broken),
            (ffi::SQLITE_CANTOPEN, Failure::Broken),
            (ffi::SQLITE_READONLY_DBMOVED, Failure::Broken),
            (ffi::SQLITE_PERM, Failure::Broken),
            (ffi::SQLITE_NOMEM, Failure::Broken),
            (ffi::SQLITE_CONSTRAINT_UNIQUE, Failure::Mistake),
            (ffi::SQLITE_MISUSE, Failure::Mistake),
            (ffi::SQLITE_MISMATCH, Failure::Mistake),
            (ffi::SQLITE_TOOBIG, Failure::Mistake),
            (ffi::SQLITE_RANGE, Failure::Mistake),
            (ffi::SQLITE_ERROR, Failure::Mistake),
        ];
        for (code, failure) in rows {
            let error = || StoreError::Sqlite(rusqlite::Error::SqliteFailure(Error::new(*code), None));
            assert_eq!(error().failure(), *failure, "{code}");
            let of_change = StoreError::Change { change: "c".into(), source: Box::new(error()) };
            assert_eq!(of_change.failure(), *failure, "{code}");
        }
        let ours = StoreError::Sqlite(rusqlite::Error::InvalidParameterCount(1, 2));
        assert_eq!(ours.failure(), Failure::Mistake);
        assert_eq!(StoreError::Full { bytes: 1 }.failure(), Failure::Full);
        assert_eq!(StoreError::Format("meta.gone is damaged".into()).failure(), Failure::Broken);
    }
}
