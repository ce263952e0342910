//! Durable state. The engine holds the working set in memory; the store is its log and its snapshot.
//!
//! Absent: decisions. The engine decides what to write and in which order, and the driver decides when.

mod audit;
pub mod backup;
mod bounds;
mod clock_across_restarts;
mod copy;
mod corrections;
mod damaged;
mod database;
mod failure;
mod flow;
mod intent;
mod key;
mod lease;
mod load;
mod location;
mod meta;
mod name;
mod read;
mod rekey;
mod restored;
mod rollout;
mod schema;
mod sealed;
mod sealed_content;
mod shared_keys;
mod sql;
mod text;
mod user;
mod write;

pub use audit::AuditQuery;
pub use bounds::Bounds;
pub use clock_across_restarts::{Machine, SteadyClock};
pub use copy::{Copied, copy};
pub use database::Database;
pub(crate) use database::rfc3339;
pub use failure::Failure;
pub use key::{DataKey, KEY_FILE, KeyError, KeyFile, KeyId};
pub use lease::LeaseTable;
pub use location::Location;
pub use read::{Reader, Times};
pub use sql::{Damage, PostgresError, Server};

use muster_engine::record::Change;
use muster_engine::{Snapshot, SourceText, Starts};
use muster_shared::{Epoch, NodeId, StackName};
use thiserror::Error;

/// The reason why the store could not do it.
#[derive(Debug, Error)]
pub enum StoreError {
    /// An error of SQLite; its message tells if the disk is full.
    #[error("the database cannot be used: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// An error of PostgreSQL, or of the way to it.
    #[error(transparent)]
    Postgres(#[from] PostgresError),
    /// The database has reached its bound.
    #[error("the database has reached its bound of {bytes} bytes, limits.database_bytes")]
    Full { bytes: u64 },
    /// A change of a commit that was refused.
    #[error("{change} cannot be written: {source}")]
    Change {
        /// The kind of change, without its content.
        change: String,
        source: Box<StoreError>,
    },
    /// The data key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A row cannot be read.
    #[error("the database is damaged: {0}")]
    Damaged(#[from] Damage),
    /// The file is not ours, or newer than this controller.
    #[error("{0}")]
    Format(String),
}

impl StoreError {
    /// Names the change that could not be written, unless it is named already.
    fn of(self, change: impl FnOnce() -> String) -> Self {
        match self {
            named @ Self::Change { .. } => named,
            error => Self::Change { change: change(), source: Box::new(error) },
        }
    }
}

/// A durable store. The simulator has one with failures.
pub trait Store {
    /// Makes all changes durable together, or none. `seen` are nodes that were connected just now.
    ///
    /// # Errors
    /// [`StoreError`]; then nothing was written. If the failure is [`Failure::Busy`], no change of `changes`
    /// was taken.
    fn commit(
        &mut self,
        changes: &mut dyn Iterator<Item = Change>,
        seen: &[NodeId],
    ) -> Result<(), StoreError>;

    /// Checks that this controller may still write, where another one may have taken its site over.
    ///
    /// # Errors
    /// [`StoreError`]: it may not, or the database does not say.
    fn may_write(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The state that the engine needs at its start.
    ///
    /// # Errors
    /// [`StoreError`]
    fn load(&mut self) -> Result<Snapshot, StoreError>;

    /// The next epoch, durable before it is given.
    ///
    /// # Errors
    /// [`StoreError`]
    fn next_epoch(&mut self) -> Result<Epoch, StoreError>;

    /// Records the random bits of a start durably, before anyone sees them. Returns them with those of
    /// earlier starts.
    ///
    /// # Errors
    /// [`StoreError`]
    fn record_start(&mut self, epoch: Epoch, bits: u64) -> Result<Starts, StoreError>;

    /// Checks that the store can write; after a commit without room, that there is room for that commit.
    ///
    /// # Errors
    /// [`StoreError`]
    fn probe(&mut self) -> Result<(), StoreError>;

    /// The template and files of a revision, as the operator sent them.
    ///
    /// # Errors
    /// [`StoreError`]
    fn source(&mut self, stack: &StackName, revision: u32) -> Result<Option<SourceText>, StoreError>;
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
