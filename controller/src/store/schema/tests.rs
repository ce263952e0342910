//! Later schemas, and ones that fail; and that both forms of a schema make the same tables.

use muster_shared::Epoch;

use super::*;
use crate::store::Store as _;
use crate::store::testing::{Place, each};

fn later(sql: &'static str) -> Schema {
    Schema { sqlite: sql, postgres: sql }
}

fn columns(place: &Place) -> String {
    place.run(match place.server {
        None => "SELECT count(*) FROM pragma_table_info('tokens')",
        Some(_) => "SELECT count(*) FROM information_schema.columns WHERE table_name = 'tokens'",
    })
}

#[test]
fn a_later_schema_is_applied_once_and_keeps_what_is_there() {
    each(|place| {
        let mut store = place.open();
        let epoch = store.next_epoch().unwrap();
        let schemas = [SCHEMAS[0], later("ALTER TABLE tokens ADD COLUMN note TEXT")];
        for version in [1, 2] {
            migrate(&store.db, &store.key, &schemas, version).unwrap();
            assert_eq!(columns(place), "9");
        }
        assert_eq!(store.next_epoch().unwrap(), Epoch(epoch.0 + 1));
    });
}

#[test]
fn a_schema_that_fails_changes_nothing() {
    each(|place| {
        let store = place.open();
        let schemas = [
            SCHEMAS[0],
            later("ALTER TABLE tokens ADD COLUMN note TEXT"),
            later("ALTER TABLE nothing ADD COLUMN a TEXT"),
        ];
        migrate(&store.db, &store.key, &schemas, 1).unwrap_err();
        assert_eq!((version(&store.db).unwrap(), columns(place)), (SCHEMAS.len(), "8".to_owned()));
    });
}

#[test]
fn a_newer_database_is_refused_and_stays_as_it_is() {
    each(|place| {
        drop(place.open());
        let newer = SCHEMAS.len() + 1;
        place.run(&match place.server {
            None => format!("PRAGMA user_version = {newer}"),
            Some(_) => format!("UPDATE meta SET value = '{newer}' WHERE key = 'schema'"),
        });
        let dump = || place.run("SELECT key, value FROM meta ORDER BY key");
        let before = dump();
        let error = place.try_open().err().unwrap().to_string();
        assert!(error.contains("upgrade the controller"), "{error}");
        assert_eq!(dump(), before);
    });
}

#[test]
fn a_database_of_another_program_is_refused() {
    let place = Place::postgres();
    place.run("CREATE TABLE meta (key TEXT, value TEXT)");
    let error = place.try_open().err().unwrap().to_string();
    assert!(error.contains("of another program"), "{error}");
}
