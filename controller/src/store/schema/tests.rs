//! Later schemas, and ones that fail.

use std::path::Path;

use muster_shared::Epoch;

use super::*;
use crate::store::{Database, KEY_FILE, Store as _};

fn open_in(folder: &Path) -> Result<Database, StoreError> {
    Database::sqlite(&folder.join("muster.db"), &folder.join(KEY_FILE))
}

fn columns(store: &Database) -> usize {
    let Db::Sqlite(db) = store.db();
    db.prepare("SELECT * FROM tokens").unwrap().column_count()
}

#[test]
fn a_later_schema_is_applied_once_and_keeps_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open_in(folder.path()).unwrap();
    let epoch = store.next_epoch().unwrap();
    let (key, before) = (store.key(), columns(&store));
    let schemas = [SCHEMAS[0], "ALTER TABLE tokens ADD COLUMN note TEXT"];
    for version in [1, 2] {
        migrate(&store.db, &key, &schemas, version).unwrap();
        assert_eq!(columns(&store), before + 1);
    }
    assert_eq!(store.next_epoch().unwrap(), Epoch(epoch.0 + 1));
}

#[test]
fn a_schema_that_fails_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_in(folder.path()).unwrap();
    let (key, before) = (store.key(), columns(&store));
    let schemas =
        [SCHEMAS[0], "ALTER TABLE tokens ADD COLUMN note TEXT", "ALTER TABLE nothing ADD COLUMN a TEXT"];
    migrate(&store.db, &key, &schemas, 1).unwrap_err();
    assert_eq!((version(&store.db).unwrap(), columns(&store)), (SCHEMAS.len(), before));
}

#[test]
fn a_newer_database_is_refused_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_in(folder.path()).unwrap();
    let Db::Sqlite(db) = store.db();
    db.pragma_update(None, "user_version", int(SCHEMAS.len() as u64 + 1)).unwrap();
    drop(store);
    let before = std::fs::read(folder.path().join("muster.db")).unwrap();
    let error = open_in(folder.path()).err().unwrap().to_string();
    assert!(error.contains("upgrade the controller"), "{error}");
    assert_eq!(std::fs::read(folder.path().join("muster.db")).unwrap(), before);
}
