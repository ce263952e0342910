//! Everything that is written is read again.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_engine::cause::Cause;
use muster_engine::notes::{Notes, Trigger, UnitNotes};
use muster_engine::record::{
    Change, Corrections, EventRecord, Observation, ProgressRecord, ResourceRecord, Status, TokenRecord,
};
use muster_engine::{Hook, NewToken, Starts};
use muster_shared::model::Action;
use muster_shared::{Epoch, Generation, ResourceId};
use muster_template::{DriftPolicy, Kind};
use serde_json::json;

use super::testing::each;
use super::{Database, Failure, Store as _};

#[test]
fn a_token_is_kept_with_all_it_allows() {
    each(|place| {
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
        place.open().commit(&mut changes, &[]).unwrap();
        assert_eq!(place.load().tokens, tokens);
    });
}

#[test]
fn a_change_that_is_refused_is_named_without_its_content() {
    each(|place| {
        let mut store = place.open();
        let event = |reason: &str| {
            let (action, status, reason) = ("CREATE", "COMPLETE", reason.into());
            Change::Event(EventRecord {
                stack: 1,
                number: 4,
                resource: None,
                action,
                status,
                reason,
                actor: None,
            })
        };
        let mut twice = [event("harmless"), event("s3cret")].into_iter();
        let error = store.commit(&mut twice, &[]).unwrap_err();
        assert_eq!(error.failure(), Failure::Mistake);
        let told = error.to_string();
        assert!(told.starts_with("event 4 of stack 1 cannot be written:"), "{told}");
        assert!(told.to_lowercase().contains("unique") && !told.contains("s3cret"), "{told}");
        store.commit(&mut std::iter::once(event("alone")), &[]).unwrap();
    });
}

#[test]
fn a_busy_database_takes_nothing_of_a_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("muster.db");
    let mut store = Database::sqlite(&path, &folder.path().join("key")).unwrap();
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
    each(|place| {
        let removed = Change::StackRemoved { id: 5, name: "web".parse().unwrap(), traversal: 9 };
        place.open().commit(&mut std::iter::once(removed), &[]).unwrap();
        let (_, stack, traversal) = place.load().highest;
        assert_eq!((stack, traversal), (5, 9));
    });
}

#[test]
fn starts_are_recorded_with_their_bits() {
    each(|place| {
        let start = |bits| {
            let mut store = place.open();
            let epoch = store.next_epoch().unwrap();
            (epoch, store.record_start(epoch, bits).unwrap())
        };
        let ((first, _), (second, starts)) = (start(7), start(u64::MAX));
        let mut expected = Starts::default();
        expected.add(first, 7);
        expected.add(second, u64::MAX);
        assert_eq!(starts, expected);
    });
}

/// A lost row, which the store keeps without a stack.
fn row(id: u64, cause: Cause, notes: Option<Notes>) -> ResourceRecord {
    ResourceRecord {
        id,
        physical: ResourceId(uuid::Uuid::from_u128(id.into())),
        stack: 0,
        name: "motd".into(),
        kind: Kind::File,
        type_name: None,
        node: None,
        definition: 0,
        revision: 0,
        dropped: None,
        spec: None,
        handed_over: false,
        replaces: None,
        replaced_by: None,
        retain: false,
        drift_policy: None,
        external_id: None,
        lost_from: None,
        progress: ProgressRecord {
            id,
            action: None,
            cause,
            status: None,
            reason: None,
            applied: false,
            held: None,
            generation: Generation::default(),
            attempt: 0,
            in_flight: false,
            retry_count: 0,
            observed_ready: false,
            attributes: [].into(),
            notes,
            observed: Observation::Unknown,
            unhealthy: false,
            hook: None,
            hooks_cleared: 0,
            causes: Vec::new(),
            waited: None,
            corrections: None,
        },
    }
}

