//! Errors of the real database in the middle of a commit. Triggers that this file adds to the database count the rows
//! that are written, and at one of them SQLite runs into a real error: nothing of the controller's code knows of it.
//!
//! A disk that cannot be read or written (`SQLITE_IOERR`) cannot be had by a statement: a damaged page stands for it,
//! which is the same to the store (`controller/src/store/failure.rs`).

use std::path::Path;

use muster_controller::store::Failure;
use rusqlite::{Connection, params};

use super::super::dice::Dice;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A row has no room.
    Full,
    /// A page that cannot be used.
    Damaged,
    /// A row is refused.
    Constraint,
    /// The commit is refused after all of its rows were taken.
    AtCommit,
    /// Another program holds the database.
    Held,
}

impl Wrong {
    const ALL: [Self; 5] = [Self::Full, Self::Damaged, Self::Constraint, Self::AtCommit, Self::Held];

    /// Any of them. The last one takes a second of the real clock, so it is seldom.
    pub fn any(dice: &mut Dice) -> Self {
        if dice.one_in(20) { Self::Held } else { Self::ALL[dice.index(4)] }
    }

    /// The failure for which the store has to take it.
    pub fn failure(self) -> Failure {
        match self {
            Self::Full => Failure::Full,
            Self::Damaged => Failure::Broken,
            Self::Constraint | Self::AtCommit => Failure::Mistake,
            Self::Held => Failure::Busy,
        }
    }
}

/// The tables by which a trigger causes each error. An id after the last possible one has no room. A table whose root
/// is another's index is damaged. A reference to nothing is found by the commit.
const TABLES: &str = "
    CREATE TABLE injected (what TEXT, rows_left INTEGER);
    INSERT INTO injected VALUES (NULL, 0);
    CREATE INDEX injected_index ON injected (what);
    CREATE TABLE injected_full (id INTEGER PRIMARY KEY AUTOINCREMENT);
    INSERT INTO injected_full VALUES (9223372036854775807);
    CREATE TABLE injected_late (id INTEGER REFERENCES injected_full (id) DEFERRABLE INITIALLY DEFERRED);
    CREATE TABLE injected_damaged (value);
    PRAGMA writable_schema = ON;
    UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'injected_index')
        WHERE name = 'injected_damaged';
    PRAGMA writable_schema = RESET;";

const BODY: &str = "
    UPDATE injected SET rows_left = rows_left - 1;
    INSERT INTO injected_full SELECT NULL FROM injected WHERE what = 'Full' AND rows_left = 0;
    SELECT value FROM injected CROSS JOIN injected_damaged WHERE what = 'Damaged' AND rows_left = 0;
    SELECT RAISE(ABORT, 'injected') FROM injected WHERE what = 'Constraint' AND rows_left = 0;
    INSERT INTO injected_late SELECT 1 FROM injected WHERE what = 'AtCommit' AND rows_left = 0;";

/// Another connection to the database.
pub struct Injector {
    db: Connection,
    armed: Option<Wrong>,
}

impl Injector {
    /// Faults of the database at `path`, which has all of its tables.
    pub fn new(path: &Path) -> rusqlite::Result<Self> {
        let db = Connection::open(path)?;
        let mut select = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
        let tables: Vec<String> = select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        drop(select);
        db.execute_batch(TABLES)?;
        for table in tables.iter().filter(|name| !name.starts_with("sqlite_")) {
            for what in ["INSERT", "UPDATE", "DELETE"] {
                db.execute_batch(&format!(
                    "CREATE TRIGGER injected_{table}_{what} BEFORE {what} ON {table}
                         WHEN (SELECT what IS NOT NULL FROM injected) BEGIN {BODY} END"
                ))?;
            }
        }
        Ok(Self { db, armed: None })
    }

    /// The fault of the next commit.
    pub fn armed(&self) -> Option<Wrong> {
        self.armed
    }

    /// Lets the next commit fail when this many of its rows were written, if there are as many.
    pub fn arm(&mut self, wrong: Wrong, rows: u64) -> rusqlite::Result<()> {
        self.disarm()?;
        self.armed = Some(wrong);
        if wrong == Wrong::Held {
            return self.db.execute_batch("BEGIN IMMEDIATE");
        }
        let set = "UPDATE injected SET what = ?1, rows_left = ?2";
        self.db.execute(set, params![format!("{wrong:?}"), i64::try_from(rows).unwrap_or(1)]).map(|_| ())
    }

    /// Nothing goes wrong any more.
    pub fn disarm(&mut self) -> rusqlite::Result<()> {
        match self.armed.take() {
            None => Ok(()),
            Some(Wrong::Held) => self.db.execute_batch("ROLLBACK"),
            Some(_) => self.db.execute("UPDATE injected SET what = NULL", []).map(|_| ()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_comes_at_its_row() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("db");
        let db = Connection::open(&path).expect("a database");
        db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE things (id INTEGER PRIMARY KEY)")
            .expect("a table");
        let mut injector = Injector::new(&path).expect("triggers");
        let codes = [
            (Wrong::Full, rusqlite::ErrorCode::DiskFull),
            (Wrong::Damaged, rusqlite::ErrorCode::DatabaseCorrupt),
            (Wrong::Constraint, rusqlite::ErrorCode::ConstraintViolation),
        ];
        for (wrong, code) in codes {
            injector.arm(wrong, 2).expect("armed");
            db.execute_batch("BEGIN; INSERT INTO things VALUES (1)").expect("the first row");
            let error = db.execute("INSERT INTO things VALUES (2)", []).expect_err("the second one");
            assert_eq!(error.sqlite_error_code(), Some(code), "{wrong:?}: {error}");
            let _ = db.execute_batch("ROLLBACK"); // SQLite may have done so itself
            injector.disarm().expect("disarmed");
        }
        injector.arm(Wrong::AtCommit, 1).expect("armed");
        db.execute_batch("BEGIN; INSERT INTO things VALUES (1)").expect("the row");
        let error = db.execute_batch("COMMIT").expect_err("the commit");
        assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::ConstraintViolation), "{error}");
        db.execute_batch("ROLLBACK").expect("still in it");
        injector.disarm().expect("disarmed");
        db.execute("INSERT INTO things VALUES (1)", []).expect("nothing is wrong any more");
    }
}
