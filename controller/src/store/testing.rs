//! Databases for tests: what the store does, it does in each kind of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use muster_testbed::Postgres;
use tempfile::TempDir;

use super::{Database, KEY_FILE, Location, Reader, Store as _, StoreError};
use crate::audit_of_commands::Runner;

/// A place for a database and its key; both go with the value.
pub(crate) struct Place {
    folder: TempDir,
    pub server: Option<Postgres>,
}

/// Who runs a command.
pub(crate) fn operator() -> Runner {
    Runner { actor: "anna".to_owned(), from: "host c1, process 1".to_owned() }
}

/// The name of the database on a server.
pub(crate) const SITE: &str = "site";

/// Runs a test with a file of SQLite, and with a PostgreSQL server.
pub(crate) fn each(test: impl Fn(&Place)) {
    for place in [Place::sqlite(), Place::postgres()] {
        eprintln!("with {}", place.location());
        test(&place);
    }
}

impl Place {
    pub fn sqlite() -> Self {
        Self { folder: TempDir::new().unwrap(), server: None }
    }

    pub fn postgres() -> Self {
        let server = Postgres::start();
        server.create(SITE);
        Self { folder: TempDir::new().unwrap(), server: Some(server) }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn key_file(&self) -> PathBuf {
        self.folder().join(KEY_FILE)
    }

    pub fn location(&self) -> Location {
        match &self.server {
            None => Location::Sqlite(self.folder().join("muster.db")),
            Some(_) => self.url().parse().unwrap(),
        }
    }

    /// The URL of a database on a server.
    pub fn url(&self) -> String {
        self.server.as_ref().unwrap().url(SITE)
    }

    pub fn open(&self) -> Database {
        self.try_open().unwrap()
    }

    pub fn try_open(&self) -> Result<Database, StoreError> {
        Database::open(&self.location(), &self.key_file())
    }

    /// A reader beside a store that is open.
    pub fn reader(&self, store: &Database) -> Reader {
        Reader::open(&self.location(), &store.key()).unwrap()
    }

    /// The snapshot that an engine gets from it.
    pub fn load(&self) -> muster_engine::Snapshot {
        self.open().load().unwrap()
    }

    /// Runs SQL as another program: an operator's `sqlite3` or `psql`. Rows as lines, columns with `|` in between.
    pub fn run(&self, sql: &str) -> String {
        match &self.server {
            Some(server) => server.psql(SITE, sql),
            None => {
                let output =
                    Command::new("sqlite3").arg(self.folder().join("muster.db")).arg(sql).output().unwrap();
                assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
                String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
            }
        }
    }
}
