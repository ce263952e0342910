use std::path::Path;

use muster_engine::record::Change;
use muster_shared::model::ContentDigest;

use super::*;
use crate::store::sealed::PIECE;
use crate::store::sealed::SPEC;
use crate::store::sealed_content::{put_content, read_content};
use crate::store::testing::{Place, each, operator};
use crate::store::{KEY_FILE, Store as _};

const STACK: &str = include_str!("../testdata/stack.sql");
/// Each secret of the database begins with it.
const MARKER: &[u8] = b"marker-";

fn part(
    store: &Database,
    digest: ContentDigest,
    offset: u64,
    length: usize,
) -> Result<Option<Vec<u8>>, StoreError> {
    read_content(&store.db, &store.key, &digest.0, offset, length)
}

/// A database with a sealed stack and a sealed content.
fn sealed(folder: &Path) {
    let mut store = open_in(folder).unwrap();
    let db = &store.db;
    let seal = || {
        db.batch(STACK)?;
        for column in TEXTS {
            change(db, column, |row, value| {
                let Value::Text(text) = value else { panic!("{value:?}") };
                sealed_text(&store.key, column, row, &text)
            })?;
        }
        change(db, SPEC, |row, value| {
            let Value::Blob(spec) = value else { panic!("{value:?}") };
            Ok(Value::Blob(store.key.seal(&SPEC.place(row), &spec)?.into()))
        })?;
        put_content(db, &store.key, &[7; 32], b"marker-in-content")?;
        note_scrub(db)
    };
    db.transaction(seal).unwrap();
    store.scrub().unwrap();
}

/// The same in a place of either kind.
fn sealed_in(place: &Place) {
    if place.server.is_none() {
        return sealed(place.folder());
    }
    let origin = Place::sqlite();
    sealed(origin.folder());
    std::fs::copy(origin.key_file(), place.key_file()).unwrap();
    crate::store::copy(&origin.location(), &place.location()).unwrap();
}

fn open_in(folder: &Path) -> Result<Database, StoreError> {
    Database::sqlite(&folder.join("muster.db"), &folder.join(KEY_FILE))
}

/// The files in which the marker can be read.
fn with_marker(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        if bytes.windows(MARKER.len()).any(|window| window == MARKER) {
            found.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    found.sort();
    found
}

/// The snapshot for an engine, the texts and the content, in clear.
fn all(store: &mut Database) -> String {
    let source = store.source(&"app".parse().unwrap(), 1).unwrap().unwrap();
    let content = part(store, ContentDigest([7; 32]), 0, PIECE).unwrap().unwrap();
    let snapshot = store.load().unwrap();
    let rows: Vec<_> =
        snapshot.resources.iter().map(|row| (row, row.spec.as_ref().map(|s| s.unpack()))).collect();
    let (stack, _) = &snapshot.stacks[0];
    let content = String::from_utf8(content).unwrap();
    format!(
        "{:?}",
        (&source.parameters, &source.environments, &source.template, stack, rows, snapshot.contents, content)
    )
}

#[test]
fn what_is_sealed_is_read_again_and_nothing_is_left_in_clear() {
    let folder = tempfile::tempdir().unwrap();
    sealed(folder.path());
    let found = all(&mut open_in(folder.path()).unwrap());
    for secret in [
        "marker-from-old-code",
        "marker-in-environment",
        "marker-in-output",
        "marker-in-attribute",
        "marker-in-content",
        &u128::from_le_bytes(*b"marker-digest\0\0\0").to_string(),
        "password = PW",
    ] {
        assert!(found.contains(secret), "{secret}: {found}");
    }
    assert_eq!(with_marker(folder.path()), Vec::<String>::new(), "nor in free pages or the log");
}

#[test]
fn a_sealed_database_without_its_key_is_refused_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    sealed(folder.path());
    let file = folder.path().join(KEY_FILE);
    let found = all(&mut open_in(folder.path()).unwrap());
    let kept = std::fs::read(&file).unwrap();
    let before = std::fs::read(folder.path().join("muster.db")).unwrap();
    std::fs::remove_file(&file).unwrap();
    let error = open_in(folder.path()).err().unwrap().to_string();
    assert!(error.contains("secrets.key") && error.contains("is not there"), "{error}");
    assert!(!file.exists());
    KeyFile::at(&file).open(None).unwrap();
    let error = open_in(folder.path()).err().unwrap().to_string();
    assert!(error.contains("sealed with"), "{error}");
    assert_eq!(std::fs::read(folder.path().join("muster.db")).unwrap(), before);
    std::fs::write(&file, kept).unwrap();
    assert_eq!(all(&mut open_in(folder.path()).unwrap()), found);
}

