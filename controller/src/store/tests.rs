//! What is written is read again.

use muster_engine::record::{Change, EventRecord, TokenRecord};
use muster_engine::{NewToken, Starts};

use super::{Failure, Sqlite, Store as _};

#[test]
fn a_token_is_kept_with_all_it_allows() {
    let folder = tempfile::tempdir().unwrap();
    let (database, key) = (folder.path().join("muster.db"), folder.path().join("key"));
    let token = |id: u8, name: Option<&str>, rate: Option<&str>| TokenRecord {
        token: NewToken {
            id: [id; 8],
            secret_hash: [id; 32],
            expires: 7,
            uses: 3,
            name: name.map(str::to_owned),
            labels: [("role".to_owned(), "web".to_owned())].into(),
            rate: rate.map(|rate| rate.parse().unwrap()),
        },
        uses_left: 2,
    };
    let tokens = [token(1, None, None), token(2, Some("web-*"), Some("30/m"))];
    let mut changes = tokens.iter().cloned().map(|token| Change::Token(Box::new(token)));
    Sqlite::open(&database, &key).unwrap().commit(&mut changes, &[]).unwrap();
    assert_eq!(Sqlite::open(&database, &key).unwrap().load().unwrap().tokens, tokens);
}

#[test]
fn a_change_that_is_refused_is_named_without_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Sqlite::open(&folder.path().join("muster.db"), &folder.path().join("key")).unwrap();
    let event = |reason: &str| {
        let (action, status, reason) = ("CREATE", "COMPLETE", reason.into());
        Change::Event(EventRecord { stack: 1, number: 4, resource: None, action, status, reason })
    };
    let mut twice = [event("harmless"), event("s3cret")].into_iter();
    let error = store.commit(&mut twice, &[]).unwrap_err();
    assert_eq!(error.failure(), Failure::Mistake);
    let told = error.to_string();
    assert!(told.starts_with("event 4 of stack 1 cannot be written:"), "{told}");
    assert!(told.contains("UNIQUE") && !told.contains("s3cret"), "{told}");
    store.commit(&mut std::iter::once(event("alone")), &[]).unwrap();
}

#[test]
fn a_busy_database_takes_nothing_of_a_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("muster.db");
    let mut store = Sqlite::open(&path, &folder.path().join("key")).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut changes = std::iter::once(Change::TokenRemoved([1; 8]));
    let error = store.commit(&mut changes, &[]).unwrap_err();
    assert_eq!(error.failure(), Failure::Busy, "{error}");
    other.execute_batch("COMMIT").unwrap();
    assert!(changes.next().is_some());
}

#[test]
fn a_stack_that_came_and_went_in_one_commit_keeps_its_ids() {
    let folder = tempfile::tempdir().unwrap();
    let (database, key) = (folder.path().join("muster.db"), folder.path().join("key"));
    let removed = Change::StackRemoved { id: 5, name: "web".parse().unwrap(), traversal: 9 };
    Sqlite::open(&database, &key).unwrap().commit(&mut std::iter::once(removed), &[]).unwrap();
    let (_, stack, traversal) = Sqlite::open(&database, &key).unwrap().load().unwrap().highest;
    assert_eq!((stack, traversal), (5, 9));
}

#[test]
fn starts_are_recorded_with_their_bits() {
    let folder = tempfile::tempdir().unwrap();
    let (database, key) = (folder.path().join("muster.db"), folder.path().join("key"));
    let start = |bits| {
        let mut store = Sqlite::open(&database, &key).unwrap();
        let epoch = store.next_epoch().unwrap();
        (epoch, store.record_start(epoch, bits).unwrap())
    };
    let ((first, _), (second, starts)) = (start(7), start(u64::MAX));
    let mut expected = Starts::default();
    expected.add(first, 7);
    expected.add(second, u64::MAX);
    assert_eq!(starts, expected);
}