/// `sqlite3` and `psql` show why a job runs and what a row remembers, but for what may be secret.
#[test]
fn causes_and_notes_are_kept_readable_or_sealed() {
    each(|place| {
        let mark = Some(Generation { epoch: Epoch(3), number: 7 });
        let restart = Trigger { names: vec!["conf".to_owned()], mark };
        let unit = UnitNotes { restart, reload: Trigger::default() };
        let mut rows = vec![
            row(1, Cause::UnitRestart, Some(Notes::Unit(Box::new(unit)))),
            row(2, Cause::Traversal, Some(Notes::Hides(vec![json!("s3cret")]))),
            row(3, Cause::LostCleanup, None),
            row(4, Cause::Traversal, None),
        ];
        let mut changes = rows.iter().cloned().map(|row| Change::Resource(Box::new(row)));
        place.open().commit(&mut changes, &[]).unwrap();
        assert_eq!(place.load().resources, rows);

        rows[0].progress.notes = Some(Notes::HidesFlows);
        rows[1].progress = ProgressRecord { cause: Cause::Rebuild, ..rows[1].progress.clone() };
        let mut changes = rows.iter().map(|row| Change::Progress(Box::new(row.progress.clone())));
        place.open().commit(&mut changes, &[]).unwrap();
        assert_eq!(place.load().resources, rows);

        let seen = place.run("SELECT cause, notes, secret_notes IS NULL AS clear FROM resources ORDER BY id");
        let flags = if place.server.is_some() { ["t", "f"] } else { ["1", "0"] };
        let wanted = [
            format!("unit_restart|\"hides_flows\"|{}", flags[0]),
            format!("rebuild||{}", flags[1]),
            format!("lost_cleanup||{}", flags[0]),
            format!("||{}", flags[0]),
        ];
        assert_eq!(seen.lines().collect::<Vec<_>>(), wanted);
    });
}

/// What arrays, texts and JSON have words and marks for.
const ODD: &str = "NULL \\ \"quoted\" 'it''s' {a,b} \u{1}\r\n\t ?1 $1 ü 日本 🦀";

/// The same row with a value in every column. A lost row, too.
fn full_row(id: u64) -> ResourceRecord {
    let ago = Duration::ZERO;
    let bare = row(id, Cause::Correction, Some(Notes::Selector(ODD.to_owned())));
    let mark = Generation { epoch: Epoch(3), number: id };
    ResourceRecord {
        name: ODD.into(),
        node: Some("web-1.example.org".parse().unwrap()),
        definition: u128::MAX - u128::from(id),
        dropped: Some(5),
        replaces: Some(id + 1),
        replaced_by: Some(id + 2),
        drift_policy: Some(DriftPolicy::Report),
        external_id: Some("".into()),
        lost_from: Some("web".parse().unwrap()),
        progress: ProgressRecord {
            action: Some(Action::Create),
            status: Some(Status::Failed),
            reason: Some(ODD.into()),
            held: Some(mark),
            generation: mark,
            attributes: [("a".to_owned(), ODD.to_owned())].into(),
            hook: Some(Hook::PreCreate),
            causes: vec![ODD.into(), "".into()],
            waited: Some(ago),
            corrections: Some(Corrections { count: 2, ago, lasted: ago, open: true, made_again: None }),
            ..bare.progress
        },
        ..bare
    }
}

/// Rows without the seconds since they were written.
fn as_written(mut rows: Vec<ResourceRecord>) -> Vec<ResourceRecord> {
    for progress in rows.iter_mut().map(|row| &mut row.progress) {
        progress.waited = progress.waited.map(|_| Duration::ZERO);
        progress.corrections.iter_mut().for_each(|it| it.ago = Duration::ZERO);
    }
    rows
}

fn put(row: &ResourceRecord) -> Change {
    Change::Resource(Box::new(row.clone()))
}

fn progress(row: &ResourceRecord) -> Change {
    Change::Progress(Box::new(row.progress.clone()))
}

