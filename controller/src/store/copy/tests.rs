//! There and back, and what is refused.

use rusqlite::Connection;
use rusqlite::types::Value as Cell;

use super::*;
use crate::store::Store as _;
use crate::store::testing::{Place, SITE};

/// Rows in every table: in a sealed column both an empty list and sealed bytes.
fn filled() -> Place {
    let place = Place::sqlite();
    let store = place.open();
    let tables = tables(store.db()).unwrap();
    drop(store);
    let db = Connection::open(place.folder().join("muster.db")).unwrap();
    for (table, columns) in tables.iter().filter(|(table, _)| *table != "meta") {
        for row in 1..=3 {
            let cell = |(at, name): (usize, &String)| -> Cell {
                let sql = format!("SELECT type FROM pragma_table_info('{table}') WHERE name = '{name}'");
                let kind: String = db.query_row(&sql, [], |found| found.get(0)).unwrap();
                let is_sealed =
                    TEXTS.iter().any(|column| column.table == table && column.name == name.as_str());
                let bytes = vec![1, 0, 255, row, u8::try_from(at).unwrap()];
                match (&*kind, is_sealed) {
                    ("INTEGER", _) => {
                        Cell::Integer((1 << 40) + i64::from(row) * 1000 + i64::try_from(at).unwrap())
                    }
                    ("TEXT", true) if row == 1 => Cell::Text("[]".to_owned()),
                    ("TEXT", true) if row == 2 => Cell::Text("{}".to_owned()),
                    ("TEXT", false) => Cell::Text(format!("ä {name}\n'{row}'|\\")),
                    ("TEXT", true) | ("BLOB", _) => Cell::Blob(bytes),
                    other => panic!("{table}.{name}: {other:?}"),
                }
            };
            let cells: Vec<Cell> = columns.iter().enumerate().map(cell).collect();
            let places = vec!["?"; columns.len()].join(", ");
            let sql = format!("INSERT INTO {table} VALUES ({places})");
            db.execute(&sql, rusqlite::params_from_iter(cells)).unwrap();
        }
    }
    // A row that was the highest, and is gone.
    db.execute("UPDATE sqlite_sequence SET seq = seq + 7", []).unwrap();
    place
}

/// The rows of the database, in an order of its own.
fn dump(place: &Place) -> Vec<String> {
    let text = match &place.server {
        None => place.run(".dump"),
        Some(server) => {
            let tables = "SELECT table_name FROM information_schema.tables
                WHERE table_schema = 'public' AND table_type = 'BASE TABLE'";
            let tables = place.run(tables);
            let rows = |table: &str| {
                let skipped = if table == "meta" { " WHERE key <> 'commit'" } else { "" };
                server.psql(SITE, &format!("COPY (SELECT '{table}', * FROM {table}{skipped}) TO STDOUT"))
            };
            tables.lines().map(rows).collect::<Vec<_>>().join("\n")
        }
    };
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn a_site_that_was_copied_there_and_back_is_the_same() {
    let origin = filled();
    let (first, second) = (Place::postgres(), Place::postgres());
    let there = copy(&origin.location(), &first.location()).unwrap();
    let back = Place::sqlite();
    let copied = copy(&first.location(), &back.location()).unwrap();
    assert_eq!(there, copied);
    assert_eq!(dump(&back), dump(&origin));
    copy(&back.location(), &second.location()).unwrap();
    let dumped = dump(&second);
    assert!(dumped.len() > 60, "{dumped:?}");
    assert_eq!(dumped, dump(&first));
}

#[test]
fn both_schemas_have_the_same_tables_and_columns() {
    let (file, server) = (Place::sqlite(), Place::postgres());
    assert_eq!(tables(file.open().db()).unwrap(), tables(server.open().db()).unwrap());
    assert_eq!(
        file.run("SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY name"),
        server.run("SELECT viewname FROM pg_views WHERE schemaname = 'public' ORDER BY viewname"),
    );
}

#[test]
fn a_copied_site_is_opened_with_its_key() {
    let (origin, server) = (Place::sqlite(), Place::postgres());
    let epoch = origin.open().next_epoch().unwrap();
    fs::copy(origin.key_file(), server.key_file()).unwrap();
    copy(&origin.location(), &server.location()).unwrap();
    assert_eq!(server.open().next_epoch().unwrap().0, epoch.0 + 1);
}

#[test]
fn what_cannot_be_copied_is_refused_and_changes_nothing() {
    let (origin, used, empty) = (Place::sqlite(), Place::postgres(), Place::postgres());
    drop((origin.open(), used.open()));
    let refused = |from: &Place, to: &Place, wanted: &str| {
        let error = copy(&from.location(), &to.location()).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    };
    let before = dump(&used);
    refused(&origin, &used, "is not empty");
    assert_eq!(dump(&used), before);
    refused(&used, &origin, "exists: name a new file");
    refused(&Place::sqlite(), &empty, "is not there");
    refused(&empty, &Place::sqlite(), "has no site");
    // SQLite takes any value in any column.
    let damaged = filled();
    damaged.run("UPDATE resources SET attempt = 'x'");
    refused(&damaged, &empty, "cannot be");
    assert_eq!(
        empty.run("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'"),
        "0"
    );
    origin.run("INSERT INTO meta VALUES ('backup', 'now')");
    refused(&origin, &empty, "restore it first");
    let _writer = used.open();
    refused(&used, &Place::sqlite(), "one controller at a time");
}