#[test]
fn a_new_key_opens_everything_and_the_old_one_nothing() {
    each(|place| {
        sealed_in(place);
        let file = KeyFile::at(&place.key_file());
        let mut store = place.open();
        let long: Vec<u8> = (0..PIECE * 2 + 5).map(|at| (at / PIECE) as u8 + 1).collect();
        let digest = ContentDigest::of(&long);
        let content = Change::Content { digest, bytes: long.clone().into() };
        let (mut stack, _) = store.load().unwrap().stacks.remove(0);
        stack.hidden_digests = [("password".into(), "marker-digest-of-password".into())].into();
        store.commit(&mut [content, Change::Stack(Box::new(stack))].into_iter(), &[]).unwrap();
        assert_eq!(with_marker(place.folder()), Vec::<String>::new());
        let (found, old) = (all(&mut store), store.key());
        assert!(found.contains("marker-digest-of-password"));
        let id = store.rekey(&file, &operator()).unwrap();
        assert_eq!((store.key().id(), all(&mut store)), (id, found.clone()));
        drop(store);
        let mut store = place.open();
        assert_eq!((store.key().id(), all(&mut store)), (id, found.clone()));
        let read =
            |store: &mut Database, offset: usize, length| part(store, digest, offset as u64, length).unwrap();
        for (offset, length) in
            [(0, PIECE), (PIECE - 1, 1), (PIECE, PIECE), (PIECE * 2 + 1, 9), (PIECE + 7, 3)]
        {
            let upto = (offset + length).min(long.len()).min((offset / PIECE + 1) * PIECE);
            assert_eq!(read(&mut store, offset, length).as_deref(), Some(&long[offset..upto]), "{offset}");
        }
        assert_eq!(read(&mut store, long.len(), 9), Some(Vec::new()));
        assert_eq!(read(&mut store, PIECE * 9, 9), Some(Vec::new()));
        assert_eq!(part(&store, ContentDigest([1; 32]), 0, 9).unwrap(), None);
        store.commit(&mut std::iter::once(Change::ContentRemoved(digest)), &[]).unwrap();
        assert_eq!(read(&mut store, 0, 9), None);
        store.key = old;
        assert!(store.load().is_err() && store.source(&"app".parse().unwrap(), 1).is_err());
    });
}

/// Cut short after each of its steps.
#[test]
fn a_start_opens_the_database_after_a_rekey_cut_at_any_step() {
    for steps in 0..=3 {
        each(|place| {
            sealed_in(place);
            let file = KeyFile::at(&place.key_file());
            let mut store = place.open();
            let (found, old, new) = (all(&mut store), store.key().id(), DataKey::random().unwrap());
            if steps >= 1 {
                file.prepare(&new).unwrap();
            }
            if steps >= 2 {
                store.seal_anew(&new, &operator()).unwrap();
            }
            if steps >= 3 {
                file.use_next().unwrap();
            }
            drop(store);
            let mut store = place.open();
            assert_eq!(store.key().id(), if steps >= 2 { new.id() } else { old }, "{steps}");
            assert_eq!(all(&mut store), found);
            let is_new = |entry: std::io::Result<std::fs::DirEntry>| {
                entry.unwrap().file_name().to_string_lossy().contains("new")
            };
            assert!(!std::fs::read_dir(place.folder()).unwrap().any(is_new), "{steps}");
        });
    }
}

/// An attacker who can write the database but has no key cannot put one secret in another's place.
#[test]
fn what_was_moved_opens_no_more() {
    for sql in [
        "UPDATE resources SET spec = (SELECT spec FROM resources WHERE id = 2) WHERE id = 1",
        "UPDATE resources SET attributes = (SELECT spec FROM resources WHERE id = 1) WHERE id = 1",
        "UPDATE stacks SET outputs = (SELECT parameters FROM revisions)",
        "UPDATE stacks SET outputs = '[{}]'",
        "UPDATE stacks SET hidden_digests = outputs",
        "UPDATE resources SET spec = zeroblob(99) WHERE id = 1",
        "UPDATE contents SET digest = (SELECT spec FROM resources WHERE id = 1)",
    ] {
        let folder = tempfile::tempdir().unwrap();
        sealed(folder.path());
        let mut store = open_in(folder.path()).unwrap();
        store.db.batch(sql).unwrap();
        let whole = (2, 1);
        match store.load() {
            Err(error) => assert!(error.to_string().contains("damaged"), "{sql}: {error}"),
            // What cannot be opened is kept aside.
            Ok(found) => {
                let told = found.damaged.values().all(|why| why.contains("damaged"));
                assert!(told && (found.resources.len(), found.stacks.len()) < whole, "{sql}");
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    sealed(folder.path());
    let mut store = open_in(folder.path()).unwrap();
    store.db.batch("UPDATE revisions SET template = parameters").unwrap();
    assert!(store.source(&"app".parse().unwrap(), 1).is_err());
    store.db.batch("UPDATE content_pieces SET bytes = (SELECT digest FROM contents)").unwrap();
    assert!(part(&store, ContentDigest([7; 32]), 0, 9).is_err());
}

/// The command does not know how long the controller's settings keep them.
#[test]
fn old_rows_of_the_audit_outlive_a_change_of_keys() {
    each(|place| {
        let mut store = place.open();
        let row = operator().did("rekey", "database", String::new());
        let long_ago = "2020-01-01T00:00:00.000Z";
        store.db.transaction(|| audit::add(&store.db, &row, long_ago)).unwrap();
        store.rekey(&KeyFile::at(&place.key_file()), &operator()).unwrap();
        let rows: u64 = store.db.only("SELECT count(*) FROM audit", values![], |row| row.get(0)).unwrap();
        assert_eq!(rows, 2);
    });
}