/// More rows than PostgreSQL gets by one statement, with and without values.
#[test]
fn many_rows_are_read_again_with_all_their_values() {
    each(|place| {
        let of = |id, is_full| if is_full { full_row(id) } else { row(id, Cause::Traversal, None) };
        let mut rows: Vec<_> = (1..=2500).map(|id| of(id, id % 2 == 0)).collect();
        let edges = |id: u64| Change::Edges { needed_by: id, requires: vec![id + 1, id + 2] };
        let mut changes = rows.iter().flat_map(|row| [put(row), edges(row.id)]);
        place.open().commit(&mut changes, &[]).unwrap();
        let found = place.load();
        assert_eq!(as_written(found.resources), rows);
        assert_eq!(found.edges.len(), 5000);

        for row in &mut rows {
            row.progress = of(row.id, row.id % 2 == 1).progress;
        }
        let event = |number: u64| {
            let resource =
                number.is_multiple_of(2).then(|| (ODD.into(), ResourceId(uuid::Uuid::from_u128(7))));
            let actor = number.is_multiple_of(3).then(|| ODD.into());
            let (action, status, reason) = ("CREATE", "COMPLETE", ODD.into());
            Change::Event(EventRecord { stack: 1, number, resource, action, status, reason, actor })
        };
        let mut changes = rows.iter().flat_map(|row| [progress(row), event(row.id)]);
        place.open().commit(&mut changes, &[]).unwrap();
        assert_eq!(as_written(place.load().resources), rows);
        let counts = "SELECT count(*), count(resource), count(physical_id), count(actor) FROM events";
        assert_eq!(place.run(counts), "2500|1250|1250|833");
        let whole = ODD.replace('\'', "''");
        assert_eq!(place.run(&format!("SELECT count(*) FROM events WHERE reason = '{whole}'")), "2500");

        let mut gone = (1..=2499).map(Change::ResourceRemoved);
        place.open().commit(&mut gone, &[]).unwrap();
        let found = place.load();
        assert_eq!((found.resources.len(), found.edges), (1, vec![(2500, 2501), (2500, 2502)]));
    });
}

/// A row that is written twice, its progress before or after all of it, and one that is removed and comes back.
#[test]
fn changes_of_a_commit_take_effect_in_their_order() {
    each(|place| {
        let (mut rows, mut edges) = (BTreeMap::<u64, ResourceRecord>::new(), BTreeMap::new());
        let mut random = 1u64;
        let mut below = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        for _ in 0..4 {
            let mut changes = Vec::new();
            for step in 1..800 {
                let id = 1 + below(60);
                let mut new = if below(2) == 0 { full_row(id) } else { row(id, Cause::Traversal, None) };
                (new.revision, new.progress.attempt) = (step, step);
                match (below(9), rows.get_mut(&id)) {
                    (0, _) => {
                        changes.push(Change::ResourceRemoved(id));
                        rows.remove(&id);
                        edges.remove(&id);
                    }
                    (1..5, Some(old)) => {
                        changes.push(progress(&new));
                        old.progress = new.progress;
                    }
                    (5, Some(_)) => {
                        let requires: Vec<u64> = (1..=below(4)).collect();
                        changes.push(Change::Edges { needed_by: id, requires: requires.clone() });
                        edges.insert(id, requires);
                    }
                    _ => {
                        changes.push(put(&new));
                        rows.insert(id, new);
                    }
                }
            }
            place.open().commit(&mut changes.into_iter(), &[]).unwrap();
            let found = place.load();
            assert_eq!(as_written(found.resources), rows.values().cloned().collect::<Vec<_>>());
            let mut seen = found.edges;
            seen.sort_unstable();
            let meant = edges.iter().flat_map(|(by, needs)| needs.iter().map(|need| (*by, *need)));
            assert_eq!(seen, meant.collect::<Vec<(u64, u64)>>());
        }
    });
}

#[test]
fn a_row_of_many_that_is_refused_is_named_and_nothing_stays() {
    each(|place| {
        let mut store = place.open();
        let edges = |id: u64, requires: &[u64]| Change::Edges { needed_by: id, requires: requires.to_vec() };
        let rows: Vec<_> = (1..=1500).map(full_row).collect();
        let changes = rows.iter().flat_map(|row| {
            let requires: &[u64] = if row.id == 700 { &[8, 8] } else { &[8, 9] };
            [put(row), edges(row.id, requires)]
        });
        let error = store.commit(&mut changes.into_iter(), &[]).unwrap_err();
        assert_eq!(error.failure(), Failure::Mistake);
        let told = error.to_string();
        assert!(told.starts_with("edges of row 700 cannot be written: "), "{told}");
        drop(store);
        let found = place.load();
        assert_eq!((found.resources.len(), found.edges.len()), (0, 0));
        place.open().commit(&mut rows.iter().map(put), &[]).unwrap();
        assert_eq!(place.load().resources.len(), 1500);
    });
}
